"""Efficiency: times of every kind of op, of collectives and of the host under one argument, whatever its tier."""

import dataclasses

from jaxroof.arrays import jnp
from jaxroof.efficiency.derated import Decoding, Host, KindEfficiency, LinkEfficiency, blended
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.surface import Surfaces
from jaxroof.op import STAND_INS, Kernel
from jaxroof.struct import Scalar, struct


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
    decoding: Decoding | None = None  # None: kernels of decoding tokens reach what those of prompts do


def entry_of(efficiency: Efficiency, op: Kernel) -> KindEfficiency | Kernels | Surfaces:
    """What prices a kernel: the entry of its kind, or of the kind that stands in for it."""
    entry = getattr(efficiency, op.kind)
    return getattr(efficiency, STAND_INS[op.kind]) if entry is None else entry


def in_phases(efficiency: Efficiency, prompt_tokens: Scalar | None, decode_tokens: Scalar | None) -> Efficiency:
    """The efficiency of a step with so many tokens of each phase, None where a phase is not in it; no `decoding` in it.

    Kernels that see the tokens of both run at the mean of both by tokens: `blended`.
    """
    decoding = efficiency.decoding
    if decoding is None:
        return efficiency
    own = {field.name: getattr(decoding, field.name) for field in dataclasses.fields(decoding)}
    if decode_tokens is None:
        own = {}
    elif prompt_tokens is not None:
        share = decode_tokens / jnp.maximum(prompt_tokens + decode_tokens, 1e-9)
        own = {name: blended(getattr(efficiency, name), entry, share) for name, entry in own.items()}
    return dataclasses.replace(efficiency, **own, decoding=None)


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
