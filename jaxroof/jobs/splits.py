"""Transfer of a request's KV cache from the pool that prefills to the pool that decodes: bytes, time, exposed time."""

import dataclasses

from jaxroof import batch as batches
from jaxroof.deployment import Deployment, on_one_device, replica_devices
from jaxroof.jobs.scenario import Pool
from jaxroof.layers.block import block_ops
from jaxroof.layers.collective import collective
from jaxroof.memory.capacity import kv_bytes_of_sequence, layer_count
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import maximum, minimum, positive_part
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.roofline import op_time
from jaxroof.steady.queue import prompt_queue, prompt_steps
from jaxroof.step.forward import device_tokens, group_batch, stage_tokens
from jaxroof.step.step import step_times, times_of


def transfer_bytes(model: Model, deployment: Deployment, tokens: Scalar) -> Scalar:
    """B of cache and states of one sequence of `tokens` tokens, shape (): of all layers and heads, each once."""
    return kv_bytes_of_sequence(model, _whole(deployment), tokens)


def _whole(deployment: Deployment) -> Deployment:
    """One device with everything, at the precisions of `deployment`."""
    # One device at the same precisions: heads that tensor parallelism replicates are counted once.
    return dataclasses.replace(on_one_device(deployment), block_tokens=None)


def transfer_time(prefill: Pool, decode: Pool, model: Model, isl: Scalar, lanes: Scalar | None = None) -> Array:
    """Time in s that one request's cache is on its way, shape (), over the slower of the two pools' links.

    `lanes` devices send an even share each: as a send-receive beyond the scale-up domain where the hardware has
    a scale-out tier, else inside it. Heads that tensor parallelism keeps twice are sent once.

    Args:
      isl: tokens whose cache is sent.
      lanes: links that carry it at once; None: one per device of the smaller replica.

    Raises:
      ValueError: while tracing, where a pool's hardware has no links.
    """
    if lanes is None:
        lanes = minimum(replica_devices(prefill.deployment), replica_devices(decode.deployment))
    # Lanes in parallel: each device sends the same share.
    part = transfer_bytes(model, decode.deployment, isl) / lanes
    # Sender's and receiver's links both carry the message: the slower one decides.
    return maximum(*(lane_time(pool, part) for pool in (prefill, decode)))


def lane_time(pool: Pool, message: Scalar) -> Array:
    """Time in s to send `message` B from one device of a pool out of it, shape ()."""
    links = pool.hardware.links
    if links.scale_up is None and links.scale_out is None:
        raise ValueError("the hardware has no links to hand a cache over; give links.scale_out")
    # A stride of one domain puts sender and receiver in different domains.
    stride = None if links.scale_up is None or links.scale_out is None else links.scale_up.devices
    return op_time(collective("send_recv", message, 2.0, 1.0, stride), pool.hardware, pool.efficiency)


def exposed_time(transfer: Scalar, prefill: Scalar, layers: Scalar, layerwise: Scalar) -> Scalar:
    """Time in s between a prompt's computation and the arrival of its cache, shape ().

    Layer by layer, the last layer's part of the transfer is left, and of the others' what the prompt's own time does
    not hide; otherwise all of it.

    Args:
      transfer: s of all layers.
      prefill: s of the prompt's computation.
      layerwise: 1 or 0.

    Source: Patel et al., arXiv:2311.18677 (Splitwise), section 4.2.
    """
    # All layers but the last can be sent while later ones are computed.
    others = 1.0 - 1.0 / layers
    overlapped = transfer / layers + others * positive_part(transfer - prefill)
    return layerwise * overlapped + (1.0 - layerwise) * transfer


# Latency of a split of devices into replicas that prefill and replicas that decode, at a load of requests.


def rest_of_step(batch: Scalar, step_time: Scalar) -> Array:
    """Mean time in s that a decoding replica takes to notice a prompt, shape (): the rest of the step under way.

    step_time / 2 where a step is under way, which is the share 1 - e^-batch of the time: a Poisson number of sequences
    decode.
    """
    return 0.5 * step_time * (1.0 - jnp.exp(-jnp.asarray(batch, dtype=float)))


