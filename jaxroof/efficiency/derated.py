"""Constant shares of every peak by kind of op, and fixed times per kernel, step, sequence and request."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Spread
from jaxroof.numerics.struct import Scalar, static, struct


@struct
class KindEfficiency:
    """Efficiency of one kind of kernel. Shares are of the datasheet's figure, in (0, 1]."""

    matrix: Scalar  # of the matrix peak at 16 bits and more
    matrix_low: Scalar  # of the matrix peak at 8 bits and less
    vector: Scalar  # of the vector and special-function peaks
    bandwidth: Scalar  # of HBM bandwidth
    cache_bandwidth: Scalar  # of L2 and scratchpad bandwidth
    kernel_time: Scalar  # s per kernel: launch inside a graph, fill and drain
    winograd: Scalar | None = None  # of the rate of such a product that those of minimal filtering reach; None: unused
    hull: Hull | None = static(default=None)


@struct
class Decoding:
    """Efficiency of kernels that work on the tokens of both phases, in decode; attention has a kind for each."""

    linear: KindEfficiency
    experts: KindEfficiency
    elementwise: KindEfficiency


def blended(first: KindEfficiency, second: KindEfficiency, share: Scalar) -> KindEfficiency:
    """Efficiency of kernels of which `share` of the tokens run as `second` and the others as `first`.

    1 / s = (1 - share) / s_1 + share / s_2 of every share of a peak: the tokens' times add up. Fixed times: the mean.
    """

    def together(name: str) -> Scalar:
        # Rates mean harmonically: tokens of each phase take time at their own rate, and it is times that add up.
        one, other = getattr(first, name), getattr(second, name)
        if name == "kernel_time":
            return (1.0 - share) * one + share * other
        return 1.0 / ((1.0 - share) / one + share / other)

    names = ("matrix", "matrix_low", "vector", "bandwidth", "cache_bandwidth", "kernel_time")
    return KindEfficiency(**{name: together(name) for name in names})


@struct
class LinkEfficiency:
    """Efficiency of collectives."""

    losses: Scalar  # 1: what the links' transports lose as measured; 0: links at their datasheet; linear between
    share: Scalar = 1.0  # of a lone collective's speed that one in an engine's step reaches; expert kernels: all of it
    two_shot: Scalar = 1.0  # 1: the engine's own all-reduce also works in two stages; 0: in one, and else the library
    wait_time: Scalar = 0.0  # s per collective that devices of an engine wait for the last of them
    spread: Spread | None = None
    hull: Hull | None = static(default=None)


@struct
class Host:
    """Time that the serving engine's processes add around the kernels."""

    step_time: Scalar  # s per engine step
    sequence_time: Scalar  # s per sequence that samples a token, per step
    request_time: Scalar  # s per request before its first step: tokenizer, scheduler, network
    kernel_time: Scalar | None = None  # s per kernel that the host launches, beside the device; None: a graph has all
    early_launch: Scalar | None = None  # share of a step's launches that kernels hide which start before the last has
    # ended, where matrix units add up in a memory of their own; None: none
