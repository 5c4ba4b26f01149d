"""Latency and throughput of a static batch of equal requests: one prefill step, then decode steps."""

import jax

from jaxroof import batch as batches
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.smooth import positive_part
from jaxroof.step import step_time
from jaxroof.struct import Scalar, struct


@struct
class Requests:
    """`batch` requests that start together and run to their end without others joining."""

    batch: Scalar  # requests at once
    isl: Scalar  # prompt tokens of each
    osl: Scalar  # output tokens of each, at least 1
    cached: Scalar  # of the prompt's tokens, how many are in the prefix cache already


@struct
class RequestCost:
    """Latency of every request of the batch."""

    ttft: Scalar  # s, arrival to first token
    tpot: Scalar  # s per output token after the first
    e2e: Scalar  # s, arrival to last token


def prefill_batch(requests: Requests) -> batches.Batch:
    """The step that processes every prompt and samples the first token of each request."""
    return batches.prefill(requests.batch, requests.isl - requests.cached, requests.cached)


def decode_batch(requests: Requests) -> batches.Batch:
    """The decode step at the mean context: step i = 1 ... osl - 1 attends to isl + i tokens."""
    return batches.decode(requests.batch, requests.isl + 0.5 * requests.osl)


def request_cost(
    hardware: Hardware, model: Model, deployment: Deployment, requests: Requests, efficiency: Efficiency
) -> RequestCost:
    """TTFT, TPOT and E2E latency of a static batch, shapes ().

    ttft = request_time + step_time(prefill);  tpot = step_time(decode at the mean context);
    e2e = ttft + (osl - 1) tpot, so that tpot is vLLM's: (e2e - ttft) / (osl - 1)

    The mean over decode steps is exact while attention time is linear in the context, that is while one
    resource binds it over the whole output. With osl = 1 there is no decode step and tpot says what one
    would take. Differentiable in every leaf.
    """
    prefill = step_time(hardware, model, deployment, prefill_batch(requests), efficiency)
    decode = step_time(hardware, model, deployment, decode_batch(requests), efficiency)
    return latency(prefill, decode, requests, efficiency)


def latency(prefill_time: Scalar, decode_time: Scalar, requests: Requests, efficiency: Efficiency) -> RequestCost:
    """The latencies that a prefill step and a mean decode step in s make up."""
    ttft = efficiency.host.request_time + prefill_time
    return RequestCost(ttft=ttft, tpot=decode_time, e2e=ttft + positive_part(requests.osl - 1.0) * decode_time)


def tokens_per_second(cost: RequestCost, requests: Requests) -> jax.Array:
    """Output tokens per s of the whole replica: batch * osl / e2e."""
    return requests.batch * requests.osl / cost.e2e
