"""Parts to keep of a sweep, from words such as "top=100:tpot"."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from hwspaces.quantities.units import nearest
from jaxroof.jobs import JOBS
from sweeps.ask.names import VARIABLES, variable
from sweeps.ask.spec import integer
from sweeps.data.best import KEY_METRICS, PAIRS
from sweeps.data.conditions import ALONE, Groups
from sweeps.data.keep.rows import BLOCK, FLAG, TOLD, KeptPoints, KeptRows, KeptSpread, lower_better, sizes_and_types
from sweeps.data.pieces import Box, View

SAMPLE = 20_000
"""Points of a chunk whose front rules most of the others out."""


class KeptBest:
    """Points that are the best by some metrics, of all that it has looked at so far."""

    kind: str  # how names of variables begin
    dim: str

    def __init__(self, metrics: tuple[str, ...], plan: Any):
        self.metrics = metrics
        self.higher = tuple(bool(variable(name).higher_is_better) for name in metrics)
        self.sizes, self.types = sizes_and_types(plan)
        self.rows = KeptRows.empty(self.types)

    def begun(self) -> "KeptBest":
        """The same of points that have still to be looked at."""
        return copy.copy(self)

    def add(self, box: Box, arrays: Mapping[str, View]) -> None:
        """Look at one more chunk."""
        # Chunks whose structure has no answer for a metric have none of its best points.
        if set(self.metrics) <= arrays.keys():
            points = KeptPoints(box, arrays, self.sizes)
            bounds = [points.bounds(*each) for each in zip(self.metrics, self.higher, strict=True)]
            self._look(points, bounds)

    def best(self, rows: KeptRows) -> KeptRows:
        """The best of some rows, in their order."""
        raise NotImplementedError

    def keys(self, rows: KeptRows) -> list[np.ndarray]:
        """The metrics of rows, better lower; inf where one is not a number."""
        each = zip(self.metrics, self.higher, strict=True)
        return [lower_better(rows.values[name], higher) for name, higher in each]

    def join(self, rows: KeptRows) -> None:
        """Keep the best of some more rows too."""
        self.rows = self.best(self.rows.followed_by(rows))

    def _look(self, points: KeptPoints, bounds: list[np.ndarray]) -> None:
        """Keep what belongs to the best of a chunk; `bounds` are the best that its blocks could have."""
        raise NotImplementedError


class Top(KeptBest):
    """The `count` best feasible points by `metric`; of equal ones those that come first in the sweep."""

    kind, dim = "top", "rank"

    def __init__(self, count: int, metric: str, plan: Any):
        super().__init__((metric,), plan)
        self.count = count

    def __str__(self) -> str:
        return f"top={self.count}:{self.metrics[0]}"

    def best(self, rows: KeptRows) -> KeptRows:
        """The best of some rows, best first."""
        (keys,) = self.keys(rows)
        # Ties go to the lower number in the sweep, whatever order chunks are looked at in.
        order = np.lexsort((rows.numbers, keys))
        return rows.picked(order[np.isfinite(keys[order])][: self.count])

    def _look(self, points: KeptPoints, bounds: list[np.ndarray]) -> None:
        # Bounds of blocks rule most points out before any of their values are fetched.
        blocks = np.flatnonzero(self._open(bounds[0], points))
        if not blocks.size:
            return
        places = points.members(blocks)
        keys = points.keys(self.metrics[0], self.higher[0], places)
        if len(places) > self.count:  # the bound of the best rules most of them out before anything else is fetched
            worst = np.partition(keys, self.count - 1)[self.count - 1]
            places = places[keys <= worst]
        self.join(KeptRows.of(points, places, self.types))

    def _open(self, bounds: np.ndarray, points: KeptPoints) -> np.ndarray:
        """True for blocks that may hold one of the best."""
        open_ = np.isfinite(bounds)
        if len(bounds) > self.count:  # each of these blocks has a point that is as good as its bound
            open_ &= bounds <= np.partition(bounds, self.count - 1)[self.count - 1]
        # Once the list is full, a block needs a key below the last one, or an equal one earlier in the sweep.
        if len(self.rows.numbers) == self.count:
            key, number = self.keys(self.rows)[0][-1], self.rows.numbers[-1]
            open_ &= (bounds < key) | ((bounds == key) & (points.firsts() < number))
        return open_


class Front(KeptBest):
    """The Pareto front of all feasible points over two metrics; of equal points the first one stands for all."""

    kind, dim = "pareto", "front"

    def __str__(self) -> str:
        return f"pareto={':'.join(self.metrics)}"

    def best(self, rows: KeptRows) -> KeptRows:
        """The front of some rows, in the order of the first metric."""
        first, second = self.keys(rows)
        return rows.picked(unbeaten(first, second, rows.numbers))

    def _look(self, points: KeptPoints, bounds: list[np.ndarray]) -> None:
        (first, second), firsts = bounds, points.firsts()
        blocks = np.flatnonzero(self._open(first, second, firsts))
        # A sample of the open blocks raises the front first, which rules out most of the others.
        if blocks.size * BLOCK > SAMPLE:
            self._absorb(points, points.members(blocks[:: max(1, blocks.size * BLOCK // SAMPLE)]))
            blocks = np.flatnonzero(self._open(first, second, firsts))
        if blocks.size:
            self._absorb(points, points.members(blocks))

    def _absorb(self, points: KeptPoints, places: np.ndarray) -> None:
        """Make some points of a chunk part of the front, where they belong to it."""
        each = zip(self.metrics, self.higher, strict=True)
        first, second = (points.keys(name, higher, places) for name, higher in each)
        places = places[unbeaten(first, second, points.numbers(places))]
        # Points of the sample come again with their blocks: they must not be kept twice.
        fresh = places[~np.isin(points.numbers(places), self.rows.numbers)]
        self.join(KeptRows.of(points, fresh, self.types))

    def _open(self, a: np.ndarray, b: np.ndarray, firsts: np.ndarray) -> np.ndarray:
        """True for blocks that may hold a point of the front: no known point is as good as the best they could have."""
        open_ = np.isfinite(a) & np.isfinite(b)
        known = self.keys(self.rows)  # rising in the first, falling in the second
        if not known[0].size:
            return open_
        left = np.searchsorted(known[0], a, side="right") - 1  # the best in the second of those as good in the first
        at = np.maximum(left, 0)
        # A block is ruled out by a known point that is as good in the first key and better in the second, or equal and
        # either better in the first or earlier in the sweep.
        better = (known[1][at] < b) | ((known[1][at] == b) & ((known[0][at] < a) | (self.rows.numbers[at] <= firsts)))
        return open_ & ~((left >= 0) & better)


class KeptPerGroup:
    """The best points of every group of a sweep, such as of every model, group after group."""

    def __init__(self, best: KeptBest, groups: Groups):
        self.kind, self.dim = best.kind, best.dim
        self.best, self._groups = best, groups
        self._states: dict[int, KeptBest] = {}

    def __str__(self) -> str:
        return str(self.best)

    def begun(self) -> "KeptPerGroup":
        """The same of points that have still to be looked at."""
        return KeptPerGroup(self.best, self._groups)

    def add(self, box: Box, arrays: Mapping[str, View]) -> None:
        """Look at one more chunk."""
        for group, part, views in self._groups.inside(box, arrays, FLAG):
            self._state(group).add(part, views)

    def join(self, rows: KeptRows) -> None:
        """Keep the best of some more rows too."""
        own = self._groups.numbers(rows.numbers)
        for group in np.unique(own):
            self._state(int(group)).join(rows.picked(np.flatnonzero(own == group)))

    def dataset(self) -> xr.Dataset:
        """The best points so far."""
        rows = KeptRows.empty(self.best.types)
        for _, state in sorted(self._states.items()):
            rows = rows.followed_by(state.rows)
        return rows.dataset(self.kind, self.dim)

    def merged(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """The best points of the whole sweep, from those of its parts, of which few are in memory at a time."""
        joined = self.begun()
        for part in parts:
            joined.join(KeptRows.read(part, self.kind, self.best.types))
        return joined.dataset()

    def _state(self, group: int) -> KeptBest:
        if group not in self._states:
            self._states[group] = self.best.begun()
        return self._states[group]


def unbeaten(a: np.ndarray, b: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Places of the points that no other beats, both keys being better lower, in the order of `a`.

    Of points that are equal in both, the one with the lowest number stands for all. Infinite keys are no points.
    """
    # In the order of the first key, a point is unbeaten where its second key is below all before it (Kung, Luccio &
    # Preparata, J. ACM 22, 1975).
    order = np.lexsort((numbers, b, a))
    order = order[np.isfinite(a[order]) & np.isfinite(b[order])]
    lowest = np.minimum.accumulate(b[order])
    before = np.concatenate([np.full(1, np.inf, b.dtype), lowest[:-1]])
    return order[b[order] < before]


