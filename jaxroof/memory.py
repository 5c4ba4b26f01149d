"""What fits in a device: parameters, weights, KV cache, activations, and the capacity that is left."""

import jax
import jax.numpy as jnp

from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.layers.attention import kv_heads_per_device
from jaxroof.model import Attention, Block, Experts, FeedForward, Model
from jaxroof.smooth import maximum, minimum, positive_part
from jaxroof.struct import Scalar

OTHER_PARAMETER_BYTES = 2.0
"""B of one norm weight or bias; they stay at 16 bits in every checkpoint format."""


def parameter_count(model: Model) -> Scalar:
    """Parameters of the whole model, shape (): embedding, head unless tied, every layer, every norm and bias."""
    return _outer_parameters(model) + sum(
        block.count * _block_parameters(block, model.hidden, experts=None) for block in model.blocks
    )


def active_parameter_count(model: Model) -> Scalar:
    """Parameters that one token is multiplied with, shape (): of the experts only the `top_k` it is routed to.

    The embedding and an untied head both count, as model cards count them.
    """
    return _outer_parameters(model) + sum(
        block.count * _block_parameters(block, model.hidden, experts="active") for block in model.blocks
    )


def _outer_parameters(model: Model) -> Scalar:
    return (1.0 + model.untied) * model.vocabulary * model.hidden + model.other_parameters


def _block_parameters(block: Block, hidden: Scalar, experts: str | None) -> Scalar:
    attention, feedforward = block.attention, block.feedforward
    qkv = attention.heads * attention.head_dim + attention.kv_heads * (attention.head_dim + attention.value_dim)
    parameters = hidden * (qkv + attention.heads * attention.value_dim) + block.other_parameters
    if isinstance(feedforward, FeedForward):
        return parameters + (feedforward.up_projections + 1.0) * hidden * feedforward.intermediate
    routed = feedforward.top_k if experts == "active" else feedforward.experts
    parameters = parameters + hidden * feedforward.experts
    parameters = parameters + routed * (feedforward.up_projections + 1.0) * hidden * feedforward.intermediate
    if feedforward.shared is not None:
        shared = feedforward.shared
        parameters = parameters + (shared.up_projections + 1.0) * hidden * shared.intermediate
    return parameters


def weight_bytes(model: Model, deployment: Deployment) -> Scalar:
    """B of weights that one device stores, shape ().

    Projections, embedding and head are split over tp; KV projections are replicated when tp > kv_heads;
    router, norms and biases are on every device.
    """
    tp = deployment.tp
    outer = model.vocabulary * model.hidden * (model.embedding.bytes + model.untied * model.head.bytes) / tp
    outer = outer + model.other_parameters * OTHER_PARAMETER_BYTES
    return outer + sum(block.count * _block_bytes(block, model.hidden, deployment) for block in model.blocks)


def _block_bytes(block: Block, hidden: Scalar, deployment: Deployment) -> Scalar:
    attention, feedforward, tp = block.attention, block.feedforward, deployment.tp
    qkv = attention.heads / tp * attention.head_dim + kv_heads_per_device(attention, deployment) * (
        attention.head_dim + attention.value_dim
    )
    total = hidden * qkv * attention.qkv.bytes
    total = total + hidden * attention.heads / tp * attention.value_dim * attention.output.bytes
    total = total + block.other_parameters * OTHER_PARAMETER_BYTES
    if isinstance(feedforward, FeedForward):
        return total + _feedforward_bytes(feedforward, hidden) / tp
    total = total + hidden * feedforward.experts * feedforward.router.bytes
    total = total + feedforward.experts * _feedforward_bytes(feedforward, hidden) / tp
    if feedforward.shared is not None:
        total = total + _feedforward_bytes(feedforward.shared, hidden) / tp
    return total


def _feedforward_bytes(feedforward: FeedForward | Experts, hidden: Scalar) -> Scalar:
    up = feedforward.up_projections * feedforward.up.bytes
    return hidden * feedforward.intermediate * (up + feedforward.down.bytes)


def kv_bytes_per_token(model: Model, deployment: Deployment) -> Scalar:
    """B of KV cache that one token adds on one device while no window has closed, shape ()."""
    return sum(block.count * _layer_kv_bytes(block.attention, deployment) for block in model.blocks)


def kv_bytes_of_sequence(model: Model, deployment: Deployment, context: Scalar) -> Scalar:
    """B of KV cache of one sequence of `context` tokens on one device; windowed layers hold their window."""
    total = 0.0
    for block in model.blocks:
        window = block.attention.window
        held = context if window is None else minimum(context, window)
        total = total + block.count * held * _layer_kv_bytes(block.attention, deployment)
    return total


def _layer_kv_bytes(attention: Attention, deployment: Deployment) -> Scalar:
    width = attention.head_dim + attention.value_dim
    return kv_heads_per_device(attention, deployment) * width * deployment.kv_bytes


def activation_bytes(model: Model, deployment: Deployment) -> jax.Array:
    """B of the largest step's live activations on one device, shape ().

    Input and residual, and the widest layer's intermediate values, for `max_batched_tokens` tokens.
    Source: ours, what a layer-by-layer engine must keep.
    """
    widths = []
    for block in model.blocks:
        attention, feedforward = block.attention, block.feedforward
        kv = kv_heads_per_device(attention, deployment) * (attention.head_dim + attention.value_dim)
        queries = attention.heads * (attention.head_dim + attention.value_dim) / deployment.tp
        widths.append(queries + kv)
        rows = feedforward.top_k if isinstance(feedforward, Experts) else 1.0
        expanded = (feedforward.up_projections + 1.0) * feedforward.intermediate / deployment.tp
        widths.append(rows * expanded)
    elements = deployment.max_batched_tokens * (2.0 * model.hidden + maximum(*widths))
    return elements * deployment.activation_bytes


def kv_capacity_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> jax.Array:
    """B per device left for KV cache after weights, activations and the reserve, shape (), never negative."""
    return positive_part(_free_bytes(hardware, model, deployment))


def weights_fit(hardware: Hardware, model: Model, deployment: Deployment) -> jax.Array:
    """True where weights, activations and the reserve leave room for a KV cache, shape ()."""
    return jnp.asarray(_free_bytes(hardware, model, deployment) > 0.0)


def _free_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    usable = deployment.memory_utilization * hardware.memory.hbm.capacity - deployment.reserve_bytes
    return usable - weight_bytes(model, deployment) - activation_bytes(model, deployment)


def kv_capacity_tokens(hardware: Hardware, model: Model, deployment: Deployment) -> jax.Array:
    """Tokens of KV cache that fit beside the model, shape (), counting every layer of every token."""
    return kv_capacity_bytes(hardware, model, deployment) / kv_bytes_per_token(model, deployment)


def sequence_capacity(hardware: Hardware, model: Model, deployment: Deployment, context: Scalar) -> jax.Array:
    """Sequences of `context` tokens whose KV cache fits at once, shape (), rounded down."""
    sequences = kv_capacity_bytes(hardware, model, deployment) / kv_bytes_of_sequence(model, deployment, context)
    return jnp.floor(sequences)
