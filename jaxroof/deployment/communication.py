"""Communication of a deployment: how tokens and keys are exchanged, and what that hides behind."""

from jaxroof.field import option, share, word
from jaxroof.struct import Scalar, struct

EXCHANGES = ("all_to_all", "low_latency", "all_gather")
"""How tokens reach experts on other devices: kernels for large batches, for small ones, or every token everywhere."""

CONTEXT_KINDS = ("ring", "all_gather")
"""How context-parallel devices pass prompt keys and values on: from neighbour to neighbour, or all at once."""

OVERLAPS = ("none", "gemm", "two_batch")
"""What communication hides behind: nothing; the matrix product beside it; the other half of the batch."""


@struct
class Communication:
    """Kinds of communication, and what runs beside it."""

    sequence_parallel: bool = option("norms work on 1/tp of the tokens each", default=False)
    context_kind: str = word(
        "how context-parallel devices pass keys and values on", CONTEXT_KINDS, default="ring", flag="WAY"
    )
    exchange: str = word("how tokens reach experts on other devices", EXCHANGES, default="all_to_all", flag="WAY")
    overlap: str = word("what communication hides behind", OVERLAPS, default="none", flag="WAY")
    reserved_cores: Scalar = share(
        "share of the cores that overlapped communication takes",
        "from compute",
        zero=True,
        open=True,
        default=0.0,
        flag="SHARE",
    )
