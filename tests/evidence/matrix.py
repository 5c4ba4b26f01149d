"""All scores of measured data by kind, what ran, device, engine and date: `python -m tests.evidence.matrix --data DIR`.

A score is of rows that constants were fitted to, or of rows that they were not; the two never share a line. It goes
into a dataset, `evidence.nc`, and onto a page.
"""

import argparse
import functools
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

import hwspaces
from hwspaces.files import unfinished
from jaxroof.efficiency.timing import NINETY_PERCENT
from sweeps.measure.validate.collective_errors import collective_errors, kind_name
from sweeps.measure.validate.die_areas import die_areas
from sweeps.measure.validate.kernel_errors import kernel_errors, learned_name
from sweeps.measure.validate.kernel_power import power_scores
from sweeps.measure.validate.relative_errors import errors, grouped
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.measure.validate.serving.scores import throughput
from sweeps.measure.validate.serving.serving_points import points
from sweeps.measure.validate.single_requests import request_errors
from sweeps.measure.validate.training_passes import measured_passes, scored_passes
from tests.evidence import inferencex_points, link_fit, mlenergy, other_devices, saturated_throughput
from tests.evidence.engine_constants import engine_efficiencies
from tests.evidence.harness import command, data, flag, several
from tests.evidence.training_rows import training_runs
from tests.evidence.training_runs import scored_runs

KERNELS, SAMPLE, RUNS = "kernels", "e2e/silicon_sample.csv", "e2e/tam_ground_truth.csv"
PROFILES = "other/vidur_llmcompass_collectives.csv"

LABELS = ("kind", "case", "device", "engine", "date")
"""What scores are told apart by; `date` is the day of a measurement, or the version of an engine or library."""

FIGURES = {
    "rows": "measured values",
    "median": "median of the absolute errors, predicted / measured - 1",
    "mape": "mean of the absolute errors",
    "signed": "median of the errors",
    "coverage": "share of the values inside the 90 % interval, where one is stated",
}


class Part(NamedTuple):
    """Measured values that share all labels, and their predictions in the same unit; arrays of shape [rows]."""

    kind: str
    case: str
    device: str
    engine: str
    date: str
    fitted: bool  # whether constants of the predictions were fitted to them
    predicted: np.ndarray
    measured: np.ndarray
    spread: np.ndarray | float = math.nan  # claimed standard deviation of the logarithm


Source = Callable[[Path], Iterable[Part]]


def kernels(data: Path) -> Iterator[Part]:
    """Single kernels; fitted are those of devices that the provenance of the engine's constants names."""
    fitted_devices = functools.cache(_fitted_devices)
    for one in kernel_errors(data / KERNELS).scored:
        group = one.group
        device = hwspaces.hardware(group.device).name
        fitted = device in fitted_devices(learned_name(group.engine))
        labels = f"{group.family} {group.precision}", device, group.engine, group.version
        yield Part("kernels", *labels, fitted, one.seconds, group.seconds, one.spread)


def _fitted_devices(efficiency: str) -> frozenset[str]:
    """Devices whose kernels constants were fitted to, by their sources: "... on h100_sxm, l40s (aiconfigurator"."""
    texts = hwspaces.efficiency(efficiency).sources.values()
    lists = [found[1].split(", ") for text in texts if (found := re.search(r" on ([\w, ]+) \(aiconfigurator", text))]
    return frozenset(hwspaces.hardware(name).name for names in lists for name in names)


def collectives(data: Path) -> Iterator[Part]:
    """Collectives of tables and profiles; what a fit of links has seen is fitted."""
    for file in (f"{KERNELS}/aic_comm.csv", PROFILES):
        scored = collective_errors(data / file).scored
        seen = {id(row) for row in link_fit.fittable([one.row for one in scored])}
        for one in scored:
            row = one.row
            labels = f"{kind_name(row)} {row.mode}", row.device, row.family, row.version
            yield _single("collectives", *labels, id(row) in seen, one.predicted, row.seconds)


def power(data: Path) -> Iterator[Part]:
    """Board power of single kernels from their measured times, where the meter was filled."""
    for one in power_scores(data / KERNELS)[0]:
        group = one.group
        labels = one.label, hwspaces.hardware(group.device).name, group.engine, group.version
        for fitted in (True, False):
            rows = one.filled & (one.held_out != fitted)
            yield Part("power", *labels, fitted, one.power[rows], one.measured[rows])


