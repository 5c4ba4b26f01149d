"""Timed cases: sweeps of Llama-3.1-70B around an H100, each as a question to the engine."""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.request import REQUEST
from sweeps.ask.axes import Axis, leaf, leaf_paths
from sweeps.ask.cases import case
from sweeps.ask.question import Question

TOTALS = ("ttft", "tpot")

Sweep = tuple[Question, tuple[Axis, ...]]


@dataclasses.dataclass(frozen=True)
class BenchCase:
    """One row of the table."""

    name: str
    efficiency: str
    meaning: str
    question: Callable[[int], Sweep]
    points: int  # asked for; a grid rounds it
    target: float | None = None  # points/s to reach on 2 CPU cores
    gpu_target: float | None = None  # points/s to reach on an H200
    dtype: str = "float32"
    beside_c: bool = False  # measure the same operations as a loop in C too


def base(efficiency: str = "derated") -> Scenario:
    """Llama-3.1-70B on eight H100, a batch of 16 with 2048 prompt and 256 output tokens."""
    return case(
        "request",
        "H100-SXM",
        "Llama-3.1-70B",
        workload={"batch": 16, "isl": 2048, "osl": 256},
        deployment={"tp": 8},
        efficiency=efficiency,
    ).scenario


def geometric(path: str, low: float, high: float, size: int) -> Axis:
    """An axis of `size` values in equal ratios."""
    return Axis(path, size, {path: np.geomspace(low, high, size)}, ())


def degrees() -> Axis:
    """The tensor-parallel degrees of an eight-device node."""
    return Axis("deployment.tp", 4, {"deployment.tp": np.array([1.0, 2.0, 4.0, 8.0])}, ())


def spread_grid(points: int) -> Sweep:
    """Six hardware axes as in the demo, which meet in different ops, and tp."""
    size = max(2, round((points / 4) ** (1 / 6)))
    last = max(2, round(points / 4 / size**5))
    axes = (
        geometric("hardware.links.scale_up.bandwidth", 5e10, 1.8e12, last),
        degrees(),
        geometric("hardware.matrix.bf16", 2.5e14, 4e15, size),
        geometric("hardware.memory.hbm.bandwidth", 1e12, 16e12, size),
        geometric("hardware.memory.hbm.capacity", 4e10, 3e11, size),
        geometric("hardware.memory.l2.capacity", 1e7, 2e8, size),
        geometric("hardware.cores.count", 33, 264, size),
    )
    return Question(REQUEST, base(), TOTALS), axes


def full_grid(points: int) -> Sweep:
    """Six hardware axes that every GEMM depends on: peak, three bandwidths, two capacities."""
    size = max(2, round((points / 4) ** (1 / 6)))
    axes = (
        degrees(),
        geometric("hardware.matrix.bf16", 2.5e14, 4e15, size),
        geometric("hardware.memory.hbm.bandwidth", 1e12, 16e12, size),
        geometric("hardware.memory.l2.capacity", 1e7, 2e8, size),
        geometric("hardware.memory.l2.bandwidth", 3e12, 2e13, size),
        geometric("hardware.memory.scratchpad.bandwidth", 1e11, 1e12, size),
        geometric("hardware.memory.scratchpad.capacity", 1e5, 1e6, size),
    )
    return Question(REQUEST, base(), TOTALS), axes


def output_grid(points: int) -> Sweep:
    """The spread grid with every output axis in both outputs: no axis that only memory capacity depends on."""
    question, spread = spread_grid(points)
    axes = tuple(
        geometric("hardware.links.scale_up.latency", 5e-8, 5e-6, axis.size) if "hbm.capacity" in axis.name else axis
        for axis in spread
    )
    return question, axes


def breakdown_grid(points: int) -> Sweep:
    """The spread grid with time, work and bound of every op."""
    question, axes = spread_grid(points)
    return dataclasses.replace(question, breakdown=True), axes


def tiered(grid: Callable[[int], Sweep], efficiency: str) -> Callable[[int], Sweep]:
    """The same grid under another efficiency."""

    def question(points: int) -> Sweep:
        asked, axes = grid(points)
        return dataclasses.replace(asked, base=base(efficiency)), axes

    return question


