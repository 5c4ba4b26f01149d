"""Efficiency: times of every kind of op, of collectives and of the host under one argument, whatever its tier."""

import dataclasses

from jaxroof.efficiency.derated import Host, KindEfficiency, LinkEfficiency
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.surface import Surfaces
from jaxroof.op import STAND_INS, Kernel
from jaxroof.struct import struct


@struct
class Efficiency:
    """Constants that turn a roofline into an estimate. Each belongs to an engine and its kernels, not to a GPU.

    The entry of a kind is a few shares of every peak, models of its kernels, or a user's measurements of them.
    """

    linear: KindEfficiency | Kernels | Surfaces
    experts: KindEfficiency | Kernels
    prefill_attention: KindEfficiency | Kernels | Surfaces
    decode_attention: KindEfficiency | Kernels | Surfaces
    elementwise: KindEfficiency | Kernels | Surfaces
    collective: LinkEfficiency
    host: Host
    convolution: KindEfficiency | Kernels | None = None  # None: as `linear`, by the product that it is
    depthwise: KindEfficiency | Kernels | None = None  # None: as `elementwise`


def entry_of(efficiency: Efficiency, op: Kernel) -> KindEfficiency | Kernels | Surfaces:
    """What prices a kernel: the entry of its kind, or of the kind that stands in for it."""
    entry = getattr(efficiency, op.kind)
    return getattr(efficiency, STAND_INS[op.kind]) if entry is None else entry


def datasheet() -> Efficiency:
    """Every unit at its peak and no fixed time: the bound that no kernel beats."""
    kernels = KindEfficiency(
        matrix=1.0, matrix_low=1.0, vector=1.0, bandwidth=1.0, cache_bandwidth=1.0, kernel_time=0.0
    )
    return Efficiency(
        linear=kernels,
        experts=kernels,
        prefill_attention=kernels,
        decode_attention=kernels,
        elementwise=kernels,
        collective=LinkEfficiency(losses=0.0),
        host=Host(step_time=0.0, sequence_time=0.0, request_time=0.0),
        convolution=dataclasses.replace(kernels, winograd=1.0),
        depthwise=kernels,
    )
