"""Times one case in this process: planning and compiling apart from running, and the process's peak memory."""

import json
import resource
import statistics
import sys
import time

import jax
import numpy as np

from sweeps.api import precision
from sweeps.engine import Plan
from tests.bench.cases import CASES, BenchCase


def measured(case: BenchCase, scale: float, repeats: int) -> dict:
    """Points/s over `repeats` runs after a warm-up, compile seconds, and peak resident memory in bytes."""
    with precision(case.dtype):
        question, axes = case.question(int(case.points * scale))
        begun = time.perf_counter()
        plan = Plan(question, axes, case.dtype)
        target = {name: np.empty(output.shape, output.dtype) for name, output in plan.outputs.items()}
        evaluate(plan, target)
        first = time.perf_counter() - begun
        seconds = []
        for _ in range(repeats):
            begun = time.perf_counter()
            evaluate(plan, target)
            seconds.append(time.perf_counter() - begun)
        return {
            "name": case.name,
            "points": plan.points,
            "compile_s": max(0.0, first - statistics.median(seconds)),
            "median_s": statistics.median(seconds),
            "best_s": min(seconds),
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "device": jax.devices()[0].device_kind,
        }


def evaluate(plan: Plan, target: dict[str, np.ndarray]) -> None:
    """Run every chunk and keep both outputs in memory."""
    for piece in plan.pieces():
        target[piece.name][piece.index] = piece.values


if __name__ == "__main__":
    name, scale, repeats = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(measured(next(case for case in CASES if case.name == name), scale, repeats)))
