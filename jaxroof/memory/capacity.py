"""Memory of a device: parameters, weights, KV cache, states, activations, and the capacity that is left."""

import dataclasses
from typing import NamedTuple

from jaxroof.deployment import Deployment, degree, largest_stage, request_groups
from jaxroof.deployment.speculation import draft_deployment, drafter, predictor
from jaxroof.hardware import Hardware, spread_over_mesh
from jaxroof.layers.adapters import ADAPTER_BYTES, adapter_elements
from jaxroof.layers.attention import Attention, attention_kv_bytes
from jaxroof.layers.block import block_matrices, encoder_matrices
from jaxroof.layers.embedding import join_matrix, prediction_matrices
from jaxroof.layers.linear import Matrices
from jaxroof.layers.registry import feed_forward_kind, mixer_kind
from jaxroof.memory.reserve import activation_bytes, captured_bytes, memory_share, other_bytes, sampler_bytes
from jaxroof.model import Block, Model, head_rows
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, floor, maximum, minimum, positive_part
from jaxroof.numerics.struct import Array, Scalar

OTHER_PARAMETER_BYTES = 2.0
"""B of one norm weight or bias; they stay at 16 bits in every checkpoint format."""

WHOLE = Deployment()
"""One device that holds everything."""


def parameter_count(model: Model) -> Scalar:
    """Parameters of the language model, shape (): embedding, head unless tied, every layer, every norm and bias.

    Encoder and prediction head are apart: `encoder_parameter_count`, `prediction_parameter_count`.
    """
    return _outer_parameters(model) + sum(block.count * _parameters(block, model.hidden) for block in model.blocks)


def active_parameter_count(model: Model) -> Scalar:
    """Parameters that one token is multiplied with, shape (): of the experts only the `top_k` it is routed to.

    The embedding and an untied head both count, as model cards count them.
    """
    active = (_active(block, model.hidden) for block in model.blocks)
    return _outer_parameters(model) + sum(block.count * _parameters(block, model.hidden) for block in active)


def _active(block: Block, hidden: Scalar) -> Block:
    """The part of a layer that one token runs."""
    layer = block.feedforward
    part = None if layer is None else feed_forward_kind(layer).active
    # Dense layers run as a whole; of experts a token meets its top_k and the shared ones, but the whole router.
    if part is None:
        return block
    active, others = part(layer, hidden)
    return dataclasses.replace(block, feedforward=active, other_parameters=block.other_parameters + others)


def encoder_parameter_count(model: Model) -> Scalar:
    """Parameters of the encoder with its projector, shape (); 0 without one."""
    encoder = model.encoder
    if encoder is None:
        return 0.0
    # A deployment of one device has every split at 1, so sizes of a device are those of the model.
    matrices = sum(count * _elements(held) for held, count in encoder_matrices(encoder, WHOLE))
    return matrices + encoder.other_parameters + sum(block.count * block.other_parameters for block in encoder.blocks)


def prediction_parameter_count(model: Model) -> Scalar:
    """Parameters of the multi-token-prediction head, shape (); 0 without one."""
    head = model.prediction
    if head is None:
        return 0.0
    matrices = _elements(prediction_matrices(head, model.hidden, WHOLE))
    return head.count * (matrices + head.block.other_parameters + head.other_parameters)


def _outer_parameters(model: Model) -> Scalar:
    # A draft that shares its model's embedding has none of its own.
    embedding = 0.0 if model.shared_embedding else model.vocabulary
    features = 0.0 if model.features is None else model.features.inputs
    return (embedding + model.untied * head_rows(model) + features) * model.hidden + model.other_parameters


def _parameters(block: Block, hidden: Scalar) -> Scalar:
    return _elements(block_matrices(block, hidden, WHOLE)) + block.other_parameters


def _elements(matrices: Matrices) -> Scalar:
    return sum(matrix.stored for matrix in matrices.values())


