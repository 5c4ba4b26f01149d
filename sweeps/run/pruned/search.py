"""Branch and bound through a sweep: boxes that cannot hold a point that is kept are dropped, the others cut in halves.

What is left are single points, which the sweep's own program computes (Land & Doig, Econometrica 28, 1960).
"""

import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sweeps.data.conditions import Groups
from sweeps.data.keep.parse import KeptPerGroup
from sweeps.data.keep.rows import FLAG, KeptRows
from sweeps.data.pieces import Box, blank
from sweeps.run.pruned import bars
from sweeps.run.pruned.bounds import Bounding, Bounds
from sweeps.run.pruned.boxes import Level, first_boxes, halves, levels
from sweeps.run.pruned.tables import MOST_ENTRIES

SAMPLE = 512
"""Points by which it is learned along which axes bounds are wide."""

TRIED = 1024
"""Boxes of a level of which one point each is bounded, to raise the bars."""

LOOKED = 4096
"""Boxes of a level that are followed when bars are raised before the first shard."""

TOGETHER = 1 << 10
"""Boxes up to which the next cut is made before they are bounded."""

BATCH = 1 << 17
"""Boxes that are followed together: a few MB."""

POINTS_PER_BOX = 128
"""Points for every box that may be bounded, before the points are rather computed: less work than is there to save."""

ROW = 64
"""Points of a call of the program for points that are left, at most."""

LEAST_POINTS = 1 << 28
"""Points of a sweep from which on a search is worth its start: some seconds."""


@dataclasses.dataclass(frozen=True)
class _Block:
    """A block of a sweep, and its bounds. Axes are in the order of its loops."""

    chunks: Any
    bounding: Bounding
    order: Sequence[int]  # the sweep's number of each
    positions: Sequence[np.ndarray]  # in the sweep
    weights: Sequence[float]


