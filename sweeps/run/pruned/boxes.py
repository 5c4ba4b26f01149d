"""Boxes of positions along the axes of a sweep, cut in halves along one axis after the other down to single points."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sweeps.run.pruned.tables import Extremes

BEGINNING = 1 << 10
"""Boxes that a search begins with, at most."""


@dataclasses.dataclass(frozen=True)
class Level:
    """A cut of a range of positions: the parts of every axis, and the extremes of tables over them."""

    firsts: tuple[np.ndarray, ...]  # of every axis, the positions in the range at which parts begin
    lengths: tuple[np.ndarray, ...]  # positions of every part
    tables: Mapping[int, Extremes]
    axis: int | None  # whose parts are the halves of those of the level before; None: the first level

    def points(self, boxes: np.ndarray) -> np.ndarray:
        """Points of some boxes, float64, by the number of the part along every axis, shape (boxes, axes)."""
        count = np.ones(len(boxes))
        for axis, lengths in enumerate(self.lengths):
            count = count * lengths[boxes[:, axis]]
        return count


def levels(
    tables: Mapping[int, Extremes], sizes: Sequence[int], whole: Iterable[int], weights: Sequence[float]
) -> list[Level]:
    """Cuts from some boxes, single positions along axes that are not `whole`, down to single points.

    Args:
      tables: of single positions inside the range.
      sizes: positions along every axis of the range.
      whole: axes that are not cut at the first level.
      weights: of every axis, how much bounds are wider for all of its positions than for one: the axis with the widest
        part is cut next.
    """
    every = [np.arange(size) for size in sizes]
    cuts = [([np.zeros(1, int) if axis in set(whole) else every[axis] for axis in range(len(sizes))], None)]
    steps: list[tuple[list[np.ndarray], int | None]] = list(cuts)
    while True:
        firsts = steps[-1][0]
        longest = [int(_lengths(first, size).max()) for first, size in zip(firsts, sizes, strict=True)]
        # Bounds narrow about as parts do.
        width = [
            (weight + 1e-9) * (length - 1) / max(size - 1, 1)
            for weight, length, size in zip(weights, longest, sizes, strict=True)
        ]
        axis = int(np.argmax(width))
        if longest[axis] == 1:
            break
        middles = firsts[axis] + (_lengths(firsts[axis], sizes[axis]) + 1) // 2
        middles = middles[middles < np.append(firsts[axis][1:], sizes[axis])]
        finer = np.sort(np.concatenate([firsts[axis], middles]))
        steps.append(([finer if i == axis else first for i, first in enumerate(firsts)], axis))
    # The last of the first cuts is as good a beginning as the one before.
    while len(steps) > 1 and math.prod(map(len, steps[1][0])) <= BEGINNING:
        del steps[0]
    steps[0] = steps[0][0], None
    # Extremes of larger parts are those of their halves.
    made: list[Level] = []
    finest = dict(tables)
    for number in reversed(range(len(steps))):
        firsts, axis = steps[number]
        lengths = tuple(_lengths(first, size) for first, size in zip(firsts, sizes, strict=True))
        made.append(Level(tuple(firsts), lengths, finest, axis))
        if axis is not None:
            places = np.searchsorted(firsts[axis], steps[number - 1][0][axis])
            finest = {node: table.joined(axis, places) for node, table in finest.items()}
    return made[::-1]


def first_boxes(level: Level) -> np.ndarray:
    """All boxes of a level."""
    counts = [len(first) for first in level.firsts]
    return np.indices(counts).reshape(len(counts), math.prod(counts)).T


def halves(boxes: np.ndarray, level: Level, finer: Level) -> np.ndarray:
    """Boxes of a level as boxes of the next finer one."""
    axis = finer.axis
    assert axis is not None
    starts = np.searchsorted(finer.firsts[axis], level.firsts[axis])
    counts = np.diff(np.append(starts, len(finer.firsts[axis])))
    own = boxes[:, axis]
    children = np.repeat(boxes, counts[own], axis=0)
    # The second half of a part follows its first one.
    second = np.ones(len(children), int)
    second[np.cumsum(counts[own]) - counts[own]] = 0
    children[:, axis] = starts[children[:, axis]] + second
    return children


def _lengths(firsts: np.ndarray, size: int) -> np.ndarray:
    return np.diff(np.append(firsts, size))
