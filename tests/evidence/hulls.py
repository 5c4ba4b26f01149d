"""Hulls of fitted kernels, and the growth of errors outside of them with each architecture left out."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from hwspaces.performance.kernel_tables import hull_of
from jaxroof.efficiency import Efficiency, Kernels
from jaxroof.efficiency.hull import FEATURES, Hull, hull_distance
from jaxroof.efficiency.kernels import class_of
from jaxroof.efficiency.timing import NINETY_PERCENT, SHORT, Spread
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import eager
from jaxroof.op import KINDS, AnyOp, Kernel
from jaxroof.roofline import least_time, op_time
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import grouped
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit

ROWS = 400
"""Of each group of rows, drawn with a fixed seed, whose errors are looked at."""

GROWTHS = np.concatenate([[0.0], np.geomspace(0.02, 2.0, 41)])
"""Growths that are tried, standard deviations of log errors."""

MISSED = 20.0
"""Weight of what an interval misses in its score: 2 over the share of rows that one of 90 % may miss (Winkler)."""

SAME_KIND, ANY_KIND = 0.1, 0.02
"""Weights of a left-out architecture of another class in the growth of a class: of the same kind of op, of others."""


Assembled = Callable[[Sequence[KernelFit]], Efficiency]
"""The efficiency that fits of kernels make up."""


class Measured(NamedTuple):
    """Rows of one class of kernels on one device."""

    path: str  # "linear.wide"
    group: KernelGroup
    ops: tuple[Kernel, ...]  # those of the class, with columns as leaves


class Errors(NamedTuple):
    """Errors of some constants on rows, and how far these are from the hull of the constants. Shapes [rows]."""

    logs: np.ndarray  # log(predicted / measured)
    distances: np.ndarray  # octaves
    weights: np.ndarray  # rows that each stands for
    losses: np.ndarray  # share of the predicted time that is beyond the datasheet's bound
    short: np.ndarray  # bool: predicted below `SHORT`

    @classmethod
    def of(
        cls,
        seconds: np.ndarray,
        measured: np.ndarray,
        least: np.ndarray,
        distances: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> "Errors":
        """Of predicted and measured s, the datasheet's bound in s, and octaves; each row weighs 1 by default."""
        return cls(
            logs=np.log(seconds / measured),
            distances=distances,
            weights=np.ones(len(seconds)) if weights is None else weights,
            losses=1.0 - np.minimum(least / seconds, 1.0),
            short=seconds < SHORT,
        )

    @classmethod
    def joined(cls, parts: Iterable["Errors"]) -> "Errors":
        """Rows of several groups one after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def chosen(self, rows: np.ndarray) -> "Errors":
        """Some of the rows."""
        return Errors(*(column[rows] for column in self))

    def deviation(self) -> float:
        """Standard deviation whose normal distribution has as much as 90 % of the rows within."""
        order = np.argsort(np.abs(self.logs))
        reached = np.cumsum(self.weights[order]) / self.weights.sum()
        return float(np.abs(self.logs)[order][np.searchsorted(reached, 0.9)] / NINETY_PERCENT)

    def spread(self) -> Spread:
        """The same of short and of long rows; of all where a regime has few."""
        own = [self.chosen(self.short == short) for short in (True, False)]
        short, long = (one.deviation() if len(one.logs) >= FEW else self.deviation() for one in own)
        return Spread(short=short, long=long)

    def distance(self) -> float:
        """Mean octaves."""
        return float(np.average(self.distances, weights=self.weights))

    def half_widths(self, inside: Spread, growth: float) -> np.ndarray:
        """Half the 90 % interval of the logarithm: `jaxroof.roofline.op_deviation` of one kind of cores."""
        sure = np.where(self.short, inside.short, inside.long)
        beyond = growth * self.distances / np.sqrt(1.0 + self.distances**2) * self.losses
        return NINETY_PERCENT * np.hypot(sure, beyond)

    def covered(self, inside: Spread, growth: float) -> float:
        """Share of the rows within the interval."""
        return float(np.average(np.abs(self.logs) <= self.half_widths(inside, growth), weights=self.weights))

    def width(self, inside: Spread, growth: float) -> float:
        """Factor to either side, median of the rows."""
        return float(np.exp(np.median(self.half_widths(inside, growth))))

    def score(self, inside: Spread, growth: float) -> float:
        """Mean width of the interval with `MISSED` times what it misses: less is better."""
        half = self.half_widths(inside, growth)
        each = 2.0 * half + MISSED * np.maximum(np.abs(self.logs) - half, 0.0)
        return float(np.average(each, weights=self.weights))


FEW = 100
"""Rows below which a regime says nothing of its own."""


class LeftOut(NamedTuple):
    """One architecture that the constants of a class have not seen."""

    path: str  # of the class
    architecture: str
    inside: Spread  # of constants that have seen it, on the same rows
    errors: Errors
    scores: np.ndarray  # of every one of `GROWTHS`

    @classmethod
    def of(cls, path: str, architecture: str, inside: Spread, errors: Errors) -> "LeftOut":
        """With its scores."""
        return cls(path, architecture, inside, errors, np.array([errors.score(inside, one) for one in GROWTHS]))


def measured(groups: Iterable[KernelGroup], engine: str, efficiency: Efficiency) -> list[Measured]:
    """The engine's rows by the class that prices them: of lone kernels, on devices that have their precision."""
    found = []
    for group in groups:
        if group.engine != engine or group.table is not None:
            continue
        with eager():
            ops = group.call(group.columns)
        shaped = [op for op in ops if isinstance(op, Kernel) and op.shape is not None]
        first = shaped[0]
        if first.precision not in hwspaces.hardware(group.device).hardware.matrix:
            continue
        entry = getattr(efficiency, first.kind)
        assert isinstance(entry, Kernels)
        kept = tuple(op for op in shaped if op.kind == first.kind)
        found.append(Measured(f"{first.kind}.{class_of(entry, first)}", group, kept))
    return found