class Search:
    """A sweep of which only points that are the best are kept.

    Args:
      plan: of the sweep.
      keep: front and best points.
      groups: of points that have best points of their own.
    """

    def __init__(self, plan: Any, keep: Sequence[KeptPerGroup], groups: Groups):
        self._plan, self._keep, self._groups = plan, keep, groups
        self.sizes = tuple(axis.size for axis in plan.axes)
        needed = {*bars.metrics(keep), FLAG}
        # A block whose structure has no answer for one of the metrics is computed as a whole.
        self._blocks = [
            self._bounded(chunks, positions) if needed <= chunks.program.nodes.keys() else None
            for chunks, positions in plan.native()
        ]
        known = [block.bounding.numbers for block in self._blocks if block is not None]
        self._bars = bars.Bars(keep, set.intersection(*known) if known else set())
        # A first look at the whole sweep finds points that are nearly as good as the best.
        for block in self._blocks:
            if block is None:
                continue
            ranges = [(0, len(own)) for own in block.positions]
            _Descent(self, block, ranges, self._bars).look()

    def added(self, box: Box, states: Sequence[KeptPerGroup], progress: Callable[[int], None]) -> int | None:
        """Look at all points of a box of the sweep; the number of points that were computed.

        None where so much of it is left that it is no more work to compute all of it; nothing has been added then.
        """
        block = self._blocks[box.block]
        if block is None:
            return None
        ranges = []
        for axis, own in zip(block.order, block.positions, strict=True):
            low = int(np.searchsorted(own, box.positions[axis][0]))
            ranges.append((low, low + len(box.positions[axis])))
        descent = _Descent(self, block, ranges, self._bars.copied())
        points = descent.points(progress)
        if points is None:
            return None
        rows = self._rows(block, points)
        for state in states:
            state.join(rows)
        progress(box.points - descent.told)
        return len(points)

    def group(self, block: _Block, positions: Sequence[np.ndarray]) -> np.ndarray:
        """The group of boxes by a position of each along every axis of the block."""
        numbers = np.zeros(len(positions[0]) if positions else 1, np.int64)
        by_axis = dict(zip(block.order, zip(block.positions, positions, strict=True), strict=True))
        for axis, code in self._groups.codes.items():
            own, places = by_axis[axis]
            numbers = numbers * (int(code.max()) + 1) + code[own[places]]
        return numbers

    @property
    def conditions(self) -> set[int]:
        """Axes along which groups differ."""
        return set(self._groups.codes)

    def _bounded(self, chunks: Any, positions: Sequence[np.ndarray]) -> _Block:
        program = chunks.program
        order = list(program.order)
        along = [positions[axis] for axis in order]
        sizes = [len(own) for own in along]
        nodes = {name: program.nodes[name] for name in bars.metrics(self._keep)}
        bounding = Bounding(program.loops, chunks.columns, sizes, nodes, program.nodes[FLAG])
        return _Block(chunks, bounding, order, along, _weights(bounding, self._keep))

    def _rows(self, block: _Block, points: np.ndarray) -> KeptRows:
        """Points of a block, by positions along its axes, as the program computes them; those that are possible."""
        types = self._keep[0].best.types
        if not len(points):
            return KeptRows.empty(types)
        sizes = block.bounding.sizes
        numbers = np.zeros(len(points), np.int64)
        for axis in np.argsort(block.order):
            numbers = numbers * self.sizes[block.order[axis]] + block.positions[axis][points[:, axis]]
        values = {name: np.full(len(points), blank(dtype), dtype) for name, dtype in types.items()}
        # Points of a call lie in a row along the innermost axis; the last row ends with the axis.
        row = min(sizes[-1], ROW)
        starts = points.copy()
        starts[:, -1] = np.minimum(points[:, -1] // row * row, sizes[-1] - row)
        order = np.lexsort(starts.T[::-1])
        points, starts = points[order], starts[order]
        firsts = np.flatnonzero(np.append(True, (starts[1:] != starts[:-1]).any(1)))
        lengths = [1] * len(self.sizes)
        lengths[block.order[-1]] = row
        call = block.chunks.resized(lengths)
        back = np.argsort(block.order)
        for first, end in zip(firsts, np.append(firsts[1:], len(points)), strict=True):
            found = call(starts[first, back].tolist())
            inside = points[first:end, -1] - starts[first, -1]
            for name in values.keys() & found.keys():
                own = found[name].reshape(-1)
                values[name][order[first:end]] = own[inside] if own.size > 1 else own[0]
        rows = KeptRows(numbers, values)
        return rows.picked(np.flatnonzero(values[FLAG]))


class _Descent:
    """A range of a block's positions, from one box down to points."""

    def __init__(self, search: Search, block: _Block, ranges: Sequence[tuple[int, int]], known: bars.Bars):
        self.search, self.block, self.bars = search, block, known
        self.ranges = ranges
        self.sizes = [high - low for low, high in ranges]
        self.told = 0
        bounding = self.block.bounding
        cut = {node: table.cut(ranges) for node, table in bounding.tables.items()}
        whole = [place for place, axis in enumerate(self.block.order) if axis not in search.conditions]
        self.levels = levels(cut, self.sizes, whole, self.block.weights)
        self.random = np.random.default_rng(1)

    def look(self) -> None:
        """Follow some of the best boxes to points, which raises the bars."""
        boxes = first_boxes(self.levels[0])
        number = 0
        while number < len(self.levels) - 1:
            number, boxes, bounds, groups = self._next(boxes, number)
            if len(boxes) > LOOKED:
                best = self.bars.promising(bounds, groups, max(16, LOOKED // (2 * len(np.unique(groups)))))
                some = self.random.choice(len(boxes), LOOKED // 2, replace=False)
                boxes = boxes[np.union1d(best, some)]

    def points(self, progress: Callable[[int], None]) -> np.ndarray | None:
        """Positions of all points that may be kept, shape (points, axes); None where they are too many to tell."""
        found: list[np.ndarray] = []
        stack = [(0, first_boxes(self.levels[0]))]
        most = math.prod(self.sizes) / POINTS_PER_BOX
        bounded = 0
        while stack:
            number, boxes = stack.pop()
            if number == len(self.levels) - 1:
                found.append(boxes)
                continue
            if len(boxes) > BATCH:
                stack += [(number, boxes[low : low + BATCH]) for low in range(0, len(boxes), BATCH)]
                continue
            before = self.levels[number].points(boxes).sum()
            number, boxes, _, _ = self._next(boxes, number)
            bounded += len(boxes)
            if bounded > most:
                return None
            dropped = int(before - self.levels[number].points(boxes).sum())
            self.told += dropped
            progress(dropped)
            if len(boxes):
                stack.append((number, boxes))
        lows = np.array([low for low, _ in self.ranges], int)
        return np.concatenate(found) + lows if found else np.zeros((0, len(self.sizes)), int)

    def _next(self, boxes: np.ndarray, number: int) -> tuple[int, np.ndarray, Bounds, np.ndarray]:
        """A level further down, its boxes that may hold points that are kept, their bounds and groups."""
        # Few boxes are cut several times at once, as a call takes as long for one as for hundreds.
        last = len(self.levels) - 1
        while True:
            boxes = halves(boxes, self.levels[number], self.levels[number + 1])
            number += 1
            if number == last or len(boxes) > TOGETHER:
                break
        fine = self.levels[number]
        bounds, groups = self._bounds(boxes, fine)
        self.bars.raised(bounds, groups, fine.points(boxes))
        places = np.flatnonzero(self.bars.open(bounds, groups))
        if places.size:
            self._try(boxes[places], bounds.at(places), groups[places], fine)
            places = places[self.bars.open(bounds.at(places), groups[places])]
        return number, boxes[places], bounds.at(places), groups[places]

    def _bounds(self, boxes: np.ndarray, level: Level) -> tuple[Bounds, np.ndarray]:
        bounds = self.block.bounding.bounds(level.tables, boxes)
        along = zip(level.firsts, boxes.T, self.ranges, strict=True)
        firsts = [first[own] + low for first, own, (low, _) in along]
        return bounds, self.search.group(self.block, firsts)

    def _try(self, boxes: np.ndarray, bounds: Bounds, groups: np.ndarray, level: Level) -> None:
        """Bound one point in each of some boxes."""
        finest = self.levels[-1]
        if len(boxes) > TRIED:
            best = self.bars.promising(bounds, groups, max(8, TRIED // (2 * len(np.unique(groups)))))
            some = self.random.choice(len(boxes), TRIED // 2, replace=False)
            boxes = boxes[np.union1d(best, some)]
        share = self.random.random(boxes.shape)
        points = np.empty_like(boxes)
        for axis, (firsts, lengths) in enumerate(zip(level.firsts, level.lengths, strict=True)):
            own = boxes[:, axis]
            points[:, axis] = firsts[own] + (share[:, axis] * lengths[own]).astype(int)
        self.bars.raised(*self._bounds(points, finest), np.ones(len(points)))


def _weights(bounding: Bounding, keep: Sequence[KeptPerGroup]) -> list[float]:
    """Of every axis, how much wider bounds of keys are over all of its positions than at one, in powers of e."""
    random = np.random.default_rng(0)
    points = np.stack([random.integers(0, size, SAMPLE) for size in bounding.sizes], axis=1)
    sharp = bounding.bounds(bounding.tables, points)
    weights = []
    for axis in range(len(bounding.sizes)):
        blunt = points.copy()
        blunt[:, axis] = 0
        tables = {node: table.joined(axis, np.zeros(1, int)) for node, table in bounding.tables.items()}
        wide = bounding.bounds(tables, blunt)
        width = float((wide.possible & ~wide.sure).mean())
        sides = {name: higher for one in keep for name, higher in zip(one.best.metrics, one.best.higher, strict=True)}
        for name, higher in sides.items():
            one, other = (sharp.high, wide.high) if higher else (wide.low, sharp.low)
            with np.errstate(all="ignore"):
                ratio = np.abs(np.log(np.clip(np.abs(other[name].astype(float) / one[name]), 1e-6, 1e6)))
            width += float(np.nan_to_num(ratio, nan=10.0).mean())
        weights.append(width)
    return weights


class Pruning:
    """A search that begins when it is first needed, once for all threads."""

    def __init__(self, plan: Any, keep: Sequence[Any], groups: Groups):
        self._made: Callable[[], Search] = lambda: Search(plan, keep, groups)
        self._search: Search | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Search:
        """The search."""
        with self._lock:
            if self._search is None:
                self._search = self._made()
            return self._search


def pruning(plan: Any, keep: Sequence[Any], groups: Groups) -> Pruning | None:
    """The search of a sweep of which just the best points are kept; None where all of it is to be computed.

    Args:
      plan: of the sweep.
      keep: what is kept.
      groups: of points.
    """
    if plan.points < LEAST_POINTS or not bars.barred(keep) or plan.compiler.name != "llvm":
        return None
    # Every value of a condition is a box of its own from the start.
    if math.prod(plan.axes[axis].size for axis in groups.codes) > MOST_ENTRIES // 64:
        return None
    return Pruning(plan, keep, groups)
