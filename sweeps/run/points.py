"""Points of one structure: what is set at each, in columns or in boxes of a grid."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.tree import mapped
from sweeps.ask.axes import Axis, blocks
from sweeps.data.pieces import part_lengths

Settings = Sequence[dict[str, Any]]
"""Trees by path that replace parts of a base, in the order in which they do."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Points of one structure: settings of a base whose leaves differ, or are shared by all of them."""

    index: np.ndarray  # places among all points, shape (n,); on NumPy any
    settings: Settings  # leaves of shape (n,), or () where the points do not differ; on NumPy shapes that broadcast


BOX = 1 << 15
"""Points of a box on NumPy, whose intermediate numbers then stay in a cache."""

ALONE = Points(np.zeros(1, int), ())
"""The base itself."""


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
                mapped(functools.partial(_placed, place, i, len(axes)), segment.settings)
                for i, (segment, place) in enumerate(zip(combination, places, strict=True))
            ]
            yield Points(np.asarray(np.ravel_multi_index(index, shape) if shape else 0), settings)


def _placed(place: np.ndarray, axis: int, dimensions: int, leaf: Any) -> Any:
    return along(leaf[place] if np.ndim(leaf) else leaf, axis, dimensions)


def along(leaf: Any, axis: int, dimensions: int) -> np.ndarray:
    """A leaf that varies along an axis in the shape that it has in a grid; one that does not as it is."""
    column = np.asarray(leaf, float)
    return column.reshape([-1 if i == axis else 1 for i in range(dimensions)]) if column.ndim else column[()]


def filled(settings: Settings, low: int, lanes: int, number: int) -> Settings:
    """Settings of `lanes` points from `low` on; the last point fills up what lies beyond it."""
    if lanes == number:
        return settings
    return taken(settings, np.minimum(np.arange(low, low + lanes), number - 1))


def taken(settings: Settings, places: np.ndarray) -> Settings:
    """Settings of some points."""
    return mapped(lambda leaf: leaf[places] if np.ndim(leaf) else leaf, settings)
