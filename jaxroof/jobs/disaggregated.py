"""Job of two pools, one for prompts and one for decoding: latencies, rates of each pool, memory."""

import dataclasses
from collections.abc import Iterator

from jaxroof.batch import encoder_inputs_count, encoder_tokens_count
from jaxroof.deployment import devices, request_groups
from jaxroof.deployment.rule import Rule
from jaxroof.deployment.speculation import Acceptance, acceptance_number
from jaxroof.energy.energy import power_known
from jaxroof.jobs.composition import (
    EqualRequests,
    Requests,
    decode_batch,
    e2e_latency,
    limited_times,
    pipelined_times,
    prefill_batch,
    tokens_per_step,
)
from jaxroof.jobs.economics import binding, clocks, pooled_economics, step_joules
from jaxroof.jobs.job import Job, Steps, deployment_rules
from jaxroof.jobs.request import request_cost
from jaxroof.jobs.scenario import Metric, Pool, Scenario, higher, lower
from jaxroof.jobs.splits import exposed_time, transfer_bytes, transfer_time, waiting_time
from jaxroof.memory import capacity as memory
from jaxroof.memory.capacity import layer_count
from jaxroof.memory.legality import holds, rules, told_of
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp, stacked
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Scalar, count, number, struct, switch
from jaxroof.step.step import Terms

BOTTLENECKS = ("prefill", "decode", "transfer")
"""What limits the rate of requests, in the order of the integer codes that cost functions return."""


METRICS = {
    "prefill_wait": lower("s", "mean time of a request in the queue of the prefill pool"),
    "transfer_bytes": Metric("B", "cache that one request hands over"),
    "transfer_time": lower("s", "time that one request's cache is on its way"),
    "transfer_exposed": lower("s", "time between a prompt's computation and the arrival of its cache"),
    "prefill_rate": higher("1/s", "requests per second that the prefill pool can do"),
    "decode_rate": higher("1/s", "requests per second that the decode pool can do at its batch"),
    "transfer_rate": higher("1/s", "requests per second whose cache the links between the pools can carry"),
    "request_rate": higher("1/s", "requests per second that both pools and their links can do"),
    "bottleneck": Metric("1", "what limits the rate of requests", BOTTLENECKS),
    "prefill_use": Metric("1", "rate of requests over what the prefill pool can do"),
    "decode_use": Metric("1", "rate of requests over what the decode pool can do"),
    "prefill_devices": lower("1", "devices of the prefill pool"),
    "decode_devices": lower("1", "devices of the decode pool"),
    "prefill_memory_use": lower("1", "share of the usable memory of the prefill pool that is needed"),
}
"""Metrics of two pools beside those of requests."""


@struct
class Handover(EqualRequests):
    """Requests that are prefilled in one pool, hand their cache over, and are decoded in the other.

    `batch` sequences are decoded at once by each replica of the decode pool; the prefill pool has the `cached` tokens,
    and runs the encoder.
    """

    prompts: Scalar | None = count(
        "prompts of one prefill step",
        "none: one for every group of data-parallel attention of the prefill pool",
        default=None,
        flag="N",
    )
    encoder_tokens: Scalar | None = encoder_tokens_count()
    encoder_inputs: Scalar | None = encoder_inputs_count()
    acceptance: Acceptance = acceptance_number()
    rate: Scalar | None = number(
        "1/s",
        "requests sent per second",
        "at random times; none: a prompt finds its replica idle",
        condition=True,
        default=None,
        flag="R",
    )
    lanes: Scalar | None = count(
        "links that carry one request's cache at once",
        "none: one per device of the smaller pool",
        default=None,
        flag="N",
    )
    layerwise: Scalar = switch(
        "1 where a layer's cache leaves as soon as it is computed", "0: all of it after the prompt", default=1.0
    )


@struct
class HandoverCost:
    """Latencies of a request, and the rates of requests that the pools can serve."""

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


def step_prompts(work: Handover, prefill: Pool) -> Scalar:
    """Prompts of one prefill step of a replica; where nothing is said they fill its groups, one each."""
    # One prompt per step and group: prefill is bound by compute from a few hundred tokens on, so batching only delays
    # it.
    return request_groups(prefill.deployment) if work.prompts is None else work.prompts


