"""The evaluation of any function of a scenario at many points: structure after structure, at once or compiled.

A grid whose terms depend on few axes each is computed faster by `sweeps.run.engine`: from a million points on.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.arrays import eager
from jaxroof.jobs import Scenario
from jaxroof.tree import mapped
from sweeps.ask.axes import Axis, blocks
from sweeps.data.pieces import blank, part_lengths
from sweeps.run.point import in_dtype, scenario_at
from sweeps.run.ways import EAGERLY, Way

Settings = Sequence[dict[str, Any]]
"""Trees by path that replace parts of a base, in the order in which they do."""

Function = Callable[..., Any]
"""A pure function of a scenario, and of further arguments that all points share, to a tree of arrays."""

FLOAT64 = np.dtype("float64")


def _float64(leaf: Any) -> Any:
    return np.asarray(leaf, FLOAT64)[()]


@dataclasses.dataclass(frozen=True)
class Points:
    """Points of one structure: settings of a base whose leaves differ, or are shared by all of them."""

    index: np.ndarray  # places among all points, shape (n,); on NumPy any
    settings: Settings  # leaves of shape (n,), or () where the points do not differ; on NumPy shapes that broadcast


BOX = 1 << 15
"""Points of a box on NumPy, whose intermediate numbers then stay in a cache."""

ALONE = Points(np.zeros(1, int), ())
"""The base itself."""


def at_base(function: Function, base: Scenario, way: Way = EAGERLY, others: tuple = ()) -> Any:
    """What `function` returns at the base itself, as NumPy arrays."""
    ((_, found),) = evaluate(function, base, [ALONE], way, others)
    return mapped(lambda column: column[0], found)


def points_of(axes: tuple[Axis, ...], dtype: Any = float) -> Iterator[Points]:
    """Every point of a grid, structure after structure; places are those of the flat grid, the last axis fastest."""
    shape = tuple(axis.size for axis in axes)
    for combination in blocks(axes):
        sizes = [len(segment.positions) for segment in combination]
        places = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        positions = [segment.positions[place] for segment, place in zip(combination, places, strict=True)]
        index = np.ravel_multi_index(positions, shape) if shape else np.zeros(1, int)
        settings = [
            mapped(lambda leaf, place=place: np.asarray(leaf[place] if np.ndim(leaf) else leaf, dtype), s)
            for place, s in zip(places, (segment.settings for segment in combination), strict=True)
        ]
        yield Points(index, settings)


def boxes_of(axes: tuple[Axis, ...], most: int = BOX) -> Iterator[Points]:
    """Every point of a grid in boxes with a dimension per axis, so that NumPy computes each term over its own axes.

    Args:
      most: points of a box.
    """
    shape = tuple(axis.size for axis in axes)
    for combination in blocks(axes):
        sizes = [len(segment.positions) for segment in combination]
        lengths = part_lengths(sizes, most, equal=False)
        for corner in itertools.product(*map(range, (0,) * len(sizes), sizes, lengths)):
            places = [np.arange(low, min(low + n, size)) for low, n, size in zip(corner, lengths, sizes, strict=True)]
            index = np.ix_(*(s.positions[place] for s, place in zip(combination, places, strict=True)))
            settings = [
                mapped(functools.partial(_along, place, i, len(axes)), segment.settings)
                for i, (segment, place) in enumerate(zip(combination, places, strict=True))
            ]
            yield Points(np.ravel_multi_index(index, shape) if shape else np.zeros((), int), settings)


def _along(place: np.ndarray, axis: int, dimensions: int, leaf: Any) -> Any:
    """Entries of a leaf that varies along an axis, in the shape that they have in a grid."""
    if not np.ndim(leaf):
        return leaf
    return leaf[place].reshape([-1 if i == axis else 1 for i in range(dimensions)])


def evaluate(
    function: Function,
    base: Scenario,
    points: Iterable[Points],
    way: Way = EAGERLY,
    others: tuple = (),
    progress: Callable[[int], None] = lambda points: None,
) -> Iterator[tuple[Points, Any]]:
    """What `function` returns at every point, part after part.

    On NumPy in float64, and compiled in the precision that JAX is in.

    Args:
      function: of a scenario and of `others`; the same object for the same function, so that its programs are found.
      base: the scenario that settings start from.
      points: structure after structure.
      way: how they are computed.
      others: further arguments, the same at every point.
      progress: called with the number of points that are done.

    Yields:
      Points, and what `function` returns with a leading dimension for them.
    """
    for part in points:
        if way.compiled:
            from sweeps.run.compiled import called

            yield part, called(function, base, part, way, others, progress)
        else:
            yield part, _eagerly(function, base, part, way, others, progress)


def gathered(parts: Iterable[tuple[Points, dict[str, np.ndarray]]], number: int) -> dict[str, np.ndarray]:
    """Columns of all points, shapes (number,), from those of parts; blank where a structure has no such answer."""
    found: dict[str, np.ndarray] = {}
    for part, columns in parts:
        for name, values in columns.items():
            if name not in found:
                inner = values.shape[part.index.ndim :]
                found[name] = np.full((number, *inner), blank(values.dtype), values.dtype)
            found[name][part.index] = values
    return found


def filled(settings: Settings, low: int, lanes: int, number: int) -> Settings:
    """Settings of `lanes` points from `low` on; the last point fills up what lies beyond it."""
    if lanes == number:
        return settings
    return taken(settings, np.minimum(np.arange(low, low + lanes), number - 1))


def taken(settings: Settings, places: np.ndarray) -> Settings:
    """Settings of some points."""
    return mapped(lambda leaf: leaf[places] if np.ndim(leaf) else leaf, settings)


def _eagerly(
    function: Function, base: Scenario, part: Points, way: Way, others: tuple, progress: Callable[[int], None]
) -> Any:
    """On NumPy; in columns of at most as many points as `way` says, or in a box."""
    number, place = part.index.size, in_dtype(base, FLOAT64)
    if part.index.ndim != 1:
        with eager():
            found = function(scenario_at(place, mapped(_float64, part.settings)), *others)
        progress(number)
        return mapped(lambda value: np.broadcast_to(value, part.index.shape), found)
    chunks = []
    for low in range(0, number, way.lanes or number):
        own = min(way.lanes or number, number - low)
        settings = mapped(_float64, filled(part.settings, low, own, number))
        with eager():
            found = function(scenario_at(place, settings), *others)
        chunks.append(mapped(lambda value, own=own: np.broadcast_to(value, (own,)), found))
        progress(own)
    return chunks[0] if len(chunks) == 1 else mapped(lambda *values: np.concatenate(values), *chunks)
