"""Composition of a static batch of equal requests: one prefill step, then decode steps, and their latencies."""

import dataclasses

from jaxroof import batch as batches
from jaxroof.deployment import Deployment, degree, largest_stage, pipelined_parts
from jaxroof.deployment.speculation import Acceptance, acceptance_number, accepted, expected_tokens
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import Joules
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Model
from jaxroof.numerics.smooth import maximum, positive_part
from jaxroof.numerics.struct import Scalar, count, number, struct


@struct
class EqualRequests:
    """`batch` requests of the same lengths."""

    batch: Scalar = count("requests that run at once", "on one replica", default=1.0, flag="N")
    isl: Scalar = count("prompt tokens per request", "those of images included", condition=True, flag="TOKENS")
    osl: Scalar = count("output tokens per request", "at least 1", condition=True, flag="TOKENS")
    cached: Scalar = count(
        "prompt tokens per request that are cached already",
        "in the prefix cache",
        zero=True,
        condition=True,
        default=0.0,
        flag="TOKENS",
    )


@struct
class Requests(EqualRequests):
    """`batch` requests that start together on one replica and run to their end without others joining."""

    encoder_tokens: Scalar | None = batches.encoder_tokens_count()
    encoder_inputs: Scalar | None = batches.encoder_inputs_count()
    delay: Scalar = number(
        "s",
        "time from arrival until the prompt is there",
        "such as 150ms of retrieval",
        zero=True,
        condition=True,
        default=0.0,
        flag="TIME",
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
    # Micro-batches split the batch, so that pipeline stages work at once.
    sequences = requests.batch / micro_batches(requests, deployment)
    step = batches.prefill(sequences, requests.isl - requests.cached, requests.cached)
    if requests.encoder_tokens is None or model.encoder is None:
        return step
    encode = batches.encode(sequences, requests.encoder_tokens, requests.encoder_inputs)
    # Projectors merge patches: cross-attention sees that many fewer encoder outputs.
    return dataclasses.replace(step, encode=encode, encoded=requests.encoder_tokens / model.encoder.merged)


def decode_batch(requests: Requests, model: Model, deployment: Deployment) -> batches.Batch:
    """One micro-batch's decode step at the mean context: step i = 1 ... osl - 1 attends to isl + i tokens."""
    sequences = requests.batch / micro_batches(requests, deployment)
    # Context grows by one token per step: over the output it is isl + osl / 2 on average, exact while time is linear in
    # it.
    step = batches.decode(sequences, requests.isl + 0.5 * requests.osl)
    if requests.encoder_tokens is None or model.encoder is None:
        return step
    return dataclasses.replace(step, encoded=requests.encoder_tokens / model.encoder.merged)


def limited_times(
    times: tuple[Scalar, Scalar],
    energies: tuple[Joules, ...] | None,
    hardware: Hardware,
    deployment: Deployment,
    requests: Requests,
) -> tuple[Scalar, Scalar]:
    """Times in s of prefill and of a decode step under the limit of electrical power, `limited_time`.

    Args:
      times: s of all micro-batches, `pipelined_times`.
      energies: of one micro-batch in all stages, as `device_energy` takes them; None: unknown, so there is no limit.
    """
    if energies is None:
        return times
    prefill, decode = (
        limited_time(time, device_energy(energy, deployment, requests), hardware)
        for time, energy in zip(times, energies, strict=True)
    )
    return prefill, decode


def device_energy(energy: Joules, deployment: Deployment, requests: Requests) -> Joules:
    """What one device spends while all micro-batches pass, from that of one micro-batch in all stages."""
    return energy.times(micro_batches(requests, deployment) / degree(deployment.pp))


def pipelined_latency(
    prefill: Scalar, step: Scalar, deployment: Deployment, requests: Requests, efficiency: Efficiency
) -> RequestCost:
    """The latencies that `pipelined_times` in s make up."""
    # The prompt waits for what comes before it: retrieval, tokeniser, queue.
    ttft = efficiency.host.request_time + requests.delay + prefill
    # Speculative decoding divides a step among the tokens that it keeps.
    tpot = step / tokens_per_step(deployment, requests)
    return RequestCost(ttft=ttft, tpot=tpot, e2e=e2e_latency(ttft, tpot, requests.osl))


def e2e_latency(ttft: Scalar, tpot: Scalar, osl: Scalar) -> Scalar:
    """Time in s from arrival to the last of `osl` tokens, shape (): ttft + (osl - 1) tpot."""
    # The first token comes with the prefill.
    return ttft + positive_part(osl - 1.0) * tpot


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
    # Prefill: the first micro-batch passes all stages, each further one follows after the slowest stage. Decode: a
    # micro-batch returns after its own way, or after all others have passed the slowest stage.
    return prefill_time * (1.0 + (parts - 1.0) * stage), decode_time * maximum(parts * stage, 1.0)


def tokens_per_step(deployment: Deployment, requests: Requests) -> Scalar:
    """Expected tokens that one decode step adds to a sequence, shape (): `expected_tokens` of the drafts.

    A table of acceptance is read at the batch and the mean context.
    """
    right = accepted(requests.acceptance, requests.batch, requests.isl + 0.5 * requests.osl)
    return expected_tokens(deployment, right)


def tokens_per_second(cost: RequestCost, requests: Requests) -> Scalar:
    """Output tokens per s of one replica: batch * osl / (e2e - delay), as others use it while a prompt is retrieved."""
    # Retrieval takes place elsewhere: the engine serves others meanwhile.
    return requests.batch * requests.osl / (cost.e2e - requests.delay)
