"""The question of two pools, one for prompts and one for decoding: its sums and its metrics."""

import dataclasses

import jax.numpy as jnp

from jaxroof import memory
from jaxroof.batch import Batch
from jaxroof.deployment import devices
from jaxroof.disaggregation import Handover, Pool, decode_requests, handover_cost, prefill_requests, transfer_bytes
from jaxroof.energy import power_known
from jaxroof.legality import legal
from jaxroof.request import decode_batch, limited_times, pipelined_times, prefill_batch
from jaxroof.smooth import minimum
from jaxroof.step import Lazy, Terms, dominant_bound
from jaxroof.struct import Scalar
from sweeps.job import Job, Scenario
from sweeps.terms import op_tables, step_terms


def pools(scenario: Scenario) -> tuple[Pool, Pool]:
    """The pool that prefills and the one that decodes, which is the scenario's own."""
    own = Pool(hardware=scenario.hardware, deployment=scenario.deployment, efficiency=scenario.efficiency)
    return own if scenario.prefill is None else scenario.prefill, own


def pool_steps(scenario: Scenario) -> dict[str, tuple[Scenario, Batch]]:
    """The engine steps of both pools by name: each with the scenario of its own pool."""
    prefill, decode = (
        dataclasses.replace(
            scenario, hardware=pool.hardware, deployment=pool.deployment, efficiency=pool.efficiency, prefill=None
        )
        for pool in pools(scenario)
    )
    work, model = scenario.workload, scenario.model
    return {
        "prefill": (prefill, prefill_batch(prefill_requests(work), model, prefill.deployment)),
        "decode": (decode, decode_batch(decode_requests(work), model, decode.deployment)),
    }


def _sums(scenario: Scenario) -> Lazy:
    terms: Lazy = {}
    for name, (place, batch) in pool_steps(scenario).items():
        terms |= step_terms(name, place, batch)
    return terms


def _tables(scenario: Scenario) -> Lazy:
    tables: Lazy = {}
    for name, (place, batch) in pool_steps(scenario).items():
        tables |= op_tables(f"{name}_", place, batch)
    return tables


def _metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    work, model = scenario.workload, scenario.model
    prefill, decode = pools(scenario)
    own, other = prefill_requests(work), decode_requests(work)
    prompt_times = pipelined_times(sums["prefill"], sums["prefill"], model, prefill.deployment, own)
    step_times = pipelined_times(sums["decode"], sums["decode"], model, decode.deployment, other)
    if power_known(prefill.hardware):
        energies = sums["prefill_energy"], sums["prefill_energy"]
        prompt_times = limited_times(prompt_times, energies, prefill.hardware, prefill.deployment, own)
    if power_known(decode.hardware):
        energies = sums["decode_energy"], sums["decode_energy"]
        step_times = limited_times(step_times, energies, decode.hardware, decode.deployment, other)
    cost = handover_cost(prefill, decode, model, work, prompt_times[0], step_times[1])
    used = work.rate if work.rate is not None else cost.rate
    kept_up = jnp.asarray(True) if work.rate is None else jnp.asarray(work.rate < cost.rate)
    found = {
        "ttft": cost.ttft,
        "tpot": cost.tpot,
        "e2e": cost.e2e,
        "prefill_wait": cost.wait,
        "transfer_bytes": jnp.asarray(transfer_bytes(model, decode.deployment, work.isl)),
        "transfer_time": cost.transfer,
        "transfer_exposed": jnp.asarray(cost.exposed),
        "prefill_rate": cost.prefill_rate,
        "decode_rate": cost.decode_rate,
        "transfer_rate": cost.transfer_rate,
        "request_rate": cost.rate,
        "bottleneck": cost.bottleneck,
        "prefill_use": used / cost.prefill_rate,
        "decode_use": used / cost.decode_rate,
        "prefill_devices": jnp.asarray(devices(prefill.deployment)),
        "decode_devices": jnp.asarray(devices(decode.deployment)),
        "prefill_bound": dominant_bound(sums["prefill_by_bound"]),
        "decode_bound": dominant_bound(sums["decode_by_bound"]),
    }
    return found | _economics(prefill, decode, minimum(used, cost.rate) * work.osl) | _fit(scenario, kept_up)


def _economics(prefill: Pool, decode: Pool, tokens: Scalar) -> dict[str, Scalar]:
    """Throughput of both pools together, per device, and per dollar where both have prices."""
    counts = devices(prefill.deployment), devices(decode.deployment)
    found = {
        "devices": jnp.asarray(counts[0] + counts[1]),
        "tokens_per_second": tokens,
        "tokens_per_second_per_device": tokens / (counts[0] + counts[1]),
    }
    prices = prefill.hardware.price, decode.hardware.price
    if None not in prices:
        found["usd_per_million_tokens"] = 1e6 * (counts[0] * prices[0] + counts[1] * prices[1]) / tokens
    return found


def _fit(scenario: Scenario, kept_up: Scalar) -> dict[str, Scalar]:
    """Whether each pool holds its model and its requests, and whether the two can be and keep up with the load."""
    work, model = scenario.workload, scenario.model
    fits, split, uses = [], [], []
    for pool, held, tokens in zip(
        pools(scenario), (work.prompts, work.batch), (work.isl, work.isl + work.osl), strict=True
    ):
        place = pool.hardware, model, pool.deployment
        capacity = memory.sequence_capacity(*place, tokens)
        fits.append(memory.weights_fit(*place) & (capacity >= held))
        uses.append(memory.memory_use(*place, tokens, held))
        split.append(legal(*place))
    return {
        "sequence_capacity": capacity,
        "prefill_memory_use": uses[0],
        "memory_use": uses[1],
        "fits": fits[0] & fits[1],
        "legal": split[0] & split[1],
        "feasible": fits[0] & fits[1] & split[0] & split[1] & kept_up,
    }


DISAGGREGATED = Job("disaggregated", Handover, _sums, _tables, _metrics)
