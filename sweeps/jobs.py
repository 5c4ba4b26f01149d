"""The questions that can be asked at a point: an engine step, a static batch of requests, a training iteration."""

import jax.numpy as jnp

from jaxroof import memory
from jaxroof.area import die_area
from jaxroof.batch import Batch, Decode, Encode, Prefill
from jaxroof.cost import capital_rate, device_cost, device_price, energy_price
from jaxroof.deployment import degree, devices, replica_devices
from jaxroof.efficiency import Efficiency
from jaxroof.energy import limited_time, power_known
from jaxroof.field import number
from jaxroof.hardware import Hardware, ridge
from jaxroof.legality import legal
from jaxroof.model import Model
from jaxroof.paging import mean_wasted_tokens, wasted_tokens
from jaxroof.request import (
    RequestCost,
    Requests,
    decode_batch,
    device_energy,
    limited_times,
    micro_batches,
    pipelined_latency,
    pipelined_times,
    prefill_batch,
    tokens_per_second,
    tokens_per_step,
)
from jaxroof.smooth import positive_part
from jaxroof.step import Lazy, Terms, dominant_bound, spread_known
from jaxroof.struct import Scalar, struct
from sweeps.colocated_job import COLOCATED
from sweeps.disaggregated_job import DISAGGREGATED
from sweeps.job import Job, Scenario
from sweeps.legality import scenario_legal
from sweeps.terms import op_tables, step_terms
from sweeps.training_job import TRAIN


@struct
class StepWork:
    """One engine step: `prefills` prompts of `prefill` new tokens each, `decode` sequences of `context` tokens each."""

    prefills: Scalar = number("1", "prompts in the step", whole=True, default=1.0)
    prefill: Scalar | None = number(
        "1", "new prompt tokens per prefilling sequence", "None: no prefill in the step", whole=True, default=None
    )
    past: Scalar = number("1", "tokens of each prompt that are cached already", zero=True, whole=True, default=0.0)
    decode: Scalar | None = number("1", "decoding sequences", "None: no decode in the step", whole=True, default=None)
    context: Scalar | None = number(
        "1", "tokens per decoding sequence that are attended to", "the new one included", whole=True, default=None
    )
    encoder_tokens: Scalar | None = number(
        "1", "patches, frames or words per request that the encoder works on", whole=True, default=None
    )


def step_batch(work: StepWork, model: Model) -> Batch:
    """The engine step that `work` describes."""
    prefill, decode, encode, encoded, logits = None, None, None, 0.0, 0.0
    if work.prefill is not None:
        prefill = Prefill(sequences=work.prefills, tokens=work.prefills * work.prefill, past=work.prefills * work.past)
        logits = logits + work.prefills
    if work.decode is not None:
        decode = Decode(sequences=work.decode, context=work.decode * work.context)
        logits = logits + work.decode
    if work.encoder_tokens is not None and model.encoder is not None:
        encoded = work.encoder_tokens / model.encoder.merged
        if work.prefill is not None:
            encode = Encode(sequences=work.prefills, tokens=work.prefills * work.encoder_tokens)
    return Batch(prefill=prefill, decode=decode, logits=logits, encode=encode, encoded=encoded)


def step_tokens(work: StepWork) -> Scalar:
    """Tokens that a step processes, which its figures per token are of: new ones of prompts, one per decoding sequence.

    The prompt's alone in a prefill step, output tokens in a decode step; prompt tokens that are cached do not count.
    """
    prompt = 0.0 if work.prefill is None else work.prefills * work.prefill
    return prompt + (0.0 if work.decode is None else work.decode)


def _fit(scenario: Scenario, context: Scalar, sequences: Scalar, encoded: Scalar) -> dict[str, Scalar]:
    """Memory metrics: what is stored, what is left for KV cache, whether `sequences` of `context` tokens fit."""
    place = scenario.hardware, scenario.model, scenario.deployment
    capacity = memory.sequence_capacity(*place, context, encoded)
    fits = memory.weights_fit(*place) & (capacity >= sequences)
    split, paged = legal(*place), {}
    if scenario.deployment.block_tokens is not None:
        block = scenario.deployment.block_tokens
        waste = wasted_tokens(context, block)
        paged = {
            "kv_blocks_left": jnp.floor(memory.kv_capacity_tokens(*place) / block),
            "cache_waste": waste / (context + waste),
            "cache_waste_mean": jnp.asarray(mean_wasted_tokens(block)),
        }
    return {
        "weight_bytes": memory.weight_bytes(scenario.model, scenario.deployment),
        "kv_capacity_tokens": memory.kv_capacity_tokens(*place),
        "sequence_capacity": capacity,
        "memory_use": memory.memory_use(*place, context, sequences, encoded),
        "fits": fits,
        "legal": split,
        "feasible": fits & split,
        **paged,
    }


