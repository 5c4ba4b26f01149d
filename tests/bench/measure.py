"""Times one case in this process: planning and compiling apart from running, and the process's peak memory."""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable

import jax
import numpy as np

from sweeps.ask.axes import replaced
from sweeps.run.engine import Plan
from sweeps.run.precision import precision
from tests import oracle
from tests.bench.cases import CASES, BenchCase, sample


def measured(case: BenchCase, scale: float, repeats: int) -> dict:
    """Points/s over `repeats` runs after a warm-up, compile seconds, and peak resident memory in bytes."""
    with precision(case.dtype):
        question, axes = case.question(int(case.points * scale))
        begun = time.perf_counter()
        plan = Plan(question, axes, case.dtype, most_eager=0)
        target = {name: np.zeros(output.shape, output.dtype) for name, output in plan.outputs.items()}
        evaluate(plan, target)
        first = time.perf_counter() - begun
        row = {"name": case.name, "points": plan.points, "compiler": plan.compiler.name}
        row |= timed(lambda: evaluate(plan, target), repeats, first)
        if case.beside_c and plan.compiler.name == "llvm":
            from tests.bench.loop import rate

            row["c_points_per_s"] = rate(plan, repeats)
        return row


def evaluate(plan: Plan, target: dict[str, np.ndarray]) -> None:
    """Run every chunk and keep both outputs in memory."""
    for piece in plan.pieces():
        target[piece.name][piece.index] = piece.values


def numpy_measured(scale: float, repeats: int) -> dict:
    """The same totals in plain NumPy, float64, over a flat axis of points: the oracle of the tests."""
    points = int(20_000 * scale)
    question, (axis,) = sample(points)
    scenario = question.base
    for path, column in axis.columns.items():
        scenario = replaced(scenario, path, column.astype(np.float64))
    place = scenario.hardware, scenario.model, scenario.deployment, scenario.workload, scenario.efficiency
    begun = time.perf_counter()
    oracle.request(*place)
    first = time.perf_counter() - begun
    return {"name": "numpy", "points": points, **timed(lambda: oracle.request(*place), repeats, first)}


def timed(run: Callable[[], None], repeats: int, first: float) -> dict:
    """Median and best seconds of `run`, what its first call took beyond that, and this process's peak memory."""
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    median = statistics.median(seconds)
    return {
        "compile_s": max(0.0, first - median),
        "median_s": median,
        "best_s": min(seconds),
        "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "device": jax.devices()[0].device_kind,
    }


if __name__ == "__main__":
    name, scale, repeats = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    row = (
        numpy_measured(scale, repeats)
        if name == "numpy"
        else measured(next(case for case in CASES if case.name == name), scale, repeats)
    )
    print(json.dumps(row))
