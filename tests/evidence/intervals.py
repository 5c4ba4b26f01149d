"""Coverage and width of 90 % intervals by distance from the evidence: `python -m tests.evidence.intervals --data DIR`.

Near: devices whose kernels were measured. A new generation: each architecture of GPUs by constants that were fitted
without it, its interval by a growth that was chosen without it. A new kind: accelerators that are no GPUs.
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.timing import NINETY_PERCENT
from jaxroof.jobs.job import CORRELATION
from jaxroof.numerics.arrays import eager
from jaxroof.prices.prices import visible_host_time
from jaxroof.step.placed import device_ops
from jaxroof.step.step import HOST, beyond_of, deviations_of, times_of
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving.serving_points import ServingPoint, points
from sweeps.measure.validate.serving.suspects import checked
from tests.evidence import other_devices, published_rates
from tests.evidence.harness import command, data, flag, several
from tests.evidence.hulls import Measured, errors_of, evidence, fitted_rows, growth, left_out, measured
from tests.evidence.inferencex_points import published
from tests.evidence.learned_fit import ENGINES, FITS, all_groups, assembled
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit
from tests.evidence.steady_loop import steady
from tests.evidence.step_tables import of_most, with_release

NEAR, GENERATION, KIND = "near", "new generation", "new kind"

OTHERS = "near, other kernels"
"""Kernels that engines do not choose by default, on devices that were measured."""

AIMED = {NEAR: 1.3, GENERATION: 1.6, KIND: 3.0}
"""Factor to either side that intervals of a distance should have."""

POINTS = 200
"""Served points of one engine, drawn with a fixed seed."""

SEEN = ("H100-SXM", "H200-SXM", "A100-SXM-80GB", "B200-SXM")
"""Devices of published rates whose kernels were measured."""

GPUS = ("data-centre GPUs", "GPUs with LPDDR", "Apple M series")
"""Kinds of machines of published rates that are GPUs."""


@dataclasses.dataclass(frozen=True)
class Judged:
    """Errors of one case, and the intervals that were claimed for them. Shapes [rows]."""

    level: str  # kernel or served
    distance: str  # a key of `AIMED`
    what: str
    low: np.ndarray  # log of measured over the interval's low end: in it where this is positive
    high: np.ndarray  # log of the interval's high end over measured
    logs: np.ndarray  # log of predicted over measured

    @property
    def covered(self) -> float:
        """Share of the rows in the interval."""
        return float(np.mean((self.low >= 0.0) & (self.high >= 0.0)))

    @property
    def factor(self) -> float:
        """Median of the factor to either side: the root of high over low end."""
        return float(np.exp(np.median(0.5 * (self.low + self.high))))


def _even(level: str, distance: str, what: str, logs: np.ndarray, half: np.ndarray) -> Judged:
    """Of intervals that reach as far to both sides of the prediction."""
    return Judged(level, distance, what, half - logs, half + logs, logs)


def kernels(folder: Path, engine: str, fits: Sequence[KernelFit]) -> Iterator[Judged]:
    """Rows of measured kernels: of every class on all devices, and on architectures left out."""
    efficiency = hwspaces.efficiency(f"learned-{engine}").efficiency
    rows = measured(all_groups(folder), engine, efficiency)
    default = {id(one) for one in fitted_rows(fits, rows)}
    for (path, chosen), own in grouped(rows, lambda one: (one.path, id(one) in default)).items():
        spread = _spread(efficiency, path)
        if spread is not None:
            errors = errors_of(own, efficiency, evidence(own))
            yield _even("kernel", NEAR if chosen else OTHERS, path, errors.logs, errors.half_widths(spread, 0.0))
    fitted: list[Measured] = measured(all_groups(folder), engine, assembled(fits))
    unseen = [one for fit in fits for one in left_out(fit, fits, fitted, assembled)]
    for one in unseen:
        spread = _spread(efficiency, one.path)
        grows = growth(one.path, [other for other in unseen if other.architecture != one.architecture])
        half = one.errors.half_widths(spread or one.inside, grows)
        yield _even("kernel", GENERATION, f"{one.path} {one.architecture}", one.errors.logs, half)


def _spread(efficiency: Efficiency, path: str) -> Any:
    kind, _, name = path.partition(".")
    return getattr(getattr(getattr(efficiency, kind), name, None), "spread", None)


def without(efficiency: Efficiency, fits: Sequence[KernelFit], device: str) -> Efficiency | None:
    """`efficiency` with the constants of kernels changed as fits without a device's architecture are, and their hulls.

    None where a class is of that architecture alone. Constants that only serving determines stay.
    """
    for fit in fits:
        kind, _, name = fit.path.partition(".")
        kernels = getattr(efficiency, kind)
        kernel = getattr(kernels, name, None)
        if kernel is None or device not in fit.devices or device not in fit.blind:
            continue
        blind = fit.blind[device]
        kernel = dataclasses.replace(_moved(kernel, fit.kernel, blind), spread=kernel.spread, hull=kernel.hull)
        efficiency = dataclasses.replace(efficiency, **{kind: dataclasses.replace(kernels, **{name: kernel})})
    return efficiency


def _moved(shipped: Any, seen: Any, blind: Any) -> Any:
    """A constant, or several in a struct or of a class of cores, times what blind fits are of those that have seen."""
    if dataclasses.is_dataclass(shipped) and not isinstance(shipped, type):
        names = [field.name for field in dataclasses.fields(shipped)]
        parts = {name: [getattr(one, name, None) for one in (shipped, seen, blind)] for name in names}
        moved = {name: _moved(*three) for name, three in parts.items()}
        return dataclasses.replace(shipped, **moved)
    if isinstance(shipped, dict):
        return {name: _moved(one, (seen or {}).get(name), (blind or {}).get(name)) for name, one in shipped.items()}
    if not isinstance(shipped, int | float) or isinstance(shipped, bool) or not seen or blind is None:
        return shipped
    return float(shipped) * float(blind) / float(seen)


def with_evidence(efficiency: Efficiency, rows: Iterable[Measured], architecture: str) -> Efficiency:
    """`efficiency` with the hulls of the rows that are not of an architecture."""
    others = [one for one in rows if ARCHITECTURES.get(one.group.device) != architecture]
    for path, own in grouped(others, lambda one: one.path).items():
        kind, _, name = path.partition(".")
        kernels = getattr(efficiency, kind)
        kernel = getattr(kernels, name)
        kernel = dataclasses.replace(kernel, hull=evidence(own, 0.0 if kernel.hull is None else kernel.hull.growth))
        efficiency = dataclasses.replace(efficiency, **{kind: dataclasses.replace(kernels, **{name: kernel})})
    return efficiency


def served(folder: Path, engine: str, fits: Sequence[KernelFit]) -> Iterator[Judged]:
    """TPOT of served points, by constants that have seen their device's kernels, and by constants that have not."""
    found = [one for one in points(folder / "e2e" / "silicon_sample.csv")[0] if one.engine == engine]
    found = [one for one in checked(found) if one.suspect is None]
    chosen = np.random.default_rng(0).permutation(len(found))[:POINTS]
    found = [found[place] for place in sorted(chosen)]
    efficiency = of_most(found)
    rows = measured(all_groups(folder), engine, assembled(fits))
    for gpu, own in grouped(found, lambda one: one.gpu).items():
        yield _judged(NEAR, f"TPOT {engine} {gpu}", own, efficiency)
        device = next(name for name in ARCHITECTURES if hwspaces.hardware(name).name == gpu)
        blind = without(efficiency, fits, device)
        if blind is not None:
            blind = with_evidence(blind, rows, ARCHITECTURES[device])
            yield _judged(GENERATION, f"TPOT {engine} {gpu}", own, blind)