def _economics(scenario: Scenario, rate: Scalar, joules_per_token: Scalar | None = None) -> dict[str, Scalar]:
    """Throughput of all replicas and per device, and per watt and dollar where the hardware has figures for them.

    `rate` is of one replica's tokens: output tokens, or those of `step_tokens`. `joules_per_token` is of all its
    devices and the same tokens; None: unknown.
    """
    hardware, deployment = scenario.hardware, scenario.deployment
    per_device = rate / replica_devices(deployment)
    metrics = {
        "ridge": ridge(hardware, deployment.attention_compute),
        "devices": jnp.asarray(devices(deployment)),
        "tokens_per_second": rate * deployment.dp,
        "tokens_per_second_per_device": per_device,
    }
    if hardware.power.tdp is not None:
        metrics["tokens_per_joule_at_tdp"] = per_device / hardware.power.tdp
    if hardware.price is not None:
        metrics["usd_per_million_tokens"] = 1e6 * hardware.price / per_device
    return metrics | _owning(hardware, per_device, joules_per_token)


def _owning(hardware: Hardware, per_device: Scalar, joules_per_token: Scalar | None) -> dict[str, Scalar]:
    """Die area, what a device costs, and what tokens cost its owner: capital, and energy where the joules are known."""
    if hardware.silicon is None:
        return {}
    metrics = {"die_area": jnp.asarray(die_area(hardware))}
    if hardware.costs is None:
        return metrics
    metrics |= {"device_cost": device_cost(hardware), "device_price": device_price(hardware)}
    if hardware.power.tdp is not None:
        capital = 1e6 * capital_rate(hardware) / per_device
        metrics["capital_usd_per_million_tokens"] = capital
        if joules_per_token is not None:
            energy = 1e6 * joules_per_token * energy_price(hardware)
            metrics |= {"energy_usd_per_million_tokens": energy, "owning_usd_per_million_tokens": capital + energy}
    return metrics


def _extrapolated(sums: dict[str, Scalar], *steps: str) -> dict[str, Scalar]:
    """Shares of the time of steps in kernels beyond the measured tables; nothing where there are no tables."""
    names = [f"{step}_extrapolated" for step in steps]
    return {name: sums[name] / sums[step] for name, step in zip(names, steps, strict=True) if name in sums}


def _spreads(
    name: str, time: Scalar, parts: tuple[tuple[Scalar, Scalar, Scalar], ...], efficiency: Efficiency
) -> dict[str, Scalar]:
    """Standard deviation of the logarithm of `time`, if all kernels err alike and if they err on their own.

    `parts` are the steps that it consists of: how often, and the sums of deviations in s and of their squares. Nothing
    where the efficiency does not know its errors.
    """
    if not spread_known(efficiency):
        return {}
    alike = sum(runs * deviation for runs, deviation, _ in parts)
    squares = sum(runs * runs * variance for runs, _, variance in parts)
    return {f"{name}_spread": alike / time, f"{name}_spread_independent": jnp.sqrt(squares) / time}


def _request_sums(scenario: Scenario) -> Lazy:
    place = scenario.workload, scenario.model, scenario.deployment
    prefill, decode = prefill_batch(*place), decode_batch(*place)
    return step_terms("prefill", scenario, prefill) | step_terms("decode", scenario, decode)


def _request_tables(scenario: Scenario) -> Lazy:
    place = scenario.workload, scenario.model, scenario.deployment
    tables = op_tables("prefill_", scenario, prefill_batch(*place))
    return tables | op_tables("decode_", scenario, decode_batch(*place))


def _request_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    requests = scenario.workload
    model, deployment = scenario.model, scenario.deployment
    unlimited = pipelined_times(sums["prefill"], sums["decode"], model, deployment, requests)
    times, energies = unlimited, None
    if power_known(scenario.hardware):
        energies = sums["prefill_energy"], sums["decode_energy"]
        times = limited_times(unlimited, energies, scenario.hardware, deployment, requests)
    prefill_time, step_time = times
    cost = pipelined_latency(*times, deployment, requests, scenario.efficiency)
    busy = micro_batches(requests, deployment) / degree(deployment.pp)  # floors are of one micro-batch in all stages
    encoded = decode_batch(requests, model, deployment).encoded
    prefill = prefill_time / sums["prefill"], sums["prefill_deviation"], sums["prefill_variance"]
    decode = sums["decode_deviation"], sums["decode_variance"]
    per_token, tokens = cost.tpot / sums["decode"], positive_part(requests.osl - 1.0)
    power = _request_power(scenario, cost, times, unlimited, energies)
    return {
        "ttft": cost.ttft,
        "tpot": cost.tpot,
        "e2e": cost.e2e,
        "tokens_per_second_per_request": 1.0 / cost.tpot,
        **_spreads("ttft", cost.ttft, (prefill,), scenario.efficiency),
        **_spreads("tpot", cost.tpot, ((per_token, *decode),), scenario.efficiency),
        **_spreads("e2e", cost.e2e, (prefill, (tokens * per_token, *decode)), scenario.efficiency),
        **_extrapolated(sums, "prefill", "decode"),
        **_economics(scenario, tokens_per_second(cost, requests), power.get("joules_per_token")),
        **power,
        "prefill_mfu": sums["prefill_matrix_floor"] * busy / prefill_time,
        "decode_mbu": sums["decode_memory_floor"] * busy / step_time,
        "prefill_bound": dominant_bound(sums["prefill_by_bound"]),
        "decode_bound": dominant_bound(sums["decode_by_bound"]),
        **_fit(scenario, requests.isl + requests.osl, requests.batch, encoded),
    }


