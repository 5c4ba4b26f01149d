"""Prompts on some devices and decoding on others: what the cache's way between them costs, and which pool is slower."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxroof.deployment import Deployment, replica_devices
from jaxroof.efficiency import Efficiency
from jaxroof.field import number, switch
from jaxroof.hardware import Hardware
from jaxroof.layers.collective import collective
from jaxroof.memory import kv_bytes_of_sequence, layer_count
from jaxroof.model import Model
from jaxroof.op_time import op_time
from jaxroof.request import EqualRequests, Requests, request_cost, tokens_per_step
from jaxroof.smooth import maximum, minimum, positive_part
from jaxroof.speculation import Acceptance, acceptance_number
from jaxroof.struct import Scalar, struct

BOTTLENECKS = ("prefill", "decode", "transfer")
"""What limits the rate of requests, in the order of the integer codes that cost functions return."""

BUSIEST = 0.999
"""Utilisation at which waiting is still told: a queue that is busier has no mean waiting time."""


@struct
class Pool:
    """Devices that do one part of the work: `deployment.dp` replicas."""

    hardware: Hardware
    deployment: Deployment
    efficiency: Efficiency


@struct
class Handover(EqualRequests):
    """Requests that are prefilled in one pool, hand their cache over, and are decoded in the other.

    `batch` sequences are decoded at once by each replica of the decode pool; the prefill pool has the `cached` tokens.
    """

    prompts: Scalar = number("1", "prompts of one prefill step", whole=True, default=1.0)
    acceptance: Acceptance = acceptance_number()
    rate: Scalar | None = number(
        "1/s", "requests sent per second", "at random times; None: a prompt finds its replica idle", default=None
    )
    lanes: Scalar | None = number(
        "1",
        "links that carry one request's cache at once",
        "None: one per device of the fewer",
        whole=True,
        default=None,
    )
    layerwise: Scalar = switch(
        "1 where a layer's cache leaves as soon as it is computed", "0: all of it after the prompt", default=1.0
    )


@struct
class HandoverCost:
    """What a request meets, and how many requests the pools can do."""

    ttft: Scalar  # s, arrival to the first token, which the client gets from the decode pool
    tpot: Scalar  # s per output token after the first
    e2e: Scalar  # s, arrival to last token
    wait: Scalar  # s in the queue of the prefill pool
    transfer: Scalar  # s that the cache is on its way
    exposed: Scalar  # s of it after the prompt has been computed
    prefill_rate: Scalar  # requests/s of the prefill pool at most
    decode_rate: Scalar  # requests/s of the decode pool at its batch
    transfer_rate: Scalar  # requests/s of the links between them at most
    rate: Scalar  # requests/s: the least of the three
    bottleneck: Scalar  # index into BOTTLENECKS


def prefill_requests(work: Handover) -> Requests:
    """What one replica of the prefill pool works on at once: prompts that make one token each."""
    return Requests(batch=work.prompts, isl=work.isl, osl=1.0, cached=work.cached)


def decode_requests(work: Handover) -> Requests:
    """What one replica of the decode pool works on at once."""
    return Requests(batch=work.batch, isl=work.isl, osl=work.osl, cached=0.0, acceptance=work.acceptance)


def transfer_bytes(model: Model, deployment: Deployment, tokens: Scalar) -> Scalar:
    """B of cache and states of one sequence of `tokens` tokens, shape (): of all layers and heads, each once."""
    return kv_bytes_of_sequence(model, _whole(deployment), tokens)


def _whole(deployment: Deployment) -> Deployment:
    """One device with everything, at the precisions of `deployment`."""
    return dataclasses.replace(
        deployment, tp=1.0, pp=None, cp=None, attention_dp=None, ep=None, stages=None, block_tokens=None
    )


def transfer_time(prefill: Pool, decode: Pool, model: Model, work: Handover) -> jax.Array:
    """Time in s that one request's cache is on its way, shape (), over the slower of the two pools' links.

    `work.lanes` devices send an even share each: as a send-receive beyond the scale-up domain where the hardware has
    a scale-out tier, else inside it. Heads that tensor parallelism keeps twice are sent once.

    Raises:
      ValueError: while tracing, where a pool's hardware has no links.
    """
    lanes = work.lanes
    if lanes is None:
        lanes = minimum(replica_devices(prefill.deployment), replica_devices(decode.deployment))
    part = transfer_bytes(model, decode.deployment, work.isl) / lanes
    return maximum(*(lane_time(pool, part) for pool in (prefill, decode)))


def lane_time(pool: Pool, message: Scalar) -> jax.Array:
    """Time in s to send `message` B from one device of a pool out of it, shape ()."""
    links = pool.hardware.links
    if links.scale_up is None and links.scale_out is None:
        raise ValueError("the hardware has no links to hand a cache over; give links.scale_out")
    inside = links.scale_up is None or links.scale_out is None
    stride = None if inside else links.scale_up.devices
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
    others = 1.0 - 1.0 / layers
    overlapped = transfer / layers + others * positive_part(transfer - prefill)
    return layerwise * overlapped + (1.0 - layerwise) * transfer


def waiting_time(rate: Scalar, service: Scalar) -> jax.Array:
    """Mean time in s that requests wait which arrive at random and are served one after the other, shape ().

    rate service^2 / (2 (1 - rate service)); a queue that is fuller than `BUSIEST` is told as if it were that full, so
    that value and gradient stay finite: `rate` against the pool's own says whether it can keep up.

    Args:
      rate: requests/s of one server.
      service: s of each.

    Source: the M/D/1 queue; Zhong et al., arXiv:2401.09670 (DistServe), equation 1.
    """
    busy = jnp.minimum(rate * service, BUSIEST)
    return service * busy / (2.0 * (1.0 - busy))


def handover_cost(
    prefill: Pool, decode: Pool, model: Model, work: Handover, prefill_time: Scalar, step_time: Scalar
) -> HandoverCost:
    """Latencies and rates of two pools from the times of their steps.

    ttft = request_time + wait + prefill_time + exposed;  tpot = step_time / tokens per step
    rates = replicas * requests at once / time that they take: prompts / prefill_time, batch / ((osl - 1) tpot)

    Args:
      prefill_time: s of the prompts of one prefill step, all micro-batches.
      step_time: s from one decode step of a sequence to its next.
    """
    tpot = step_time / tokens_per_step(decode.deployment, decode_requests(work))
    transfer = transfer_time(prefill, decode, model, work)
    exposed = exposed_time(transfer, prefill_time, layer_count(model), work.layerwise)
    replicas = prefill.deployment.dp, decode.deployment.dp
    service = prefill_time / work.prompts
    rates = (
        replicas[0] / service,
        replicas[1] * work.batch / (maximum(work.osl - 1.0, 1.0) * tpot),
        minimum(*replicas) / transfer,
    )
    wait = jnp.zeros(()) if work.rate is None else waiting_time(work.rate / replicas[0], service)
    ttft = prefill.efficiency.host.request_time + wait + prefill_time + exposed
    return HandoverCost(
        ttft=ttft,
        tpot=tpot,
        e2e=ttft + positive_part(work.osl - 1.0) * tpot,
        wait=wait,
        transfer=transfer,
        exposed=exposed,
        prefill_rate=rates[0],
        decode_rate=rates[1],
        transfer_rate=rates[2],
        rate=minimum(*rates),
        bottleneck=jnp.argmin(jnp.stack([jnp.asarray(rate) for rate in rates])).astype(jnp.int8),
    )


def disaggregated_cost(prefill: Pool, decode: Pool, model: Model, work: Handover) -> HandoverCost:
    """Latencies and rates of requests that two pools share. Differentiable in every leaf; vmap any of them.

    Each pool's step is `request_cost`'s, its limit of electrical power included.

    Args:
      prefill, decode: the pools; their hardware, layouts and replicas may differ, their cache's precision may not.
      model: what both run.
      work: the requests.
    """
    prompt = request_cost(prefill.hardware, model, prefill.deployment, prefill_requests(work), prefill.efficiency)
    token = request_cost(decode.hardware, model, decode.deployment, decode_requests(work), decode.efficiency)
    prefill_time = prompt.ttft - prefill.efficiency.host.request_time
    step_time = token.tpot * tokens_per_step(decode.deployment, decode_requests(work))
    return handover_cost(prefill, decode, model, work, prefill_time, step_time)


def decode_batch_at(rate: Scalar, batches: jax.Array, step_times: jax.Array, steps: Scalar) -> jax.Array:
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
    return jnp.interp(rate, batches / (steps * step_times), batches)


@struct
class Curve:
    """What one replica of each pool does alone, over the sequences that the decode replica has at once."""

    ttft: Scalar  # s without waiting
    service: Scalar  # s of a prefill replica per prompt
    transfer: Scalar  # s that one request's cache is on its way
    batches: jax.Array  # sequences, increasing, shape [points]
    tpots: jax.Array  # s per output token at each, shape [points]
    tokens: Scalar  # output tokens of each request after the first


def split_latency(curve: Curve, prefill: Scalar, decode: Scalar, rate: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """TTFT and TPOT in s, and use, shapes (), of `prefill` and `decode` replicas at `rate` requests/s.

    Prompts wait for one of the prefill replicas, each with its share of the load; decode replicas have as many
    sequences at once as their share of it leaves under way. `use` is the load over what the slower pool, or the links
    between them, can do at most: from 1 on, latencies are those of the edge and mean nothing.
    """
    most = (curve.batches / (curve.tokens * curve.tpots))[-1]
    use = maximum(
        rate * curve.service / prefill, rate / (decode * most), rate * curve.transfer / minimum(prefill, decode)
    )
    batch = decode_batch_at(rate / decode, curve.batches, curve.tpots, curve.tokens)
    tpot = jnp.interp(batch, curve.batches, curve.tpots)
    return curve.ttft + waiting_time(rate / prefill, curve.service), tpot, use
