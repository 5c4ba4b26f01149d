"""Text and JSON of answers that verbs share: memory, money, intervals and power; the case and its metrics."""

import dataclasses
import math
from typing import Any

from hwspaces import formatted
from hwspaces.accelerators.prices import BOUGHT
from jaxroof.efficiency.timing import NINETY_PERCENT
from jaxroof.jobs import job_of
from jaxroof.jobs.step import StepWork
from jaxroof.memory.capacity import beside_bytes, kv_capacity_bytes, memory_parts
from jaxroof.memory.reserve import memory_share
from jaxroof.numerics.struct import given
from sweeps.answers import tables
from sweeps.ask.cases import Case
from sweeps.ask.names import units
from sweeps.data.labels import number
from sweeps.run.answer import Answer, OpAnswer, answer
from sweeps.run.evidence import beyond, without_hulls
from sweeps.run.joined import Joined, joined_lines, measured_tables, step_joined

THROTTLED = 1.001
"""Slowdown above which the limit of electrical power is worth a line."""


def fit_text(case: Case, metrics: dict[str, Any]) -> str:
    """Whether the case fits in memory, in words: weights of capacity, and what KV cache is left."""
    capacity = case.scenario.hardware.memory.hbm.capacity
    beside = beside_bytes(case.scenario.hardware)
    others = [f"{formatted(room, 'B')} {name}" for name, room in beside.items()]
    rooms = " and ".join([formatted(capacity, "B"), *others])
    weights = f"weights {formatted(metrics['weight_bytes'], 'B')} of {rooms} per device"
    tokens, sequences = metrics["kv_capacity_tokens"], metrics["sequence_capacity"]
    if tokens <= 0:
        return f"does not fit: {weights}, which leaves no KV cache beside activations and the engine's reserve"
    room = f"KV cache for {number(tokens)} tokens or {number(sequences)} such sequences"
    return f"{'fits' if metrics['fits'] else 'does not fit'}: {weights}, {room}"


def parts_text(case: Case) -> str:
    """What takes memory beside the KV cache, by part, as an engine's start-up log names it."""
    parts = memory_record(case)
    share = f"{float(memory_share(case.scenario.hardware, case.scenario.deployment)):.3g}"
    names = ("weights", "activations", "sampler", "graphs", "other", "kv_cache")
    words = ", ".join(f"{_PART_WORDS[name]} {parts[name] / GIB:.2f}" for name in names)
    # With `memory_static`, as SGLang's --mem-fraction-static, the share covers weights and cache alone.
    deployment = case.scenario.deployment
    if float(deployment.memory_static):
        rule = "of weights and cache alone"
    else:
        rule = "of what the rest leaves" if float(deployment.memory_of_free) else "of all"
        rule += ", the larger of both peaks counts"
    return f"GiB per device: {words}; the engine's share is {share} {rule}"


_PART_WORDS = {
    "weights": "weights as loaded",
    "activations": "activations of the largest step",
    "sampler": "its sampler",
    "graphs": "graphs",
    "other": "driver, context and messages",
    "kv_cache": "KV cache",
}
"""Part of the device's memory -> its name in a sentence."""

# Engines log memory in GiB, and this sentence repeats such a log.
GIB = 2.0**30


def memory_record(case: Case) -> dict[str, float]:
    """B of one device by part, for machines; `peak` is the larger of activations and sampler."""
    scenario = case.scenario
    place = scenario.hardware, scenario.model, scenario.deployment
    parts = memory_parts(*place)
    amounts = parts._asdict() | {"peak": parts.peak, "kv_cache": kv_capacity_bytes(*place)}
    return {name: float(value) for name, value in amounts.items()}


def token_text(case: Case) -> str:
    """Meaning of "per token": of a step the tokens that it processes, of requests output tokens."""
    work = case.scenario.workload
    if not isinstance(work, StepWork) or work.prefill is None:
        return "output token"
    return "prompt token" if work.decode is None else "token, prompt or output"


def money_text(case: Case, metrics: dict[str, Any]) -> str | None:
    """Cost of a device, and of a million tokens to its owner and its tenant; None where nothing is known."""
    # Only the first word becomes a plural: "tokens, prompt or output".
    tokens = token_text(case).replace("token", "tokens", 1)
    # A job of prompts alone is priced per prompt token: its metrics take the names of the others.
    if "usd_per_thousand_requests" in metrics:
        metrics = metrics | {
            name.replace("_prompt_tokens", "_tokens"): value
            for name, value in metrics.items()
            if name.endswith("usd_per_million_prompt_tokens")
        }
        tokens = "prompt tokens"
    parts = []
    if "device_cost" in metrics:
        cost, price = metrics["device_cost"], metrics["device_price"]
        parts.append(f"device {cost:,.0f} USD to make, {price:,.0f} to buy (margin {price / cost:.3g})")
    known = {
        name: metrics[f"{name}_usd_per_million_tokens"]
        for name in ("owning", "capital", "energy")
        if f"{name}_usd_per_million_tokens" in metrics
    }
    if "owning" in known:
        words = f"{number(known['capital'])} capital, {number(known['energy'])} energy"
        parts.append(f"owning {number(known['owning'])} USD per million {tokens} ({words})")
    elif "capital" in known:
        parts.append(f"owning {number(known['capital'])} USD per million {tokens}, capital alone")
    if "usd_per_million_tokens" in metrics:
        unit = "" if known else f" USD per million {tokens}"
        price = "" if case.hardware.price is None else f" at {case.hardware.price.text}"
        bought = case.hardware.price is not None and case.hardware.price.seller == BOUGHT
        parts.append(f"{'buying' if bought else 'renting'} {number(metrics['usd_per_million_tokens'])}{unit}{price}")
    return "; ".join(parts) or None