def prefill_requests(work: Handover, prefill: Pool) -> Requests:
    """Requests of one replica of the prefill pool at once: prompts that make one token each."""
    return Requests(
        batch=step_prompts(work, prefill),
        isl=work.isl,
        osl=1.0,
        cached=work.cached,
        encoder_tokens=work.encoder_tokens,
        encoder_inputs=work.encoder_inputs,
    )


def decode_requests(work: Handover) -> Requests:
    """Requests of one replica of the decode pool at once."""
    return Requests(batch=work.batch, isl=work.isl, osl=work.osl, cached=0.0, acceptance=work.acceptance)


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
    transfer = transfer_time(prefill, decode, model, work.isl, work.lanes)
    exposed = exposed_time(transfer, prefill_time, layer_count(model), work.layerwise)
    replicas = prefill.deployment.dp, decode.deployment.dp
    # A prefill replica is a server of a queue, with so many s per prompt.
    service = prefill_time / step_prompts(work, prefill)
    # Throughput of each stage: prefill, decode (sequences at once over their time in the pool, Little's law), links.
    rates = (
        replicas[0] / service,
        replicas[1] * work.batch / (maximum(work.osl - 1.0, 1.0) * tpot),
        minimum(*replicas) / transfer,
    )
    # M/D/1: prompts of equal length arrive at random.
    wait = jnp.zeros(()) if work.rate is None else waiting_time(work.rate / replicas[0], service)
    # The first token is sampled by the prefill pool, but the client waits until the cache has arrived.
    ttft = prefill.efficiency.host.request_time + wait + prefill_time + exposed
    return HandoverCost(
        ttft=ttft,
        tpot=tpot,
        e2e=e2e_latency(ttft, tpot, work.osl),
        wait=wait,
        transfer=transfer,
        exposed=exposed,
        prefill_rate=rates[0],
        decode_rate=rates[1],
        transfer_rate=rates[2],
        rate=minimum(*rates),
        # The slowest stage bounds the pipeline of the three.
        bottleneck=jnp.argmin(stacked(rates), axis=-1).astype(jnp.int8),
    )


@differentiated_at_once
def disaggregated_cost(prefill: Pool, decode: Pool, model: Model, work: Handover) -> HandoverCost:
    """Latencies and rates of requests that two pools share. Differentiable in every leaf; vmap any of them.

    Each pool's step is `request_cost`'s, its limit of electrical power included.

    Args:
      prefill, decode: the pools; their hardware, layouts and replicas may differ, their cache's precision may not.
      model: what both run.
      work: the requests.
    """
    first = prefill_requests(work, prefill)
    prompt = request_cost(prefill.hardware, model, prefill.deployment, first, prefill.efficiency)
    token = request_cost(decode.hardware, model, decode.deployment, decode_requests(work), decode.efficiency)
    # A prefill pool never decodes: its time is that of one step.
    prefill_time = prompt.ttft - prefill.efficiency.host.request_time
    step_time = token.tpot * tokens_per_step(decode.deployment, decode_requests(work))
    return handover_cost(prefill, decode, model, work, prefill_time, step_time)


def pools(scenario: Scenario) -> tuple[Pool, Pool]:
    """The pool that prefills and the one that decodes, which is the scenario's own."""
    own = Pool(hardware=scenario.hardware, deployment=scenario.deployment, efficiency=scenario.efficiency)
    return own if scenario.prefill is None else scenario.prefill, own


def pool_steps(scenario: Scenario) -> Steps:
    """The engine steps of both pools by name: each with the scenario of its own pool."""
    prompting = pools(scenario)[0]
    prefill, decode = (
        dataclasses.replace(
            scenario, hardware=pool.hardware, deployment=pool.deployment, efficiency=pool.efficiency, prefill=None
        )
        for pool in pools(scenario)
    )
    work, model = scenario.workload, scenario.model
    return {
        "prefill": (prefill, prefill_batch(prefill_requests(work, prompting), model, prefill.deployment)),
        "decode": (decode, decode_batch(decode_requests(work), model, decode.deployment)),
    }


def pool_rules(scenario: Scenario) -> Iterator[Rule]:
    """Rules of the decode pool, which is the scenario's own, and of the prefill pool."""
    yield from deployment_rules(scenario)
    if scenario.prefill is not None:
        place = scenario.prefill.hardware, scenario.model, scenario.prefill.deployment
        yield from told_of("prefill pool", rules(*place))