def decode_batch_at(rate: Scalar, batches: Array, step_times: Array, steps: Scalar) -> Array:
    """Sequences that one decode replica has at once when `rate` requests/s arrive, shape ().

    Little's law: batch = rate * steps * step_time(batch), solved on the curve of measured or modelled step times;
    between its points both are linear. Below the first point and beyond the last it is the point's.

    Args:
      rate: requests/s of the replica.
      batches: sequences at the points of the curve, increasing, shape [points].
      step_times: s of a decode step at each, shape [points].
      steps: decode steps of each request.

    Source: Little, Operations Research 9(3), 1961.
    """
    # Throughput at each batch size, inverted: the batch whose throughput is the load.
    return jnp.interp(rate, batches / (steps * step_times), batches)


@struct
class Curve:
    """Latencies of one replica of each pool alone, over the sequences that the decode replica has at once."""

    ttft: Scalar  # s without waiting, of a prompt alone
    first: Scalar  # s of it in the prefill step
    prompts: Scalar  # for which a prefill step has room
    service: Scalar  # s of a prefill replica per prompt of a full step
    transfer: Scalar  # s that one request's cache is on its way
    batches: Array  # sequences, increasing, shape [points]
    tpots: Array  # s per output token at each, shape [points]
    tokens: Scalar  # output tokens of each request after the first


def split_latency(curve: Curve, prefill: Scalar, decode: Scalar, rate: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """TTFT and TPOT in s, and use, shapes (), of `prefill` and `decode` replicas at `rate` requests/s.

    Prompts are sent to the prefill replicas in turn, `prompt_queue`; decode replicas have as many sequences at once as
    their share of the load leaves under way, and take a prompt between two steps. `use` is the load over what the
    slower pool, or the links between them, can do at most: from 1 on, latencies are those of the edge and mean nothing.
    """
    # Decode throughput at the largest batch of the curve: the pool's limit.
    most = (curve.batches / (curve.tokens * curve.tpots))[-1]
    use = maximum(
        rate * curve.service / prefill, rate / (decode * most), rate * curve.transfer / minimum(prefill, decode)
    )
    batch = decode_batch_at(rate / decode, curve.batches, curve.tpots, curve.tokens)
    tpot = jnp.interp(batch, curve.batches, curve.tpots)
    steps = prompt_steps(curve.first, curve.prompts * curve.service, curve.prompts)
    waited = prompt_queue(rate / prefill, steps, 1.0, prefill).ttft - curve.first
    return curve.ttft + waited + rest_of_step(batch, tpot), tpot, use


# Decoding with attention and feed-forward on separate devices, which exchange activations in every layer.


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


@differentiated_at_once
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
    sequences = batch / micro_batches
    # Micro-batches alternate between the two pools (ping-pong), so each works on a part of the sequences.
    own = batches.decode(sequences, context)
    with_attention = dataclasses.replace(
        model, blocks=tuple(dataclasses.replace(block, feedforward=None) for block in model.blocks)
    )
    times = step_times(attention.hardware, with_attention, attention.deployment, own, attention.efficiency)
    empty = dataclasses.replace(model, blocks=())
    outside = sum(step_times(attention.hardware, empty, attention.deployment, own, attention.efficiency).values())
    # Attention's part of a layer, without embedding, head and host.
    here = (sum(times.values()) - outside) / layers
    # Feed-forward replicas gather tokens of several attention replicas: larger batches for the experts.
    joined = sequences * attention.deployment.dp / feedforward.deployment.dp
    there = _feedforward_time(feedforward, model, batches.decode(joined, context)) / layers
    lanes = minimum(replica_devices(attention.deployment), replica_devices(feedforward.deployment))
    message = sequences * model.hidden * attention.deployment.communication_bytes / lanes
    send = maximum(*(lane_time(pool, message) for pool in (attention, feedforward)))
    # Latency bound: a micro-batch's way through a layer. Throughput bound: all micro-batches through the busiest pool.
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
