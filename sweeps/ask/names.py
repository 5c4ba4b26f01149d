"""Names, units and meanings of everything that a sweep returns."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxroof.batch import STATUSES
from jaxroof.jobs import colocated, disaggregated, economics, fit, function, job, request, serve, steady, step, train
from jaxroof.jobs.scenario import Metric, higher, lower

MODEL = "model"
"""Long name of an axis over models."""


# Parts of a device's area, cost and power, and limits of its package, in words.


PARTS = {
    "matrix": "matrix units",
    "vector": "vector units",
    "double": "float64 units",
    "graphics": "graphics",
    "core": "rest of the cores",
    "core_memory": "scratchpads, registers",
    "l2": "shared caches",
    "stacks": "memory PHYs",
    "links": "links",
    "fixed": "host interface, control",
    "base": "carrying the dies with cores",
}
"""Part of `jaxroof.area_parts` -> what it is called."""

COST_PARTS = {
    "dies": "dies",
    "memory": "device memory",
    "package": "package",
    "test": "test and assembly",
    "board": "board",
}
"""Part of `jaxroof.cost_parts` -> what it is called."""

LIMITS = {
    "shoreline": "die edge for PHYs",
    "interposer": "package area",
    "reticle": "area of one die",
    "power_density": "power per area",
    "cooling": "cooling",
}
"""Limit of `jaxroof.chip.area.USES` -> what it is called."""

POWER_PARTS = {
    "static": ("static",),
    "device memory": ("hbm",),
    "L2 and scratchpads": ("l2", "scratchpad"),
    "matrix units": ("matrix",),
    "vector, exponentials": ("vector", "exp"),
    "links": ("scale_up", "scale_out", "cluster"),
}
"""Name of a part of a device's power -> parts of `jaxroof.jobs.request.step_powers`."""


OF_REQUESTS = {
    "arrival": Metric("s", "when the request was sent"),
    "queueing": lower("s", serve.LATENCIES["queueing"]),
    "isl": Metric("1", "prompt tokens of the request"),
    "osl": Metric("1", "output tokens of the request"),
    "status": Metric("1", "what became of the request", STATUSES[:-1]),
    "preempted": lower("1", "times that the request's cache was taken away"),
    "cached": Metric("1", "prompt tokens that the prefix cache had"),
    "request_class": Metric("1", "class of the request, its place in the file of classes"),
    "replica": Metric("1", "replica that the request was sent to, those for prompts first; -1: none"),
    "decode_replica": Metric("1", "replica that decodes the request, where another computes its prompt; -1: none"),
}
"""What is known of every request of a simulation, beside its ttft, tpot and e2e."""

OF_ITERATIONS = {
    "end": Metric("s", "when the iteration ends"),
    "iteration_time": Metric("s", "time of the iteration, waits included"),
    "steps": Metric("1", "engine steps of the iteration; 0: the engine waits"),
    "decoding": Metric("1", "sequences that each add a token per step"),
    "prompt_tokens": Metric("1", "prompt tokens of the step"),
    "blocks": Metric("1", "KV blocks in use at the iteration's end, those of idle prefixes included"),
    "running": Metric("1", "sequences that were admitted and have not ended, during the iteration"),
    "waiting": Metric("1", "requests that wait in the queue during the iteration"),
    "engine": Metric("1", "replica whose iteration it is, those for prompts first"),
    "blocks_there": higher("1", "KV blocks of the replica whose iteration it is"),
    "right_drafts": Metric("1", "drafted tokens of the step that are right"),
}
"""What an engine did over time: iterations are steps with prompts, several equal decode steps, or waits."""

OF_ROUTERS = {
    "prompt_share": Metric("1", "share of the prompt tokens of finished requests that came from each source"),
    "replica_load": Metric("1", "requests that the replica has, mean over the run"),
    "load_imbalance": lower("1", "requests that the replica with most of them has, over the mean of all replicas"),
}
"""What is known of every router of a comparison, beside metrics of simulations."""
OF_EVALUATIONS = {
    "replicas_mean": lower("1", "mean replicas whose devices are taken, where they start and stop"),
    "replica_time": lower("s", "time for which replicas are taken, summed over them"),
    "device_time": lower("s", "time for which devices are taken, summed over them"),
    "fixed_device_time": lower("s", "time of devices with all replicas all the time"),
    "run_usd": lower("1", "US dollars of the devices that the run takes"),
    "fixed_run_usd": lower("1", "US dollars with all replicas all the time"),
    "evaluation_time": Metric("s", "when the number of replicas was decided on"),
    "replicas": Metric("1", "replicas that are on from then on, those that start included"),
}
"""Replicas over time, and what a run takes of them, where they start and stop."""