def _judged(distance: str, what: str, found: Sequence[ServingPoint], efficiency: Efficiency) -> Judged:
    with eager():
        pairs = [tpot(one, efficiency) for one in found]
    times, deviations = np.array(pairs).T
    logs = np.log(times / np.array([one.tpot for one in found]))
    return _even("served", distance, what, logs, NINETY_PERCENT * deviations)


def tpot(point: ServingPoint, efficiency: Efficiency) -> tuple[float, float]:
    """TPOT of a closed loop in s as in `steady_loop`, and the standard deviation of its logarithm."""
    state, efficiency = steady(point), with_release(point, efficiency)
    decode = Decode(sequences=state.sequences, context=state.sequences * state.context)
    prompts = Prefill(sequences=state.prompts, tokens=state.prompts * state.isl, past=0.0)
    beside = None if state.apart else decode
    both = Batch(prefill=prompts, decode=beside, logits=state.prompts + (0.0 if state.apart else state.sequences))
    total, beyond, errors = 0.0, 0.0, dict[str, float]()
    # Steps without prompts, and with them.
    shares = (1.0 if state.apart else 1.0 - state.mixed, state.mixed)
    for share, batch in zip(shares, (Batch(prefill=None, decode=decode, logits=state.sequences), both), strict=True):
        ops = device_ops(point.hardware, point.model, point.deployment, batch)
        times = dict(times_of(ops, point.hardware, point.deployment, batch, efficiency))
        host, per_step = float(times.pop(HOST)), float(efficiency.host.step_time)
        device = float(sum(times.values()))
        visible = visible_host_time(device, per_step, host - per_step, float(state.hidden_host))
        total += share * (device + float(visible))
        for name, one in deviations_of(ops, point.hardware, point.deployment, efficiency).items():
            errors[name] = errors.get(name, 0.0) + share * float(one)
        beyond += share * sum(map(float, beyond_of(ops, point.hardware, point.deployment, efficiency).values()))
    each = np.array(list(errors.values()))
    square = CORRELATION * each.sum() ** 2 + (1.0 - CORRELATION) * np.sum(each * each) + beyond**2
    return total, math.sqrt(square) / total