def fitted_rows(fits: Sequence[KernelFit], rows: Iterable[Measured]) -> list[Measured]:
    """Rows of the devices, kernels and releases that the fits of their classes are of."""
    by_path = {fit.path: fit for fit in fits}
    return [one for one in rows if one.path in by_path and by_path[one.path].covers(one.group)]


def evidence(rows: Iterable[Measured], growth: float = 0.0) -> Hull:
    """The hull of some rows."""
    return hull_of(((op, hwspaces.hardware(one.group.device).hardware) for one in rows for op in one.ops), growth)


def errors_of(rows: Sequence[Measured], efficiency: Efficiency, hull: Hull) -> Errors:
    """Errors and distances of some of the rows."""
    return Errors.joined(_errors(one, efficiency, hull) for one in rows)


def _errors(one: Measured, efficiency: Efficiency, hull: Hull) -> Errors:
    group = one.group
    n = min(len(group), ROWS)
    part = group.chosen(np.random.default_rng(0).choice(len(group), n, replace=False))
    hardware = hwspaces.hardware(group.device).hardware
    with eager():
        ops = part.call(part.columns)
        seconds = np.broadcast_to(sum(op.count * op_time(op, hardware, efficiency) for op in ops), (n,))
    shaped = [op for op in ops if isinstance(op, Kernel) and op.kind == one.ops[0].kind and op.shape is not None]
    least, octaves = bound(ops, hardware, n), furthest([(hull, op) for op in shaped], hardware, n)
    return Errors.of(seconds, part.seconds, least, octaves, np.full(n, len(group) / n))


def bound(ops: Iterable[AnyOp], hardware: Hardware, rows: int) -> np.ndarray:
    """s that ops take by the datasheet's rates alone, shape [rows]."""
    with eager():
        return np.broadcast_to(sum(op.count * least_time(op, hardware) for op in ops), (rows,))


def furthest(measured: Iterable[tuple[Hull, AnyOp]], hardware: Hardware, rows: int) -> np.ndarray:
    """Octaves by which the furthest of some ops is outside of its hull, shape [rows]."""
    with eager():
        return np.max([np.broadcast_to(hull_distance(hull, op, hardware), (rows,)) for hull, op in measured], axis=0)


def left_out(
    fit: KernelFit, fits: Sequence[KernelFit], rows: Sequence[Measured], assembled: Assembled
) -> list[LeftOut]:
    """Errors of one class on every architecture, by constants that were fitted without it.

    Args:
      fit: of the class.
      fits: of all classes, which price what else a call runs.
      rows: of the engine.
      assembled: the efficiency that fits make up.
    """
    own = [one for one in rows if one.path == fit.path]
    seen = [one for one in own if fit.covers(one.group)]
    everything, found = assembled(fits), []
    for architecture in dict.fromkeys(ARCHITECTURES[one.group.device] for one in seen):
        here = [one for one in seen if ARCHITECTURES[one.group.device] == architecture]
        others = [one for one in seen if ARCHITECTURES[one.group.device] != architecture]
        device = here[0].group.device
        if others and device in fit.blind:
            blind = assembled([dataclasses.replace(one, kernel=one.blind.get(device, one.kernel)) for one in fits])
            inside = errors_of(here, everything, evidence(seen)).spread()
            found.append(LeftOut.of(fit.path, architecture, inside, errors_of(here, blind, evidence(others))))
    return found


