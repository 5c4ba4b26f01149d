"""What low-rank adapters add to a layer: two thin products per adapted matrix, and their parameters."""

from jaxroof.deployment import Deployment
from jaxroof.layers.attention import kv_heads_per_device
from jaxroof.layers.linear import Matrix, projection
from jaxroof.model import Attention, Block, FeedForward, Model, WeightFormat
from jaxroof.op import Op
from jaxroof.struct import Scalar
from jaxroof.training.training import LoRA

ADAPTER = WeightFormat(bytes=2.0, compute="bf16")
"""Adapters stay at 16 bits, whatever the weights beside them are stored at; Dettmers et al., arXiv:2305.14314."""

Pair = tuple[Matrix, Matrix]
"""A and B of one adapter."""


def adapter_matrices(block: Block, hidden: Scalar, deployment: Deployment, lora: LoRA) -> dict[str, Pair]:
    """The adapters of one layer on one device by target; targets that the layer does not have are left out.

    Where the adapted matrix is split by its outputs B is, and where by its inputs A is; the other is on every device.
    """
    tp, sizes = deployment.tp, {}
    mixer, feedforward = block.attention, block.feedforward
    if isinstance(mixer, Attention):
        heads, kv_heads = mixer.heads / tp, kv_heads_per_device(mixer, deployment)
        sizes |= {
            "q": (hidden, heads * mixer.head_dim),
            "k": (hidden, kv_heads * mixer.head_dim),
            "v": (hidden, kv_heads * mixer.value_dim),
            "o": (heads * mixer.value_dim, hidden),
        }
    if isinstance(feedforward, FeedForward):
        width = feedforward.intermediate / tp
        sizes |= {"up": (hidden, feedforward.up_projections * width), "down": (width, hidden)}
    return {
        target: (Matrix(inputs, lora.rank, ADAPTER), Matrix(lora.rank, outputs, ADAPTER))
        for target, (inputs, outputs) in sizes.items()
        if target in lora.targets
    }


def adapter_ops(model: Model, deployment: Deployment, lora: LoRA, tokens: Scalar) -> dict[str, Op]:
    """Products of all adapters over `tokens` tokens of one device; their sum with W's result rides in the second."""
    ops: dict[str, Op] = {}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        for target, (down, up) in adapter_matrices(block, model.hidden, deployment, lora).items():
            for name, matrix in ((f"{prefix}lora_{target}_a", down), (f"{prefix}lora_{target}_b", up)):
                ops |= projection(name, tokens, matrix, deployment.activation_bytes, block.count)
    return ops


def adapter_parameters(model: Model, deployment: Deployment, lora: LoRA) -> Scalar:
    """Parameters of all adapters on one device, shape (): rank (inputs + outputs) of every adapted matrix."""
    return sum(
        block.count * (down.elements + up.elements)
        for block in model.blocks
        for down, up in adapter_matrices(block, model.hidden, deployment, lora).values()
    )
