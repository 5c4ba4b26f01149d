"""Hyper-connections: several residual streams, mixed into a sublayer's input and spread over by its output."""

import dataclasses

from jaxroof.deployment import Deployment
from jaxroof.layers.attention import NORM_FLOPS
from jaxroof.layers.linear import LOW_PRECISIONS, OPERAND_BYTES, elementwise
from jaxroof.model import Streams
from jaxroof.numerics.struct import Scalar
from jaxroof.op import Kernel, Ops, StreamsShape

COEFFICIENT_BYTES = 4.0
"""B per weight that makes coefficients: float32, as DeepSeek-V4's checkpoint has them."""

MIX_KERNELS = 3.0
"""Kernels before a sublayer: product of all streams, sum of its parts, and coefficients with the weighted sum and its
norm. Source: vLLM and SGLang, mhc_pre (prenorm product of DeepGEMM, split over its inputs; tilelang)."""

SINKHORN_FLOPS = 4.0
"""Vector FLOP per coefficient of n x n and iteration: sums of rows and of columns, and a division by each."""


def stream_mix(streams: Streams, rows: Scalar, hidden: Scalar, deployment: Deployment, count: Scalar) -> Kernel:
    """What runs before a sublayer: coefficients of a token from all n streams, its input as their sum, a norm.

    Streams are read twice, by the product and by the sum, and the input is written once: (2 n + 1) hidden elements.
    Coefficients are n (n + 2) outputs of a product with n hidden inputs; those of n x n are made doubly stochastic.

    Source: Xie et al., arXiv:2512.24880 (mHC), equations 7 and 8; DeepSeek-AI, DeepSeek-V4, section 2.2; Zhu et al.,
    arXiv:2409.19606 (hyper-connections).
    """
    number = streams.count
    coefficients = number * (number + 2.0)
    kernel = elementwise(
        rows,
        reads=2.0 * number * hidden,
        writes=hidden,
        element_bytes=deployment.activation_bytes,
        # Norm of the coefficients' inputs, weighted sum, norm of the sublayer's input; and the iterations.
        flops=(NORM_FLOPS + 2.0) * number * hidden
        + NORM_FLOPS * hidden
        + streams.iterations * SINKHORN_FLOPS * number * number,
        count=count,
        kernels=MIX_KERNELS,
        exps=coefficients,
        role="norm",
    )
    weights = coefficients * number * hidden * COEFFICIENT_BYTES
    precision = "bf16" if deployment.attention_compute in LOW_PRECISIONS else deployment.attention_compute
    return dataclasses.replace(
        kernel,
        precision=precision,
        matrix_flops=2.0 * rows * coefficients * number * hidden,
        operand_bytes=OPERAND_BYTES[precision],
        bytes=kernel.bytes + kernel.kernels / MIX_KERNELS * weights,
        shape=StreamsShape(rows=rows, streams=number, width=hidden),
    )


def stream_spread(streams: Streams, rows: Scalar, hidden: Scalar, deployment: Deployment, count: Scalar) -> Kernel:
    """What runs after a sublayer: every stream as a weighted sum of all n and of the output, (2 n + 1) hidden elements.

    Source: Xie et al., arXiv:2512.24880 (mHC), equation 3.
    """
    number = streams.count
    moved = _moved(number + 1.0, number, rows, hidden, deployment, count, flops=2.0 * number * (number + 1.0))
    return dataclasses.replace(moved, shape=StreamsShape(rows=rows, streams=number, width=hidden))


def stream_ends(streams: Streams, rows: Scalar, hidden: Scalar, deployment: Deployment) -> Ops:
    """What makes n streams of the embedding before all layers, and one of them after."""
    number = streams.count
    return {
        "streams_expand": _moved(1.0, number, rows, hidden, deployment, 1.0),
        "streams_contract": _moved(number, 1.0, rows, hidden, deployment, 1.0, flops=number),
    }


def _moved(
    reads: Scalar,
    writes: Scalar,
    rows: Scalar,
    hidden: Scalar,
    deployment: Deployment,
    count: Scalar,
    flops: Scalar = 0.0,
) -> Kernel:
    """A kernel that reads and writes so many streams of every row."""
    return elementwise(
        rows,
        reads=reads * hidden,
        writes=writes * hidden,
        element_bytes=deployment.activation_bytes,
        flops=flops * hidden,
        count=count,
        role="norm",
    )
