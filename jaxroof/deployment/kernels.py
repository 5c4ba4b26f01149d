"""Kernels that an engine runs attention and activation functions as."""

from jaxroof.field import number, word
from jaxroof.struct import Scalar, struct

ATTENTION_KERNELS = ("fused", "unfused")
"""How attention runs: as one kernel; or product, scale, mask, softmax and product as kernels of their own."""


@struct
class KernelChoice:
    """How attention and activation functions are cut into kernels."""

    attention_kernel: str = word(
        "how attention runs",
        ATTENTION_KERNELS,
        "unfused: products, scale, mask and softmax are kernels of their own",
        default="fused",
        flag="WAY",
    )
    score_kernels: Scalar | None = number(
        "1", "kernels of unfused attention beside products and softmax", "none: 2, scale and mask", default=None
    )
    activation_kernels: Scalar | None = number(
        "1", "kernels that an activation function is written out in", "none: 1", default=None
    )
