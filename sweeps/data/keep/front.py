"""Pareto front of a sweep in two metrics."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data.keep.chunk import BLOCK, Points, sizes_and_types
from sweeps.data.keep.rows import Rows, merged
from sweeps.data.pieces import Box, View

SAMPLE = 20_000
"""Points of a chunk whose front rules most of the others out."""


class Front:
    """The Pareto front of all feasible points over two metrics; of equal points the first one stands for all."""

    kind, dim = "pareto", "front"

    def __init__(self, first: str, second: str, plan: Any):
        self.metrics = first, second
        self.higher = tuple(bool(variable(name).higher_is_better) for name in self.metrics)
        self.sizes, self.types = sizes_and_types(plan)

    def __str__(self) -> str:
        return f"pareto={':'.join(self.metrics)}"

    def begun(self) -> "_State":
        """A state that has seen nothing."""
        return _State(self)

    def best(self, rows: Rows) -> Rows:
        """The front of some rows, in the order of the first metric."""
        keys = self.keys(rows)
        return rows.picked(unbeaten(*keys, rows.numbers))

    def keys(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Both metrics of rows, better lower."""
        first, second = (rows.keys(name, higher) for name, higher in zip(self.metrics, self.higher, strict=True))
        return first, second

    def merged(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """Kept points of the whole sweep, from those of its parts."""
        return merged(parts, self.kind, self.types, self.best).dataset(self.kind, self.dim)


def unbeaten(a: np.ndarray, b: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Places of the points that no other beats, both keys being better lower, in the order of `a`.

    Of points that are equal in both, the one with the lowest number stands for all. Infinite keys are no points.
    """
    order = np.lexsort((numbers, b, a))
    order = order[np.isfinite(a[order]) & np.isfinite(b[order])]
    lowest = np.minimum.accumulate(b[order])
    before = np.concatenate([np.full(1, np.inf, b.dtype), lowest[:-1]])
    return order[b[order] < before]


class _State:
    """The front so far."""

    def __init__(self, front: Front):
        self.front, self.rows = front, Rows.empty(front.types)

    def add(self, box: Box, arrays: Mapping[str, View]) -> None:
        """Look at one more chunk."""
        front = self.front
        if not set(front.metrics) <= arrays.keys():
            return
        points = Points(box, arrays, front.sizes)
        bounds = [points.bounds(name, higher) for name, higher in zip(front.metrics, front.higher, strict=True)]
        firsts = points.firsts()
        blocks = np.flatnonzero(self._open(*bounds, firsts))  # type: ignore[call-arg]
        if blocks.size * BLOCK > SAMPLE:
            self._absorb(points, points.members(blocks[:: max(1, blocks.size * BLOCK // SAMPLE)]))
            blocks = np.flatnonzero(self._open(*bounds, firsts))  # type: ignore[call-arg]
        if blocks.size:
            self._absorb(points, points.members(blocks))

    def _absorb(self, points: Points, places: np.ndarray) -> None:
        """Make some points of a chunk part of the front, where they belong to it."""
        front = self.front
        keys = [points.keys(name, higher, places) for name, higher in zip(front.metrics, front.higher, strict=True)]
        places = places[unbeaten(*keys, points.numbers(places))]  # type: ignore[call-arg]
        fresh = places[~np.isin(points.numbers(places), self.rows.numbers)]
        self.rows = front.best(self.rows.with_others([Rows.of(points, fresh, front.types)]))

    def _open(self, a: np.ndarray, b: np.ndarray, firsts: np.ndarray) -> np.ndarray:
        """True for blocks that may hold a point of the front: no known point is as good as the best they could have."""
        open_ = np.isfinite(a) & np.isfinite(b)
        known = self.front.keys(self.rows)  # rising in the first, falling in the second
        if not known[0].size:
            return open_
        left = np.searchsorted(known[0], a, side="right") - 1  # the best in the second of those as good in the first
        at = np.maximum(left, 0)
        better = (known[1][at] < b) | ((known[1][at] == b) & ((known[0][at] < a) | (self.rows.numbers[at] <= firsts)))
        return open_ & ~((left >= 0) & better)

    def dataset(self) -> xr.Dataset:
        """The front so far."""
        return self.rows.dataset(self.front.kind, self.front.dim)
