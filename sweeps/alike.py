"""Accelerators of one structure, so that few compiled programs price all of them: what is unknown never binds."""

import dataclasses
import math
from collections.abc import Iterable

from jaxroof.hardware import USUAL_CLOCK, Energy, Hardware, Links


def alike(hardware: Hardware, precisions: Iterable[str]) -> Hardware:
    """`hardware` with the matrix peaks of `precisions` alone, and with neutral numbers for figures that are unknown.

    An unknown clock is the usual one, an unknown price NaN, and so is what is computed from it. A scale-out tier that
    does not exist is a copy of the scale-up tier, as large, which no deployment that is legal leaves. Figures of
    caches, exponentials and power that are unknown stay so: no number of them is neutral to every kernel's constants,
    such as those for what stays in a cache. Times are the same as those of `hardware` (a test compares them).
    Accelerators of which all is known then differ in structure by the topology of their links only.

    Args:
      hardware: leaves are Python floats.
      precisions: those that the model's matrices are multiplied in, all of which `hardware` has.
    """
    return dataclasses.replace(
        hardware,
        matrix={precision: hardware.matrix[precision] for precision in sorted(precisions)},
        cores=dataclasses.replace(hardware.cores, clock=_known(hardware.cores.clock, USUAL_CLOCK)),
        links=_two_tiers(hardware.links),
        energy=_energy(hardware, sorted(precisions)),
        price=_known(hardware.price, math.nan),
    )


def _two_tiers(links: Links) -> Links:
    if links.scale_up is None or links.scale_out is not None or links.cluster is not None:
        return links
    return dataclasses.replace(links, scale_out=dataclasses.replace(links.scale_up, topology="switched"))


def _energy(hardware: Hardware, precisions: list[str]) -> Energy | None:
    """Its energy for those precisions, of the tiers that `_two_tiers` makes."""
    energy = hardware.energy
    if energy is None:
        return None
    if hardware.links.scale_up is not None and hardware.links.scale_out is None and hardware.links.cluster is None:
        energy = dataclasses.replace(energy, scale_out=energy.scale_up)
    return dataclasses.replace(energy, matrix={precision: energy.matrix[precision] for precision in precisions})


def _known(figure: float | None, otherwise: float) -> float:
    return otherwise if figure is None else figure
