"""Efficiency: times of every kind of op, of collectives and of the host under one argument, whatever its tier."""

import dataclasses
import functools
import typing
from collections.abc import Sequence

from jaxroof.efficiency import decode, gemm, grouped, prefill
from jaxroof.efficiency.derated import Decoding, Host, KindEfficiency, LinkEfficiency, blended
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.stream import StreamKernel
from jaxroof.efficiency.surface import Surfaces
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Declaration, Scalar, declarations, struct
from jaxroof.op import STAND_INS, Kernel


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
    # A step of one phase keeps that phase's constants; prompts are what the efficiency's own entries are of.
    own = {field.name: getattr(decoding, field.name) for field in dataclasses.fields(decoding)}
    if decode_tokens is None:
        own = {}
    elif prompt_tokens is not None:
        share = decode_tokens / jnp.maximum(prompt_tokens + decode_tokens, 1e-9)
        own = {name: blended(getattr(efficiency, name), entry, share) for name, entry in own.items()}
    return dataclasses.replace(efficiency, **own, decoding=None)


@functools.cache
def constant_declaration(path: str) -> Declaration | None:
    """What the constant at the dotted `path` of an efficiency is, `linear.wide.tile_cycles`; None where there is none.

    Structs of several tiers may stand on the way: the first that has such a constant tells, and all agree on its unit.
    """
    *around, name = path.split(".")
    kinds: tuple[type, ...] = (Efficiency,)
    for word in around:
        kinds = tuple(inner for kind in kinds for inner in _below(kind, word))
    return next((declared for kind in kinds if (declared := declarations(kind).get(name))), None)


def _below(kind: type, field: str) -> Sequence[type]:
    """Structs that a field may hold; the one around it where it holds constants of a class of cores."""
    hint = typing.get_type_hints(kind).get(field)
    structs = [one for one in (hint, *typing.get_args(hint)) if isinstance(one, type) and dataclasses.is_dataclass(one)]
    return [] if hint is None else structs or [kind]


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


# The kernel tier: every kernel by its model, with constants of published micro-architecture and nothing fitted.


def streaming() -> StreamKernel:
    """Element-wise kernels, norms and copies."""
    return StreamKernel(
        launch_cycles=4400.0,  # 2.2 to 2.5 us in a CUDA graph near 1.8 GHz, NVIDIA's figures of graph launches
        launch_time=0.0,
        bandwidth=0.85,  # large copies reach 85 to 92 % of HBM, BabelStream
        vector=0.5,  # ours: one fused multiply-add counts as two, a norm's operations are mostly single
        matrix=0.5,  # ours: recurrent states and index scores are small products
    )


def kernel() -> Efficiency:
    """Models of kernels with `published()` constants; links lose what was measured of them; a host that takes no time.

    The tiers `learned-*` are the same models with constants fitted to measured kernels.
    """
    # Kernels without a roofline model of their own (norms, rotations, copies) stream: bytes decide.
    small = streaming()
    longer = dataclasses.replace(small, launch_cycles=2.0 * small.launch_cycles)  # two passes over the state or keys
    return Efficiency(
        linear=Kernels(wide=gemm.published()),
        experts=Kernels(wide=grouped.published()),
        prefill_attention=Kernels(wide=prefill.published(), plain=longer),
        decode_attention=Kernels(wide=decode.published(), latent=decode.published_latent(), plain=longer),
        elementwise=Kernels(wide=small),
        collective=LinkEfficiency(losses=1.0),
        host=Host(step_time=0.0, sequence_time=0.0, request_time=0.0),
    )