def disaggregated_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of a prefill pool and a decode pool, by name, from terms that are summed over ops."""
    work, model = scenario.workload, scenario.model
    prefill, decode = pools(scenario)
    (prompt_time, _), (prompt_whole, _) = _times(sums, "prefill", prefill, model, prefill_requests(work, prefill))
    (_, step_time), (_, step_whole) = _times(sums, "decode", decode, model, decode_requests(work))
    cost = handover_cost(prefill, decode, model, work, prompt_time, step_time)
    # Without a rate the pools are taken at their full load.
    used = work.rate if work.rate is not None else cost.rate
    kept_up = jnp.asarray(True) if work.rate is None else jnp.asarray(work.rate < cost.rate)
    metrics = {
        "ttft": cost.ttft,
        "tpot": cost.tpot,
        "e2e": cost.e2e,
        "prefill_wait": cost.wait,
        "transfer_bytes": transfer_bytes(model, decode.deployment, work.isl),
        "transfer_time": cost.transfer,
        "transfer_exposed": cost.exposed,
        "prefill_rate": cost.prefill_rate,
        "decode_rate": cost.decode_rate,
        "transfer_rate": cost.transfer_rate,
        "request_rate": cost.rate,
        "bottleneck": cost.bottleneck,
        "prefill_use": used / cost.prefill_rate,
        "decode_use": used / cost.decode_rate,
        "prefill_devices": devices(prefill.deployment),
        "decode_devices": devices(decode.deployment),
        "prefill_bound": binding(sums, "prefill", prompt_time, prompt_whole),
        "decode_bound": binding(sums, "decode", step_time, step_whole),
        **_limits(prefill, "prefill", prompt_time, prompt_whole),
        **_limits(decode, "decode", step_time, step_whole),
    }
    # A load beyond the bottleneck is served at the bottleneck's rate.
    tokens = minimum(used, cost.rate) * work.osl
    return metrics | pooled_economics((prefill, decode), tokens) | _fit(scenario, kept_up)


def _times(
    sums: dict[str, Scalar], step: str, pool: Pool, model: Model, requests: Requests
) -> tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]:
    """Times in s of all micro-batches of one pool's step, as a prefill and from one decode step to the next.

    Under the limit of electrical power, and without it.
    """
    times = pipelined_times(sums[step], sums[step], model, pool.deployment, requests)
    energy = step_joules(sums, step)
    energies = None if energy is None else (energy, energy)
    return limited_times(times, energies, pool.hardware, pool.deployment, requests), times


def _limits(pool: Pool, step: str, time: Scalar, unlimited: Scalar) -> dict[str, Scalar]:
    """What the limit of electrical power does to one pool's step; nothing where power is unknown."""
    if not power_known(pool.hardware):
        return {}
    return {f"{step}_slowdown": time / unlimited, **clocks(pool.hardware, {f"{step}_clock": unlimited / time})}


def _fit(scenario: Scenario, kept_up: Scalar) -> dict[str, Scalar]:
    """Whether each pool holds its model and its requests, and whether the two can be and keep up with the load."""
    work, model = scenario.workload, scenario.model
    fits, uses = [], []
    # The prefill pool holds prompts alone, the decode pool prompts and outputs.
    held_by = step_prompts(work, pools(scenario)[0]), work.batch
    for pool, held, tokens in zip(pools(scenario), held_by, (work.isl, work.isl + work.osl), strict=True):
        place = pool.hardware, model, pool.deployment
        capacity = memory.sequence_capacity(*place, tokens)
        fits.append(memory.weights_fit(*place) & (capacity >= held))
        uses.append(memory.memory_use(*place, tokens, held))
    split = holds(pool_rules(scenario))
    return {
        "sequence_capacity": capacity,
        "prefill_memory_use": uses[0],
        "memory_use": uses[1],
        "fits": fits[0] & fits[1],
        "legal": split,
        "feasible": fits[0] & fits[1] & split & kept_up,
    }


DISAGGREGATED = Job("disaggregated", Handover, disaggregated_metrics, pool_steps, rules=pool_rules)
