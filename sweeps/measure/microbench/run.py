"""One benchmark within its budget: surfaces of kernels, bandwidths, collectives, and the peaks among them."""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping

import numpy as np

from hwspaces.performance.surface import SurfaceTable
from sweeps.measure.microbench import kernels
from sweeps.measure.microbench.collectives import TimedCollective, bus_bandwidth, collective
from sweeps.measure.microbench.device import Device, DeviceFigures
from sweeps.measure.microbench.kernels import Heads
from sweeps.measure.microbench.plan import BenchSpace, Cell, Span, timed_grid
from sweeps.measure.microbench.timing import Measurement, Numbers, TimedWork, TimingProtocol, call_time, protocol

SHARES = {
    "bandwidth": 0.08,
    "gemm": 0.46,
    "prefill": 0.16,
    "decode": 0.18,
    "elementwise": 0.05,
    "copy": 0.03,
    "collective": 0.04,
}
"""What may be measured, in this order, and its share of the budget."""

KINDS = {
    "gemm": "linear",
    "prefill": "prefill_attention",
    "decode": "decode_attention",
    "elementwise": "elementwise",
    "copy": "elementwise",
}
"""What has surfaces -> the kind of op that they price."""

ATTENTION = ("prefill", "decode")
MANY = ("gemm", *ATTENTION)
"""What is measured at every precision; the others at the first one."""

MEMORY_SHARE = 0.2
"""Of the device's memory that timing one shape may take."""


@dataclasses.dataclass(frozen=True)
class BenchRequest:
    """Families, precisions and budget of a benchmark."""

    budget: float  # s
    precisions: tuple[str, ...]
    families: tuple[str, ...]  # keys of `SHARES`
    heads: Heads
    seed: int


Said = Callable[[str, int], None]
"""Told what is being measured and how many shapes of it are done."""


def space(family: str, precision: str, heads: Heads, device: Device) -> BenchSpace:
    """The shapes that a table of `family` may hold on `device`: an accelerator's reach further than a CPU's."""
    large = device.platform != "cpu"
    if family == "gemm":
        low, high = (512, 16384) if large else (256, 8192)
        spans = {"m": Span(1, 16384 if large else 4096, 256), "n": Span(low, high, 2048), "k": Span(low, high, 2048)}
        amounts = functools.partial(kernels.gemm_amounts, precision)
    elif family == "prefill":
        spans = {"sequences": Span(1, 16 if large else 4, 2), "queries": Span(16, 16384 if large else 4096, 512)}
        amounts = functools.partial(kernels.prefill_amounts, precision, heads)
    elif family == "decode":
        spans = {"sequences": Span(1, 256 if large else 32, 4), "keys": Span(64, 32768 if large else 8192, 1024)}
        amounts = functools.partial(kernels.decode_amounts, precision, heads)
    else:
        spans = {"bytes": Span(1 << 17, 1 << (32 if large else 29), 1 << 26)}
        amounts = kernels.stream_amounts

    def needed(shape: Mapping[str, float]) -> float:
        # Room for several copies of operands and results.
        size = 3.0 * amounts(shape)[1]
        # Attention that is not fused writes its scores, in float32 and several times.
        scores = 4.0 * 3.0 * heads.heads * shape["sequences"] * shape["queries"] ** 2 if family == "prefill" else 0.0
        return size + scores

    return BenchSpace(spans, amounts, needed, MEMORY_SHARE * (device.memory_bytes or 8e9))


def work(family: str, precision: str, heads: Heads, implementation: str, shape: dict[str, int]) -> TimedWork:
    """The kernel of one shape."""
    kernel = getattr(kernels, family)
    return kernel(precision, heads, implementation, shape) if family in ATTENTION else kernel(precision, shape)