def weight_bytes(model: Model, deployment: Deployment) -> Scalar:
    """B of weights that the fullest device holds as an engine loads them, shape ().

    Projections, embedding and head are split over tp; KV projections are replicated when tp > kv_heads; what makes
    latent vectors, router, norms and biases are on every device; latent attention keeps its absorbed matrices beside
    the stored one; kernels of microscaled experts have them padded; a draft model is stored as the model is, and loaded
    adapters besides. A pipeline stage has its layers, and the first or last one the embedding or the head.
    """
    rows = 0.0 if model.shared_embedding else model.vocabulary
    # Vocabulary parallel: embedding and head are split by rows of words.
    embedding = rows * model.hidden * model.embedding.bytes / deployment.tp
    head = head_rows(model) * model.hidden * model.head.bytes / deployment.tp
    # Tied weights are stored once.
    outer = embedding + model.untied * head
    if deployment.pp is not None:
        # With stages the first device holds the embedding and the last one the head, tied or not: the fuller of the two
        # counts.
        outer = jnp.where(deployment.pp > 1.0, maximum(embedding, head), outer)
    if model.features is not None:
        outer = outer + model.features.inputs * model.hidden * model.features.weights.bytes
    total = outer + model.other_parameters * OTHER_PARAMETER_BYTES
    layers = sum(block.count * _stored(block, model.hidden, deployment) for block in model.blocks)
    adapters = ADAPTER_BYTES * adapter_elements(model, deployment)
    # A stage's share of the layers; uneven stages count by the fullest, which runs out of memory first.
    total = total + largest_stage(deployment, layer_count(model)) * (layers + adapters)
    if model.encoder is not None:
        held = encoder_matrices(model.encoder, deployment)
        total = total + sum(count * _bytes(matrices) for matrices, count in held)
        others = sum(block.count * block.other_parameters for block in model.encoder.blocks)
        total = total + (model.encoder.other_parameters + others) * OTHER_PARAMETER_BYTES
    draft = drafter(model, deployment)
    if draft is not None:
        # A draft model lies beside the model in the same layout.
        total = total + weight_bytes(draft, draft_deployment(deployment))
    elif (head := predictor(model, deployment)) is not None:
        module = _stored(head.block, model.hidden, deployment) + head.other_parameters * OTHER_PARAMETER_BYTES
        total = total + head.count * (module + _bytes({"join_proj": join_matrix(head, model.hidden)}))
    return total


def layer_count(model: Model) -> Scalar:
    """Layers of the decoder, shape ()."""
    return sum(block.count for block in model.blocks)


def _stored(block: Block, hidden: Scalar, deployment: Deployment) -> Scalar:
    stored = _bytes(block_matrices(block, hidden, deployment)) + block.other_parameters * OTHER_PARAMETER_BYTES
    layer = block.feedforward
    padded_bytes = None if layer is None else feed_forward_kind(layer).padded_bytes
    if padded_bytes is not None:
        stored = stored + padded_bytes(layer, hidden, deployment)
    copies = None if block.attention is None else mixer_kind(block.attention).copies
    # Absorbed matrices of latent attention are converted copies, which engines keep beside the stored ones.
    if copies is None:
        return stored
    return stored + sum(matrix.elements * matrix.weights.bytes for matrix in copies(block.attention, deployment))


def _bytes(matrices: Matrices) -> Scalar:
    return sum(matrix.stored * matrix.weights.bytes for matrix in matrices.values())


def kv_bytes_per_token(model: Model, deployment: Deployment) -> Scalar:
    """B of KV cache that one token adds on the fullest device while no window has closed, shape ()."""
    if not model.generates:
        return 0.0
    # Windows are not closed yet: every layer adds a token, which is the rate at which a young sequence grows.
    layers = sum(block.count * _token_bytes(block, deployment) for block in model.blocks)
    held = layers * _cache_share(model, deployment)
    draft = drafter(model, deployment)
    return held if draft is None else held + kv_bytes_per_token(draft, draft_deployment(deployment))


def kv_bytes_of_sequence(model: Model, deployment: Deployment, context: Scalar, encoded: Scalar = 0.0) -> Scalar:
    """B of cache and states of one sequence of `context` tokens on the fullest device, shape ().

    Windowed layers hold their window, layers with a state hold it however long the sequence; cross-attention holds the
    keys and values of `encoded` encoder outputs; in blocks of `block_tokens` the last one counts whole. An encoder-only
    model caches nothing: its activations are counted.
    """
    if not model.generates:
        # Without a cache what a request takes is its share of the step's activations.
        return context * activation_bytes(model, deployment) / deployment.max_batched_tokens
    # PagedAttention: blocks of tokens; the last one is allocated whole.
    if deployment.block_tokens is not None:
        context = paged_tokens(context, deployment.block_tokens)
    held = sum(block.count * _sequence_bytes(block, deployment, context) for block in model.blocks)
    # Keys and values of the encoder's output do not grow while decoding.
    held = held + encoded * sum(
        block.count * attention_kv_bytes(block.cross, deployment)
        for block in model.blocks
        if isinstance(block.cross, Attention)
    )
    # States are not split by context parallelism, so they stand apart from the tokens' cache.
    fixed = sum(block.count * _fixed_bytes(block, deployment) for block in model.blocks)
    stage = largest_stage(deployment, layer_count(model))
    held = held * _cache_share(model, deployment) + fixed * stage
    draft = drafter(model, deployment)
    return held if draft is None else held + kv_bytes_of_sequence(draft, draft_deployment(deployment), context, encoded)


