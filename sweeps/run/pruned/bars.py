"""Bars that a part of a sweep has to reach to hold one of its best points: a front, or the worst of the N best, so far.

They are made of upper bounds of points that are known to be possible, so that no point below a bar can be missed.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np

from sweeps.data.keep.parse import Front, KeptBest, KeptPerGroup, Top, unbeaten
from sweeps.run.pruned.bounds import Bounds

SPARE = 4
"""Parts that are followed for every point that is kept: some of them turn out worse than they promise."""


class FrontBar:
    """Points of which none beats another in two keys, both better lower."""

    def __init__(self) -> None:
        self.first = self.second = np.zeros(0)

    def open(self, low: Sequence[np.ndarray]) -> np.ndarray:
        """True where a part may have a point that no known one beats, by the lower bounds of its keys."""
        a, b = low
        here = (a < np.inf) & (b < np.inf)
        if not self.first.size:
            return here
        # Known points rise in the first key and fall in the second: the last that is as good in the first is the best.
        left = np.searchsorted(self.first, a, side="right") - 1
        at = np.maximum(left, 0)
        better = (self.second[at] < b) | ((self.second[at] == b) & (self.first[at] < a))
        return here & ~((left >= 0) & better)

    def raised(self, high: Sequence[np.ndarray], points: np.ndarray) -> None:
        """Take in possible points by the upper bounds of their keys; of a box, any of its points."""
        first, second = (np.concatenate(pair) for pair in zip((self.first, self.second), high, strict=True))
        order = unbeaten(first, second, np.arange(len(first)))
        self.first, self.second = first[order], second[order]

    def promising(self, low: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Places of up to `count` parts whose lower bounds are the best."""
        left, chosen = np.arange(len(low[0])), np.zeros(0, int)
        # Front after front.
        while left.size and chosen.size < count:
            best = left[unbeaten(low[0][left], low[1][left], left)]
            if not best.size:
                break
            chosen = np.concatenate([chosen, best])
            left = np.setdiff1d(left, best, assume_unique=True)
        return chosen[:count]


class TopBar:
    """The key that the `count` best points known keep."""

    def __init__(self, count: int) -> None:
        self.count, self.worst = count, np.inf

    def open(self, low: Sequence[np.ndarray]) -> np.ndarray:
        """True where a part may have one of the best points."""
        return np.asarray((low[0] <= self.worst) & (low[0] < np.inf))

    def raised(self, high: Sequence[np.ndarray], points: np.ndarray) -> None:
        """Take in boxes of so many possible points each, which have none in common."""
        order = np.argsort(high[0], kind="stable")
        enough = np.searchsorted(np.cumsum(points[order]), self.count)
        if enough < len(order):
            self.worst = min(self.worst, float(high[0][order[enough]]))

    def promising(self, low: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Places of about `count` parts whose lower bounds are the best."""
        return np.argsort(low[0], kind="stable")[: max(count, SPARE * self.count)]


class Bars:
    """The bars of all parts of a sweep that are kept, for each of its groups.

    Args:
      keep: front and best points that are kept.
      numbers: names of the metrics that are a number at every point.
    """

    def __init__(self, keep: Sequence[KeptPerGroup], numbers: set[str]):
        self._keep: list[KeptBest] = [one.best for one in keep]
        self._numbers = numbers
        self._bars: dict[tuple[int, int], FrontBar | TopBar] = {}

    def copied(self) -> "Bars":
        """The same, to be raised apart."""
        fresh = copy.copy(self)
        fresh._bars = copy.deepcopy(self._bars)
        return fresh

    def open(self, bounds: Bounds, groups: np.ndarray) -> np.ndarray:
        """True for boxes that may hold a point that is kept."""
        alive = np.zeros(len(groups), bool)
        for number, best in enumerate(self._keep):
            low, _ = _keys(best, bounds)
            for group, own in _split(groups):
                alive[own] |= self._bar(number, group).open([key[own] for key in low])
        return alive & bounds.possible

    def raised(self, bounds: Bounds, groups: np.ndarray, points: np.ndarray) -> None:
        """Take in boxes, disjoint, of so many points each."""
        for number, best in enumerate(self._keep):
            if not self._numbers.issuperset(best.metrics):
                continue
            low, high = _keys(best, bounds)
            known = bounds.sure.copy()
            for ends in zip(low, high, strict=True):
                known &= np.isfinite(ends[0]) & np.isfinite(ends[1])
            for group, own in _split(groups):
                mine = own[known[own]]
                if mine.size:
                    self._bar(number, group).raised([key[mine] for key in high], points[mine])

    def promising(self, bounds: Bounds, groups: np.ndarray, count: int) -> np.ndarray:
        """Places of boxes with the best lower bounds: up to `count` for every group and part that is kept."""
        places = [
            own[self._bar(number, group).promising([key[own] for key in _keys(best, bounds)[0]], count)]
            for number, best in enumerate(self._keep)
            for group, own in _split(groups)
        ]
        return np.unique(np.concatenate(places)) if places else np.zeros(0, int)

    def _bar(self, number: int, group: int) -> FrontBar | TopBar:
        if (number, group) not in self._bars:
            best = self._keep[number]
            self._bars[number, group] = TopBar(best.count) if isinstance(best, Top) else FrontBar()
        return self._bars[number, group]


def barred(keep: Sequence[object]) -> bool:
    """Whether all of what is kept has a bar: counts have none, as each point changes them."""
    return bool(keep) and all(isinstance(one, KeptPerGroup) and isinstance(one.best, Top | Front) for one in keep)


def metrics(keep: Sequence[KeptPerGroup]) -> tuple[str, ...]:
    """Names of the metrics by which points are kept."""
    return tuple(dict.fromkeys(name for one in keep for name in one.best.metrics))


def _keys(best: KeptBest, bounds: Bounds) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Bounds of the keys by which points are kept: metrics, or their negatives, better lower."""
    low: list[np.ndarray] = []
    high: list[np.ndarray] = []
    for name, higher in zip(best.metrics, best.higher, strict=True):
        ends: Mapping[str, np.ndarray] = bounds.high if higher else bounds.low
        others: Mapping[str, np.ndarray] = bounds.low if higher else bounds.high
        low.append(-ends[name] if higher else ends[name])
        high.append(-others[name] if higher else others[name])
    return low, high


def _split(groups: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Every group with the places of its boxes."""
    if not groups.size or (groups == groups[0]).all():
        return [(int(groups[0]), np.arange(len(groups)))] if groups.size else []
    order = np.argsort(groups, kind="stable")
    numbers, firsts = np.unique(groups[order], return_index=True)
    return list(zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True))