def margin_text(margin: float) -> str:
    """What a device is bought for over what it takes to make, in words."""
    if margin == 1.0:
        return "margin 1: a device costs what it takes to make; hardware.costs.margin sets a price"
    return f"margin {margin:g}: a device is bought at {margin:g} times what it takes to make"


def is_certainty(name: str) -> bool:
    """Whether a metric says how certain others are: printed as intervals and lines, not in tables."""
    return name.endswith(("_spread", "_least", "_extrapolation"))


def intervals(metrics: dict[str, Any]) -> list[str]:
    """90 % intervals of each time, in words; none begins below what the datasheet's rates allow.

    Empty where the efficiency does not know its errors.
    """
    lines = []
    for name in ("step_time", "ttft", "tpot", "e2e"):
        if f"{name}_spread" not in metrics:
            continue
        low, high = time_range(name, metrics)
        bound = " at least, by the datasheet's rates," if low <= metrics[f"{name}_least"] else ""
        lines.append(f"{name} {formatted(low, 's')}{bound} to {formatted(high, 's')} (90 %)")
    return lines


def time_range(name: str, metrics: dict[str, Any]) -> tuple[float, float]:
    """90 % interval of the time `name` in s: a factor of exp(1.645 sigma) to both sides, the error being log-normal.

    It begins no lower than the datasheet's rates allow. `metrics` has `name`, its spread and its least.
    """
    factor = math.exp(NINETY_PERCENT * metrics[f"{name}_spread"])
    # A prediction may itself be below its bound where caches hold what the bound takes from memory.
    least = min(metrics[name], metrics[f"{name}_least"])
    return max(metrics[name] / factor, least), metrics[name] * factor


def beyond_lines(case: Case, metrics: dict[str, Any]) -> list[str]:
    """What of a case is beyond the evidence of its constants, and what that does to the intervals; empty inside."""
    # One judgement for every step of the job, such as prefill and decode.
    by_step = {name: beyond(*step) for name, step in job_of(case.scenario).steps(case.scenario).items()}
    marked = {name: one for name, one in by_step.items() if one.marked}
    lines = [f"{name}: {one.text}" for name, one in marked.items() if one.octaves is not None]
    # A finding without a distance in octaves is said once, not for every step.
    lines += [one.text for one in list(marked.values())[:1] if one.octaves is None]
    known = [name for name in ("step_time", "ttft", "tpot", "e2e") if f"{name}_spread" in metrics]
    # The same case as if it were inside the evidence shows by how much the intervals are widened.
    if lines and known:
        inside = dataclasses.replace(case.scenario, efficiency=without_hulls(case.scenario.efficiency))
        before: dict[str, Any] = answer(dataclasses.replace(case, scenario=inside)).metrics
        parts = []
        for name in known:
            low, high = (math.exp(NINETY_PERCENT * one[f"{name}_spread"]) for one in (before, metrics))
            parts.append(f"{name} from a factor of {low:.2f} to {high:.2f}")
        lines.append(f"intervals (90 %) widened: {', '.join(parts)}")
    return lines


def joined(case: Case) -> dict[str, list[Joined]]:
    """How every step's kernels are priced by a user's measured tables; empty where there are none."""
    if not measured_tables(case.scenario.efficiency):
        return {}
    return {name: step_joined(*step) for name, step in job_of(case.scenario).steps(case.scenario).items()}


def surface_lines(case: Case) -> list[str]:
    """The same in words."""
    steps = joined(case)
    return [f"{name}: {line}" if len(steps) > 1 else line for name, own in steps.items() for line in joined_lines(own)]


def power_lines(case: Case, metrics: dict[str, Any]) -> list[str]:
    """Power of a device and energy per token in words, and what the limit costs where it binds; empty if unknown."""
    if "power" not in metrics:
        return []
    # A job with prefill and decode states the power of each phase beside the mean.
    phases = [name for name in ("prefill", "decode") if f"{name}_power" in metrics]
    parts = [f"{phase} {formatted(metrics[f'{phase}_power'], 'W')}" for phase in phases]
    detail = f" ({', '.join(parts)})" if parts else ""
    of = "joules_per_request" if "joules_per_request" in metrics else "joules_per_token"
    energy = f"{formatted(metrics[of], 'J')} per {'request' if of == 'joules_per_request' else token_text(case)}"
    lines = [f"{formatted(metrics['power'], 'W')} per device{detail}, {energy}"]
    if "gco2_per_million_tokens" in metrics:
        tokens = token_text(case).replace("token", "tokens", 1)
        lines.append(f"{number(metrics['gco2_per_million_tokens'])} g CO2 per million {tokens}")
    return lines + throttled_lines(case, metrics)


