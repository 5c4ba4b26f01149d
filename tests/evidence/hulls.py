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
from jaxroof.efficiency.timing import NINETY_PERCENT
from jaxroof.numerics.arrays import eager
from jaxroof.op import KINDS, Kernel
from jaxroof.roofline import op_time
from sweeps.measure.kernel_data.group import KernelGroup
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit

ROWS = 400
"""Of each group of rows, drawn with a fixed seed, whose errors are looked at."""

NEAR = 0.25
"""Octaves below which a device that was left out says nothing of how errors grow."""


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

    def deviation(self) -> float:
        """Standard deviation whose normal distribution has as much as 90 % of the rows within."""
        order = np.argsort(np.abs(self.logs))
        reached = np.cumsum(self.weights[order]) / self.weights.sum()
        return float(np.abs(self.logs)[order][np.searchsorted(reached, 0.9)] / NINETY_PERCENT)

    def distance(self) -> float:
        """Mean octaves."""
        return float(np.average(self.distances, weights=self.weights))

    def covered(self, inside: float, growth: float) -> float:
        """Share of the rows within the 90 % interval of a deviation that grows."""
        width = NINETY_PERCENT * np.hypot(inside, growth * self.distances)
        return float(np.average(np.abs(self.logs) <= width, weights=self.weights))


class LeftOut(NamedTuple):
    """One architecture that the constants of a class have not seen."""

    architecture: str
    inside: float  # deviation on the same rows of constants that have seen it
    errors: Errors

    @property
    def growth(self) -> float:
        """Square of the deviation per octave: (blind^2 - inside^2) / distance^2, at least 0."""
        return max(self.errors.deviation() ** 2 - self.inside**2, 0.0) / self.errors.distance() ** 2


def measured(groups: Iterable[KernelGroup], engine: str, efficiency: Efficiency) -> list[Measured]:
    """The engine's rows by the class that prices them; those of devices without their precision are left out."""
    found = []
    for group in groups:
        if group.engine != engine:
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


def evidence(rows: Iterable[Measured], growth: float = 0.0) -> Hull:
    """The hull of some rows."""
    return hull_of(((op, hwspaces.hardware(one.group.device).hardware) for one in rows for op in one.ops), growth)


def errors_of(rows: Sequence[Measured], efficiency: Efficiency, hull: Hull) -> Errors:
    """Errors and distances of some of the rows."""
    return Errors(*map(np.concatenate, zip(*(_errors(one, efficiency, hull) for one in rows), strict=True)))


def _errors(one: Measured, efficiency: Efficiency, hull: Hull) -> Errors:
    group = one.group
    n = min(len(group), ROWS)
    part = group.chosen(np.random.default_rng(0).choice(len(group), n, replace=False))
    hardware = hwspaces.hardware(group.device).hardware
    with eager():
        ops = part.call(part.columns)
        seconds = sum(op.count * op_time(op, hardware, efficiency) for op in ops)
        shaped = [op for op in ops if isinstance(op, Kernel) and op.kind == one.ops[0].kind and op.shape is not None]
        distances = [np.broadcast_to(hull_distance(hull, op, hardware), (n,)) for op in shaped]
    logs = np.log(np.broadcast_to(seconds, (n,)) / part.seconds)
    return Errors(logs, np.max(distances, axis=0), np.full(n, len(group) / n))


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
    seen = [one for one in own if one.group.device in fit.devices and one.group.kernel in fit.kernels]
    everything, found = assembled(fits), []
    for architecture in dict.fromkeys(ARCHITECTURES[one.group.device] for one in seen):
        here = [one for one in seen if ARCHITECTURES[one.group.device] == architecture]
        others = [one for one in seen if ARCHITECTURES[one.group.device] != architecture]
        device = here[0].group.device
        if others and device in fit.blind:
            blind = assembled([dataclasses.replace(one, kernel=one.blind.get(device, one.kernel)) for one in fits])
            inside = errors_of(here, everything, evidence(seen)).deviation()
            found.append(LeftOut(architecture, inside, errors_of(here, blind, evidence(others))))
    return found


def growth(unseen: Iterable[LeftOut]) -> float:
    """Standard deviation of log errors per octave: the root of the mean of its squares over the architectures."""
    squares = [one.growth for one in unseen if one.errors.distance() >= NEAR]
    return float(np.sqrt(np.mean(squares))) if squares else 0.0


def hulls(
    fits: Sequence[KernelFit], groups: Iterable[KernelGroup], engine: str, assembled: Assembled, console: Console
) -> dict[str, Hull]:
    """The hull of every class of kernels, by its path; what is not fitted to kernels has the devices of those that are.

    Where no architecture shows that errors grow, growth is the root mean square of the other classes'.

    Prints, for every class and architecture that was left out, distance, deviation, growth and what intervals cover.
    """
    rows = measured(groups, engine, assembled(fits))
    table = Table(title="Errors of constants on an architecture that they have not seen", title_justify="left")
    heads = ("class", "left out", "octaves", "deviation inside", "left out", "per octave", "covered", "widened")
    for name in heads:
        table.add_column(name)
    found, everywhere, covered = {}, [], []
    for fit in fits:
        seen = [
            one
            for one in rows
            if (one.path, one.group.device in fit.devices, one.group.kernel in fit.kernels) == (fit.path, True, True)
        ]
        if not seen:  # a quantiser: it is measured with its product
            continue
        everywhere += seen
        unseen = left_out(fit, fits, rows, assembled)
        grows = growth(unseen)
        found[fit.path] = evidence(seen, grows)
        for one in unseen:
            own = one.errors.covered(one.inside, 0.0), one.errors.covered(one.inside, grows)
            covered.append(own)
            words = (f"{one.errors.distance():.2f}", f"{one.inside:.3f}", f"{one.errors.deviation():.3f}")
            table.add_row(fit.path, one.architecture, *words, f"{grows:.3f}", *(f"{share:.0%}" for share in own))
    console.print(table)
    if covered:
        before, after = np.mean(covered, axis=0)
        console.print(
            f"90 % intervals of architectures left out cover {before:.0%}, widened {after:.0%} (mean of rows)"
        )
    usual = float(np.sqrt(np.mean([hull.growth**2 for hull in found.values() if hull.growth > 0.0] or [0.0])))
    found = {
        path: hull if hull.growth > 0.0 else dataclasses.replace(hull, growth=usual) for path, hull in found.items()
    }
    for fit in fits:
        product = fit.path.replace("elementwise", "linear")
        if fit.path not in found and product in found:
            found[fit.path] = dataclasses.replace(devices_of(found[product]), growth=found[product].growth)
    devices = devices_of(evidence(everywhere))
    for path in ("elementwise.wide", "prefill_attention.plain", "decode_attention.plain"):
        found[path] = dataclasses.replace(devices, precisions=())
    return found


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
