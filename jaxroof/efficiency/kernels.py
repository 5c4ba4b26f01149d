"""Models of the kernels of one kind: which of them prices an op."""

from jaxroof.efficiency.decode import DecodeKernel, decode_timing
from jaxroof.efficiency.gemm import GemmKernel, gemm_timing
from jaxroof.efficiency.grouped import GroupedKernel, grouped_timing
from jaxroof.efficiency.prefill import PrefillKernel, prefill_timing
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.timing import Timing
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.op import Op
from jaxroof.shape import AttentionShape
from jaxroof.struct import Scalar, struct

KernelModel = StreamKernel | GemmKernel | PrefillKernel | GroupedKernel | DecodeKernel

MODELS = {
    StreamKernel: stream_timing,
    GemmKernel: gemm_timing,
    PrefillKernel: prefill_timing,
    GroupedKernel: grouped_timing,
    DecodeKernel: decode_timing,
}
"""Struct of constants -> the function that prices an op by them."""


@struct
class Kernels:
    """One model per class of kernel. A class that is None runs on the next more general one."""

    wide: KernelModel  # operands of 16 bits and more
    narrow: KernelModel | None = None  # operands of 8 bits and less
    scaled: KernelModel | None = None  # the same with a scale per block
    latent: KernelModel | None = None  # attention to latent vectors
    plain: StreamKernel | None = None  # ops of the kind without a shape: index scores, recurrent states


def kernel_of(kernels: Kernels, op: Op) -> KernelModel:
    """The model that prices `op`."""
    candidates = [kernels.wide]
    if op.precision in LOW_PRECISIONS:
        candidates = [kernels.narrow, *candidates]
        if op.scaled:
            candidates = [kernels.scaled, *candidates]
    if isinstance(op.shape, AttentionShape) and op.shape.latent:
        candidates = [kernels.latent, *candidates]
    if op.shape is None:
        candidates = [kernels.plain, *candidates]
    return next(kernel for kernel in candidates if kernel is not None)


def kernel_timing(kernels: Kernels, op: Op, hardware: Hardware) -> Timing:
    """Time of one run of `op` by the model of its class, where it has work."""
    kernel = kernel_of(kernels, op)
    return MODELS[type(kernel)](kernel, op, hardware)


def kernel_spread(kernels: Kernels, op: Op) -> Scalar | None:
    """What the model of its class says about its errors."""
    return kernel_of(kernels, op).spread
