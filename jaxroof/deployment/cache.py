"""Placement of the KV cache: its blocks, and the part that is kept outside the device."""

from jaxroof.field import count, share, word
from jaxroof.struct import Scalar, struct

SELECTED_CACHES = ("scaled", "plain")
"""Layout of an 8-bit cache of latent vectors that an indexer chooses from."""

OUTSIDE = ("host", "storage")
"""Memory beyond the device that may keep a part of its cache: fields of `Memory`."""


@struct
class CachePlacement:
    """How the KV cache is cut and where it is."""

    block_tokens: Scalar | None = count(
        "tokens of one block of the KV cache", "none: sequences take what they need", default=None, flag="TOKENS"
    )
    offloaded: Scalar | None = share(
        "share of every sequence's KV cache that is outside the device",
        "none: no copies",
        zero=True,
        open=True,
        default=None,
        flag="SHARE",
    )
    prefetched: Scalar = share(
        "1 where a layer's part of the KV cache comes while others compute",
        "0: kernels wait for it",
        zero=True,
        default=1.0,
    )
    offload_to: str = word(
        "where the part of the cache is that the device does not keep", OUTSIDE, default="host", flag="WAY"
    )
    selected_cache: str = word(
        "layout of an 8-bit cache of sparse latent attention",
        SELECTED_CACHES,
        "scaled: latent vectors with scales, rotated keys at 16 bits (vLLM, SGLang); plain: all of it at 8 bits",
        default="scaled",
    )
