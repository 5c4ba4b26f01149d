"""Job of two pools, one for prompts and one for decoding: latencies, rates of each pool, memory."""

import dataclasses
from collections.abc import Iterator

from jaxroof.batch import Batch, encoder_inputs_count, encoder_tokens_count
from jaxroof.deployment import devices, request_groups
from jaxroof.deployment.rule import Rule
from jaxroof.deployment.speculation import Acceptance, acceptance_number
from jaxroof.energy.energy import Joules, joules_of_steps, power_known
from jaxroof.hardware import on_host
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
from jaxroof.jobs.job import Job, Steps, deployment_rules, step_terms
from jaxroof.jobs.scenario import Metric, Pool, Scenario, higher, lower
from jaxroof.jobs.splits import exposed_time, rest_of_step, transfer_bytes, transfer_time
from jaxroof.memory import capacity as memory
from jaxroof.memory.capacity import layer_count
from jaxroof.memory.legality import holds, rules, told_of
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp, stacked
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Scalar, count, number, struct, switch
from jaxroof.prices.prices import visible_host_time
from jaxroof.steady.queue import prompt_queue, prompt_steps
from jaxroof.step.placed import device_ops
from jaxroof.step.step import Lazy, Terms, host_time, step_time

BOTTLENECKS = ("prefill", "decode", "transfer")
"""What limits the rate of requests, in the order of the integer codes that cost functions return."""


