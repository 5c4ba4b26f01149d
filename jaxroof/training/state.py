"""State of training on one device: weights and optimiser states, their update, and gradients over copies."""

from collections.abc import Callable
from typing import NamedTuple

from jaxroof.deployment import Deployment, degree, largest_stage, replica_devices
from jaxroof.layers.adapters import adapter_elements
from jaxroof.layers.block import block_matrices
from jaxroof.layers.collective import collective
from jaxroof.layers.linear import OPERAND_BYTES, elementwise
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Model, WeightFormat, has_experts
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar
from jaxroof.op import Kernel, Ops
from jaxroof.training.frozen import adapted, frozen_formats, stored_bytes
from jaxroof.training.schedules import weight_copies
from jaxroof.training.training import Training, gradient_ways

UPDATE_FLOPS = 12.0
"""Vector FLOP per parameter of Adam: two moments (3 and 4), bias corrections, root, quotient, decay, step. Ours."""

BUCKET, BUCKET_PER_COPY = 40e6, 1e6
"""Parameters of one message of gradients at least, and per device that has a copy of them; source in `buckets`."""


class Held(NamedTuple):
    """Parameters that the fullest device holds; experts apart, as fewer devices have copies of them. Shapes ()."""

    plain: Scalar
    expert: Scalar
    trained: Scalar  # of the plain ones
    trained_expert: Scalar
    plain_bytes: Scalar  # B of the plain ones as stored: frozen weights may have fewer bits
    expert_bytes: Scalar


def held(model: Model, deployment: Deployment, training: Training) -> Held:
    """Parameters of the fullest device: its stage of the layers, and embedding or head.

    With stages the first has the embedding and the last a head, tied or not, of the same size. A schedule whose
    devices hold two stages (DualPipe) has twice the layers.
    """
    number = _parameters(model, deployment, training, lambda weights: 1.0)
    stored = number
    size = training.weight_bytes
    if frozen_formats(model):
        # Bytes over those of a trained weight: the same sum serves parameters and bytes.
        weighted = _parameters(model, deployment, training, lambda weights: stored_bytes(weights, size) / size)
        stored = weighted
    (plain, expert), bytes_of = number, tuple(size * part for part in stored)
    if training.lora is None:
        return Held(plain, expert, plain, expert, *bytes_of)
    # LoRA trains its adapters alone; everything else is weights without gradients and states.
    adapters = stage_share(model, deployment, training) * adapter_elements(model, adapted(deployment, training.lora))
    return Held(plain + adapters, expert, adapters, 0.0, bytes_of[0] + size * adapters, bytes_of[1])


def _parameters(
    model: Model, deployment: Deployment, training: Training, each: Callable[[WeightFormat], Scalar]
) -> tuple[Scalar, Scalar]:
    """Sums over the fullest device's parameters outside and inside of experts, each weight counted as `each` says."""
    plain, expert = 0.0, 0.0
    for block in model.blocks:
        matrices = block_matrices(block, model.hidden, deployment).values()
        inside = sum(matrix.stored * each(matrix.weights) for matrix in matrices if matrix.routed)
        outside = sum(matrix.stored * each(matrix.weights) for matrix in matrices if not matrix.routed)
        plain = plain + block.count * (outside + block.other_parameters)
        expert = expert + block.count * inside
    stage = stage_share(model, deployment, training)
    table = model.vocabulary * model.hidden / deployment.tp
    first, last = table * each(model.embedding), table * each(model.head)
    outer = first + model.untied * last
    if deployment.pp is not None:
        # Two tables of one size at both ends: tied weights are stored on both stages.
        outer = jnp.where(deployment.pp > 1.0, maximum(first, last), outer)
    return stage * plain + outer + model.other_parameters, stage * expert


