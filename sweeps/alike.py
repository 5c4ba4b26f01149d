"""Accelerators of one structure, so that one compiled program prices all of them: what is unknown never binds."""

import dataclasses
import math
from collections.abc import Iterable

from jaxroof.hardware import USUAL_CLOCK, Hardware, Links, Memory, MemoryLevel, Power


def alike(hardware: Hardware, precisions: Iterable[str]) -> Hardware:
    """`hardware` with the matrix peaks of `precisions` alone, and a neutral number for each figure that is unknown.

    A rate or a capacity that is unknown becomes infinite: it never binds, as where it is None. A cache that is
    unknown outside one that is known has the inner one's capacity, which is what the device memory then feeds.
    An unknown TDP or price is NaN, and so is what is computed from it. A scale-out tier that does not exist is a copy
    of the scale-up tier, as large, which no deployment that is legal leaves. Times are the same as those of `hardware`
    (a test compares them); its structure is then told apart by the topology of its links only.

    Args:
      hardware: leaves are Python floats.
      precisions: those that the model's matrices are multiplied in, all of which `hardware` has.
    """
    memory, cores = hardware.memory, hardware.cores
    scratchpad = memory.scratchpad or MemoryLevel(bandwidth=math.inf, capacity=math.inf)
    return dataclasses.replace(
        hardware,
        matrix={precision: hardware.matrix[precision] for precision in sorted(precisions)},
        cores=dataclasses.replace(
            cores, exp_rate=_known(cores.exp_rate, math.inf), clock=_known(cores.clock, USUAL_CLOCK)
        ),
        memory=Memory(
            hbm=memory.hbm,
            l2=memory.l2 or MemoryLevel(bandwidth=math.inf, capacity=scratchpad.capacity),
            scratchpad=scratchpad,
            register_capacity=_known(memory.register_capacity, math.inf),
        ),
        links=_two_tiers(hardware.links),
        power=Power(tdp=_known(hardware.power.tdp, math.nan)),
        price=_known(hardware.price, math.nan),
    )


def _two_tiers(links: Links) -> Links:
    if links.scale_up is None or links.scale_out is not None or links.cluster is not None:
        return links
    return dataclasses.replace(links, scale_out=dataclasses.replace(links.scale_up, topology="switched"))


def _known(figure: float | None, otherwise: float) -> float:
    return otherwise if figure is None else figure
