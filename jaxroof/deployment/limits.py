"""Memory and tokens that an engine may use."""

from jaxroof.field import count, number, share, switch
from jaxroof.struct import Scalar, struct


@struct
class MemoryLimits:
    """An engine's rule for the room of its KV cache, and the step that it profiles to find it."""

    memory_utilization: Scalar | None = share(
        "share of device memory the engine may use",
        "none: 0.9, vLLM's gpu_memory_utilization; with `memory_static` by SGLang's formula",
        default=None,
    )
    memory_of_free: Scalar = switch(
        "1 where that share is of the memory that all else leaves",
        "TensorRT-LLM's free_gpu_memory_fraction; 0: of all of it",
        default=0.0,
    )
    memory_static: Scalar = switch(
        "1 where that share is of weights and KV cache alone",
        "SGLang's mem_fraction_static: activations, logits and graphs take the rest; 0: they count too",
        default=0.0,
    )
    reserve_bytes: Scalar | None = number(
        "B",
        "memory per device for the driver, context and communication buffers",
        "none: by the device's memory and links",
        zero=True,
        default=None,
    )
    max_batched_tokens: Scalar = count(
        "tokens of the largest step", "which sizes activations", default=8192.0, source="vLLM's default, serving"
    )
    sampled_rows: Scalar | None = count(
        "sequences whose logits the engine's profiling step samples",
        "its max_num_seqs; none: 1,024 on devices of 70 GiB and more, the A100 excepted, else 256",
        zero=True,
        default=None,
    )
    logit_bytes: Scalar = number(
        "B",
        "bytes per logit of the sampler at its peak",
        "16-bit logits, 32-bit ones, sorted values and places, probabilities, and the sort's buffers",
        zero=True,
        default=38.6,
        source="ours, fitted to vLLM's start-up logs: tests.evidence.startup_logs",
    )
    graph_bytes: Scalar = number(
        "B",
        "memory per layer that the engine keeps for CUDA graphs before it sizes the cache",
        "0: graphs come on top, as in vLLM before 0.21",
        zero=True,
        default=0.0,
    )
