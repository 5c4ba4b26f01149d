"""Answers over a grid, on NumPy: as arrays, and as a labelled Dataset."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps.ask.axes import Axis
from sweeps.ask.question import Question
from sweeps.data.pieces import Output, Piece
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.point import answers
from sweeps.run.points import boxes_of

if TYPE_CHECKING:
    import xarray as xr

DTYPE = np.dtype("float32")
"""Of metrics over a grid."""


def answers_over(
    question: Question, axes: tuple[Axis, ...], progress: Callable[[int], None] = lambda points: None
) -> dict[str, np.ndarray]:
    """Metrics of a job over the grid of `axes`, each of the grid's shape.

    The same numbers as the engine's (a test compares them), computed in float64 and kept in float32.

    Args:
      question: its `names` are the variables, none of which may come from tables of ops (what binds a step); what
        the job does not have here is left out.
      axes: outermost first.
      progress: called with the number of points that are done.
    """
    shape = tuple(axis.size for axis in axes)
    parts = evaluate(answers(question.job, question.names), question.base, boxes_of(axes), progress=progress)
    return {name: _stored(column).reshape(shape) for name, column in gathered(parts, math.prod(shape)).items()}


def labelled(found: dict[str, np.ndarray], axes: tuple[Axis, ...], attributes: dict[str, Any]) -> "xr.Dataset":
    """Metrics over the grid of `axes` as a Dataset with these attributes, whose variables all have every dimension."""
    from sweeps.data.dataset import dataset, fill

    dims, everywhere = tuple(axis.name for axis in axes), (slice(None),) * len(axes)
    outputs = {name: Output(name, dims, values.shape, values.dtype) for name, values in found.items()}
    return fill(dataset(axes, outputs, attributes), (Piece(name, everywhere, found[name]) for name in found))


def _stored(column: np.ndarray) -> np.ndarray:
    return column.astype(DTYPE) if column.dtype.kind == "f" else column