METRICS = {
    "prefill_wait": lower("s", "mean time that prompts of others take from a request in the prefill pool"),
    "decode_wait": lower("s", "mean time until a decoding replica takes a prompt: the rest of the step under way"),
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
        "at a rate at most so many; none: one for every group of data-parallel attention of the prefill pool",
        default=None,
        flag="N",
    )
    encoder_tokens: Scalar | None = encoder_tokens_count()
    encoder_inputs: Scalar | None = encoder_inputs_count()
    acceptance: Acceptance = acceptance_number()
    hidden_host: Scalar = switch(
        "1 where the host's work for every sequence runs beside the device", "0: after it", default=0.0
    )
    rate: Scalar | None = number(
        "1/s",
        "requests sent per second",
        "at random times, to the replicas in turn; none: a prompt finds its replica idle",
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
    wait: Scalar  # s beyond a step of the prefill pool with one prompt
    first: Scalar  # s of a prefill step with one prompt, or one of every group
    taken: Scalar  # s until the decode pool takes a prompt: the rest of the step under way
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


def prefill_requests(work: Handover, prefill: Pool, alone: bool = False) -> Requests:
    """Requests of one replica of the prefill pool at once: prompts that make one token each.

    Args:
      alone: of a step with one prompt in every group, not of a full one.
    """
    return Requests(
        batch=request_groups(prefill.deployment) if alone else step_prompts(work, prefill),
        isl=work.isl,
        osl=1.0,
        cached=work.cached,
        encoder_tokens=work.encoder_tokens,
        encoder_inputs=work.encoder_inputs,
    )


def decode_requests(work: Handover) -> Requests:
    """Requests of one replica of the decode pool at once."""
    return Requests(batch=work.batch, isl=work.isl, osl=work.osl, cached=0.0, acceptance=work.acceptance)


def waits(work: Handover) -> bool:
    """Whether prompts may meet others and steps have room for several, so that a step with one is priced too."""
    return work.rate is not None and work.prompts is not None


def handover_cost(
    prefill: Pool, decode: Pool, model: Model, work: Handover, first: Scalar, prefill_time: Scalar, decode_time: Scalar
) -> HandoverCost:
    """Latencies and rates of two pools from the times of their steps.

    ttft = request_time + prefill_time + exposed;  tpot = decode_time / tokens per step
    rates = replicas * requests at once / time that they take: prompts / prefill_time, batch / ((osl - 1) tpot)

    At a rate a step has the prompts that have come, at most as many as it has room for, and replicas get them in turn:
    their time is that of `prompt_queue` in place of prefill_time. A decoding replica takes a prompt between two steps.

    Args:
      first: s of a prefill step with one prompt, or one of every group.
      prefill_time: s of the prompts of one full prefill step, all micro-batches.
      decode_time: s from one decode step of a sequence to its next.
    """
    tpot = decode_time / tokens_per_step(decode.deployment, decode_requests(work))
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
    if work.rate is None:
        wait, own, taken = jnp.zeros(()), prefill_time, jnp.zeros(())
    else:
        # Prompts of equal length arrive at random.
        steps = prompt_steps(first, prefill_time, step_prompts(work, prefill))
        wait, own = prompt_queue(work.rate / replicas[0], steps, 1.0, replicas[0]).ttft - first, first
        taken = rest_of_step(work.batch, decode_time)
    # The first token is sampled by the prefill pool, but the client waits until the cache has arrived.
    ttft = prefill.efficiency.host.request_time + wait + own + taken + exposed
    return HandoverCost(
        ttft=ttft,
        tpot=tpot,
        e2e=e2e_latency(ttft, tpot, work.osl),
        wait=wait,
        first=first,
        taken=taken,
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

    Each pool's step is `request_cost`'s, its limit of electrical power included; its host may run beside the device.

    Args:
      prefill, decode: the pools; their hardware, layouts and replicas may differ, their cache's precision may not.
      model: what both run.
      work: the requests.
    """
    requests = prefill_requests(work, prefill)
    # A prefill pool never decodes: its time is that of one step.
    first_time = prefill_time = _pool_times(prefill, model, requests, work.hidden_host)[0]
    if waits(work):
        one = prefill_requests(work, prefill, alone=True)
        first_time = _pool_times(prefill, model, one, work.hidden_host)[0]
    decode_time = _pool_times(decode, model, decode_requests(work), work.hidden_host, decodes=True)[1]
    return handover_cost(prefill, decode, model, work, first_time, prefill_time, decode_time)


def _pool_times(
    pool: Pool, model: Model, requests: Requests, hidden_host: Scalar, decodes: bool = False
) -> tuple[Scalar, Scalar]:
    """Times in s of all micro-batches of one pool's step, as a prefill and from one decode step to the next."""
    batch = (decode_batch if decodes else prefill_batch)(requests, model, pool.deployment)
    time = step_time(pool.hardware, model, pool.deployment, batch, pool.efficiency)
    energies = None
    if power_known(pool.hardware):
        ops = device_ops(pool.hardware, model, pool.deployment, batch)
        energies = tuple(joules_of_steps([ops], pool.hardware)) * 2
    return _pipelined(time, batch, energies, pool, model, requests, hidden_host)[0]


def _pipelined(
    time: Scalar,
    batch: Batch,
    energies: tuple[Joules, ...] | None,
    pool: Pool,
    model: Model,
    requests: Requests,
    hidden_host: Scalar,
) -> tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]:
    """Times in s as of `_pool_times` under the limit of electrical power, and without it.

    Args:
      time: s of a micro-batch's step, device and host one after the other.
      energies: of it, as of `limited_times`.
    """
    hardware, deployment = pool.hardware, pool.deployment
    host, each = host_time(hardware, batch, deployment, pool.efficiency), pool.efficiency.host.step_time
    each = on_host(each, hardware)
    device = time - host
    time = device + visible_host_time(device, each, host - each, hidden_host)
    times = pipelined_times(time, time, model, deployment, requests)
    return limited_times(times, energies, hardware, deployment, requests), times


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


ALONE = "alone"
"""Name of the sums of a prefill step with one prompt, or one of every group."""


def alone_terms(scenario: Scenario) -> Lazy:
    """Terms of a prefill step with one prompt where it is priced: its time, and its energy where that is known."""
    work, prefill = scenario.workload, pools(scenario)[0]
    if not waits(work):
        return {}
    place = pool_steps(scenario)["prefill"][0]
    batch = prefill_batch(prefill_requests(work, prefill, alone=True), scenario.model, prefill.deployment)
    needed = (ALONE, f"{ALONE}_core_energy", f"{ALONE}_other_energy")
    return {name: term for name, term in step_terms(ALONE, place, batch).items() if name in needed}


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
    prompts = prefill_requests(work, prefill)
    (prompt_time, _), (prompt_whole, _) = _times(sums, "prefill", prefill, model, prompts, work.hidden_host)
    (_, decode_time), (_, decode_whole) = _times(sums, "decode", decode, model, decode_requests(work), work.hidden_host)
    first_time = prompt_time
    if waits(work):
        one = prefill_requests(work, prefill, alone=True)
        (first_time, _), _ = _times(sums, ALONE, prefill, model, one, work.hidden_host)
    cost = handover_cost(prefill, decode, model, work, first_time, prompt_time, decode_time)
    # Without a rate the pools are taken at their full load.
    used = work.rate if work.rate is not None else cost.rate
    kept_up = jnp.asarray(True) if work.rate is None else jnp.asarray(work.rate < cost.rate)
    metrics = {
        "ttft": cost.ttft,
        "tpot": cost.tpot,
        "e2e": cost.e2e,
        "prefill_wait": cost.wait,
        "decode_wait": cost.taken,
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
        "decode_bound": binding(sums, "decode", decode_time, decode_whole),
        **_limits(prefill, "prefill", prompt_time, prompt_whole),
        **_limits(decode, "decode", decode_time, decode_whole),
    }
    # A load beyond the bottleneck is served at the bottleneck's rate.
    tokens = minimum(used, cost.rate) * work.osl
    return metrics | pooled_economics((prefill, decode), tokens) | _fit(scenario, kept_up)


def _times(
    sums: dict[str, Scalar], step: str, pool: Pool, model: Model, requests: Requests, hidden_host: Scalar
) -> tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]:
    """`_pipelined` of one pool's step, from sums over its ops."""
    batch = (decode_batch if step == "decode" else prefill_batch)(requests, model, pool.deployment)
    energy = step_joules(sums, step)
    energies = None if energy is None else (energy, energy)
    return _pipelined(sums[step], batch, energies, pool, model, requests, hidden_host)


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


DISAGGREGATED = Job("disaggregated", Handover, disaggregated_metrics, pool_steps, alone_terms, pool_rules)