STATES = ("met", "more", "none")
"""How a search for a capacity ends: at it; at the highest load that was tried; not even at the lowest."""

CAPACITIES = {
    "capacity": higher("1/s", "largest rate of requests that keeps the objective"),
    "capacity_per_device": higher("1/s", "largest rate of requests per device that keeps the objective"),
    "client_capacity": higher("1", "most clients with whom the objective is kept"),
    "client_capacity_per_device": higher("1", "most clients per device with whom the objective is kept"),
    "requests_per_usd": higher("1", "requests per US dollar at the capacity"),
    "state": Metric("1", "whether the capacity is what was found, or more than tried, or nothing", STATES),
}
"""What a capacity search finds for every accelerator."""

PLACES = {
    "usd_per_hour": lower("1", "US dollars per hour of all devices"),
    "load": higher("1/s", "requests per second of one replica"),
}
"""What a served comparison finds for every deployment, beside figures of other jobs."""

SPLITS = {
    "split_use": lower("1", "requests per second over what the split can do at most"),
    "limit_ratio": lower("1", "largest of the latencies over their limits"),
    "best_split": Metric("1", "number of the split that keeps every limit with most room to spare; -1: none does"),
}
"""What a search over splits of devices finds."""

VARIABLES: dict[str, Metric] = {
    **request.METRICS,
    **step.METRICS,
    **job.METRICS,
    **economics.METRICS,
    **fit.METRICS,
    **serve.METRICS,
    **steady.METRICS,
    **OF_REQUESTS,
    **OF_ITERATIONS,
    **OF_ROUTERS,
    **OF_EVALUATIONS,
    **CAPACITIES,
    **train.METRICS,
    **disaggregated.METRICS,
    **colocated.METRICS,
    **function.METRICS,
    **SPLITS,
    **PLACES,
}
"""Every variable of every job. A breakdown's `prefill_` and `decode_` variables share the meaning of the plain one."""

UDUNITS = {
    "clock": "1",
    "clock/B": "byte-1",
    "B/clock": "byte",
    "B/clock/core": "byte",
    "B": "byte",  # after those that are written as it is: what reads a file takes the last
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
    "kg/J": "kg J-1",
    "USD/m2": "m-2",
    "1/m2": "m-2",
}
"""How UDUNITS writes our SI units, where it differs: there `B` means bel, and operations and dollars are numbers."""

DERIVED = {
    "elasticity_of_": "elasticity of {}: d ln y / d ln x in the knob",
    "predicted_change_of_": "relative change of {} that its elasticity predicts",
    "change_of_": "relative change of {}",
    "agreement_of_": "1 where gradient and real change agree, of {}",
    "curvature_of_": "second derivative of ln y in ln x of two knobs, y: {}",
}
"""Variables that say how a metric depends on knobs, by what their names begin with; the metric's name follows."""

KNOB_COORDINATES = {
    "knob": "number that is changed",
    "other_knob": "number that is changed as well",
    "factor": "what the knob is multiplied by, before whole numbers are rounded",
    "knob_turned_to": "what the knob is turned to, in its SI unit",
    "knob_value": "the knob's value, in its SI unit",
    "knob_unit": "SI unit of the knob",
    "knob_is_count": "1 where the knob is a count, which the gradient takes as a real number",
}
"""Labels along the dimensions of derived variables."""


def variable(name: str) -> Metric:
    """Unit and meaning of the variable `name`; of a step's ops, with the step named."""
    if name in VARIABLES:
        return VARIABLES[name]
    # Derived variables: a prefix, then a metric, which may itself be derived.
    for prefix, words in DERIVED.items():
        if name.startswith(prefix):
            # The words after a colon explain the metric itself, not what is derived from it.
            return Metric("1", words.format(variable(name.removeprefix(prefix)).long_name.partition(":")[0]))
    # Variables of a breakdown begin with their step: prefill_ or decode_.
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
        # CF conventions, section 3.5: an integer code lists its values and their meanings.
        attributes["flag_values"] = np.arange(len(meaning.flags), dtype=dtype)
        attributes["flag_meanings"] = " ".join(meaning.flags)
    return attributes


def units(metrics: Iterable[str]) -> dict[str, str]:
    """Units of metrics by name, as files have them."""
    return {name: UDUNITS.get(variable(name).unit, variable(name).unit) for name in metrics}