def energy(data: Path) -> Iterator[Part]:
    """Served models in steady decoding; energies were fitted to the power of half of them at the measured time."""
    for one in mlenergy.predicted(data):
        for name, (predicted, measured) in mlenergy.FIGURES.items():
            labels = f"{name} {one.steady.model}", one.steady.row.gpu, one.steady.row.engine, ""
            yield _single("energy", *labels, not one.steady.held_out, predicted(one), measured(one))


def requests(data: Path) -> Iterator[Part]:
    """Requests that were served one at a time, which no fit sees."""
    for one in request_errors(data / RUNS, hwspaces.efficiency("learned").efficiency).scored:
        for metric, measured in one.served.measured.items():
            labels = f"{metric} {one.served.model}", one.served.gpu, "vllm", ""
            yield _single("single requests", *labels, False, one.predicted[metric], measured)


def served(data: Path) -> Iterator[Part]:
    """Served models whose labels nothing speaks against: TPOT on Hopper is fitted, all else is not."""
    found, _ = points(data / SAMPLE)
    for one in attempted(found)[0]:
        point = one.point
        if point.suspect is None:
            hopper = hwspaces.hardware(point.gpu).architecture == "Hopper"
            for metric in ("ttft", "tpot", "throughput"):
                labels = f"{metric} {point.model_name}", point.gpu, point.engine, point.date
                yield _single("served models", *labels, metric == "tpot" and hopper, one.ratio(metric), 1.0)


def dated(data: Path) -> Iterator[Part]:
    """Served models of InferenceX by day: TTFT is the median, TPOT the mean where there is one."""
    found, _ = inferencex_points.published(data)
    known = {one.point.row: one for one in attempted([one.point for one in found])[0]}
    for run in found:
        point, one = run.point, known.get(run.point.row)
        if one is None or one.median_ttft is None:
            continue
        rate = throughput(point, one.ttft, one.tpot) / throughput(point, point.ttft, point.tpot)
        values = {
            "ttft": (one.median_ttft, run.median_ttft),
            "tpot": (one.tpot, point.tpot),
            "throughput": (rate, 1.0),
        }
        for metric, pair in values.items():
            labels = f"{metric} {point.model_name} {run.precision}", point.gpu, run.framework, point.date
            yield _single("served models by day", *labels, False, *pair)


def saturated(data: Path) -> Iterator[Part]:
    """Output tokens/s of saturated engines."""
    efficiencies = engine_efficiencies()
    for read in saturated_throughput.SOURCES.values():
        for one in saturated_throughput.found(read(data, efficiencies), efficiencies):
            row = one.row
            labels = f"{row.source}, {'30 B and more' if row.large else 'fewer'}", row.gpu, row.engine, ""
            yield _single("saturated throughput", *labels, False, one.predicted, row.tokens_per_second)


def others(data: Path) -> Iterator[Part]:
    """Accelerators that are not GPUs; a fit of links has seen static batches, and shares of arrays single products."""
    efficiency = hwspaces.efficiency("learned").efficiency
    for read in other_devices.SOURCES.values():
        for one in read(data, efficiency, []):
            labels = f"{one.case}, {one.metric}", one.device, "", ""
            found = _single("other accelerators", *labels, one.fitted, one.predicted, one.measured)
            yield found._replace(spread=one.spread)


def training(data: Path) -> Iterator[Part]:
    """Passes of whole models in fp32 PyTorch, which the fit of its kernels does not see."""
    for one in scored_passes(measured_passes(data / RUNS)[0], hwspaces.efficiency("eager_fp32").efficiency):
        label = one.label
        labels = f"{label.mode} {label.model}", label.gpu, "pytorch", ""
        yield _single("training passes", *labels, False, one.forward + one.backward, label.total)


def runs(data: Path) -> Iterator[Part]:
    """Iterations of published training runs, which no fit sees."""
    found, _ = training_runs(data)
    for one in scored_runs(found, hwspaces.efficiency("learned").efficiency):
        run = one.run
        labels = f"{run.case} {run.precision}", run.device, run.engine, ""
        yield _single("training runs", *labels, False, one.predicted, run.seconds)


def areas(data: Path) -> Iterator[Part]:
    """Dies of published size; those that are upper limits are left out."""
    known = {one.die: one for one in die_areas() if not one.limit}
    for one in known.values():
        yield _single("die area", "die", one.die, "", "", one.fitted, one.predicted, one.known)


def _single(kind: str, case: str, device: str, engine: str, date: str, fitted: bool, *values: float) -> Part:
    predicted, measured = (np.array([value]) for value in values)
    return Part(kind, case, device, engine, date, fitted, predicted, measured)