def growth(path: str, unseen: Iterable[LeftOut]) -> float:
    """Standard deviation of log errors far outside, of a time that is all lost: the best score over architectures.

    Those of other classes weigh little, and decide where the class itself has none.
    """
    total = np.zeros(len(GROWTHS))
    for one in unseen:
        alike = SAME_KIND if one.path.partition(".")[0] == path.partition(".")[0] else ANY_KIND
        total += (1.0 if one.path == path else alike) * one.scores
    return float(GROWTHS[np.argmin(total)])


def hulls(
    fits: Sequence[KernelFit], groups: Iterable[KernelGroup], engine: str, assembled: Assembled, console: Console
) -> dict[str, Hull]:
    """The hull of every class of kernels, by its path; what is not fitted to kernels has the devices of those that are.

    Prints what intervals of every class cover on every architecture that was left out, of constants and growth alike.
    """
    rows = measured(groups, engine, assembled(fits))
    kept = grouped(fitted_rows(fits, rows), lambda one: one.path)
    unseen = [one for fit in fits for one in left_out(fit, fits, rows, assembled)]
    console.print(_covered(unseen))
    # A quantiser has no rows of its own: it is measured with its product.
    found = {path: evidence(own, growth(path, unseen)) for path, own in kept.items()}
    everywhere = [one for own in kept.values() for one in own]
    for fit in fits:
        product = fit.path.replace("elementwise", "linear")
        if fit.path not in found and product in found:
            found[fit.path] = dataclasses.replace(devices_of(found[product]), growth=found[product].growth)
    devices = devices_of(evidence(everywhere))
    for path in ("elementwise.wide", "prefill_attention.plain", "decode_attention.plain"):
        found[path] = dataclasses.replace(devices, precisions=())
    return found


def _covered(unseen: Sequence[LeftOut]) -> Table:
    """What intervals cover on every architecture, with a growth that was chosen without it."""
    table = Table(title="Errors of constants on an architecture that they have not seen", title_justify="left")
    heads = ("class", "left out", "octaves", "deviation seen", "left out", "growth", "covered", "widened", "factor")
    for name in heads:
        table.add_column(name)
    shares = []
    for one in unseen:
        grows = growth(one.path, [other for other in unseen if other.architecture != one.architecture])
        own = one.errors.covered(one.inside, 0.0), one.errors.covered(one.inside, grows)
        shares.append((*own, one.errors.width(one.inside, grows)))
        deviations = f"{one.inside.short:.2f}, {one.inside.long:.2f}", f"{one.errors.deviation():.3f}"
        words = (f"{one.errors.distance():.2f}", *deviations, f"{grows:.2f}", *(f"{share:.0%}" for share in own))
        table.add_row(one.path, one.architecture, *words, f"{shares[-1][2]:.2f}")
    if shares:
        before, after, factor = np.mean(shares, axis=0)
        table.add_row("mean", "", "", "", "", "", f"{before:.0%}", f"{after:.0%}", f"{factor:.2f}")
    return table


def devices_of(hull: Hull) -> Hull:
    """A hull without its shapes."""
    return dataclasses.replace(hull, ranges=tuple(one for one in hull.ranges if FEATURES[one.feature].device))


def with_hulls(efficiency: Efficiency, found: Mapping[str, Hull]) -> Efficiency:
    """`efficiency` with hulls by the paths of their classes."""
    for path, hull in found.items():
        kind, _, name = path.partition(".")
        kernels = getattr(efficiency, kind)
        kernel = dataclasses.replace(getattr(kernels, name), hull=hull)
        efficiency = dataclasses.replace(efficiency, **{kind: dataclasses.replace(kernels, **{name: kernel})})
    return efficiency


def hull_of_devices(efficiency: Efficiency, names: Iterable[str], precisions: Sequence[str]) -> dict[str, Hull]:
    """The hull of accelerators on which all constants were fitted together, by kind: none of their shapes.

    Kinds without an entry of their own, which another kind's stands in for, have none.
    """
    found = {}
    for kind in KINDS:
        if getattr(efficiency, kind) is None:
            continue
        ops = [
            (Kernel(kind=kind, count=1.0, kernels=1.0, precision=name, matrix_flops=1.0, bytes=1.0), hardware)
            for hardware in (hwspaces.hardware(device).hardware for device in names)
            for name in precisions
            if name in hardware.matrix
        ]
        found[kind] = hull_of(ops, shapes=False)
    return found
