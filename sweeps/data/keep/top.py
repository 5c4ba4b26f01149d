"""The best points of a sweep by one metric."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data.keep.chunk import Points, sizes_and_types
from sweeps.data.keep.rows import Rows, merged
from sweeps.data.pieces import Box, View


class Top:
    """The `count` best feasible points by `metric`; of equal ones those that come first in the sweep."""

    kind, dim = "top", "rank"

    def __init__(self, count: int, metric: str, plan: Any):
        self.count, self.metric = count, metric
        self.higher = bool(variable(metric).higher_is_better)
        self.sizes, self.types = sizes_and_types(plan)

    def __str__(self) -> str:
        return f"top={self.count}:{self.metric}"

    def begun(self) -> "_State":
        """A state that has seen nothing."""
        return _State(self)

    def best(self, rows: Rows) -> Rows:
        """The best of some rows, best first."""
        keys = rows.keys(self.metric, self.higher)
        order = np.lexsort((rows.numbers, keys))
        return rows.picked(order[np.isfinite(keys[order])][: self.count])

    def merged(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """Kept points of the whole sweep, from those of its parts."""
        return merged(parts, self.kind, self.types, self.best).dataset(self.kind, self.dim)


class _State:
    """The best points so far."""

    def __init__(self, top: Top):
        self.top, self.rows = top, Rows.empty(top.types)

    def add(self, box: Box, arrays: Mapping[str, View]) -> None:
        """Look at one more chunk."""
        top = self.top
        if top.metric not in arrays:
            return
        points = Points(box, arrays, top.sizes)
        bounds = points.bounds(top.metric, top.higher)
        blocks = np.flatnonzero(self._open(bounds, points))
        if not blocks.size:
            return
        places = points.members(blocks)
        keys = points.keys(top.metric, top.higher, places)
        if len(places) > top.count:  # the bound of the best rules most of them out before anything else is fetched
            worst = np.partition(keys, top.count - 1)[top.count - 1]
            places = places[keys <= worst]
        self.rows = top.best(self.rows.with_others([Rows.of(points, places, top.types)]))

    def _open(self, bounds: np.ndarray, points: Points) -> np.ndarray:
        """True for blocks that may hold one of the best."""
        open_ = np.isfinite(bounds)
        if len(bounds) > self.top.count:  # each of these blocks has a point that is as good as its bound
            open_ &= bounds <= np.partition(bounds, self.top.count - 1)[self.top.count - 1]
        if len(self.rows.numbers) == self.top.count:
            last = self.rows.picked(np.array([-1]))
            key = last.keys(self.top.metric, self.top.higher)[0]
            open_ &= (bounds < key) | ((bounds == key) & (points.firsts() < last.numbers[0]))
        return open_

    def dataset(self) -> xr.Dataset:
        """The best points so far."""
        return self.rows.dataset(self.top.kind, self.top.dim)