def sample(points: int) -> Sweep:
    """One axis of points along which every number of every struct varies by up to a quarter."""
    return varied(base(), points)


def sampled(efficiency: str) -> Callable[[int], Sweep]:
    """The same sample under another efficiency."""
    return lambda points: varied(base(efficiency), points)


def varied(start: Scenario, points: int) -> Sweep:
    """Every leaf of `start` times a random factor of its own, point by point."""
    random = np.random.default_rng(0)
    columns = {
        path: (float(leaf(start, path)) * random.uniform(0.8, 1.25, points)).astype(np.float32)
        for path in leaf_paths(start)
    }
    return Question(REQUEST, start, TOTALS), (Axis("point", points, columns, ()),)


def experts_base() -> Scenario:
    """DeepSeek-V3 on eight H200 as groups of requests that share experts, a batch of 256."""
    return case(
        "request",
        "H200-SXM",
        "DeepSeek-V3",
        workload={"batch": 256, "isl": 2048, "osl": 256},
        deployment={"tp": 1, "attention_dp": 8, "ep": 8},
    ).scenario


def experts_grid(points: int) -> Sweep:
    """Every mix of tp, attention_dp and ep, with batch, prompt length and three hardware axes."""
    size = max(2, round((points / 64 / 6) ** (1 / 4)))
    last = max(2, round(points / 64 / 6 / size**3))
    degrees = np.array([1.0, 2.0, 4.0, 8.0])
    axes = (
        geometric("hardware.links.scale_up.bandwidth", 5e10, 1.8e12, last),
        *(Axis(path, 4, {path: degrees}, ()) for path in ("deployment.tp", "deployment.attention_dp", "deployment.ep")),
        geometric("workload.batch", 8, 1024, 6),
        geometric("workload.isl", 256, 16384, size),
        geometric("hardware.matrix.fp8", 5e14, 8e15, size),
        geometric("hardware.memory.hbm.bandwidth", 1e12, 16e12, size),
    )
    return Question(REQUEST, experts_base(), TOTALS), axes


def experts_sample(points: int) -> Sweep:
    """One axis of points along which every number of every struct varies by up to a quarter."""
    return varied(experts_base(), points)


CASES = (
    BenchCase("grid", "derated", "totals, axes spread over ops", output_grid, 100_000_000, 400e6, 20e9),
    BenchCase("grid, 10 million", "derated", "totals, axes spread over ops", output_grid, 10_000_000),
    BenchCase("grid, 4 million", "derated", "totals, axes spread over ops", output_grid, 4_000_000),
    BenchCase("grid, capacity axis", "derated", "totals, one axis only for memory", spread_grid, 4_000_000),
    BenchCase("grid, all in GEMM", "derated", "totals, six axes in every GEMM", full_grid, 10_000_000, 60e6),
    BenchCase("kernel", "kernel", "six axes spread over ops", tiered(output_grid, "kernel"), 4_000_000, 5e6),
    BenchCase("kernel, all in GEMM", "kernel", "six axes in every GEMM", tiered(full_grid, "kernel"), 400_000),
    BenchCase("learned", "learned", "six axes spread over ops", tiered(output_grid, "learned"), 4_000_000, 200e6),
    BenchCase("learned, all in GEMM", "learned", "six axes in every GEMM", tiered(full_grid, "learned"), 400_000),
    BenchCase("sample", "derated", "every leaf of every struct varies", sample, 1_000_000, 50e6, 1e9, beside_c=True),
    BenchCase(
        "sample, learned", "learned", "every leaf varies", sampled("learned"), 1_000_000, 20e6, None, beside_c=True
    ),
    BenchCase("grid, float64", "derated", "totals, axes spread over ops", output_grid, 10_000_000, dtype="float64"),
    BenchCase("experts, grid", "learned", "DeepSeek-V3, three degrees and five axes", experts_grid, 6_000_000, 60e6),
    BenchCase(
        "experts, sample", "learned", "DeepSeek-V3, every leaf varies", experts_sample, 200_000, 5e6, beside_c=True
    ),
    BenchCase("grid, breakdown", "derated", "time, work and bound of every op", breakdown_grid, 4_000_000),
)
"""Rows of the table, in order."""
