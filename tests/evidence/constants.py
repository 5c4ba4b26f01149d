"""Constants fitted to served points, with what each is worth on rows it has not seen: `--data DIR`.

Left out are a model, a device, a release, an engine and a layout in turn: the constant is fitted again to the other
rows, everything else as it is, and the left-out rows are judged with it and with the neutral value. TPOT is by the
closed form (`tests.evidence.steady_loop`), TTFT by simulations of some of the rows, which are kept in a folder.
"""

import argparse
import dataclasses
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from jaxroof.efficiency import Efficiency
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.measure.validate.serving.launches import ENGINES
from sweeps.measure.validate.serving.serving_points import ServingPoint, points
from sweeps.measure.validate.serving.suspects import checked
from sweeps.run.compile_cache import compilation_cache
from sweeps.run.precision import precision
from tests.evidence.harness import command, data, flag
from tests.evidence.inferencex_points import published
from tests.evidence.left_out import PLACES as TRIED
from tests.evidence.left_out import Judged, Response, errors, helps, judged, nearest, together
from tests.evidence.served_constants import KERNELS, Added, OfKernels, added, simulated
from tests.evidence.serving_fit import Task, task
from tests.evidence.steady_loop import tpot
from tests.evidence.step_tables import of_most, summed, timed, with_release

SAMPLE = "e2e/silicon_sample.csv"

MOVED = 2e-3
"""Change of a prediction between the neutral value and today's from which on a row speaks of a constant."""

FEWEST = 8
"""Rows of which a constant is judged at least."""

PLACES = (0.0, 1.0, 1.5)

CLIENTS = 256.0
"""Of a row that is simulated, at most."""


class Row(NamedTuple):
    """One measured point, with the time to the first token that its file has."""

    point: ServingPoint
    ttft: float  # s
    median: bool


class Line(NamedTuple):
    """One constant in the register."""

    name: str
    engine: str
    scope: str
    value: str
    fitted: str  # anew to all rows alone, everything else as it is
    neutral: str
    rows: int
    judged: Mapping[str, Judged | None]  # what was left out -> errors

    @property
    def kept(self) -> bool:
        return helps(self.judged)


LABELS = {
    "model": lambda point: "DeepSeek" if point.model_name.startswith("DeepSeek") else point.model_name,
    "device": lambda point: point.gpu,
    "release": lambda point: point.launch.engine,
    "engine": lambda point: point.engine,
    "layout": lambda point: f"{point.layout.tp:g} {point.layout.ep:g} {point.layout.groups:g}",
}
"""What is left out -> its value for a point; R1 and V3 of DeepSeek are one architecture."""


def measured(folder: Path) -> list[Row]:
    """Trusted rows of the silicon sample, and InferenceX's by day."""
    found = [Row(one, one.ttft, False) for one in checked(points(folder / SAMPLE)[0]) if one.suspect is None]
    return [*found, *(Row(one.point, one.median_ttft, True) for one in published(folder)[0])]


# TPOT: closed form.


@dataclasses.dataclass(frozen=True)
class Loop:
    """All rows of one engine, and what the closed form needs of them."""

    rows: Sequence[ServingPoint]
    task: Task
    efficiency: Efficiency

    def ratios(self, efficiency: Efficiency) -> np.ndarray:
        """Predicted TPOT over measured, with what releases add to a step, shape [rows]."""
        given = self.task
        first = {place: self.rows[i] for i, place in reversed(list(enumerate(given.places)))}
        units = [dataclasses.replace(unit, efficiency=efficiency) for unit in given.units]
        times = timed(units, given.groups, given.size)
        own = [dataclasses.replace(u, efficiency=with_release(first[i], efficiency)) for i, u in enumerate(units)]
        known = [summed(unit, each, given.size) for unit, each in zip(own, times, strict=True)]
        found = [tpot(load, known[place]) for load, place in zip(given.loads, given.places, strict=True)]
        return np.asarray(found) / given.measured


def loop(rows: Sequence[Row], engine: str) -> Loop:
    """The rows of one engine, compiled."""
    own = [row.point for row in rows if row.point.engine == engine]
    efficiency = of_most(own)
    return Loop(own, task(own, efficiency), efficiency)


Answer = tuple[list[ServingPoint], list[np.ndarray]]
"""Points of some engines, and their ratios at every one of `PLACES`."""