FORMS = {
    "top": "top=N or top=N:METRIC, the N best feasible points",
    "pareto": "pareto or pareto=METRIC:METRIC, the feasible points that no other beats in both",
    "histogram": "histogram, counts of every variable in fixed bins",
    "quantiles": "quantiles, of every variable",
}
"""What can be kept, and how it is written."""


def keepers(words: Iterable[str], plan: Any, job: str, groups: Groups = ALONE) -> list[Any]:
    """Parts of a sweep to keep.

    Args:
      words: as in `FORMS`.
      plan: the sweep; its outputs say what there is.
      job: by which the usual metrics are chosen.
      groups: of points, each of which has best points of its own.

    Raises:
      ValueError: one line, for a word that is not one of the forms, or a metric that there is not.
    """
    settings: dict[str, str] = {}
    words = tuple(words)
    if words and JOBS[job].simulated:
        raise ValueError(f"output.keep = {words[0]}: a {job} keeps every point; leave it out")
    for word in words:
        kind, _, rest = word.partition("=")
        if kind not in FORMS:
            raise ValueError(f"output.keep: {word!r} is not known{nearest(kind, FORMS)}")
        if kind in settings:
            raise ValueError(f"output.keep: {kind} is given twice")
        # Histograms and quantiles take no setting.
        if rest and kind in TOLD:
            raise ValueError(f"output.keep: {word!r} must be {FORMS[kind]}")
        settings[kind] = rest
    # Both are told of the same counts, so one keeper serves them.
    told = tuple(kind for kind in TOLD if kind in settings)
    best_keepers = [
        make(settings[kind], plan, job) for kind, make in (("top", _top), ("pareto", _front)) if kind in settings
    ]
    return [KeptPerGroup(one, groups) for one in best_keepers] + ([KeptSpread(told, plan)] if told else [])


