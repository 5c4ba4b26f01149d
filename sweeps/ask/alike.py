"""Accelerators of one structure, so that few evaluations price all of them: unknown figures never bind."""

import dataclasses
import math
from collections.abc import Collection, Iterable
from typing import Any

from jaxroof.chip.area import matrix_width
from jaxroof.hardware import USUAL_CLOCK, Energy, Hardware, Links
from jaxroof.numerics.tree import structure
from jaxroof.silicon import Areas, Costs, Process, Silicon
from sweeps.ask.axes import Axis, Choice


@dataclasses.dataclass(frozen=True)
class ChangedFigures:
    """Optional figures that get a neutral number where an accelerator lacks them."""

    clock: bool = True
    price: bool = True
    silicon: bool = True
    costs: bool = True
    scale_out: bool = True

    @classmethod
    def of_any(cls, devices: Iterable[Hardware]) -> "ChangedFigures":
        """Those that at least one of the accelerators has."""
        devices = tuple(devices)
        return cls(
            clock=any(device.cores.clock is not None for device in devices),
            price=any(device.price is not None for device in devices),
            silicon=any(device.silicon is not None for device in devices),
            costs=any(device.costs is not None for device in devices),
            scale_out=any(device.links.scale_out is not None for device in devices),
        )


ALL = ChangedFigures()


def alike(hardware: Hardware, precisions: Collection[str], figures: ChangedFigures = ALL) -> Hardware:
    """`hardware` with the matrix peaks of `precisions` alone, and with neutral numbers for figures that are unknown.

    An unknown clock is the usual one, an unknown price NaN, and so is what is computed from it; so are silicon and
    costs. A scale-out tier that does not exist is a copy of the scale-up tier, as large, which no deployment that is
    legal leaves. Figures of caches, exponentials and power that are unknown stay so: no number of them is neutral to
    every kernel's constants, such as those for what stays in a cache. Times are the same as those of `hardware` (a
    test compares them), and so are area and cost.
    Accelerators of which all is known then differ in structure by the topology of their links only.

    Args:
      hardware: leaves are Python floats.
      precisions: those that the model's matrices are multiplied in; of those that `hardware` lacks others take the
        place (`jaxroof.step.forward`).
      figures: which get a neutral number; the others stay unknown.
    """
    # Matrix peaks and widths of other precisions are dropped: devices that list different ones get one structure.
    precisions = sorted(set(precisions) & set(hardware.matrix))
    widths = hardware.cores.matrix_flops_per_clock if hardware.laws else None  # which only laws read
    own = dataclasses.replace(hardware.cores, matrix_flops_per_clock=widths and {p: widths[p] for p in precisions})
    cores = dataclasses.replace(own, clock=_known(own.clock, USUAL_CLOCK))
    # Silicon stays unknown only where no device that is compared has it; otherwise NaN areas keep the structure alike.
    unknown = hardware.silicon is None and not figures.silicon
    return dataclasses.replace(
        hardware,
        matrix={precision: hardware.matrix[precision] for precision in precisions},
        cores=cores if figures.clock else own,
        links=_two_tiers(hardware.links) if figures.scale_out else hardware.links,
        energy=_energy(hardware, precisions, figures.scale_out),
        price=_known(hardware.price, math.nan) if figures.price else hardware.price,
        silicon=None if unknown else _silicon(hardware, precisions),
        costs=UNKNOWN_COSTS if hardware.costs is None and figures.costs else hardware.costs,
    )


def alike_axes(axes: tuple[Axis, ...], precisions: Collection[str]) -> tuple[Axis, ...]:
    """The axes with the accelerators along each replaced by `alike`, where they differ in structure.

    A figure that none of an axis' accelerators has stays unknown: what needs it is left out, not blank. Peaks that an
    axis of its own varies stay, whatever is multiplied in them.
    """
    varied = {path.split(".")[2] for axis in axes for path in axis.columns if path.startswith("hardware.matrix.")}
    return tuple(_alike_axis(axis, {*precisions, *varied}) for axis in axes)


def all_alike(axes: tuple[Axis, ...], precisions: Collection[str]) -> tuple[Axis, ...]:
    """The axes with every accelerator replaced by `alike`, each unknown figure a neutral number."""
    return tuple(_replaced(axis, precisions, ALL) for axis in axes)


def _alike_axis(axis: Axis, precisions: Collection[str]) -> Axis:
    column = axis.columns.get("hardware")
    if not isinstance(column, Choice) or len({structure(item) for item in column.items}) == 1:
        return axis
    return _replaced(axis, precisions, ChangedFigures.of_any(column.items))


def _replaced(axis: Axis, precisions: Collection[str], figures: ChangedFigures) -> Axis:
    """The axis with its accelerators replaced by `alike`, also those of a prefill pool beside them."""
    columns = {
        path: Choice(tuple(alike(item, precisions, figures) for item in column.items), column.index)
        for path, column in axis.columns.items()
        if path in ("hardware", "prefill.hardware") and isinstance(column, Choice)
    }
    return dataclasses.replace(axis, columns={**axis.columns, **columns})


def _silicon(hardware: Hardware, precisions: Collection[str]) -> Silicon:
    """Its silicon with as much area of matrix units as before, though some of their precisions are left out."""
    if hardware.silicon is None:
        return UNKNOWN_SILICON
    # Area of matrix units is proportional to width / share used (`jaxroof.chip.area`): a share that shrinks with the
    # width keeps the area.
    left = dataclasses.replace(hardware, matrix={name: hardware.matrix[name] for name in precisions})
    share = matrix_width(left) / matrix_width(hardware)
    return dataclasses.replace(hardware.silicon, matrix_used=hardware.silicon.matrix_used * share)


def _unknown(kind: type, **inside: Any) -> Any:
    """A struct without a known figure: NaN, but for the structs in it."""
    names = (field.name for field in dataclasses.fields(kind))
    return kind(**{name: inside.get(name, math.nan) for name in names})


_PROCESS = _unknown(Process)
UNKNOWN_SILICON = _unknown(Silicon, areas=_unknown(Areas), core_process=_PROCESS, shared_process=_PROCESS)
"""Silicon of a device of unknown process: area and costs are NaN."""

UNKNOWN_COSTS = _unknown(Costs)
"""Prices of a device for which there are none."""


def _two_tiers(links: Links) -> Links:
    # A tier as large as the scale-up domain is never entered by a legal deployment, so its figures change no time.
    if links.scale_up is None or links.scale_out is not None or links.cluster is not None:
        return links
    return dataclasses.replace(links, scale_out=dataclasses.replace(links.scale_up, topology="switched"))


def _energy(hardware: Hardware, precisions: list[str], scale_out: bool) -> Energy | None:
    """Its energy for those precisions, of the tiers that `_two_tiers` makes where `scale_out` asks for them."""
    energy = hardware.energy
    if energy is None:
        return None
    links = hardware.links
    # The added tier has an energy as well, or the structures would still differ.
    if scale_out and links.scale_up is not None and links.scale_out is None and links.cluster is None:
        energy = dataclasses.replace(energy, scale_out=energy.scale_up)
    return dataclasses.replace(energy, matrix={precision: energy.matrix[precision] for precision in precisions})


def _known(figure: float | None, otherwise: float) -> float:
    return otherwise if figure is None else figure
