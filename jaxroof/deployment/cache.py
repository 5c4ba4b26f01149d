"""Placement of the KV cache: its blocks, and the part that is kept outside the device."""

from jaxroof.field import number, word
from jaxroof.struct import Scalar, struct

OUTSIDE = ("host", "storage")
"""Memory beyond the device that may keep a part of its cache: fields of `Memory`."""


@struct
class CachePlacement:
    """How the KV cache is cut and where it is."""

    block_tokens: Scalar | None = number(
        "1",
        "tokens of one block of the KV cache",
        "none: sequences take what they need",
        whole=True,
        default=None,
        flag="TOKENS",
    )
    offloaded: Scalar | None = number(
        "1",
        "share of every sequence's KV cache that is outside the device",
        "none: no copies",
        zero=True,
        most=1.0,
        open=True,
        default=None,
        flag="SHARE",
    )
    prefetched: Scalar = number(
        "1",
        "1 where a layer's part of the KV cache comes while others compute",
        "0: kernels wait for it",
        zero=True,
        most=1.0,
        default=1.0,
    )
    offload_to: str = word(
        "where the part of the cache is that the device does not keep", OUTSIDE, default="host", flag="WAY"
    )
