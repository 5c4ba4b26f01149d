"""Disaggregated and drafting runs of InferenceX, fitted and left out: `python -m tests.evidence.pools --data DIR`.

Constants are fitted to deployments whose number is even; the others, and all of H100, are left out. Beside the errors
of both parts the constants that add to a time are fitted again, and judged on what was left out. `--all` adds groups
that take no part in that: runs whose prompts came faster than they were taken, and runs of many clients.
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
from hwspaces.engines.engine import Slower
from sweeps.measure.validate.measured_csv import CsvRow, by_reason, rows
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

MANY = 700.0
"""Clients above which a run is of a group of its own."""

FASTER = "prompts came faster than they were taken"
"""What is said of runs with the flag `queueing`."""

STREAMED = {"mori-sglang": 1.0, "atom": 1.0, "sglang H100-SXM": 1.0, "sglang H200-SXM": 10.0, "sglang B200-SXM": 30.0}
"""Framework, with its device where that decides, -> steps between two chunks: --stream-interval of its recipe."""


def is_fitted(point: ServingPoint) -> bool:
    """Whether constants are fitted to a point's deployment."""
    return point.gpu not in WHOLE and int(point.id, 16) % 2 == 0


def kind(point: ServingPoint) -> str:
    """What runs, in words."""
    where = "one engine" if point.prompts is None else "pools"
    return f"{where}, {'drafts' if point.drafting else 'no drafts'}"


def spread(point: ServingPoint) -> str:
    """How what decodes is spread over its devices, in words."""
    if point.layout.groups > 1.0:
        return "data-parallel attention"
    return "tensor parallelism, whole experts" if point.layout.ep > 1.0 else "tensor parallelism"


def group(point: ServingPoint) -> str:
    """The group of runs that a point is judged with."""
    if point.suspect == FASTER:
        return FASTER
    return f"more than {MANY:g} clients" if point.concurrency > MANY else "fitted" if is_fitted(point) else "left out"


def read(folder: Path, clients: float, every: bool = False) -> Iterator[tuple[ServingPoint | None, str]]:
    """Every row of both files with at most so many clients, as a point or as the reason why there is none.

    Args:
      every: rows with the flag `queueing` alone too, as suspects.
    """
    for name in FILES:
        found, left = inferencex.points(folder / "serving2" / name)
        yield from ((point, "") for point in found if point.concurrency <= clients)
        if every:
            table = {row.line: row for row in rows(folder / "serving2" / name, ("flag",))}
            flagged = {one.row: table[one.row] for one in left if _queues(table[one.row])}
            points = [inferencex.point(row) for row in flagged.values()]
            yield from (
                (dataclasses.replace(point, suspect=FASTER), "") for point in points if point.concurrency <= clients
            )
            left = [one for one in left if one.row not in flagged]
        yield from ((None, f"{name}: {reason} ({len(out)} rows)") for reason, out in by_reason(left))


def _queues(row: CsvRow) -> bool:
    return [flag for flag in inferencex.UNFIT if flag in row["flag"].split("+")] == ["queueing"]


# Errors of both parts.


def error_tables(found: Sequence[ServingPrediction]) -> Iterator[Table]:
    """Errors of what was fitted and of what was left out, and of every other group, by what runs and by device."""
    keys: tuple[Callable[[ServingPoint], str], ...] = (
        lambda point: "all",
        kind,
        lambda point: f"{kind(point)}: {point.gpu}",
        lambda point: point.gpu,
        lambda point: f"{point.engine}: {spread(point)}",
    )
    for title, part in sorted(grouped(found, lambda one: group(one.point)).items()):
        table = Table(title=f"{title}: median, MAPE, signed median in %")
        for head in ("by", "rows", *METRICS):
            table.add_column(head)
        for key in keys:
            for name, some in sorted(grouped(part, lambda one, key=key: key(one.point)).items()):
                ratios = [[one.ratio(metric) for one in some] for metric in METRICS]
                table.add_row(name, str(len(some)), *(error_text(each, np.ones(len(each))) for each in ratios))
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
    return [*found, *(_longer(one) for one in hwspaces.engine("sglang").slower if one.modes)]


def _longer(rule: Slower) -> Added:
    """The time by which steps of SGLang take longer in some modes."""

    def holds(point: ServingPoint) -> bool:
        modes = {
            "drafting": point.drafting,
            "groups": point.layout.groups > 1.0,
            "experts": point.layout.ep > 1.0,
        }
        version = point.launch.engine.partition("@")[2] or hwspaces.engine("sglang").version
        has = frozenset(name for name, there in modes.items() if there)
        return point.engine == "sglang" and rule.holds(version, point.vendor, point.hardware.matrix, has)

    return Added(
        f"sglang: slower, {rule.vendor}, {', '.join(sorted(rule.modes))}",
        "tpot",
        rule.step_time,
        tuple(0.5e-3 * step for step in range(31)),
        holds,
        lambda one: 1.0 / steps_tokens(one.point),
    )


def steps_tokens(point: ServingPoint) -> float:
    """Tokens that a step of a point's deployment adds to a sequence."""
    tokens, reached = 1.0, 1.0
    if not point.drafting:
        return tokens
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
        part, out = ([each for each in own if group(each.point) == side] for side in ("fitted", "left out"))
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
    flag("--clients", type=float, default=MANY, metavar="N", help=f"rows with at most N clients (default: {MANY:g})"),
    flag("--all", action="store_true", help="also groups of many clients, and of prompts that came too fast"),
    flag("--imbalance", type=float, metavar="RATIO", help="in place of the one of the launches, where there is one"),
)
def main(options: argparse.Namespace) -> None:
    """Simulate, and print."""
    compilation_cache()
    console = Console(width=150)
    every = list(read(options.data, np.inf if options.all else options.clients, options.all))
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