def others(folder: Path) -> Iterator[Judged]:
    """Accelerators that are no GPUs: kernels, static batches, throughput behind engines."""
    efficiency = hwspaces.efficiency("learned").efficiency
    left: other_devices.Left = []
    found = [one for source in other_devices.SOURCES.values() for one in source(folder, efficiency, left)]
    found = [one for one in found if math.isfinite(one.spread)]
    for (case, device, metric), own in grouped(found, lambda one: (one.case, one.device, one.metric)).items():
        logs = np.array([math.log(one.predicted / one.measured) for one in own])
        half = NINETY_PERCENT * np.array([one.spread for one in own])
        level = "kernel" if case == "kernel" else "served"
        yield _even(level, KIND, f"{case}: {metric} {device}", logs, half)


def waves(folder: Path) -> Iterator[Judged]:
    """TPOT of served points on GPUs of AMD, whose kernels nobody measured; two constants are fitted to such points."""
    found = [one.point for one in published(folder)[0] if one.point.vendor == "AMD"]
    for (engine, gpu), own in grouped(found, lambda one: (one.engine, one.gpu)).items():
        yield _judged(GENERATION, f"TPOT {engine} {gpu}", own[:POINTS], of_most(own))


def machines() -> Iterator[Judged]:
    """Published token rates, by kind of machine."""
    found = [published_rates.predicted(one) for one in published_rates.rates() if one.kind == "judged"]
    for (maker, distance), own in grouped(found, _machine).items():
        low, high, rate, published = (
            np.log([read(one) for one in own])
            for read in (lambda x: x.low, lambda x: x.high, lambda x: x.rate, lambda x: x.row.rate)
        )
        yield Judged(
            "served", distance, f"published rates: {maker}", published - low, high - published, rate - published
        )


def _machine(one: published_rates.Predicted) -> tuple[str, str]:
    """Kind of the machine of a published rate, and its distance."""
    maker = published_rates.family(one.row.hardware)
    return maker, NEAR if one.row.hardware in SEEN else GENERATION if maker in GPUS else KIND


@command(
    data("folder with kernels/, kernels3/, e2e/ and serving2/"),
    several("--engine", ENGINES, "whose constants (default: all)"),
    flag("--plot", metavar="FILE", help="a picture of coverage and width"),
)
def main(options: argparse.Namespace) -> None:
    """Fit each engine's kernels with every architecture left out, judge, print."""
    found: list[Judged] = []
    for engine in options.engine or ENGINES:
        fits = [one for each in FITS for one in each(options.data, engine)]
        found += [*kernels(options.data, engine, fits), *served(options.data, engine, fits)]
    found += [*waves(options.data), *others(options.data), *machines()]
    console = Console(width=140)
    console.print(_table("Intervals of 90 %", found))
    console.print(_table("Means of cases by distance", found, means=True))
    if options.plot:
        picture(found, Path(options.plot))


def _table(title: str, found: Sequence[Judged], means: bool = False) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("level", "distance", "case", "rows", "median error, %", "covered, %", "factor"):
        table.add_column(name)
    for (level, distance), own in grouped(found, lambda one: (one.level, one.distance)).items():
        if not means:
            for one in own:
                table.add_row(level, distance, one.what, *_words([one]))
        else:
            aim = f", aimed at {AIMED[distance]:g}" if distance in AIMED else ""
            table.add_row(level, distance, f"{len(own)} cases{aim}", *_words(own))
    return table


def _words(found: Sequence[Judged]) -> list[str]:
    error = np.mean([np.median(np.abs(np.expm1(one.logs))) for one in found])
    covered, factor = np.mean([one.covered for one in found]), np.mean([one.factor for one in found])
    rows = sum(len(one.logs) for one in found)
    return [f"{rows:,}", f"{100 * error:.1f}", f"{100 * covered:.0f}", f"{factor:.2f}"]


def picture(found: Sequence[Judged], path: Path) -> None:
    """Coverage against width, one mark per case, by level and distance."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.4), layout="constrained")
    for axes, level in zip(figure.subplots(1, 2, sharey=True), ("kernel", "served"), strict=True):
        for number, distance in enumerate(AIMED):
            own = [one for one in found if (one.level, one.distance) == (level, distance)]
            axes.scatter([one.factor for one in own], [100 * one.covered for one in own], s=14, color=f"C{number}")
            axes.plot([], [], "o", color=f"C{number}", label=distance)
            axes.axvline(AIMED[distance], color=f"C{number}", linewidth=0.7, linestyle=":")
        axes.axhspan(85, 95, color="0.9", zorder=0)
        axes.set(xscale="log", xlabel="factor to either side", title=f"{level}, a mark per case")
        axes.set_xticks([1.1, 1.3, 1.6, 2, 3, 5], ["1.1", "1.3", "1.6", "2", "3", "5"])
        axes.minorticks_off()
    axes.legend(loc="lower right", fontsize=8)
    figure.axes[0].set_ylabel("rows in the interval, %")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
