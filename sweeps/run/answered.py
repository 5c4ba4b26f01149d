"""Answers over a grid as a labelled Dataset, on NumPy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.axes import Axis
from sweeps.ask.question import Question
from sweeps.data.dataset import dataset, fill
from sweeps.data.pieces import Output, Piece
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.point import answers
from sweeps.run.points import boxes_of

DTYPE = np.dtype("float32")
"""Of metrics over a grid."""


def answered(
    question: Question,
    axes: tuple[Axis, ...],
    attributes: dict[str, Any],
    progress: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """Metrics of a job over the grid of `axes` as a labelled Dataset, whose variables all have every dimension.

    The same numbers as the engine's (a test compares them), computed in float64 and kept in float32.

    Args:
      question: its `names` are the variables, none of which may come from tables of ops (what binds a step); what
        the job does not have here is left out.
      axes: outermost first.
      attributes: of the dataset.
      progress: called with the number of points that are done.
    """
    dims, shape = tuple(axis.name for axis in axes), tuple(axis.size for axis in axes)
    parts = evaluate(answers(question.job, question.names), question.base, boxes_of(axes), progress=progress)
    found = {name: _stored(column) for name, column in gathered(parts, math.prod(shape)).items()}
    outputs = {name: Output(name, dims, shape, values.dtype) for name, values in found.items()}
    everywhere = (slice(None),) * len(shape)
    pieces = (Piece(name, everywhere, values.reshape(shape)) for name, values in found.items())
    return fill(dataset(axes, outputs, attributes), pieces)


def _stored(column: np.ndarray) -> np.ndarray:
    return column.astype(DTYPE) if column.dtype.kind == "f" else column