def _top(rest: str, plan: Any, job: str) -> Top:
    count, _, metric = rest.partition(":")
    if not count.isdigit():
        raise ValueError(f"output.keep: 'top={rest}' must be {FORMS['top']}")
    number = integer(int(count), "output.keep: top", 1)
    if metric:
        return Top(number, _metric(metric, plan), plan)
    usual = [name for name in KEY_METRICS.get(job, ()) if name in plan.outputs]
    if not usual:
        raise ValueError(f"output.keep: 'top={rest}' needs a metric: top={rest}:METRIC")
    return Top(number, usual[0], plan)


def _front(rest: str, plan: Any, job: str) -> Front:
    if rest:
        pair = rest.split(":")
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"output.keep: 'pareto={rest}' must be {FORMS['pareto']}")
        return Front((_metric(pair[0], plan), _metric(pair[1], plan)), plan)
    # The first usual pair that the sweep computes.
    for first, second in PAIRS:
        if first in plan.outputs and second in plan.outputs:
            return Front((first, second), plan)
    raise ValueError("output.keep: 'pareto' needs its metrics here: pareto=METRIC:METRIC")


def _metric(name: str, plan: Any) -> str:
    if name not in plan.outputs:
        raise ValueError(f"output.keep: there is no variable {name} here{nearest(name, plan.outputs)}")
    if name not in VARIABLES or variable(name).higher_is_better is None:
        better = [name for name in plan.outputs if name in VARIABLES and variable(name).higher_is_better is not None]
        raise ValueError(f"output.keep: {name} is neither better high nor low{nearest(name, better)}")
    return name
