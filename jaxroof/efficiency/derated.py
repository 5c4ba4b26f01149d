"""Constant shares of every peak by kind of op, and fixed times per kernel, step, sequence and request."""

from typing import Any

from jaxroof.efficiency.exchange import ExpertExchange
from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Spread, fixed_time
from jaxroof.numerics.struct import Scalar, number, part, share, static, struct

_SHARE: dict[str, Any] = {"most": 1.0, "words": "in (0, 1]: it is a share of the datasheet's figure"}


@struct
class KindEfficiency:
    """Efficiency of one kind of kernel. Shares are of the datasheet's figure, in (0, 1]."""

    matrix: Scalar = share("share of the matrix peak at 16 bits and more", **_SHARE)
    matrix_low: Scalar = share("share of the matrix peak at 8 bits and less", **_SHARE)
    vector: Scalar = share("share of the vector and special-function peaks", **_SHARE)
    bandwidth: Scalar = share("share of HBM bandwidth", **_SHARE)
    cache_bandwidth: Scalar = share("share of L2 and scratchpad bandwidth", **_SHARE)
    kernel_time: Scalar = fixed_time("fixed time of a kernel", "launch inside a graph, fill and drain")
    winograd: Scalar | None = share(
        "share of such a product's rate that minimal filtering reaches", "None: unused", default=None, **_SHARE
    )
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

    losses: Scalar = number(
        "1",
        "share of the links' measured losses that applies",
        "0: links are at their datasheet; linear between",
        zero=True,
        most=1.0,
        words="in [0, 1]: 1 where the links' measured losses apply",
    )
    share: Scalar = number(
        "1",
        "share of a lone collective's speed that one in an engine's step reaches",
        "expert kernels: all of it",
        default=1.0,
        **_SHARE,
    )
    two_shot: Scalar = number(
        "1",
        "share of the engine's own all-reduces that may work in two stages",
        "0: in one, and else the library",
        default=1.0,
        zero=True,
        most=1.0,
        words="in [0, 1]: 1 where the engine's own all-reduce has two stages",
    )
    wait_time: Scalar = fixed_time("time per collective that devices wait for the last of them", default=0.0)
    exchange: ExpertExchange | None = part(default=None)  # None: tokens travel as the library's all-to-all
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


@struct
class Host:
    """Time that the serving engine's processes add around the kernels."""

    step_time: Scalar = fixed_time("time of the host per engine step", most=60.0)
    sequence_time: Scalar = fixed_time("time of the host per sequence that samples a token, per step", most=60.0)
    request_time: Scalar = fixed_time(
        "time per request before its first step", "tokenizer, scheduler, network", most=600.0
    )
    kernel_time: Scalar | None = fixed_time(
        "time per kernel that the host launches", "beside the device; None: a graph has all", default=None
    )
    early_launch: Scalar | None = share(
        "share of a step's launches that kernels hide which start before the last has ended",
        "where matrix units add up in a memory of their own; None: none",
        default=None,
        zero=True,
    )
