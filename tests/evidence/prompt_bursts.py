"""Uneven work of experts' devices, from bursts of prompts: `python -m tests.evidence.prompt_bursts --data DIR`.

All clients of a closed loop send their first prompts at once. The last of them is answered when the pool for prompts
has worked on all: p99 of TTFT over clients is a pool's time per prompt. It is compared with full steps of prompts.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from jaxroof import batch
from jaxroof.numerics.arrays import eager
from jaxroof.step.step import step_time
from sweeps.measure.validate.measured_csv import rows
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving import inferencex
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.run.precision import precision
from tests.evidence.harness import command, data, error_text
from tests.evidence.pools import FILES, is_fitted

LEAST = 64.0
"""Clients of one replica, at least: of fewer, the first calls of kernels take more time than prompts."""

RATIOS = 1.0, 2.0, 4.0, 8.0
"""Rows of the busiest device over the mean that are tried, beside the ratio of the launches."""


class Burst(NamedTuple):
    """A pool's time per prompt in s, measured and by ratio."""

    point: ServingPoint
    measured: float
    predicted: tuple[float, ...]  # with each of `RATIOS`, then with that of its launch


def bursts(folder: Path) -> Iterator[Burst]:
    """Every run whose prompts are worked on by several devices with experts of their own."""
    for row in rows(folder / "serving2" / FILES[0], ("p99_ttft_ms",)):
        point = inferencex.point(row)
        clients = point.concurrency / point.prompt_replicas
        if clients >= LEAST and point.prompts is not None and point.prompts.ep > 1.0:
            p99 = row.numbers(("p99_ttft_ms",))["p99_ttft_ms"]
            yield Burst(point, 1e-3 * p99 / clients, tuple(_times(point, clients)))


def _times(point: ServingPoint, clients: float) -> Iterator[float]:
    scenario, pool = point.case.scenario, point.case.scenario.prefill
    # As many prompts of mean length as the budget holds, and no more than half of those that come.
    length = 0.5 * (1.0 + point.launch.shortest) * point.isl
    prompts = max(min(point.spec.policy["token_budget"] // length, 0.5 * clients), 1.0)
    step = batch.prefill(prompts, length)
    for ratio in (*RATIOS, pool.deployment.imbalance):
        deployment = dataclasses.replace(pool.deployment, imbalance=float(ratio))
        with precision("float64"), eager():
            seconds = step_time(pool.hardware, scenario.model, deployment, step, pool.efficiency)
        yield float(seconds) / prompts


def _kind(point: ServingPoint) -> str:
    spread = "data-parallel" if point.prompts is not None and point.prompts.groups > 1.0 else "tensor-parallel"
    return f"{point.engine}, {point.precision.split()[0]}, {spread} attention"


@command(data("folder with serving2/"))
def main(options: argparse.Namespace) -> None:
    """Price, and print."""
    table = Table(title="time of a prompt in a burst: median, MAPE, signed median in %")
    for head in ("by", "part", "runs", *(f"{ratio:g}" for ratio in RATIOS), "of the launch"):
        table.add_column(head)
    found = list(bursts(options.data))
    for key in (lambda point: "all", _kind):
        groups = grouped(found, lambda one, key=key: (key(one.point), not is_fitted(one.point)))
        for (name, out), group in sorted(groups.items()):
            measured = [one.measured for one in group]
            texts = [error_text([one.predicted[i] for one in group], measured) for i in range(len(RATIOS) + 1)]
            table.add_row(name, "left out" if out else "fitted", str(len(group)), *texts)
    Console(width=170).print(table)


if __name__ == "__main__":
    sys.exit(main())