def stage_share(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """Share of the layers whose weights the fullest device holds, shape ()."""
    share = largest_stage(deployment, layer_count(model))
    return share if deployment.pp is None else share * weight_copies(training.schedule)


def owned(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """Trained parameters that one device updates, shape (): its shard of them from ZeRO-1 on, else all that it has."""
    parts, ways = held(model, deployment, training), gradient_ways(deployment)
    return sum(
        # ZeRO-1: each of the copies updates its shard.
        trained / jnp.where(training.zero >= 1.0, copies, 1.0)
        for trained, copies in zip((parts.trained, parts.trained_expert), ways, strict=True)
    )


def optimizer_op(model: Model, deployment: Deployment, training: Training) -> Kernel:
    """One update of what the device owns: gradients and states read, states and 16-bit weights written."""
    # Adam streams gradients and states once: 12 FLOP on 28 B at the usual sizes, bound by memory.
    reads = training.gradient_bytes + training.optimizer_bytes
    writes = training.optimizer_bytes + training.weight_bytes
    return elementwise(
        owned(model, deployment, training),
        reads=reads,
        writes=writes,
        element_bytes=1.0,
        flops=UPDATE_FLOPS,
        count=1.0,
        role="optimizer",
    )


def offload_time(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """Time in s of streaming the optimiser's states through the device, shape (): in and out at once over the link
    to the host; 0 where they are not offloaded, or the link is unknown.
    """
    if training.host_bandwidth is None:
        return 0.0
    states = owned(model, deployment, training) * training.optimizer_bytes
    # In and out run at once over a full-duplex link.
    return training.offload * states / training.host_bandwidth


def data_parallel_ops(model: Model, deployment: Deployment, training: Training) -> dict[str, Ops]:
    """Collectives between devices that hold the same weights, in `buckets`: all_reduce and reduce_scatter of all
    gradients, all_gather of the weights that a device needs of others.

    Devices of a group are taken to be evenly spaced, tp x pp apart: exactly so unless pp and another
    axis of copies are all above 1, where the group's inner part is nearer together.
    """
    parts, ways = held(model, deployment, training), gradient_ways(deployment)
    # Megatron order: tensor-parallel ranks are neighbours, then stages; copies lie beyond both.
    near = deployment.tp * degree(deployment.pp)
    groups = [("", parts.plain_bytes, parts.trained, ways[0], near)]
    # Experts have other copies: expert parallelism splits them inside of the replica.
    if has_experts(model):
        groups.append(("expert_", parts.expert_bytes, parts.trained_expert, ways[1], replica_devices(deployment)))
    by_kind: dict[str, Ops] = {"all_reduce": {}, "reduce_scatter": {}, "all_gather": {}}
    for prefix, everything, trained, copies, stride in groups:
        gradients = trained * training.gradient_bytes
        # ZeRO-3 gathers frozen weights too, ZeRO-1 and 2 what was updated.
        weights = jnp.where(training.zero >= 3.0, everything, trained * training.weight_bytes)
        pieces = buckets(model, deployment, training, trained, copies)
        for kind, name, message in (
            ("all_reduce", "gradient_all_reduce", gradients),
            ("reduce_scatter", "gradient_reduce_scatter", gradients),
            ("all_gather", "weight_all_gather", weights),
        ):
            by_kind[kind][prefix + name] = collective(
                kind, message / pieces, copies, pieces, stride, parallelism="dp", role="replica"
            )
    return by_kind


def buckets(model: Model, deployment: Deployment, training: Training, trained: Scalar, copies: Scalar) -> Scalar:
    """Messages that the gradients of `trained` parameters are sent in, shape (), 1 or more: one per layer from ZeRO-3
    on, else one per `BUCKET` parameters, or more where there are more copies.

    Source: Zhao et al., arXiv:2304.11277 (FSDP), section 4.2; NVIDIA/Megatron-LM,
    megatron/core/distributed/distributed_data_parallel.py: max(40000000, 1000000 * dp_world_size).
    """
    # Few large messages reach the links' bandwidth; more copies want larger ones.
    by_size = maximum(trained / maximum(BUCKET, BUCKET_PER_COPY * copies), 1.0)
    return jnp.where(training.zero >= 3.0, layer_count(model) * stage_share(model, deployment, training), by_size)


def layer_weight_bytes(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """B of the weights of the largest layer on one device, shape ()."""
    layers = [
        sum(
            matrix.elements * stored_bytes(matrix.weights, training.weight_bytes)
            for matrix in block_matrices(block, model.hidden, deployment).values()
        )
        for block in model.blocks
    ]
    return maximum(*layers)


def converted_bytes(model: Model, deployment: Deployment) -> Scalar:
    """B of the largest matrix of frozen weights that are converted whole before they are multiplied, shape ()."""
    sizes = [
        matrix.inputs * matrix.outputs * OPERAND_BYTES[matrix.weights.compute]
        for block in model.blocks
        for matrix in block_matrices(block, model.hidden, deployment).values()
        if matrix.weights.dequantised
    ]
    return maximum(*sizes) if len(sizes) > 1 else sum(sizes)