def paged_tokens(tokens: Scalar, block_tokens: Scalar) -> Array:
    """Tokens of room that a sequence of `tokens` tokens takes in whole blocks, shape ()."""
    return ceiling(tokens / block_tokens) * block_tokens


def state_bytes_of_sequence(model: Model, deployment: Deployment) -> Scalar:
    """B of what one sequence holds on the fullest device however short it is, shape (): states of linear attention."""
    fixed = sum(block.count * _fixed_bytes(block, deployment) for block in model.blocks)
    held = fixed * largest_stage(deployment, layer_count(model))
    draft = drafter(model, deployment)
    return held if draft is None else held + state_bytes_of_sequence(draft, draft_deployment(deployment))


def _cache_share(model: Model, deployment: Deployment) -> Scalar:
    """Share of a token's cache that one device holds: its stage's layers, and of those its part of the context."""
    # Context parallelism splits the tokens of a cache, pipeline parallelism its layers, tensor parallelism (in
    # `token_bytes`) its heads.
    return largest_stage(deployment, layer_count(model)) / degree(deployment.cp)


def _token_bytes(block: Block, deployment: Deployment) -> Scalar:
    """B of cache that one token adds in one layer."""
    token_bytes = None if block.attention is None else mixer_kind(block.attention).token_bytes
    return 0.0 if token_bytes is None else token_bytes(block.attention, deployment)


def _sequence_bytes(block: Block, deployment: Deployment, context: Scalar) -> Scalar:
    """B of cache of one sequence in one layer, without what it holds however short it is."""
    mixer = block.attention
    cached_tokens = context if mixer is None else mixer_kind(mixer).kept_tokens(mixer, context)
    return cached_tokens * _token_bytes(block, deployment)


def _fixed_bytes(block: Block, deployment: Deployment) -> Scalar:
    """B that one sequence holds in one layer however short it is."""
    fixed_bytes = None if block.attention is None else mixer_kind(block.attention).fixed_bytes
    return 0.0 if fixed_bytes is None else fixed_bytes(block.attention, deployment)


class MemoryParts(NamedTuple):
    """B on the fullest device that do not hold KV cache. Shapes ()."""

    weights: Scalar  # as loaded
    activations: Scalar  # of the largest step
    sampler: Scalar  # of the profiling step: logits and their copies; reuses the room of the activations
    graphs: Scalar  # captured before the cache is sized
    other: Scalar  # driver, context, libraries, communication

    @property
    def peak(self) -> Scalar:
        """The step's peak: activations, or the sampler after them where it needs more."""
        # The sampler runs after the layers: its logits reuse the room of their activations, so the larger peak counts.
        return maximum(self.activations, self.sampler)


def memory_parts(hardware: Hardware, model: Model, deployment: Deployment) -> MemoryParts:
    """What takes memory beside the KV cache, by part, as an engine's start-up log names it.

    Rows flow through a program that is spread over a mesh one by one, so that none of its activations are kept.
    """
    if spread_over_mesh(hardware):
        return MemoryParts(weight_bytes(model, deployment), 0.0, 0.0, 0.0, other_bytes(hardware, deployment))
    return MemoryParts(
        weights=weight_bytes(model, deployment),
        activations=activation_bytes(model, deployment),
        sampler=sampler_bytes(hardware, model, deployment),
        graphs=captured_bytes(model, deployment),
        other=other_bytes(hardware, deployment),
    )


def reserved_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """B that the engine's share of memory holds beside weights and KV cache, shape ().

    Peak of the step, graphs and the rest; where the share is `memory_static`, the rest alone.
    """
    parts = memory_parts(hardware, model, deployment)
    # SGLang's `mem_fraction_static` is of weights and cache alone; vLLM's utilisation is of everything.
    return (1.0 - deployment.memory_static) * (parts.peak + parts.graphs) + parts.other


def device_bytes(hardware: Hardware, deployment: Deployment) -> Scalar:
    """B of device memory that the engine may use, weights and all that is reserved included, shape ()."""
    share = jnp.where(deployment.memory_of_free > 0.0, 1.0, memory_share(hardware, deployment))
    return share * hardware.memory.hbm.capacity


