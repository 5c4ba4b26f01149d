"""How a model is spread over devices and at which precisions its activations, cache and messages travel."""

from jaxroof.struct import Scalar, static, struct


@struct
class Deployment:
    """One replica of a model on `tp` devices."""

    tp: Scalar  # tensor-parallel degree: devices in one replica
    activation_bytes: Scalar  # B per activation element between kernels
    kv_bytes: Scalar  # B per key or value element in the cache
    communication_bytes: Scalar  # B per element that a collective sends
    attention_compute: str = static(default="bf16")  # precision of the attention matrix products
    memory_utilization: Scalar  # share of device memory that the engine may use
    reserve_bytes: Scalar  # B per device: context, graphs, communication buffers, fragmentation
    max_batched_tokens: Scalar  # tokens of the largest step, which sizes the activation buffers
