"""Models of the kernels of one kind of op, and the choice among them."""

from collections.abc import Callable
from typing import Any

from jaxroof.efficiency.choice import ChoiceKernel, ScoreKernel, choice_timing, score_timing
from jaxroof.efficiency.decode import DecodeKernel, decode_timing
from jaxroof.efficiency.gemm import GemmKernel, gemm_timing
from jaxroof.efficiency.grouped import GroupedKernel, grouped_timing
from jaxroof.efficiency.prefill import PrefillKernel, prefill_timing
from jaxroof.efficiency.recurrence import StateKernel, state_timing
from jaxroof.efficiency.selected import SelectedKernel, selected_timing
from jaxroof.efficiency.sgemm import SgemmKernel, sgemm_timing
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.timing import Timing
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.numerics.struct import struct
from jaxroof.op import (
    AttentionShape,
    ChoiceShape,
    Kernel,
    ProductShape,
    ScoreShape,
    StateShape,
    StreamsShape,
    WindowShape,
)

KernelModel = StreamKernel | GemmKernel | SgemmKernel | PrefillKernel | GroupedKernel | DecodeKernel
KernelModel |= SelectedKernel | ScoreKernel | ChoiceKernel | StateKernel

MODELS: dict[type, Callable[[Any, Kernel, Hardware], Timing]] = {
    StreamKernel: stream_timing,
    GemmKernel: gemm_timing,
    SgemmKernel: sgemm_timing,
    PrefillKernel: prefill_timing,
    GroupedKernel: grouped_timing,
    DecodeKernel: decode_timing,
    SelectedKernel: selected_timing,
    ScoreKernel: score_timing,
    ChoiceKernel: choice_timing,
    StateKernel: state_timing,
}
"""Struct of constants -> the function that prices an op by them."""


PACKED = ("linear", "experts")
"""Kinds whose weights may be stored in fewer bits than they are multiplied in."""


@struct
class Kernels:
    """One model per class of kernel. A class that is None runs on the next more general one."""

    wide: KernelModel  # operands of 16 bits and more
    narrow: KernelModel | None = None  # operands of 8 bits and less
    scaled: KernelModel | None = None  # the same with a scale per block
    block4: KernelModel | None = None  # operands of 4 bits, with a scale per block of 16 or 32
    packed: KernelModel | None = None  # weights of fewer bits than the operands that they are multiplied as
    latent: KernelModel | None = None  # attention to latent vectors
    selected: KernelModel | None = None  # attention to latent vectors that an indexer chose for each query
    compressed: KernelModel | None = None  # attention to a window and to vectors of several tokens
    blocks: KernelModel | None = None  # attention to chosen blocks of the keys of several heads
    scores: KernelModel | None = None  # scores of an indexer with keys of 8 bits and less
    wide_scores: KernelModel | None = None  # those with keys of 16 bits
    choice: KernelModel | None = None  # choice of the best of them
    plain: StreamKernel | None = None  # ops of the kind without tiles that have no class of their own
    full: PrefillKernel | None = None  # attention without a mask and without a cache, as encoders run it
    states: StateKernel | None = None  # recurrent states
    gated: StateKernel | None = None  # those whose rows have decays of their own
    window: StreamKernel | None = None  # short convolutions over prompts
    update: StreamKernel | None = None  # and over decoding tokens
    streams: StreamKernel | None = None  # mixing of residual streams


def class_of(kernels: Kernels, op: Kernel) -> str:
    """Name of the class that prices `op`: a field of `Kernels`."""
    # The most general class is last; the first one that this efficiency has constants of is taken.
    candidates = ["wide"]
    if op.precision in LOW_PRECISIONS:
        candidates = ["narrow", *candidates]
        # Block scales need another main loop: partial sums are rescaled between products of blocks.
        if op.scaled:
            candidates = ["scaled", *candidates]
        if op.precision == "fp4":
            candidates = ["block4", *candidates]
    # Weight-only quantisation: vector units convert weights on their way to products of 16 bits.
    elif isinstance(op.shape, ProductShape) and op.vector_flops is not None and op.kind in PACKED:
        candidates = ["packed", *candidates]
    if isinstance(op.shape, AttentionShape):
        if op.shape.latent:
            candidates = ["latent", *candidates]
        if op.shape.listed is not None:
            candidates = [op.shape.listed, *candidates]
        if not op.shape.causal and not op.shape.appended:
            candidates = ["full", *candidates]
    # Without tiles the op is a stream of bytes of this kind, unless it has a model of its own.
    elif not isinstance(op.shape, ProductShape):
        candidates = [*_untiled_classes(op), "plain", *candidates]
    return next(name for name in candidates if getattr(kernels, name) is not None)


def _untiled_classes(op: Kernel) -> tuple[str, ...]:
    """Classes of kernels without tiles for such an op, the most special one first."""
    shape = op.shape
    if isinstance(shape, ScoreShape):
        return ("scores",) if op.precision in LOW_PRECISIONS else ("wide_scores",)
    if isinstance(shape, ChoiceShape):
        return ("choice",)
    if isinstance(shape, StateShape):
        return ("gated", "states") if shape.channelwise else ("states",)
    if isinstance(shape, WindowShape):
        return ("update", "window") if shape.update else ("window",)
    return ("streams",) if isinstance(shape, StreamsShape) else ()


def kernel_of(kernels: Kernels, op: Kernel) -> KernelModel:
    """The model that prices `op`."""
    return getattr(kernels, class_of(kernels, op))


def kernel_timing(kernels: Kernels, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run of `op` by the model of its class, where it has work."""
    kernel = kernel_of(kernels, op)
    return MODELS[type(kernel)](kernel, op, hardware)