def room_for_weights(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """B of a device that weights and KV cache may take together, shape (); not above 0 where nothing is left."""
    room = device_bytes(hardware, deployment) - reserved_bytes(hardware, model, deployment)
    return room if hardware.memory.beside is None else room + sum(beside_bytes(hardware).values())


def beside_bytes(hardware: Hardware) -> dict[str, Scalar]:
    """B of a device's share of each memory beside its own, by name."""
    return {name: memory.capacity / memory.devices for name, memory in (hardware.memory.beside or {}).items()}


def kv_capacity_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> Array:
    """B per device left for KV cache after weights and what else the engine's share holds, shape (), never negative."""
    return positive_part(_free_bytes(hardware, model, deployment))


def weights_fit(hardware: Hardware, model: Model, deployment: Deployment) -> Array:
    """True where weights and what else the engine's share holds leave room for a KV cache, shape ()."""
    return jnp.asarray(_free_bytes(hardware, model, deployment) > 0.0)


def _free_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    own = memory_share(hardware, deployment) * hardware.memory.hbm.capacity
    free = own - _held_bytes(hardware, model, deployment)
    if hardware.memory.beside is None:
        return free
    # A memory may hold one of both alone: weights must fit where they may live, and so must the cache.
    weights, beside = weight_bytes(model, deployment), beside_bytes(hardware)
    of_weights = sum(hardware.memory.beside[name].weights * room for name, room in beside.items())
    of_cache = sum(hardware.memory.beside[name].cache * room for name, room in beside.items())
    homeless = positive_part(-free - of_weights)
    together = minimum(free + sum(beside.values()), free + weights + of_cache)
    return jnp.where(homeless > 0.0, -homeless, together)


def _held_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """B beside the cache as they count against the usable share of the memory.

    A share u of all of the memory C leaves u C - held. One of what is free leaves u (C - held) = u C - u held.
    """
    held = weight_bytes(model, deployment) + reserved_bytes(hardware, model, deployment)
    # A share of free memory is counted as a share of all: what is held shrinks in the same proportion.
    return held * (1.0 - deployment.memory_of_free * (1.0 - memory_share(hardware, deployment)))


def kept_share(deployment: Deployment) -> Scalar:
    """Share of every sequence's cache that the device itself keeps."""
    return 1.0 if deployment.offloaded is None else 1.0 - deployment.offloaded


def _room(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """B of cache that fits, whatever part of it is outside: the device's room or the outside's ends it first."""
    inside = kv_capacity_bytes(hardware, model, deployment)
    if deployment.offloaded is None:
        return inside
    outside = getattr(hardware.memory, deployment.offload_to)
    if outside is None:
        raise ValueError(
            f"hardware.memory.{deployment.offload_to} is unknown; give its bandwidth and capacity per device"
        )
    some = deployment.offloaded > 0.0
    # A part x of every sequence is outside: capacity / x sequences' worth of bytes fit there.
    beyond = outside.capacity / jnp.where(some, deployment.offloaded, 1.0)
    within = inside / kept_share(deployment)
    # Both memories hold a part of every sequence, so the one that is full first bounds both.
    return jnp.where(some, minimum(within, beyond), within)


def memory_use(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    context: Scalar,
    sequences: Scalar,
    encoded: Scalar = 0.0,
) -> Array:
    """Share of the usable device memory that `sequences` of `context` tokens and the model need, shape ().

    More than 1 where they do not fit. Differentiable everywhere, which `weights_fit` is not.
    """
    # Requests are spread evenly over attention groups, each of which has a cache of its own.
    held = kv_bytes_of_sequence(model, deployment, context, encoded) * sequences / request_groups(deployment)
    held = held * kept_share(deployment)
    needed = _held_bytes(hardware, model, deployment) + held
    usable = memory_share(hardware, deployment) * hardware.memory.hbm.capacity
    return jnp.asarray(needed / (usable + sum(beside_bytes(hardware).values())))


def kv_capacity_tokens(hardware: Hardware, model: Model, deployment: Deployment) -> Array:
    """Tokens of KV cache that one attention group fits beside the model, shape (), counting every layer of each token.

    A model that keeps only states, or nothing, counts one token as what a sequence of one token holds.
    """
    per_token = kv_bytes_per_token(model, deployment)
    # Linear attention has no bytes per token: a sequence's state counts as one token.
    held = jnp.where(per_token > 0.0, per_token, kv_bytes_of_sequence(model, deployment, 1.0))
    return _room(hardware, model, deployment) / held


def kv_cache_blocks(hardware: Hardware, model: Model, deployment: Deployment, size: Scalar) -> Array:
    """Blocks of `size` tokens that all attention groups together fit: a whole number, as a float, shape ()."""
    return jnp.floor(kv_capacity_tokens(hardware, model, deployment) * request_groups(deployment) / size)


def sequence_capacity(
    hardware: Hardware, model: Model, deployment: Deployment, context: Scalar, encoded: Scalar = 0.0
) -> Array:
    """Sequences of `context` tokens and `encoded` encoder outputs whose cache fits a replica at once, shape ().

    Rounded down; the gradient is that of the ratio itself. Every attention group of a replica has a cache of its own.
    """
    held = kv_bytes_of_sequence(model, deployment, context, encoded)
    sequences = _room(hardware, model, deployment) / held
    # Rounded down per group: half a sequence in each of two caches is none.
    return floor(sequences) * request_groups(deployment)