@dataclasses.dataclass
class BenchResult:
    """Measurements of a benchmark, as they come."""

    asked: BenchRequest
    device: Device
    said: Said
    tables: list[SurfaceTable] = dataclasses.field(default_factory=list)
    spreads: dict[str, float] = dataclasses.field(default_factory=dict)  # of each table
    implementations: dict[str, str] = dataclasses.field(default_factory=dict)  # of each table of attention
    figures: DeviceFigures = dataclasses.field(default_factory=lambda: DeviceFigures({}, None, {}, None))
    collectives: list[TimedCollective] = dataclasses.field(default_factory=list)
    left_out: list[str] = dataclasses.field(default_factory=list)  # what the device does not run, one sentence each
    measurements: list[Measurement] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.how: TimingProtocol = protocol(self.device.platform, self.device.cache_bytes)
        self.numbers = Numbers(self.asked.seed)

    @property
    def dispatch(self) -> float:
        """s of one dispatch, median over shapes."""
        return float(np.median([each.dispatch for each in self.measurements])) if self.measurements else 0.0

    @property
    def dispatch_bound(self) -> int:
        """Shapes whose time the host may have stretched."""
        return sum(each.bound_by_dispatch for each in self.measurements)

    def time_table(self, family: str, precision: str, budget: float, clock: Callable[[], float]) -> None:
        """One surface."""
        name = f"{family}_{precision}"
        shapes = space(family, precision, self.asked.heads, self.device)
        try:
            # A device shows that it lacks a precision when a kernel is compiled; the other tables go on.
            implementation = self._implementation(family, precision, shapes)
        except Exception as error:
            self.left_out.append(f"{name} does not run on this device: {_one_line(error)}")
            return
        done = 0

        def measure(shape: dict[str, int], expected: float) -> Cell:
            nonlocal done
            # Wall time with compilation and set-up, by which the plan judges what it can afford.
            begin = clock()
            kernel = work(family, precision, self.asked.heads, implementation, shape)
            measurement = self._timed(kernel, expected)
            done += 1
            self.said(name, done)
            return Cell(measurement.seconds, measurement.spread, clock() - begin)

        grid = timed_grid(shapes, measure, budget, clock)
        axes = {axis: np.array(positions, float) for axis, positions in grid.axes.items()}
        labels = _labels(family, precision, self.asked.heads)
        self.tables.append(SurfaceTable(name, KINDS[family], precision, axes, grid.seconds, labels))
        self.spreads[name] = grid.spread
        if implementation:
            self.implementations[name] = implementation
        if family == "gemm":
            # The measured peak is the best rate of any shape, those of unfinished refinements included.
            names = list(grid.axes)
            rates = [shapes.amounts(dict(zip(names, key, strict=True)))[0] / c.seconds for key, c in grid.cells.items()]
            self.figures.matrix[precision] = max(rates)

    def time_bandwidths(self, budget: float, clock: Callable[[], float]) -> None:
        """Rates of memory by the fastest way of each, and of the vector units."""
        limit = 0.05 * (self.device.memory_bytes or 8e9)
        # Three times what caches hold, unless that is more than a small part of the memory.
        total = int(min(3.0 * self.device.cache_bytes, limit))
        for done, (name, ways) in enumerate(kernels.readings(total).items()):
            self.figures.bandwidths[name] = max(way.bytes / self._timed(way.work, 1.0).seconds for way in ways)
            self.said("bandwidth", done + 1)
        # Elements that a cache holds: 1 MiB of them on a CPU, 32 MiB elsewhere.
        chain, flops = kernels.vector(1 << 18 if self.device.platform == "cpu" else 1 << 23)
        self.figures = self.figures._replace(vector=flops / self._timed(chain).seconds)

    def time_collectives(self, budget: float, clock: Callable[[], float]) -> None:
        """All-reduce and all-gather from 4 KiB, in powers of four, as far as the budget goes."""
        # The smallest message, in B, is timed in any case: it tells the latency.
        start, size = clock(), 1 << 12
        while size <= 1 << 28 and (size == 1 << 12 or clock() - start < budget):
            for name in ("all_reduce", "all_gather"):
                self.collectives.append(collective(name, size, self.numbers, self.how))
                self.said("collective", len(self.collectives))
            size *= 4
        reduced = [message for message in self.collectives if message.name == "all_reduce"]
        # Bandwidth is that of the fastest message, latency the time of the smallest.
        fastest = max(bus_bandwidth(message, self.device.count) for message in reduced)
        self.figures = self.figures._replace(links=(fastest, reduced[0].measurement.seconds))

    def _timed(self, kernel: TimedWork, expected: float = 0.0) -> Measurement:
        self.measurements.append(call_time(kernel, self.numbers, self.how, expected))
        return self.measurements[-1]

    def _implementation(self, family: str, precision: str, shapes: BenchSpace) -> str:
        """The faster of those that work, at a middling shape.

        Raises:
          Exception: what the last one raised when none works.
        """
        if family in ATTENTION and precision not in kernels.ATTENTION_PRECISIONS:
            raise ValueError(f"attention is timed in {', '.join(kernels.ATTENTION_PRECISIONS)}")
        if family == "gemm" and precision == "tf32" and self.device.platform == "cpu":
            raise ValueError("a CPU has no tf32")
        known = kernels.implementations(self.device.platform, precision) if family in ATTENTION else ("",)
        times: dict[str, float] = {}
        failure: Exception | None = None
        # A single implementation only has to work; several are compared at a shape that keeps the device busy.
        shape = {axis: span.low if len(known) == 1 else span.enough for axis, span in shapes.spans.items()}
        for name in known:
            try:
                times[name] = self._timed(work(family, precision, self.asked.heads, name, shape)).seconds
            except Exception as error:  # a backend says in many ways that it lacks a kernel
                failure = error
        if failure is not None and not times:
            raise failure
        return min(times, key=times.__getitem__)


