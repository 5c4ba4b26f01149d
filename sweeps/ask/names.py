"""Names, units and meanings of everything that a sweep returns."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.collectives import ALGORITHMS
from jaxroof.jobs.serve import PERCENTILES
from jaxroof.op import BOUNDS
from jaxroof.traffic import STATUSES
from sweeps.ask.production_names import PRODUCED
from sweeps.ask.training_names import TRAINED


@dataclasses.dataclass(frozen=True)
class Variable:
    """What one variable is."""

    unit: str  # SI unit, as `hwspaces.units` writes it
    long_name: str
    flags: tuple[str, ...] = ()  # meanings of the integer codes 0, 1, ...
    higher_is_better: bool | None = None  # for plots and tables; None where neither


LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first",
    "itl": "time between two tokens of a request",
    "e2e": "end-to-end latency",
    "queueing": "time from arrival to the first step that works on the prompt",
}
"""Latencies of served requests, of which a simulation has means and percentiles."""

SERVED = {
    **{f"{name}_mean": Variable("s", f"mean of the {words}", (), False) for name, words in LATENCIES.items()},
    **{
        f"{name}_p{percent}": Variable("s", f"{percent}th percentile of the {words}", (), False)
        for name, words in LATENCIES.items()
        for percent in PERCENTILES
    },
    "requests_per_second": Variable("1/s", "finished requests per second of all replicas", (), True),
    "prompt_tokens_per_second": Variable("1/s", "prompt tokens per second of all replicas", (), True),
    "goodput": Variable("1/s", "requests per second that keep every limit, all replicas", (), True),
    "good_share": Variable("1", "share of the requests that were sent that keep every limit", (), True),
    "finished": Variable("1", "requests that were answered"),
    "refused": Variable("1", "requests that are too long for the KV cache", (), False),
    "rejected": Variable("1", "requests that a full queue turned away", (), False),
    "unfinished": Variable("1", "requests that were left when the run ended", (), False),
    "preemptions": Variable("1", "times that a request's cache was taken away", (), False),
    "cached_share": Variable("1", "share of the prompt tokens that the prefix cache had", (), True),
    "duration": Variable("s", "time from the first arrival to the last finish"),
    "utilization": Variable("1", "share of the time in which the engine works"),
    "batch_mean": Variable("1", "mean sequences that decode, while the engine works"),
    "batch_max": Variable("1", "most sequences that decode"),
    "kv_use_mean": Variable("1", "mean share of the KV cache in use, while the engine works"),
    "kv_use_max": Variable("1", "largest share of the KV cache in use"),
    "engine_steps": Variable("1", "steps of the engine"),
    "kv_blocks": Variable("1", "blocks of KV cache of one replica", (), True),
}
"""Metrics of a simulated engine."""

OF_REQUESTS = {
    "arrival": Variable("s", "when the request was sent"),
    "queueing": Variable("s", LATENCIES["queueing"], (), False),
    "isl": Variable("1", "prompt tokens of the request"),
    "osl": Variable("1", "output tokens of the request"),
    "status": Variable("1", "what became of the request", STATUSES[:-1]),
    "preempted": Variable("1", "times that the request's cache was taken away", (), False),
    "cached": Variable("1", "prompt tokens that the prefix cache had"),
}
"""What is known of every request of a simulation, beside its ttft, tpot and e2e."""

OF_ITERATIONS = {
    "end": Variable("s", "when the iteration ends"),
    "iteration_time": Variable("s", "time of the iteration, waits included"),
    "steps": Variable("1", "engine steps of the iteration; 0: the engine waits"),
    "decoding": Variable("1", "sequences that each add a token per step"),
    "prompt_tokens": Variable("1", "prompt tokens of the step"),
    "blocks": Variable("1", "KV blocks in use at the iteration's end, those of idle prefixes included"),
    "running": Variable("1", "sequences that were admitted and have not ended, during the iteration"),
    "waiting": Variable("1", "requests that wait in the queue during the iteration"),
}
"""What an engine did over time: iterations are steps with prompts, several equal decode steps, or waits."""

STATES = ("met", "more", "none")
"""How a search for a capacity ends: at it; at the highest load that was tried; not even at the lowest."""

CAPACITIES = {
    "capacity": Variable("1/s", "largest rate of requests that keeps the objective", (), True),
    "capacity_per_device": Variable("1/s", "largest rate of requests per device that keeps the objective", (), True),
    "client_capacity": Variable("1", "most clients with whom the objective is kept", (), True),
    "client_capacity_per_device": Variable("1", "most clients per device with whom the objective is kept", (), True),
    "requests_per_usd": Variable("1", "requests per US dollar at the capacity", (), True),
    "state": Variable("1", "whether the capacity is what was found, or more than tried, or nothing", STATES),
}
"""What a capacity search finds for every accelerator."""

TOKENS = "output tokens; of a single step, prompt and output tokens"
"""Which tokens figures per token are of."""

VARIABLES = {
    "ttft": Variable("s", "time to first token, arrival to first token", (), False),
    "tpot": Variable("s", "time per output token after the first: (e2e - ttft) / (output tokens - 1)", (), False),
    "e2e": Variable("s", "end-to-end latency, arrival to last token", (), False),
    "step_time": Variable("s", "time of one engine step", (), False),
    **{
        f"{name}_spread{kind}": Variable("1", f"standard deviation of the logarithm of {name}, {how}", (), False)
        for name in ("ttft", "tpot", "e2e", "step_time")
        for kind, how in (("", "errors of all kernels alike"), ("_independent", "kernels err independently"))
    },
    **{
        f"{step}_extrapolated": Variable("1", f"share of {words} time in kernels beyond measured tables", (), False)
        for step, words in (("step", "the step's"), ("prefill", "the prefill's"), ("decode", "the decode step's"))
    },
    "devices": Variable("1", "devices of the deployment", (), False),
    "tokens_per_second": Variable("1/s", f"tokens per second of all replicas: {TOKENS}", (), True),
    "tokens_per_second_per_request": Variable("1/s", "output tokens per second of one request: 1 / tpot", (), True),
    "tokens_per_second_per_device": Variable("1/s", f"tokens per second and device: {TOKENS}", (), True),
    "power": Variable("W", "mean electrical power of one device", (), False),
    "prefill_power": Variable("W", "mean electrical power of one device during prefill", (), False),
    "decode_power": Variable("W", "mean electrical power of one device during decode", (), False),
    "slowdown": Variable("1", "time of the step over its time without a limit of electrical power", (), False),
    "prefill_slowdown": Variable("1", "prefill time over that without a limit of electrical power", (), False),
    "decode_slowdown": Variable("1", "decode time over that without a limit of electrical power", (), False),
    "joules_per_token": Variable("J", f"energy of a replica's devices per token: {TOKENS}", (), False),
    "tokens_per_joule": Variable("1/J", f"tokens per joule of a replica, or per second and watt: {TOKENS}", (), True),
    "energy_delay_product": Variable("J s", "energy per output token times time per output token", (), False),
    "tokens_per_joule_at_tdp": Variable("1/J", f"tokens per second, device and watt of TDP: {TOKENS}", (), True),
    **{
        f"{kind}usd_per_million_tokens": Variable("1", f"US dollars per million tokens {words}: {TOKENS}", (), False)
        for kind, words in (
            *(("", "at the device's price"), ("energy_", "for electricity")),
            ("capital_", "for owning devices, servers and their place"),
            ("owning_", "for owning and running the devices"),
        )
    },
    "die_area": Variable("m2", "area of all dies of a device, without memory stacks", (), False),
    "device_cost": Variable("1", "US dollars to make a device", (), False),
    "device_price": Variable("1", "US dollars that a device is bought for: cost to make times margin", (), False),
    "mfu": Variable("1", "model FLOP utilisation: matrix work at peak over time", (), True),
    "mbu": Variable("1", "memory bandwidth utilisation: bytes at peak HBM bandwidth over time", (), True),
    "prefill_mfu": Variable("1", "model FLOP utilisation of the prefill step", (), True),
    "decode_mbu": Variable("1", "memory bandwidth utilisation of the decode step", (), True),
    "bound": Variable("1", "resource that binds most of the step's time", BOUNDS),
    "prefill_bound": Variable("1", "resource that binds most of the prefill step's time", BOUNDS),
    "decode_bound": Variable("1", "resource that binds most of the decode step's time", BOUNDS),
    "weight_bytes": Variable("B", "weights stored per device"),
    "kv_capacity_tokens": Variable("1", "tokens of KV cache that fit beside the weights", (), True),
    "sequence_capacity": Variable("1", "sequences of the workload's length whose KV cache fits", (), True),
    "memory_use": Variable("1", "share of the usable device memory that model and workload need", (), False),
    "ridge": Variable("1", "FLOP per byte of HBM traffic from which on the matrix units bind, attention precision"),
    "fits": Variable("1", "weights, activations and the workload's KV cache fit in device memory"),
    "legal": Variable("1", "the deployment's split is possible for this model on these links"),
    "feasible": Variable("1", "the deployment is legal and fits"),
    "op_time": Variable("s", "time of an op over all its runs in the step", (), False),
    "op_flops": Variable("1", "FLOP of an op over all its runs in the step, per device"),
    "op_bytes": Variable("B", "bytes of an op over all its runs in the step, each operand once, per device"),
    "op_energy": Variable("J", "energy of an op over all its runs in the step, per device, beside static power"),
    "op_bound": Variable("1", "what binds an op", BOUNDS),
    "op_algorithm": Variable("1", "how a collective runs; -1 for other ops", ALGORITHMS),
    **SERVED,
    **OF_REQUESTS,
    **OF_ITERATIONS,
    **CAPACITIES,
    **{name: Variable(*meaning) for name, meaning in TRAINED.items()},
    **{name: Variable(*meaning) for name, meaning in PRODUCED.items()},
}
"""Every variable of every job. A breakdown's `prefill_` and `decode_` variables share the meaning of the plain one."""

