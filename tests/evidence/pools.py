"""Disaggregated and drafting runs of InferenceX, fitted and left out: `python -m tests.evidence.pools --data DIR`.

Constants are fitted to deployments whose number is even; the others, and all of H100, are left out. Beside the errors
of both parts the constants that add to a time are fitted again, and judged on what was left out.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from sweeps.measure.validate.measured_csv import by_reason, rows
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving import inferencex
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.measure.validate.serving.scores import METRICS, ServingPrediction
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.run.compile_cache import compilation_cache
from tests.evidence.harness import command, data, error_text, flag

FILES = ("inferencex_disagg.csv", "inferencex_agg_spec.csv")

WHOLE = ("H100-SXM",)
"""Devices that are left out as a whole."""

STREAMED = {"mori-sglang": 1.0, "atom": 1.0, "sglang H100-SXM": 1.0, "sglang H200-SXM": 10.0, "sglang B200-SXM": 30.0}
"""Framework, with its device where that decides, -> steps between two chunks: --stream-interval of its recipe."""


def is_fitted(point: ServingPoint) -> bool:
    """Whether constants are fitted to a point's deployment."""
    return point.gpu not in WHOLE and int(point.id, 16) % 2 == 0


def kind(point: ServingPoint) -> str:
    """What runs, in words."""
    where = "one engine" if point.prompts is None else "pools"
    return f"{where}, {'drafts' if point.drafting else 'no drafts'}"


def read(folder: Path, clients: float) -> Iterator[tuple[ServingPoint | None, str]]:
    """Every row of both files with at most so many clients, as a point or as the reason why there is none."""
    for name in FILES:
        found, left = inferencex.points(folder / "serving2" / name)
        yield from ((point, "") for point in found if point.concurrency <= clients)
        yield from ((None, f"{name}: {reason} ({len(out)} rows)") for reason, out in by_reason(left))


# Errors of both parts.


def error_tables(found: Sequence[ServingPrediction]) -> Iterator[Table]:
    """Errors of what was fitted and of what was left out, by what runs and by device."""
    keys: tuple[Callable[[ServingPoint], str], ...] = (
        lambda point: "all",
        kind,
        lambda point: f"{kind(point)}: {point.gpu}",
        lambda point: point.gpu,
    )
    for title, side in (("fitted", True), ("left out", False)):
        table = Table(title=f"{title}: median, MAPE, signed median in %")
        for head in ("by", "rows", *METRICS):
            table.add_column(head)
        part = [one for one in found if is_fitted(one.point) == side]
        for key in keys:
            for name, group in sorted(grouped(part, lambda one, key=key: key(one.point)).items()):
                ratios = [[one.ratio(metric) for one in group] for metric in METRICS]
                table.add_row(name, str(len(group)), *(error_text(each, np.ones(len(each))) for each in ratios))
            table.add_section()
        yield table


# Constants that add to a time: fitted on one part, judged on the other.


class Added(NamedTuple):
    """A time in s that a constant adds to a latency of some points."""

    name: str
    metric: str  # "ttft" or "tpot"
    now: float  # s, as it is
    values: tuple[float, ...]  # s, to try
    of: Callable[[ServingPoint], bool]
    share: Callable[[ServingPrediction], float]  # of the constant in the latency


def added() -> list[Added]:
    """The constants of engines that add to one latency."""
    grid = tuple(5e-3 * step for step in range(61))
    found = [
        Added(
            f"{name}: host.handover_time",
            "ttft",
            hwspaces.engine(name).host.handover_time,
            grid,
            lambda point, name=name: point.engine == name and point.prompts is not None,
            lambda one: 1.0,
        )
        for name in ("sglang", "trtllm")
    ]
    drafting = next(one for one in hwspaces.engine("sglang").slower if one.drafting)
    longer = Added(
        "sglang: slower with drafts on Hopper",
        "tpot",
        drafting.step_time,
        tuple(0.5e-3 * step for step in range(31)),
        lambda point: point.engine == "sglang" and point.drafting and "fp4" not in point.hardware.matrix,
        lambda one: 1.0 / steps_tokens(one.point),
    )
    return [*found, longer]


def steps_tokens(point: ServingPoint) -> float:
    """Tokens that a step of a point's deployment adds to a sequence."""
    tokens, reached = 1.0, 1.0
    for right in str(point.launch.policy["acceptance"]).split(",")[: int(point.launch.deployment["drafts"])]:
        reached *= float(right)
        tokens += reached
    return tokens


