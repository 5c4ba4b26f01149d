"""Inverse design by gradients against exhaustive search over a grid: the best value that each finds, and its time.

python -m tests.bench.inverse [LEVELS]
"""

import copy
import resource
import sys
import time
import tomllib
from pathlib import Path

import numpy as np

import sweeps
from sweeps.ask.spaces import spaced
from sweeps.studies.optimize.goals import constraints
from sweeps.studies.optimize.search import searched
from sweeps.studies.optimize.spec import made, read

SPEC = Path("sweeps/specs/cheapest.toml")


def exhaustive(source: dict, levels: int) -> tuple[float, int]:
    """The best objective of a grid of `levels` values per range in all combinations of choices, and its points."""
    asked = copy.deepcopy(dict(spaced(source)))
    goal = asked.pop("optimize")["minimize"]
    limits = constraints(asked.pop("constraints"))
    for path, bounds in asked["axes"].items():
        asked["axes"][path] = {**bounds, "n": levels} if isinstance(bounds, dict) else bounds
    names = [goal, "feasible", *(limit.name for limit in limits)]
    data = sweeps.sweep(asked, output={"variables": names, "illegal": "mask"})
    kept = data["feasible"]
    for limit in limits:
        kept = kept & (data[limit.name] <= limit.limit)
    best = data[goal].where(kept).min()
    return float(best), int(np.prod(list(data.sizes.values())))


def main(levels: int = 8) -> None:
    """Both, twice: the second time without compilation."""
    source = tomllib.loads(SPEC.read_text())
    design = read(source)
    print(f"{SPEC}: minimise {source['optimize']['minimize']}")
    problem = made(design)
    for run in ("first run, compilation included", "second run"):
        start = time.perf_counter()
        best, points = exhaustive(source, levels)
        seconds = time.perf_counter() - start
        print(f"{run}: exhaustive grid of {points:,} points: best {best:.6g} in {seconds:.1f} s")
        start = time.perf_counter()
        found = searched(problem, design.search)
        taken = time.perf_counter() - start
        value = found.objectives[0, 0]
        stages = ", ".join(f"{name} {lap:.1f}" for name, lap in found.seconds.items())
        print(
            f"{run}: gradients: best {value:.6g} ({100 * (value / best - 1):+.2f} %) in {taken:.1f} s ({stages}); "
            f"{found.evaluations:,} designs and {found.gradients:,} gradients so far"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
