"""Constant shares of every peak by kind of op, and fixed times per kernel, step, sequence and request."""

from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.timing import Spread
from jaxroof.struct import Scalar, struct


@struct
class KindEfficiency:
    """Of the kernels of one kind. Shares are of the datasheet's figure, in (0, 1]."""

    matrix: Scalar  # of the matrix peak at 16 bits and more
    matrix_low: Scalar  # of the matrix peak at 8 bits and less
    vector: Scalar  # of the vector and special-function peaks
    bandwidth: Scalar  # of HBM bandwidth
    cache_bandwidth: Scalar  # of L2 and scratchpad bandwidth
    kernel_time: Scalar  # s per kernel: launch inside a graph, fill and drain


@struct
class LinkEfficiency:
    """Of collectives."""

    losses: Scalar  # 1: what the links' transports lose as measured; 0: links at their datasheet; linear between
    spread: Spread | None = None


@struct
class Host:
    """Time that the serving engine's processes add around the kernels."""

    step_time: Scalar  # s per engine step
    sequence_time: Scalar  # s per sequence that samples a token, per step
    request_time: Scalar  # s per request before its first step: tokenizer, scheduler, network


@struct
class Efficiency:
    """Constants that turn a roofline into an estimate. Each belongs to an engine and its kernels, not to a GPU.

    The entry of a kind is a few shares of every peak, or models of its kernels.
    """

    linear: KindEfficiency | Kernels
    experts: KindEfficiency | Kernels
    prefill_attention: KindEfficiency | Kernels
    decode_attention: KindEfficiency | Kernels
    elementwise: KindEfficiency | Kernels
    collective: LinkEfficiency
    host: Host


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
    )