def of_kernels(rows: Sequence[Row], engines: Sequence[str], console: Console) -> Iterator[Line]:
    """Every constant of the engines' efficiencies; of those that several share, the rows of all.

    What all constants of an engine do together is printed.
    """
    answers: dict[OfKernels, Answer] = {}
    for engine in engines:
        own = loop(rows, engine)
        now, slopes = own.ratios(own.efficiency), []
        for one in KERNELS:
            if engine in one.engines and one.value(own.efficiency) is not None:
                ends = [own.ratios(one.at(own.efficiency, place)) for place in (PLACES[0], PLACES[-1])]
                points, columns = answers.setdefault(one, ([], []))
                points.extend(own.rows)
                columns.append(np.stack([ends[0], now, ends[1]]))
                slopes.append((ends[1] - now) / (PLACES[-1] - 1.0))
        for rule in added():
            if rule.metric == "tpot" and rule.name.startswith(engine):
                share = np.array([rule.value / point.tpot if rule.holds(point) else 0.0 for point in own.rows])
                slopes.append(share)
                yield _added(rule, own.rows, Response((0.0, 1.0, 2.0), np.stack([now - share, now, now + share])))
        console.print(f"{engine}: TPOT of {len(now)} rows, median/MAPE in %: as it is {_text(np.log(now))}")
        for name in ("model", "device", "release"):
            left_out = together(now, np.stack(slopes, axis=1), [LABELS[name](point) for point in own.rows])
            console.print(f"  {len(slopes)} constants fitted together, {name} left out: {_text(left_out)}")
    for one, (points, columns) in answers.items():
        yield _line(one, points, Response(PLACES, np.concatenate(columns, axis=1)))


def _text(logs: np.ndarray) -> str:
    return "{:.1f}/{:.1f}".format(*errors(logs))


def _line(one: OfKernels, points: Sequence[ServingPoint], response: Response) -> Line:
    value = one.value(hwspaces.efficiency(hwspaces.engine(one.engines[0]).efficiency).efficiency)
    near, *found = _judged(response, points)
    texts = f"{value:.3g}", f"{one.neutral + near * (value - one.neutral):.3g}", f"{one.neutral:.3g} ({one.why})"
    return Line(one.name, ", ".join(one.engines), one.scope, *texts, *found)


def _added(one: Added, points: Sequence[ServingPoint], response: Response) -> Line:
    engine, _, name = one.name.partition(": ")
    near, *found = _judged(response, points)
    texts = [
        f"{1e3 * value:.3g} ms" if one.unit == "ms" else f"{value:.3g} steps" for value in (one.value, near * one.value)
    ]
    return Line(name, engine, one.scope, *texts, "0", *found)


def _judged(response: Response, rows: Sequence[ServingPoint]) -> tuple[float, int, dict[str, Judged | None]]:
    """The place that is nearest for all rows that it moves, their number, and what was left out."""
    moved = np.abs(response.ratios[0] / response.ratios[1] - 1.0) > MOVED
    own = [row for row, one in zip(rows, moved, strict=True) if one]
    if len(own) < FEWEST:
        return 1.0, len(own), dict.fromkeys(LABELS)
    part = Response(response.places, response.ratios[:, moved])
    found = {name: judged(part, [label(row) for row in own]) for name, label in LABELS.items()}
    return float(TRIED[nearest(part.logs())]), len(own), found


# TTFT: simulated rows, and times that add to them.


def simulated_ratios(rows: Sequence[Row], every: int, kept: Path) -> list[tuple[Row, float]]:
    """One row of `every`, by a hash of it, with its predicted TTFT over the measured one."""
    chosen = [row for row in rows if row.point.concurrency <= CLIENTS and _hash(row) % every == 0]
    text = repr([row.point.spec.text() for row in chosen]) + _constants()
    file = kept / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not file.exists():
        found = {(one.point.row, one.point.id): one for one in attempted([row.point for row in chosen])[0]}
        kept.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([(*key, one.ttft, one.median_ttft) for key, one in found.items()]))
    times = {(row, name): pair for row, name, *pair in json.loads(file.read_text())}
    known = [(row, times.get((row.point.row, row.point.id))) for row in chosen]
    return [(row, pair[row.median] / row.ttft) for row, pair in known if pair is not None]