def throttled_lines(case: Case, metrics: dict[str, Any]) -> list[str]:
    """Clock at which the limit of electrical power lets steps run, in words; empty where it slows none."""
    lines, hardware = [], case.scenario.hardware
    # No prefix: the job's single step. A request or a pool has a step for each phase.
    for step in ("", "prefill_", "decode_"):
        slowdown, clock = metrics.get(f"{step}slowdown", 1.0), metrics.get(f"{step}clock")
        if slowdown <= THROTTLED:
            continue
        # A prefill pool may have an accelerator of its own.
        place = case.scenario.prefill.hardware if step == "prefill_" and case.scenario.prefill else hardware
        phase = f"{step.rstrip('_')} " if step else ""
        # Where the clock in Hz is not known, only the ratio to full speed can be stated.
        speed = f"{100.0 / slowdown:.0f} % of its clock"
        if clock is not None:
            speed = f"{clock * 1e-6:,.0f} of {given(place.cores.clock, 'clock') * 1e-6:,.0f} MHz"
        limit = f"{number(given(place.power.tdp, 'TDP'))} W of TDP are reached"
        lines.append(f"{phase}runs at {speed}: {limit}, {slowdown - 1.0:.1%} longer")
    return lines


def case_record(case: Case) -> dict[str, Any]:
    """What was asked, for machines."""
    return {
        "hardware": case.hardware.name,
        "model": case.model.name,
        "precision": case.model.precision,
        "precision_source": case.model.precision_source,
        "kv_precision": case.kv,
        "efficiency": case.efficiency.name,
        "engine": case.engine.words,
        "engine_text": case.engine.text,
        "engine_evidence": case.engine.evidence,
        **({} if case.hardware.price is None else case.hardware.price.record()),
        "deployment": dataclasses.asdict(case.scenario.deployment),
    }


def show(case: Case, answer: Answer) -> None:
    """Print what follows the tables of a step or a request: errors, power, memory, money and notes."""
    metrics, out = answer.metrics, tables.console()
    money = money_text(case, metrics)
    for label, lines in {
        "error": intervals(metrics),
        "beyond": beyond_lines(case, metrics),
        "surface": surface_lines(case),
        "power": power_lines(case, metrics),
        "memory": [fit_text(case, metrics)],
        "parts": [parts_text(case)],
        "money": [] if money is None else [money],
        "note": tables.notes(case),
    }.items():
        tables.print_lines(out, label, lines)


def record(case: Case, answer: Answer) -> dict[str, Any]:
    """The answer for machines: SI numbers, all finite; a figure that does not exist is null."""
    ops = {step: [_op_record(op, table) for op in table] for step, table in answer.steps.items()}
    measured = {step: [row._asdict() for row in rows] for step, rows in joined(case).items()}
    return {
        **case_record(case),
        "workload": dataclasses.asdict(case.scenario.workload),
        "notes": list(case.notes),
        "token_unit": token_text(case),
        "memory": memory_record(case),
        "metrics": answer.metrics,
        "units": units(answer.metrics),
        "roofs": _roofs_record(case, answer),
        **({"surface": measured} if measured else {}),
        "ops": [{**op, "step": step} if len(ops) > 1 else op for step, rows in ops.items() for op in rows],
    }


def _roofs_record(case: Case, answer: Answer) -> dict[str, Any]:
    """Datasheet rates of one device that no op of a step beats, by step: B/s of its memory, FLOP/s of its units."""
    roofs = {}
    places = job_of(case.scenario).steps(case.scenario)
    for step, ops in answer.steps.items():
        hardware = places[step][0].hardware
        used = dict.fromkeys(op.precision for op in ops if op.precision)
        roofs[step] = {
            "memory_bandwidth": float(hardware.memory.hbm.bandwidth),
            "matrix_flops": {name: float(hardware.matrix[name]) for name in used if name in hardware.matrix},
            "vector_flops": float(hardware.cores.count * hardware.cores.vector_flops),
        }
    return roofs


def _op_record(op: OpAnswer, step: tuple[OpAnswer, ...]) -> dict[str, Any]:
    return {
        "name": op.name,
        "count": op.count,
        "precision": op.precision,
        "time_s": op.time,
        "share": op.time / sum(other.time for other in step),
        "flops_per_device": op.flops,
        "bytes_per_device": op.bytes,
        "message_bytes_per_device": op.message_bytes,
        "intensity": op.intensity,
        "bound": op.bound,
        "algorithm": op.algorithm,
        "energy_per_device_J": op.energy,
        "power_per_device_W": op.power,
    }
