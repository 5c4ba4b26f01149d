"""Bounds of metrics over boxes of points: tables of what depends on few axes, and intervals of what is made of them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sweeps.run.native.loops import Loops
from sweeps.run.native.nests import Dims
from sweeps.run.pruned.arithmetic import Pair, Range
from sweeps.run.pruned.intervals import Intervals
from sweeps.run.pruned.tables import Extremes, computed, tabled

BATCH = 1 << 12
"""Boxes of one call, of which the columns stay in a cache."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds over boxes, shape (boxes,) each."""

    low: Mapping[str, np.ndarray]  # by metric, of all values that are numbers
    high: Mapping[str, np.ndarray]
    sure: np.ndarray  # whether every point can be
    possible: np.ndarray  # whether one may be

    def at(self, places: np.ndarray) -> "Bounds":
        """Those of some boxes."""
        low, high = ({name: ends[places] for name, ends in one.items()} for one in (self.low, self.high))
        return Bounds(low, high, self.sure[places], self.possible[places])


class Bounding:
    """A compiled program over whole axes, and what bounds its metrics over boxes of their positions.

    Args:
      loops: of the program.
      columns: values of its inputs.
      sizes: positions along every axis of the loops.
      metrics: nodes of the metrics to bound, by name.
      flag: node of whether a point can be.

    Attributes:
      numbers: names of the metrics that are a number at every point.
    """

    def __init__(
        self,
        loops: Loops,
        columns: dict[int, np.ndarray],
        sizes: Sequence[int],
        metrics: Mapping[str, int],
        flag: int,
    ):
        self.sizes = tuple(sizes)
        graph, dtype = loops.graph, loops.graph.dtype
        wanted = [*metrics.values(), flag]
        known = {node: (np.asarray(values), loops.inputs[node]) for node, values in columns.items()}
        tables = computed(loops, tabled(loops, sizes), columns, sizes)
        known |= {node: (values, loops.dims[node]) for node, values in tables.items()}
        intervals = Intervals(graph, _Ranges(known), wanted)
        self.missing = intervals.missing
        self.numbers = {name for name, node in metrics.items() if not intervals.ranges[node].unknown}
        self.tables = {node: Extremes(*known[node], dtype) for node in intervals.inputs}
        self._inputs = intervals.inputs
        self._metrics = {name: intervals.pair(node) for name, node in metrics.items()}
        self._flag = intervals.pair(flag)
        # Every input is a column over boxes, but single numbers, which are the same for all of them.
        dims: dict[int, Dims] = {}
        for node, pair in intervals.inputs.items():
            dims |= dict.fromkeys(pair, (0,) if known[node][1] else ())
        outputs = {bound for pair in (*self._metrics.values(), self._flag) for bound in pair}
        self._loops = Loops(intervals.graph, dims, sorted(outputs))
        self._idle: list[_Call] = []

    def bounds(self, tables: Mapping[int, Extremes], boxes: np.ndarray) -> Bounds:
        """Bounds over boxes.

        Args:
          tables: extremes over the parts of every axis.
          boxes: number of the part along every axis, shape (boxes, axes).
        """
        try:  # another thread may take the last one at any time
            call = self._idle.pop()
        except IndexError:
            call = _Call(self._loops, self._inputs)
        found = [self._batch(call, tables, boxes[low : low + BATCH]) for low in range(0, max(1, len(boxes)), BATCH)]
        self._idle.append(call)
        return found[0] if len(found) == 1 else _joined(found)

    def _batch(self, call: "_Call", tables: Mapping[int, Extremes], boxes: np.ndarray) -> Bounds:
        values = call(tables, boxes)
        low, high = ({name: values(pair[end]) for name, pair in self._metrics.items()} for end in (0, 1))
        return Bounds(low, high, *(values(node).astype(bool) for node in self._flag))


class _Call:
    """The arrays of one thread: a column for every input, whose addresses stay the same."""

    def __init__(self, loops: Loops, inputs: Mapping[int, Pair]):
        self.loops, self.inputs = loops, inputs
        graph = loops.graph
        used = [node for nest in loops.nests for node in (*nest.reads, *nest.writes)]
        # Loops load and store whole vectors.
        self.columns = {
            node: np.zeros(BATCH + loops.lanes, graph.types[graph.kinds[node]])
            for node in dict.fromkeys((*used, *loops.outputs, *(bound for pair in inputs.values() for bound in pair)))
            if graph.operations[node] != "number"
        }
        self.table = np.zeros(len(loops.slots), np.int64)
        for node, slot in loops.slots.items():
            self.table[slot] = self.columns[node].ctypes.data
        self.lengths = np.zeros(2, np.int64)
        self.pointers = self.table.ctypes.data, self.lengths.ctypes.data

    def __call__(self, tables: Mapping[int, Extremes], boxes: np.ndarray) -> Callable[[int], np.ndarray]:
        """A function of nodes to their values over some boxes."""
        count = len(boxes)
        places: dict[Dims, np.ndarray] = {}
        for node, pair in self.inputs.items():
            table = tables[node]
            if not table.dims:
                for bound, ends in zip(pair, (table.low, table.high), strict=True):
                    self.columns[bound][:] = ends
                continue
            if table.dims not in places:
                places[table.dims] = np.ravel_multi_index([boxes[:, axis] for axis in table.dims], table.shape)
            for bound, ends in zip(pair, (table.low, table.high), strict=True):
                np.take(ends, places[table.dims], out=self.columns[bound][:count], mode="clip")
        self.lengths[:] = count, max(count, self.loops.lanes)
        for function in self.loops.functions:
            function(*self.pointers)
        return functools.partial(self._values, count=count)

    def _values(self, node: int, count: int) -> np.ndarray:
        graph = self.loops.graph
        if graph.operations[node] == "number":
            return np.full(count, graph.value(node))
        if not self.loops.dims[node]:
            return np.full(count, self.columns[node][0])
        return self.columns[node][:count].copy()


class _Ranges(dict[int, Range]):
    """Ranges of tables over the whole sweep, made where they are asked for."""

    def __init__(self, known: Mapping[int, tuple[np.ndarray, Dims]]):
        super().__init__()
        self._known = known

    def __contains__(self, node: object) -> bool:
        return node in self._known

    def __missing__(self, node: int) -> Range:
        self[node] = _range(self._known[node][0])
        return self[node]


def _range(values: np.ndarray) -> Range:
    if values.dtype.kind != "f":
        return Range(float(values.min()), float(values.max()), whole=True)
    if np.isnan(values).any():
        return Range(-np.inf, np.inf, unknown=True, minus=True)
    minus = bool((np.signbit(values) & (values == 0)).any())
    # A value may be written rounded, and used with the digits that it had before.
    whole = bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    return Range(float(values.min()), float(values.max()), minus=minus, whole=whole)


def _joined(found: list[Bounds]) -> Bounds:
    each = {
        field: {name: np.concatenate([getattr(one, field)[name] for one in found]) for name in found[0].low}
        for field in ("low", "high")
    }
    flags = (np.concatenate([getattr(one, field) for one in found]) for field in ("sure", "possible"))
    return Bounds(each["low"], each["high"], *flags)
