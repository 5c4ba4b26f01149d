"""Decoding with attention and feed-forward on separate devices, which exchange activations in every layer."""

import dataclasses

from jaxroof import batch as batches
from jaxroof.arrays import jnp
from jaxroof.deployment import replica_devices
from jaxroof.forward import device_tokens, group_batch, stage_tokens
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.transfer import lane_time
from jaxroof.layers.block import block_ops
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.smooth import maximum, minimum
from jaxroof.step import step_times, times_of
from jaxroof.struct import Scalar, struct


@struct
class AttentionSplitCost:
    """One decode step of all micro-batches, and its parts of one layer and micro-batch."""

    tpot: Scalar  # s
    attention: Scalar  # s
    feedforward: Scalar  # s
    send: Scalar  # s, activations one way
    outside: Scalar  # s of all micro-batches beside the layers: embedding, head, sampling, host
    attention_use: Scalar  # share of the layers' time in which the attention pool works
    feedforward_use: Scalar  # the same of the other


def attention_split_cost(
    attention: Pool, feedforward: Pool, model: Model, batch: Scalar, context: Scalar, micro_batches: Scalar
) -> AttentionSplitCost:
    """Time in s of a decode step whose layers' two halves run in pools of their own, shape ().

    tpot = L max(attention + feedforward + 2 send, m max(attention, feedforward, send)) + outside

    m micro-batches go round in turn: a layer takes one of them there and back, or as long as whatever is busiest with
    all of them. Attention replicas each have `batch` sequences; those of the feed-forward pool share all their tokens.

    Args:
      attention, feedforward: the pools; their replicas are `deployment.dp`.
      model: decoder whose every block has both halves.
      batch: sequences of one attention replica.
      context: tokens of each that are attended to.
      micro_batches: that the batch is split into.

    Raises:
      ValueError: while tracing, for a model with a layer that lacks a half, or a pool without links.

    Source: Zhu et al., arXiv:2504.02263 (MegaScale-Infer), section 4.1, equations 1 to 5.
    """
    if any(block.attention is None or block.feedforward is None or block.parallel for block in model.blocks):
        raise ValueError("attention and feed-forward cannot be split: a layer has only one of them, or one norm")
    layers = layer_count(model)
    own = batches.decode(batch / micro_batches, context)
    with_attention = dataclasses.replace(
        model, blocks=tuple(dataclasses.replace(block, feedforward=None) for block in model.blocks)
    )
    times = step_times(attention.hardware, with_attention, attention.deployment, own, attention.efficiency)
    empty = dataclasses.replace(model, blocks=())
    outside = sum(step_times(attention.hardware, empty, attention.deployment, own, attention.efficiency).values())
    here = (sum(times.values()) - outside) / layers
    joined = own.decode.sequences * attention.deployment.dp / feedforward.deployment.dp
    there = _feedforward_time(feedforward, model, batches.decode(joined, context)) / layers
    lanes = minimum(replica_devices(attention.deployment), replica_devices(feedforward.deployment))
    message = own.decode.sequences * model.hidden * attention.deployment.communication_bytes / lanes
    send = maximum(*(lane_time(pool, message) for pool in (attention, feedforward)))
    layer = maximum(here + there + 2.0 * send, micro_batches * maximum(here, there, send))
    return AttentionSplitCost(
        tpot=layers * layer + micro_batches * outside,
        attention=jnp.asarray(here),
        feedforward=jnp.asarray(there),
        send=send,
        outside=jnp.asarray(micro_batches * outside),
        attention_use=micro_batches * here / layer,
        feedforward_use=micro_batches * there / layer,
    )


def _feedforward_time(pool: Pool, model: Model, batch: batches.Batch) -> Scalar:
    """s of the feed-forward half of all layers for one batch, without embedding, head and host."""
    deployment = pool.deployment
    local = group_batch(batch, deployment)
    total = 0.0
    for block in model.blocks:
        half = dataclasses.replace(block, attention=None, cross=None)
        tokens = device_tokens(local, deployment)
        ops = block_ops(half, model.hidden, deployment, local, tokens, stage_tokens(batch, deployment))
        times = times_of(ops, pool.hardware, deployment, batch, pool.efficiency)
        total = total + sum(time for name, time in times.items() if name in ops)
    return total
