"""How a model is spread over devices and at which precisions its activations, cache and messages travel."""

from jaxroof.struct import Scalar, static, struct


@struct
class Deployment:
    """One replica of a model on `tp` devices."""

    tp: Scalar = 1.0  # tensor-parallel degree: devices in one replica
    activation_bytes: Scalar = 2.0  # B per activation element between kernels; bf16, as engines run it
    kv_bytes: Scalar = 2.0  # B per key or value element in the cache
    communication_bytes: Scalar = 2.0  # B per element that a collective sends; bf16
    attention_compute: str = static(default="bf16")  # precision of the attention matrix products
    memory_utilization: Scalar = 0.9  # share of device memory the engine may use; vLLM's gpu_memory_utilization
    reserve_bytes: Scalar = 3e9  # B per device: context, graphs, communication buffers; ours, typical of vLLM on H100
    max_batched_tokens: Scalar = 8192.0  # tokens of the largest step, which sizes activations; vLLM's default, serving
