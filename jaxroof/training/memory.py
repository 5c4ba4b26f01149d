"""Memory of one device in training, by kind: weights, gradients, optimiser states, activations, buffers."""

from jaxroof.deployment import Deployment, degree, largest_stage
from jaxroof.hardware import Hardware
from jaxroof.layers.block import block_matrices
from jaxroof.layers.feedforward import expert_load
from jaxroof.layers.linear import Matrix
from jaxroof.layers.registry import mixer_kind
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Block, Experts, Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, positive_part
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.numerics.tree import leaves
from jaxroof.training.frozen import frozen_formats
from jaxroof.training.passes import LOSS_BYTES, pass_tokens
from jaxroof.training.schedules import in_flight
from jaxroof.training.state import converted_bytes, held, layer_weight_bytes
from jaxroof.training.training import RECOMPUTES, Training, gradient_ways, micro_batches

SCORE_BYTES, SCORE_DROPOUT_BYTES = 2.0, 3.0
"""B per score that attention stores where it is not fused: the softmax's result; with dropout its result and mask."""

RESERVE_BYTES = 3e9
"""B of the framework, its context and communication buffers where a deployment's `reserve_bytes` is none. Ours,
assumed."""

GATHERED_LAYERS = 2.0
"""Layers whose weights ZeRO-3 holds at once: the one that runs, and the next one, which is fetched."""


@struct
class TrainingMemory:
    """B on the fullest device, by kind."""

    weights: Scalar  # frozen ones as stored
    gradients: Scalar
    optimizer: Scalar
    activations: Scalar  # of all micro-batches in flight
    buffers: Scalar  # of the framework and messages; layers that ZeRO-3 gathers or recomputation works on; weights
    # that are converted before they are multiplied, one matrix at a time


def training_memory(model: Model, deployment: Deployment, training: Training) -> TrainingMemory:
    """Memory of one iteration on the fullest device, at its peak. Shapes ().

    With parameters P and P_e outside and inside of experts, of which D and D_e devices have copies:

    optimizer = 12 (P / D + P_e / D_e) from ZeRO-1 on, gradients so from ZeRO-2, weights from ZeRO-3; else undivided.

    Source: Rajbhandari, Rasley, Ruwase & He, arXiv:1910.02054, section 3.1 and figure 1.
    """
    parts, ways = held(model, deployment, training), gradient_ways(deployment)

    def stored(plain: Scalar, expert: Scalar, level: float) -> Scalar:
        # Sharded from this ZeRO level on, else a whole copy on every device.
        return sum(
            number / jnp.where(training.zero >= level, copies, 1.0)
            for number, copies in zip((plain, expert), ways, strict=True)
        )

    trained = parts.trained, parts.trained_expert
    # Buffers: ZeRO-3 holds the weights of two layers at once, full recomputation the activations of one.
    gathered = layer_weight_bytes(model, deployment, training)
    is_full = training.recompute == float(RECOMPUTES.index("full"))
    buffers = _reserve(deployment) + jnp.where(training.zero >= 3.0, GATHERED_LAYERS * gathered, 0.0)
    buffers = buffers + jnp.where(is_full, maximum(*_layers(model, deployment, training)), 0.0)
    if frozen_formats(model):
        buffers = buffers + converted_bytes(model, deployment)
    return TrainingMemory(
        weights=stored(parts.plain_bytes, parts.expert_bytes, 3.0),
        gradients=training.gradient_bytes * stored(*trained, 2.0),
        optimizer=training.optimizer_bytes * stored(*trained, 1.0) * positive_part(1.0 - training.offload),
        activations=activation_memory(model, deployment, training),
        buffers=buffers,
    )


def _reserve(deployment: Deployment) -> Scalar:
    return RESERVE_BYTES if deployment.reserve_bytes is None else deployment.reserve_bytes


def total_memory(memory: TrainingMemory) -> Scalar:
    """B of all kinds, shape ()."""
    return sum(leaves(memory))


def training_fits(hardware: Hardware, memory: TrainingMemory) -> Array:
    """Whether it fits the device, shape ()."""
    return jnp.asarray(total_memory(memory) <= hardware.memory.hbm.capacity)


