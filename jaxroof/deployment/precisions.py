"""Precisions at which activations, caches and messages are stored and sent."""

from jaxroof.field import number, word
from jaxroof.struct import Scalar, struct

COMPUTE = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")
"""Precisions that attention products are multiplied in."""


@struct
class Precisions:
    """Bytes of elements, and the precision of attention."""

    activation_bytes: Scalar = number(
        "B", "bytes of an activation between kernels", default=2.0, source="bf16, as engines run it"
    )
    kv_bytes: Scalar = number("B", "bytes of a key or value in the cache", default=2.0)
    state_bytes: Scalar = number(
        "B", "bytes of an element of a linear-attention state", default=4.0, source="float32, as engines keep it"
    )
    communication_bytes: Scalar = number("B", "bytes of an element that a collective sends", default=2.0, source="bf16")
    gather_bytes: Scalar | None = number(
        "B",
        "bytes of an element that sequence parallelism gathers for a product",
        "1 where it is quantised before; none: as other collectives",
        default=None,
    )
    dispatch_bytes: Scalar = number(
        "B", "bytes of an element sent to experts", "1 where they are quantised before", default=2.0
    )
    attention_compute: str = word("precision of the attention matrix products", COMPUTE, default="bf16")
