"""Derivatives of simulated services against differences and changes: `python -m tests.evidence.service_slopes`.

Of every case: the largest difference between derivatives of the very times (no ties) and central differences over 2e-7,
in which no decision changes; and, for the knobs of hardware, the median difference between elasticities and the real
ones over -10 % and +10 % together, which decisions move.
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from jaxroof.jobs.serve import serving_metrics
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import smoothing
from sweeps.ask.axes import leaf
from sweeps.run.points import scenario_at
from sweeps.run.precision import precision
from sweeps.run.simulated.causes import Causes
from sweeps.run.simulated.service import kinds, room_for, serviced
from sweeps.run.simulated.slopes import slopes
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.run import setup

METRICS = ("ttft_mean", "ttft_p99", "tpot_mean", "itl_mean", "e2e_mean", "requests_per_second", "utilization")

COMMON = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "seed": 1,
    "isl": "lognormal:mean=512,sigma=0.6",
    "osl": "lognormal:mean=48,sigma=0.6",
}

TALKS = {"prefixes": "groups=5,tokens=512,zipf=1", "sessions": "turns=2..6,think=1,wait=1"}

DRAFTS = {"draft": "Llama-3.2-1B", "policy": {"acceptance": 0.7}}

CASES: dict[str, dict[str, Any]] = {
    "replicas": {"deployment": {"dp": 3}, "router": "least_requests", "rate": 20.0},
    "clients": {"deployment": {"dp": 2}, "router": "least_requests", "concurrency": 6},
    "conversations, two tiers": TALKS
    | {"deployment": {"dp": 3}, "router": "prefix", "tiers": "host=64GB,ssd=1TB", "rate": 12.0},
    "pools": {"deployment": {"dp": 2}, "prefill": {"dp": 2}, "rate": 12.0},
    "pools of unlike devices": {
        "deployment": {"dp": 2},
        "prefill": {"dp": 2, "hardware": "L40S"},
        "whole": True,
        "rate": 6.0,
    },
    "drafts": DRAFTS | {"deployment": {"dp": 2, "drafts": 3}, "router": "least_requests", "rate": 10.0},
    "pools, a tier, conversations": TALKS
    | {"deployment": {"dp": 2}, "prefill": {"dp": 2}, "router": "prefix", "tiers": "host=64GB", "rate": 8.0},
    "pools, a tier, conversations, drafts": TALKS
    | DRAFTS
    | {
        "deployment": {"dp": 2, "drafts": 3},
        "prefill": {"dp": 2},
        "router": "prefix",
        "tiers": "host=64GB",
        "rate": 8.0,
    },
}

HARDWARE = ("hardware.memory.hbm.bandwidth", "hardware.matrix.bf16", "hardware.links.scale_out.bandwidth")

PATHS = (*HARDWARE, "efficiency.host.step_time", "efficiency.host.request_time")

STEP = 1e-7

CHANGE = 0.1


class Compared(NamedTuple):
    """One case."""

    unknown: int  # instants without a cause
    steps: int
    largest: float  # difference of a derivative d ln y / d ln x from the central difference
    median: float  # difference of an elasticity from the real one


def compared(words: dict[str, Any], requests: int, changes: bool = True) -> Compared:
    """Derivatives of one case beside differences."""
    given = setup(serve_spec(**COMMON, requests=requests, **words))
    scenario = given.scenario
    work = scenario.workload
    paths = [*PATHS, *(f"prefill.{path}" for path in HARDWARE if scenario.prefill is not None)]

    def simulated(path: str | None = None, factor: float = 1.0) -> tuple[Any, np.ndarray]:
        moved = scenario if path is None else scenario_at(scenario, [{path: leaf(scenario, path) * factor}])
        engines = kinds(moved)
        found = serviced(engines, given.routes, room=room_for(engines, given.routes, traced=True))
        with eager():
            metrics = serving_metrics(found.served, found.timelines, work.traffic, found.blocks, work.objective)
        return found, np.array([float(metrics[name]) for name in METRICS])

    with precision("float64"), smoothing(0):
        found, values = simulated()
        causes = Causes(found.trace.run, found.trace.records, work.traffic)
        exact, tied = (slopes(found, scenario, METRICS, paths, given.routes, ties=ties) for ties in (False, True))
        differences, moves = [], []
        for path in paths:
            up, down = (simulated(path, 1.0 + step)[1] for step in (STEP, -STEP))
            own = np.array([exact[name][path] for name in METRICS])
            differences.append(np.abs(own - (up - down) / (2.0 * STEP)) / values)
            if changes and "hardware" in path:
                up, down = (simulated(path, 1.0 + change)[1] for change in (CHANGE, -CHANGE))
                real = np.log(up / down) / math.log((1.0 + CHANGE) / (1.0 - CHANGE))
                moves.append(np.abs(np.array([tied[name][path] for name in METRICS]) / values - real))
    median = float(np.median(moves)) if moves else math.nan
    return Compared(causes.unknown, len(causes.steps), float(np.max(differences)), median)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.service_slopes", description=__doc__)
    parser.add_argument("-n", type=int, default=100, help="requests of every case")
    options = parser.parse_args(arguments)
    table = Table(title=f"{len(METRICS)} metrics of {options.n} requests, Llama-3.1-8B on H100-SXM")
    for heading in ("case", "steps", "instants without a cause", "largest difference", "median, over a tenth"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for name, words in CASES.items():
        row = compared(words, options.n)
        table.add_row(name, f"{row.steps:,}", str(row.unknown), f"{row.largest:.1e}", f"{row.median:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
