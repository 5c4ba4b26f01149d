"""Times evaluations of mappings: `python -m tests.bench.nests`.

A layer of ResNet-50 on each shipped architecture, random factors that fit, one loop order, energy times cycles. NumPy's
columns, compiled loops and XLA evaluate the same mappings in one thread; compilation is timed apart. Then one search
with its default number of mappings.
"""

import argparse
import time

import numpy as np

from sweeps.run import compilers
from sweeps.studies.map import found_mapping
from sweeps.studies.map.pool import compiled_scores, scores
from sweeps.studies.map.space import NestRows, mapping_space
from workloads import nests
from workloads.nests.checks import residents


def main(words: list[str] | None = None) -> None:
    """Print millions of mappings per second."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.nests", description=__doc__)
    parser.add_argument("--layer", default="resnet50.conv2_3x3")
    parser.add_argument("--mappings", type=int, default=500_000)
    options = parser.parse_args(words)
    problem = nests.layer(options.layer).value
    for name in nests.architecture_names():
        machine = nests.architecture(name).value
        random = np.random.default_rng(0)
        space = mapping_space(problem, machine, residents(problem, machine, {}, name), random)
        rows = space.drawn(options.mappings, random)
        parts = [NestRows(rows[start : start + 8192]).columns for start in range(0, len(rows), 8192)]
        orders, times = space.orders[0], {}
        times["numpy"] = seconds(lambda part: scores(space, part, orders, "edp"), parts)  # noqa: B023
        for kind in ("loops", "xla"):
            compilers.loops_known = lambda kind=kind: kind == "loops"
            begun = time.perf_counter()
            program, whole = compiled_scores(space, orders, "edp"), NestRows(rows).columns
            program(whole)
            compiled = time.perf_counter() - begun
            times[f"{kind} (compiled in {compiled:.2f} s)"] = seconds(program, [whole])
        rates = ", ".join(f"{kind} {len(rows) / each / 1e6:.1f} M/s" for kind, each in times.items())
        found = found_mapping(problem, machine, residents(problem, machine, {}, name))
        print(f"{name}: {rates}; a search of {found.evaluated:,} mappings in {found.seconds:.2f} s")


def seconds(function, parts) -> float:
    """The least time of three runs over all parts."""
    found = []
    for _ in range(3):
        begun = time.perf_counter()
        for part in parts:
            function(part)
        found.append(time.perf_counter() - begun)
    return min(found)


if __name__ == "__main__":
    main()
