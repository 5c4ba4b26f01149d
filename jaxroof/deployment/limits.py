"""Memory and tokens that an engine may use."""

from jaxroof.field import count, number, share, switch
from jaxroof.struct import Scalar, struct


@struct
class MemoryLimits:
    """What an engine keeps free, and the largest step that it makes room for."""

    memory_utilization: Scalar = share(
        "share of device memory the engine may use", default=0.9, source="vLLM's gpu_memory_utilization"
    )
    memory_of_free: Scalar = switch(
        "1 where that share is of the memory that weights and the reserve leave", "0: of all of it", default=0.0
    )
    reserve_bytes: Scalar = number(
        "B",
        "memory per device for context, graphs and communication buffers",
        zero=True,
        default=3000000000.0,
        source="ours, typical of vLLM on H100",
    )
    max_batched_tokens: Scalar = count(
        "tokens of the largest step", "which sizes activations", default=8192.0, source="vLLM's default, serving"
    )