def _hash(row: Row) -> int:
    return int(hashlib.sha256(f"{row.point.row} {row.point.id}".encode()).hexdigest()[:8], 16)


def _constants() -> str:
    """All that stands in files of engines, efficiencies and suites."""
    folders = Path(hwspaces.__file__).parent, Path(sys.modules[attempted.__module__].__file__ or "").parent
    files = sorted(file for folder in folders for file in folder.rglob("*.toml"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def of_first_tokens(found: Sequence[tuple[Row, float]]) -> Iterator[Line]:
    """Every time that adds to the first token."""
    now = np.array([ratio for _, ratio in found])
    for one in added():
        if one.metric != "ttft":
            continue
        share = np.array([_share(one, row) for row, _ in found])
        response = Response((0.0, 1.0, 2.0), np.stack([now - share, now, now + share]))
        yield _added(one, [row.point for row, _ in found], response)


def _share(one: Added, row: Row) -> float:
    if not one.holds(row.point):
        return 0.0
    return (one.median_share if row.median else one.mean_share) * one.seconds(row.point) / row.ttft


# Classes of kernels, coarser: by their own sources.


def classes() -> Iterator[tuple[str, str, int, str]]:
    """Engine, class of kernels, its numbers, and its errors with an architecture left out, as their source says."""
    for engine in ENGINES:
        sources = hwspaces.efficiency(hwspaces.engine(engine).efficiency).sources
        for kind, names in grouped(sources, lambda name: ".".join(name.split(".")[:2])).items():
            found = [one for name in names if (one := re.search(r"architecture left out: (.*)$", sources[name]))]
            if found:
                yield engine, kind, len(found), found[0][1]


# The table, and the page.

HEADS = (
    "constant",
    "engine",
    "scope",
    "value",
    "fitted anew",
    "neutral",
    "rows",
    *(f"{name} out" for name in LABELS),
    "helps",
)


def cells(line: Line) -> tuple[str, ...]:
    """One line of the table: errors without the constant and with it, median/MAPE in %."""
    texts = [
        "-" if one is None else "{:.1f}/{:.1f} to {:.1f}/{:.1f}".format(*one.without, *one.fitted)
        for one in line.judged.values()
    ]
    unknown = all(one is None for one in line.judged.values())
    return (*line[:6], str(line.rows), *texts, "not known" if unknown else "yes" if line.kept else "no")


def page(lines: Sequence[Line]) -> str:
    """The table in Markdown."""
    out = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    out += [f"| {' | '.join(cells(line))} |" for line in lines]
    out += ["", "| constant | scope | value | judged by |", "|---|---|---|---|"]
    out += [f"| {one.name} | {one.scope} | {one.value} | `{one.command}` |" for one in simulated()]
    return "\n".join(out) + "\n"


@command(
    data("folder with e2e/ and serving2/"),
    flag("--every", type=int, default=4, metavar="N", help="simulate one row of N for TTFT (default: 4)"),
    flag("--engine", action="append", choices=ENGINES, help="kernels and host of this engine (default: all)"),
    flag("--kept", type=Path, default=Path(tempfile.gettempdir()) / "jaxroof-constants", metavar="DIR", help="runs"),
    flag("-o", "--output", type=Path, metavar="FILE.md", help="also write the tables to this page"),
)
def main(options: argparse.Namespace) -> None:
    """Judge, and print."""
    compilation_cache()
    console, lines = Console(width=200), []
    table = Table(*HEADS, title="served constants: errors of left-out rows without and with, median/MAPE in %")
    with precision("float64"):
        rows = measured(options.data)
        lines += of_kernels(rows, options.engine or ENGINES, console)
    lines += of_first_tokens(simulated_ratios(rows, options.every, options.kept))
    for line in lines:
        table.add_row(*cells(line))
    console.print(table)
    others = list(simulated())
    console.print(f"{len(lines) + len(others)} constants, {len(others)} of them judged by simulations:")
    for one in others:
        console.print(f"  {one.name}, {one.scope}: {one.value}, tests.evidence.{one.command}")
    coarse = Table("engine", "kernels", "numbers", "architecture left out, median/mean")
    for engine, name, count, words in classes():
        coarse.add_row(engine, name, str(count), words)
    console.print(coarse)
    if options.output is not None:
        options.output.write_text(page(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