def _request_power(
    scenario: Scenario,
    cost: RequestCost,
    times: tuple[Scalar, Scalar],
    unlimited: tuple[Scalar, Scalar],
    energies: tuple[Scalar, Scalar] | None,
) -> dict[str, Scalar]:
    """Power of one device in both phases and over the whole batch, and energy per token of a replica's devices.

    Nothing where energy, static power or the limit are unknown. Static power is drawn from when the prompt is there to
    the last token.

    Args:
      times: s of the prefill and of one decode step of all micro-batches, as the limit stretches them.
      unlimited: the same without a limit.
      energies: J of one micro-batch's steps on one device per stage, beside static power.
    """
    if energies is None:
        return {}
    requests, deployment, static = scenario.workload, scenario.deployment, scenario.hardware.power.static
    prefill, decode = (device_energy(energy, deployment, requests) for energy in energies)
    steps = positive_part(requests.osl - 1.0) / tokens_per_step(deployment, requests)
    busy = cost.e2e - requests.delay
    total = prefill + steps * decode + static * busy
    per_token = total * replica_devices(deployment) / (requests.batch * requests.osl)
    return {
        "power": total / busy,
        "prefill_power": prefill / times[0] + static,
        "decode_power": decode / times[1] + static,
        "prefill_slowdown": times[0] / unlimited[0],
        "decode_slowdown": times[1] / unlimited[1],
        "joules_per_token": per_token,
        "tokens_per_joule": 1.0 / per_token,
        "energy_delay_product": per_token * cost.tpot,
    }


def _step_sums(scenario: Scenario) -> Lazy:
    return step_terms("step", scenario, step_batch(scenario.workload, scenario.model))


def _step_tables(scenario: Scenario) -> Lazy:
    return op_tables("", scenario, step_batch(scenario.workload, scenario.model))


def _step_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    work = scenario.workload
    batch = step_batch(work, scenario.model)
    tokens = step_tokens(work)
    time, drawn = _limited_step(scenario, sums, tokens)
    prefill = jnp.zeros(()) if work.prefill is None else work.prefills * (work.prefill + work.past)
    decode = jnp.zeros(()) if work.decode is None else work.decode * work.context
    errors = sums["step_deviation"], sums["step_variance"]
    return {
        "step_time": time,
        **_spreads("step_time", time, ((time / sums["step"], *errors),), scenario.efficiency),
        **_extrapolated(sums, "step"),
        **_economics(scenario, tokens / time, drawn.get("joules_per_token")),
        **drawn,
        "mfu": sums["step_matrix_floor"] / (time * degree(scenario.deployment.pp)),
        "mbu": sums["step_memory_floor"] / (time * degree(scenario.deployment.pp)),
        "bound": dominant_bound(sums["step_by_bound"]),
        **_fit(scenario, (prefill + decode) / batch.logits, batch.logits, batch.encoded),
    }


def _limited_step(scenario: Scenario, sums: dict[str, Scalar], tokens: Scalar) -> tuple[Scalar, dict[str, Scalar]]:
    """Time in s of a step under the limit of electrical power, and power of a device and energy per token in it.

    No limit and no metrics where energy, static power or the limit are unknown.
    """
    hardware, deployment, time = scenario.hardware, scenario.deployment, sums["step"]
    if not power_known(hardware):
        return time, {}
    energy = sums["step_energy"] / degree(deployment.pp)
    limited = limited_time(time, energy, hardware)
    power = energy / limited + hardware.power.static
    per_token = power * limited * replica_devices(deployment) / tokens
    return limited, {
        "power": power,
        "slowdown": limited / time,
        "joules_per_token": per_token,
        "tokens_per_joule": 1.0 / per_token,
    }


REQUEST = Job("request", Requests, _request_sums, _request_tables, _request_metrics)
STEP = Job("step", StepWork, _step_sums, _step_tables, _step_metrics)
LEGALITY = Job(
    "legality",
    object,
    sums=lambda scenario: {},
    tables=lambda scenario: {},
    metrics=lambda scenario, sums, tables: {"legal": scenario_legal(scenario)},
)
"""Only whether the deployment can be, asked before anything is computed."""

JOBS = {job.name: job for job in (REQUEST, STEP, TRAIN, DISAGGREGATED, COLOCATED)}
"""Every job that a specification can name."""
