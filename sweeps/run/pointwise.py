"""A job at every point of a small grid, each structure traced once: for thousands of points, or for a few.

The engine's programs compute every term over its own axes only, which pays from a million points on; tracing them costs
three times as much as this. A grid of many structures and few points each is all tracing.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxroof.jobs import Scenario
from sweeps.ask.axes import Axis, Choice, Segment, blocks
from sweeps.ask.question import Question
from sweeps.data.dataset import (
    dataset,
    fill,
)
from sweeps.data.pieces import (
    Output,
    Piece,
)
from sweeps.run.point import answers_at, scenario_at

DTYPE = np.dtype("float32")


def pointwise(
    question: Question,
    axes: tuple[Axis, ...],
    attributes: dict[str, Any],
    progress: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """`question` over the grid of `axes` as a labelled Dataset, whose variables all have every dimension.

    The same numbers as the engine's (a test compares them), in float32.

    Args:
      question: its `names` are the variables, none of which may come from tables of ops (what binds a step); what
        the job does not have here is left out.
      axes: outermost first.
      attributes: of the dataset.
      progress: called with the number of points that every structure adds.
    """
    pieces = []
    for combination in blocks(axes):
        found = _block(question, combination)
        index = tuple(segment.positions for segment in combination)
        shape = tuple(len(positions) for positions in index)
        pieces += [Piece(name, index, values.reshape(shape)) for name, values in found.items()]
        progress(int(np.prod(shape)))
    names, shape = tuple(axis.name for axis in axes), tuple(axis.size for axis in axes)
    outputs = {piece.name: Output(piece.name, names, shape, piece.values.dtype) for piece in pieces}
    return fill(dataset(axes, outputs, attributes), pieces)


def _block(question: Question, combination: tuple[Segment, ...]) -> dict[str, np.ndarray]:
    """Variables at every point of a block, flat, the last axis fastest."""
    shape = [len(segment.positions) for segment in combination]
    places = np.indices(shape).reshape(len(shape), -1)
    settings = [
        jax.tree.map(lambda leaf, i=i: np.asarray(leaf[places[i]] if np.ndim(leaf) else leaf, DTYPE), segment.settings)
        for i, segment in enumerate(combination)
    ]
    varies = jax.tree.map(lambda leaf: 0 if leaf.ndim else None, settings)
    base = jax.tree.map(DTYPE.type, question.base)

    def at_a_point(base: Scenario, settings: list[dict[str, Any]]) -> dict[str, jax.Array]:
        return answers_at(question.job, scenario_at(base, settings), question.names)

    size = int(np.prod(shape))
    if not jax.tree.leaves(varies):
        found = jax.device_get(jax.jit(at_a_point)(base, settings))
        return {name: np.broadcast_to(values, size) for name, values in found.items()}
    return jax.device_get(jax.jit(jax.vmap(at_a_point, in_axes=(None, varies)))(base, settings))


def one_by_one(question: Question, axes: tuple[Axis, ...], attributes: dict[str, Any]) -> xr.Dataset:
    """As `pointwise`, op by op: for tens of points, of which each structure would take longer to compile than to run.

    A point takes tenths of a second. What is compiled is small and shared with other questions: the time of one op.
    """
    names, shape = tuple(axis.name for axis in axes), tuple(axis.size for axis in axes)
    pieces = []
    for place in np.ndindex(*shape):
        settings = [
            {
                path: column.items[column.index[i]] if isinstance(column, Choice) else column[i]
                for path, column in axis.columns.items()
            }
            for axis, i in zip(axes, place, strict=True)
        ]
        scenario = jax.tree.map(DTYPE.type, scenario_at(question.base, settings))
        found = jax.device_get(answers_at(question.job, scenario, question.names))
        index = tuple(slice(i, i + 1) for i in place)
        pieces += [Piece(name, index, np.reshape(value, (1,) * len(place))) for name, value in found.items()]
    outputs = {piece.name: Output(piece.name, names, shape, piece.values.dtype) for piece in pieces}
    return fill(dataset(axes, outputs, attributes), pieces)
