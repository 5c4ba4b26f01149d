"""Latency and throughput of a static batch of equal requests: one prefill step, then decode steps."""

import dataclasses

import jax

from jaxroof import batch as batches
from jaxroof.deployment import Deployment, degree, largest_stage, pipelined_parts
from jaxroof.efficiency import Efficiency
from jaxroof.energy import energies_of, limited_time, power_known
from jaxroof.field import number
from jaxroof.hardware import Hardware
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.overlap import overlapped_ops
from jaxroof.smooth import maximum, positive_part
from jaxroof.speculation import Acceptance, acceptance_number, expected_tokens
from jaxroof.step import step_time
from jaxroof.struct import Scalar, struct


@struct
class EqualRequests:
    """`batch` requests of the same lengths."""

    batch: Scalar = number("1", "requests that run at once", "on one replica", whole=True, default=1.0)
    isl: Scalar = number("1", "prompt tokens per request", "those of images included", whole=True)
    osl: Scalar = number("1", "output tokens per request", "at least 1", whole=True)
    cached: Scalar = number(
        "1",
        "prompt tokens per request that are cached already",
        "in the prefix cache",
        zero=True,
        whole=True,
        default=0.0,
    )


@struct
class Requests(EqualRequests):
    """`batch` requests that start together on one replica and run to their end without others joining."""

    encoder_tokens: Scalar | None = number(
        "1", "patches, frames or words per request that the encoder works on", whole=True, default=None
    )
    delay: Scalar = number(
        "s", "time from arrival until the prompt is there", "retrieval of what it is made of", zero=True, default=0.0
    )
    acceptance: Acceptance = acceptance_number()


@struct
class RequestCost:
    """Latency of every request of the batch."""

    ttft: Scalar  # s, arrival to first token
    tpot: Scalar  # s per output token after the first
    e2e: Scalar  # s, arrival to last token


def micro_batches(requests: Requests, deployment: Deployment) -> Scalar:
    """Parts that the batch is split into so that pipeline stages work at once: `pipelined_parts`."""
    return pipelined_parts(deployment, requests.batch)


def prefill_batch(requests: Requests, model: Model, deployment: Deployment) -> batches.Batch:
    """The step that processes the prompts of one micro-batch and samples the first token of each."""
    sequences = requests.batch / micro_batches(requests, deployment)
    step = batches.prefill(sequences, requests.isl - requests.cached, requests.cached)
    if requests.encoder_tokens is None or model.encoder is None:
        return step
    encode = batches.Encode(sequences=sequences, tokens=sequences * requests.encoder_tokens)
    return dataclasses.replace(step, encode=encode, encoded=requests.encoder_tokens / model.encoder.merged)


def decode_batch(requests: Requests, model: Model, deployment: Deployment) -> batches.Batch:
    """One micro-batch's decode step at the mean context: step i = 1 ... osl - 1 attends to isl + i tokens."""
    sequences = requests.batch / micro_batches(requests, deployment)
    step = batches.decode(sequences, requests.isl + 0.5 * requests.osl)
    if requests.encoder_tokens is None or model.encoder is None:
        return step
    return dataclasses.replace(step, encoded=requests.encoder_tokens / model.encoder.merged)


def request_cost(
    hardware: Hardware, model: Model, deployment: Deployment, requests: Requests, efficiency: Efficiency
) -> RequestCost:
    """TTFT, TPOT and E2E latency of a static batch, shapes ().

    ttft = request_time + delay + step_time(prefill) (1 + (m - 1) s)
    tpot = step_time(decode at the mean context) max(1, m s) / tokens_per_step
    e2e = ttft + (osl - 1) tpot, so that tpot is vLLM's: (e2e - ttft) / (osl - 1)

    m micro-batches follow each other through the pipeline, whose largest stage has the share s of the layers; without
    pipeline stages both are 1. The mean over decode steps is exact while attention time is linear in the context, that
    is while one resource binds it over the whole output. With osl = 1 there is no decode step and tpot says what one
    would take. Differentiable in every leaf.
    """
    steps = prefill_batch(requests, model, deployment), decode_batch(requests, model, deployment)
    prefill, decode = (step_time(hardware, model, deployment, step, efficiency) for step in steps)
    if power_known(hardware):
        energies = (sum(energies_of(overlapped_ops(model, deployment, step), hardware).values()) for step in steps)
        times = pipelined_times(prefill, decode, model, deployment, requests)
        times = limited_times(times, tuple(energies), hardware, deployment, requests)
        return pipelined_latency(*times, deployment, requests, efficiency)
    return latency(prefill, decode, model, deployment, requests, efficiency)


def limited_times(
    times: tuple[Scalar, Scalar],
    energies: tuple[Scalar, Scalar],
    hardware: Hardware,
    deployment: Deployment,
    requests: Requests,
) -> tuple[Scalar, Scalar]:
    """Times in s of prefill and of a decode step under the limit of electrical power, `limited_time`.

    Args:
      times: s of all micro-batches, `pipelined_times`.
      energies: J of one micro-batch in all stages, as `device_energy` takes them.
    """
    prefill, decode = (
        limited_time(time, device_energy(energy, deployment, requests), hardware)
        for time, energy in zip(times, energies, strict=True)
    )
    return prefill, decode


def device_energy(energy: Scalar, deployment: Deployment, requests: Requests) -> Scalar:
    """J that one device spends while all micro-batches pass, from those of one micro-batch in all stages."""
    return energy * (micro_batches(requests, deployment) / degree(deployment.pp))


def latency(
    prefill_time: Scalar,
    decode_time: Scalar,
    model: Model,
    deployment: Deployment,
    requests: Requests,
    efficiency: Efficiency,
) -> RequestCost:
    """The latencies that a prefill step and a mean decode step in s of one micro-batch make up."""
    times = pipelined_times(prefill_time, decode_time, model, deployment, requests)
    return pipelined_latency(*times, deployment, requests, efficiency)


def pipelined_latency(
    prefill: Scalar, step: Scalar, deployment: Deployment, requests: Requests, efficiency: Efficiency
) -> RequestCost:
    """The latencies that `pipelined_times` in s make up."""
    ttft = efficiency.host.request_time + requests.delay + prefill
    tpot = step / tokens_per_step(deployment, requests)
    return RequestCost(ttft=ttft, tpot=tpot, e2e=ttft + positive_part(requests.osl - 1.0) * tpot)


def pipelined_times(
    prefill_time: Scalar, decode_time: Scalar, model: Model, deployment: Deployment, requests: Requests
) -> tuple[Scalar, Scalar]:
    """Time in s until all micro-batches are prefilled, and from one decode step of a micro-batch to its next.

    Args:
      prefill_time, decode_time: s of one micro-batch's way through all stages.
    """
    if deployment.pp is None:
        return prefill_time, decode_time
    parts, stage = micro_batches(requests, deployment), largest_stage(deployment, layer_count(model))
    return prefill_time * (1.0 + (parts - 1.0) * stage), decode_time * maximum(parts * stage, 1.0)


def tokens_per_step(deployment: Deployment, requests: Requests) -> Scalar:
    """Expected tokens that one decode step adds to a sequence, shape (): `expected_tokens` of the drafts."""
    return expected_tokens(deployment, requests.acceptance)


def tokens_per_second(cost: RequestCost, requests: Requests) -> jax.Array:
    """Output tokens per s of one replica: batch * osl / (e2e - delay), as others use it while a prompt is retrieved."""
    return requests.batch * requests.osl / (cost.e2e - requests.delay)