SOURCES: dict[str, Source] = {
    "kernels": kernels,
    "collectives": collectives,
    "power": power,
    "energy": energy,
    "requests": requests,
    "training": training,
    "runs": runs,
    "areas": areas,
    "saturated": saturated,
    "others": others,
    "served": served,
    "dated": dated,
}
"""Name on the command line -> its rows."""


def scores(parts: Iterable[Part]) -> xr.Dataset:
    """Errors of rows that agree in all of `LABELS` and in whether they were fitted, along `score`."""
    groups = grouped(parts, lambda part: part[: len(LABELS) + 1])
    keys = sorted(groups)
    figures = np.array([_figures(groups[key]) for key in keys]).reshape(-1, len(FIGURES))
    columns = {name: np.array([key[i] for key in keys], object) for i, name in enumerate(LABELS)}
    columns["fitted"] = np.array([key[-1] for key in keys], bool)
    return xr.Dataset(
        {name: ("score", figures[:, i], {"long_name": words}) for i, (name, words) in enumerate(FIGURES.items())},
        {name: ("score", column) for name, column in columns.items()},
    )


def _figures(parts: Sequence[Part]) -> tuple[float, ...]:
    predicted, measured = (np.concatenate([getattr(p, name) for p in parts]) for name in ("predicted", "measured"))
    spread = np.concatenate([np.broadcast_to(part.spread, part.measured.shape) for part in parts])
    found, known = errors(predicted, measured), np.isfinite(spread)
    inside = np.abs(np.log(predicted[known] / measured[known])) <= NINETY_PERCENT * spread[known]
    return len(measured), found.median, found.mape, found.signed, float(np.mean(inside)) if known.any() else math.nan


def page(parts: Sequence[Part]) -> str:
    """Tables in Markdown of every kind: by device and engine, and by what ran; rows are pooled over dates."""
    lines = [PREFACE]
    for kind, own in grouped(parts, lambda part: part.kind).items():
        lines.append(f"## {kind[0].upper()}{kind[1:]}\n")
        lines += _table(("device", "engine"), own, lambda part: (part.device, part.engine or "-"))
        lines += _table(("what ran",), own, lambda part: (part.case,))
    return "\n".join(lines)


PREFACE = """# Errors on measured data

Every measured row of the evidence against its prediction under `learned`, in %: median and mean of the absolute errors,
median of the errors with their sign, and the share of rows inside the stated 90 % interval. Constants were fitted to
the *fitted* rows or to some of them, so their errors are no accuracy; *left out* are all others. `make evidence
DATA=DIR` writes this page, and `evidence.nc` with a score for every case, device, engine and date.
"""

SIDES = {False: "left out", True: "fitted"}


def _table(heads: tuple[str, ...], parts: Sequence[Part], label: Callable[[Part], tuple[str, ...]]) -> Iterator[str]:
    """Lines of one table, rows that were fitted beside those that were not."""
    columns = [*heads]
    for words in SIDES.values():
        columns += [f"{words}: rows", "median, MAPE", "signed", "in 90 %"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for names, members in sorted(grouped(parts, label).items()):
        sides = [_cells([part for part in members if bool(part.fitted) == fitted]) for fitted in SIDES]
        yield f"| {' | '.join((*names, *sides))} |"
    yield ""


def _cells(parts: Sequence[Part]) -> str:
    if not parts:
        return " | ".join(" " * 4)
    rows, median, mape, signed, covered = _figures(parts)
    inside = "-" if math.isnan(covered) else f"{100 * covered:.0f}"
    return f"{rows:,} | {100 * median:.1f}, {100 * mape:.1f} | {100 * signed:+.1f} | {inside}"


@command(
    data("folder with kernels/, e2e/ and other/"),
    several("--only", SOURCES, "these rows alone"),
    flag("-o", "--output", type=Path, default=Path("evidence.nc"), help="dataset, and page as .md"),
)
def main(options: argparse.Namespace) -> None:
    """Score, print progress, write dataset and page; returns the exit status."""
    parts: list[Part] = []
    for name in options.only or SOURCES:
        begun, before = time.perf_counter(), len(parts)
        parts += [part for part in SOURCES[name](options.data) if len(part.measured)]
        rows = sum(len(part.measured) for part in parts[before:])
        print(f"{name}: {rows:,} rows in {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    found = scores(parts)
    text, paper = page(parts), options.output.with_suffix(".md")
    for file, write in ((options.output, found.to_netcdf), (paper, lambda path: path.write_text(text))):
        part = unfinished.begun(file)
        write(part)
        unfinished.adopted(part, file)
    print(f"{options.output} and {paper}: {found.sizes['score']:,} scores")


if __name__ == "__main__":
    sys.exit(main())