def activation_memory(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """B of what forward passes keep for backward passes on the fullest device, shape ().

    The first stage holds most micro-batches, and what the embedding keeps is nothing; the last one holds one, and
    the logits besides. What counts is the larger of both.
    """
    share, pp = largest_stage(deployment, layer_count(model)), degree(deployment.pp)
    number = in_flight(training.schedule, pp, training.virtual_stages, micro_batches(training, deployment))
    layers = share * sum(
        block.count * layer_bytes
        for block, layer_bytes in zip(model.blocks, kept_activations(model, deployment, training), strict=True)
    )
    # 1F1B: the first stage holds p micro-batches' activations, the last one holds one and the logits.
    return maximum(layers * number, layers + head_activations(model, deployment, training))


def head_activations(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """B that norm, head and loss keep of one micro-batch: two inputs, and the logits in float32, shape ().

    Source: Korthikanti et al., arXiv:2205.05198, section 4.3.
    """
    if not model.generates:
        return 0.0
    tokens, _ = pass_tokens(deployment, training)
    inputs = 2.0 * model.hidden * deployment.activation_bytes / _stream_ways(deployment)
    # Cross entropy keeps its float32 softmax for the backward pass.
    return tokens * (inputs + LOSS_BYTES * model.vocabulary / deployment.tp)


def kept_activations(model: Model, deployment: Deployment, training: Training) -> list[Scalar]:
    """B that one layer of each block keeps of one micro-batch on one device, with what is recomputed left out.

    full: the layer's input alone, 2 s b h; else `_layers`.
    """
    tokens, _ = pass_tokens(deployment, training)
    inputs = tokens * model.hidden * deployment.activation_bytes / _stream_ways(deployment)
    full = training.recompute == float(RECOMPUTES.index("full"))
    # Checkpointing: the layer's input is kept and all else computed again.
    return [jnp.where(full, inputs, layer_bytes) for layer_bytes in _layers(model, deployment, training)]


def _layers(model: Model, deployment: Deployment, training: Training) -> list[Scalar]:
    return [layer_activations(block, model.hidden, deployment, training) for block in model.blocks]


def layer_activations(block: Block, hidden: Scalar, deployment: Deployment, training: Training) -> Scalar:
    """B that one layer keeps of one micro-batch on one device without full recomputation, shape ().

    Every norm keeps its input and its result, and what mixes n residual streams n inputs; every matrix its inputs,
    where they are not a norm's result, and its results, where they are not added to the residual stream. Dropout keeps
    a mask of 1 B per element of what is added to it, and attention that is not fused and not recomputed its scores.

    For GPT with tp = t: s b h (10 + 24 / t + 5 a s / (h t)), with sequence parallelism s b h (34 / t + 5 a s / (h t)),
    and without the last term where attention is fused or recomputed. The statistics that fused attention keeps, 4 B
    per head and token, are left out.

    Source: Korthikanti et al., arXiv:2205.05198, equations 1, 2, 4 and 6 and table 2, for GPT; ours for the others.
    """
    tokens, group_tokens = pass_tokens(deployment, training)
    element, stream = deployment.activation_bytes, _stream_ways(deployment)
    # Norms: input and result of each, one to a sublayer; and masks of what dropout passes to the residual stream.
    slots = [slot for slot in (block.attention, block.cross, block.feedforward) if slot is not None]
    normed = 1.0 if block.parallel else float(len(slots))
    norms = 2.0 * normed + (block.norms - 1.0) * normed
    if block.streams is not None:
        norms = norms + (block.streams.count - 1.0) * normed
    kept_bytes = tokens * hidden * element * norms / stream
    kept_bytes = kept_bytes + tokens * hidden * training.dropout * len(slots) / stream
    # Matrices: of experts the rows that the busiest device works on, each multiplied once.
    for matrix in block_matrices(block, hidden, deployment).values():
        rows, copies = tokens, matrix.copies
        if matrix.routed and isinstance(block.feedforward, Experts):
            load = expert_load(block.feedforward, deployment, group_tokens).device
            rows = group_tokens * block.feedforward.top_k * load / degree(deployment.ep)
            copies = 1.0
        kept_bytes = kept_bytes + rows * copies * element * _kept_widths(matrix, training)
    # Scores: what softmax made of them, of every head, query and key.
    mixer = block.attention
    if deployment.attention_kernel == "unfused" and mixer is not None and mixer_kind(mixer).writes_scores:
        heads, keys = mixer.heads / deployment.tp, training.seq
        stored = training.recompute == float(RECOMPUTES.index("none"))
        scores = tokens * keys * heads * (SCORE_BYTES + SCORE_DROPOUT_BYTES * training.dropout)
        kept_bytes = kept_bytes + jnp.where(stored, scores, 0.0)
    return kept_bytes


def _kept_widths(matrix: Matrix, training: Training) -> Scalar:
    """Elements per row of a matrix's inputs and results that are kept.

    Norms keep their results themselves. Without its own gradient a matrix needs no inputs, but what attention made is
    kept for attention's gradient. What is added to the residual stream nothing needs.
    """
    # Backward of Y = f(X W): dW needs X, and the derivative of f needs Y.
    frozen = training.lora is not None and matrix.target is not None and matrix.target not in training.lora.targets
    inputs = 0.0 if matrix.reads_norm or frozen else matrix.inputs
    return inputs if matrix.to_residual else inputs + matrix.outputs


def _stream_ways(deployment: Deployment) -> Scalar:
    """Ways that the residual stream's tokens are split within a tensor-parallel group."""
    return deployment.tp if deployment.sequence_parallel else 1.0
