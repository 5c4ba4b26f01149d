"""Models of the kernels of one kind of op, and the choice among them."""

from collections.abc import Callable
from typing import Any

from jaxroof.efficiency.decode import DecodeKernel, decode_timing
from jaxroof.efficiency.gemm import GemmKernel, gemm_timing
from jaxroof.efficiency.grouped import GroupedKernel, grouped_timing
from jaxroof.efficiency.prefill import PrefillKernel, prefill_timing
from jaxroof.efficiency.sgemm import SgemmKernel, sgemm_timing
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.timing import Timing
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.numerics.struct import struct
from jaxroof.op import AttentionShape, Kernel, ProductShape

KernelModel = StreamKernel | GemmKernel | SgemmKernel | PrefillKernel | GroupedKernel | DecodeKernel

MODELS: dict[type, Callable[[Any, Kernel, Hardware], Timing]] = {
    StreamKernel: stream_timing,
    GemmKernel: gemm_timing,
    SgemmKernel: sgemm_timing,
    PrefillKernel: prefill_timing,
    GroupedKernel: grouped_timing,
    DecodeKernel: decode_timing,
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
    plain: StreamKernel | None = None  # ops of the kind without a shape: index scores, recurrent states


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
    if isinstance(op.shape, AttentionShape) and op.shape.latent:
        candidates = ["latent", *candidates]
    # No shape: the op is a stream of bytes of this kind, such as a recurrent state's update.
    if op.shape is None:
        candidates = ["plain", *candidates]
    return next(name for name in candidates if getattr(kernels, name) is not None)


def kernel_of(kernels: Kernels, op: Kernel) -> KernelModel:
    """The model that prices `op`."""
    return getattr(kernels, class_of(kernels, op))


def kernel_timing(kernels: Kernels, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run of `op` by the model of its class, where it has work."""
    kernel = kernel_of(kernels, op)
    return MODELS[type(kernel)](kernel, op, hardware)