def error_with(found: Sequence[ServingPrediction], one: Added, value: float) -> float:
    """Median of the absolute errors of the latency with another value of the constant."""
    ratios = [
        (each.time(one.metric) + (value - one.now) * one.share(each)) / getattr(each.point, one.metric)
        for each in found
    ]
    return float(np.median(np.abs(np.asarray(ratios) - 1.0)))


def fit_table(found: Sequence[ServingPrediction]) -> Table:
    """Every constant as it is and as it is best, and the errors of what was left out with it and without."""
    table = Table(title="constants: median error of their latency in %")
    for head in ("constant", "now", "best", "fitted", "left out: without", "with", "with the best"):
        table.add_column(head)
    for one in added():
        own = [each for each in found if one.of(each.point)]
        part, out = ([each for each in own if is_fitted(each.point) == side] for side in (True, False))
        if not part or not out:
            continue
        best = min(one.values, key=lambda value: error_with(part, one, value))
        texts = [f"{1e3 * value:.1f} ms" for value in (one.now, best)]
        errors = [error_with(part, one, best), *(error_with(out, one, value) for value in (0.0, one.now, best))]
        table.add_row(one.name, *texts, *(f"{100 * error:.1f}" for error in errors))
    return table


# Acceptance, from tokens per streamed chunk.


def chunk_table(folder: Path) -> Table:
    """Tokens that a step adds, of runs whose chunks are those of known numbers of steps, by drafts and output."""
    table = Table(title="tokens per step, median: measured by chunks, and by the acceptance as it is")
    for head in ("drafts", "output", "fitted: runs", "measured", "left out: runs", "measured", "assumed"):
        table.add_column(head)
    groups = grouped(_chunks(folder), lambda one: (one[0].launch.deployment["drafts"], one[0].osl))
    for (drafts, osl), group in sorted(groups.items()):
        cells = []
        for side in (True, False):
            own = [tokens for point, tokens in group if is_fitted(point) == side]
            cells += [str(len(own)), f"{np.median(own):.2f}" if own else "-"]
        table.add_row(f"{drafts:g}", f"{osl:g}", *cells, f"{steps_tokens(group[0][0]):.2f}")
    return table


def _chunks(folder: Path) -> Iterator[tuple[ServingPoint, float]]:
    """Runs with means over chunks and a known interval, and their tokens per step."""
    for name in FILES:
        for row in rows(folder / "serving2" / name, ("mean_itl_ms", "itl_over_tpot")):
            framework = row["framework"].removeprefix("dynamo-")
            if row["spec_method"] != "mtp" or not row["mean_itl_ms"]:
                continue
            point = inferencex.point(row)
            steps = STREAMED.get(framework, STREAMED.get(f"{framework} {point.gpu}"))
            if steps is not None and framework + point.gpu != "sglangMI355X":
                yield point, row.numbers(("itl_over_tpot",))["itl_over_tpot"] / steps


@command(
    data("folder with serving2/"),
    flag("--clients", type=float, default=np.inf, metavar="N", help="rows with at most N clients (default: all)"),
    flag("--imbalance", type=float, metavar="RATIO", help="in place of the one of the launches, where there is one"),
)
def main(options: argparse.Namespace) -> None:
    """Simulate, and print."""
    compilation_cache()
    console = Console(width=150)
    every = list(read(options.data, options.clients))
    points = [_uneven(point, options.imbalance) for point, _ in every if point is not None]
    found, failed = attempted(points)
    for table in (*error_tables(found), fit_table(found), chunk_table(options.data)):
        console.print(table)
    for reason in [text for _, text in every if text] + [f"{len(out)} rows: {text}" for text, out in by_reason(failed)]:
        console.print(f"left out: {reason}")


def _uneven(point: ServingPoint, imbalance: float | None) -> ServingPoint:
    """The point with another imbalance of its experts' devices."""
    if imbalance is None:
        return point
    spec = point.spec
    changed = {
        name: {key: imbalance if key == "imbalance" else value for key, value in getattr(spec, name).items()}
        for name in ("deployment", "prefill")
    }
    return dataclasses.replace(point, spec=dataclasses.replace(spec, **changed))


if __name__ == "__main__":
    sys.exit(main())