UDUNITS = {
    "B": "byte",
    "B/s": "byte s-1",
    "FLOP/s": "s-1",
    "1/s": "s-1",
    "1/J": "J-1",
    "J/B": "J byte-1",
    "J/FLOP": "J",
    "USD/s": "s-1",
    "": "1",
    "m2/B": "m2 byte-1",
    "m2 s/B": "m2 s byte-1",
    "USD": "1",
    "USD/B": "byte-1",
    "USD/J": "J-1",
    "USD/m2": "m-2",
    "1/m2": "m-2",
}
"""How UDUNITS writes our SI units, where it differs: there `B` means bel, and operations and dollars are numbers."""

DERIVED = {
    "elasticity_of_": "elasticity of {}: d ln y / d ln x in the knob",
    "predicted_change_of_": "relative change of {} that its elasticity predicts",
    "change_of_": "relative change of {}",
    "curvature_of_": "second derivative of ln y in ln x of two knobs, y: {}",
}
"""Variables that say how a metric depends on knobs, by what their names begin with; the metric's name follows."""

KNOB_COORDINATES = {
    "knob": "number that is changed",
    "other_knob": "number that is changed as well",
    "factor": "what the knob is multiplied by",
    "knob_value": "the knob's value, in its SI unit",
    "knob_unit": "SI unit of the knob",
    "knob_is_count": "1 where the knob is a count, which is taken as a real number",
}
"""Labels along the dimensions of derived variables."""


def variable(name: str) -> Variable:
    """What the variable `name` is; of a step's ops, with the step said."""
    if name in VARIABLES:
        return VARIABLES[name]
    for prefix, words in DERIVED.items():
        if name.startswith(prefix):
            return Variable("1", words.format(variable(name.removeprefix(prefix)).long_name.partition(":")[0]))
    step, _, plain = name.partition("_")
    meaning = VARIABLES[plain]
    return dataclasses.replace(meaning, long_name=f"{meaning.long_name}, {step} step")


def variable_attributes(name: str, dtype: np.dtype) -> dict[str, Any]:
    """CF attributes of a variable: units, long name, and the flags of an integer code."""
    meaning = variable(name)
    attributes: dict[str, Any] = {
        "units": UDUNITS.get(meaning.unit, meaning.unit),
        "long_name": meaning.long_name,
    }
    if meaning.flags:
        attributes["flag_values"] = np.arange(len(meaning.flags), dtype=dtype)
        attributes["flag_meanings"] = " ".join(meaning.flags)
    return attributes