def bench(
    asked: BenchRequest, device: Device, said: Said, clock: Callable[[], float] = time.perf_counter
) -> BenchResult:
    """Measure in the order of `SHARES`; what one family does not use of its share is left to the ones after it."""
    start, result = clock(), BenchResult(asked, device, said)
    jobs = [
        (family, precision)
        for family in SHARES
        if family in asked.families and (family != "collective" or device.count > 1)
        for precision in (asked.precisions if family in MANY else asked.precisions[:1])
    ]
    for place, (family, precision) in enumerate(jobs):
        # The time that is left is divided among this job and those after it.
        shares = [SHARES[name] for name, _ in jobs[place:]]
        budget = max(0.0, start + asked.budget - clock()) * shares[0] / sum(shares)
        if family == "bandwidth":
            result.time_bandwidths(budget, clock)
        elif family == "collective":
            result.time_collectives(budget, clock)
        else:
            result.time_table(family, precision, budget, clock)
    return result


def best_rates(made: SurfaceTable, asked: BenchRequest, device: Device) -> tuple[float, float]:
    """The most FLOP/s and B/s of any shape of a table; 0 where it has no FLOP."""
    amounts = space(made.name.partition("_")[0], made.precision, asked.heads, device).amounts
    best = [0.0, 0.0]
    for index, seconds in np.ndenumerate(made.seconds):
        shape = {axis: float(p[i]) for (axis, p), i in zip(made.axes.items(), index, strict=True)}
        # FLOP/s and B/s need not be best at the same shape.
        best = [max(old, amount / seconds) for old, amount in zip(best, amounts(shape), strict=True)]
    return best[0], best[1]


def _labels(family: str, precision: str, heads: Heads) -> dict[str, float]:
    size = float(np.dtype(kernels.DTYPES[precision]).itemsize)
    if family == "gemm":
        return {"weight_bytes": size}
    if family in ATTENTION:
        return {"head_dim": heads.head_dim, "heads": heads.heads, "kv_heads": heads.kv_heads, "kv_bytes": size}
    return {}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
