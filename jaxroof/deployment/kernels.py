"""Kernels that an engine runs attention, activation functions and the choice of the next token as."""

from jaxroof.field import number, word
from jaxroof.struct import Scalar, struct

ATTENTION_KERNELS = ("fused", "unfused")
"""How attention runs: as one kernel; or product, scale, mask, softmax and product as kernels of their own."""

SAMPLERS = ("fused", "sort")
"""How the next token is drawn: from statistics of the logits; or from their full sort, for top-p and top-k."""


@struct
class KernelChoice:
    """How attention, activation functions and the sampler are cut into kernels."""

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
    sampler: str = word(
        "how the next token is drawn",
        SAMPLERS,
        "sort: top-p and top-k by a sort of all logits, as vLLM 0.11 does unless it is told otherwise",
        default="fused",
        flag="WAY",
    )
    hidden_tile: Scalar = number(
        "1",
        "hidden sizes that kernels of microscaled experts pad to a multiple of",
        default=256.0,
        source="Marlin: vllm/model_executor/layers/quantization/mxfp4.py, v0.11",
    )
    expert_tile: Scalar = number(
        "1",
        "expert widths on one device that kernels of microscaled experts pad to a multiple of",
        default=128.0,
        source="Marlin, as above",
    )
