"""One simulated deployment: what became of every request, what the engine did over time, and the metrics."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxroof import memory
from jaxroof.deployment import devices, replica_devices
from jaxroof.jobs.serve import Objective, serving_metrics
from jaxroof.policy import Policy
from jaxroof.scheduler import cache_blocks
from jaxroof.traffic import STATUSES, Served, Timeline
from sweeps.ask.cases import Case, case
from sweeps.ask.effects import facts, given_paths, require_effect
from sweeps.ask.engines import engine_of
from sweeps.run.precision import precision
from sweeps.serving.load import Load, load
from sweeps.serving.objective import parse_slo
from sweeps.serving.policies import chosen_policy, policy_values
from sweeps.serving.question import Question, question
from sweeps.serving.simulation import Serving, no_cache, require_priced, simulated, size_for, unfinished

RATES = ("requests_per_second", "tokens_per_second", "prompt_tokens_per_second", "goodput")
"""Metrics that add up over replicas."""


@dataclasses.dataclass(frozen=True, eq=False)
class Setup:
    """One deployment under one load: what is asked, and all that a simulation of it takes."""

    question: Question
    case: Case  # its workload is a placeholder: requests are the load's
    engine: str
    policy: Policy
    objective: Objective
    load: Load  # of all replicas
    replica: Load  # of the one that is simulated
    blocks: float  # of KV cache of one replica

    @property
    def replicas(self) -> int:
        """How many the deployment has; one of them is simulated."""
        return int(self.case.scenario.deployment.dp)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the case, the stream and what the simulation leaves out."""
        notes = [*self.case.notes, *self.load.stream.notes]
        if self.replicas > 1:
            notes.append(
                f"one of {self.replicas} replicas was simulated, with one request in {self.replicas}: rates are "
                f"{self.replicas} times its own, counts are of it alone"
            )
        longest = self.case.model.max_position
        beyond = 0 if longest is None else int(np.sum(self.load.stream.isl + self.load.stream.osl > longest))
        if beyond:
            notes.append(f"{beyond:,} requests are longer than the model's {longest:,} positions")
        if self.case.model.model.encoder is not None:
            notes.append("prompts are text: the model's encoder has no work")
        if self.load.clients is not None and self.question.sessions:
            notes.append("clients send turns in the order in which they were drawn, not after the turn before")
        return tuple(dict.fromkeys(notes))


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation(Setup):
    """One deployment under one load: what was asked, and what came of it."""

    served: Served  # what became of its requests, NumPy arrays of shape [requests]
    timeline: Timeline  # what it did, NumPy arrays of shape [iterations], those of no duration left out
    metrics: dict[str, float]  # rates are of all replicas, counts of the one
    seconds: float  # s that the simulation took, compilation included

    @property
    def start(self) -> np.ndarray:
        """When every iteration begins, in s, shape [iterations]: where the one before ended."""
        return np.concatenate([np.zeros(1), self.timeline.end])[:-1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the setup, and how many requests were left."""
        left = unfinished(self.served)
        return (*super().notes, *([unfinished_note(left)] if left else []))


def unfinished_note(left: int) -> str:
    """What a reader should know of a run that ended with `left` requests."""
    return f"the run ended with {left:,} requests unfinished; metrics are of those that finished"


def setup(asked: Question) -> Setup:
    """What a simulation takes, checked; nothing is simulated.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    objective = parse_slo(asked.slo)
    given = load(asked)
    found = _case(asked)
    engine = asked.engine or engine_of(found.efficiency)
    policy = chosen_policy(engine, asked.policy)
    require_effect(given_paths(policy=asked.policy), facts(found.scenario, beside=policy_values(policy)))
    part = given.replica(int(found.scenario.deployment.dp))
    with precision("float64"):
        blocks = _cache(found, policy)
    return Setup(
        question=asked,
        case=found,
        engine=engine,
        policy=policy,
        objective=objective,
        load=given,
        replica=part,
        blocks=blocks,
    )


def simulation(asked: Question, progress: Callable[[int, int], None] = lambda done, requests: None) -> Simulation:
    """Simulate what is asked.

    Args:
      progress: called now and then with the requests that are over and with all of the replica that is simulated.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    given = setup(asked)
    start = time.perf_counter()
    scenario, policy, traffic = given.case.scenario, given.policy, given.replica.traffic
    with precision("float64"):
        place = {name: getattr(scenario, name) for name in ("hardware", "model", "deployment", "efficiency")}
        one = Serving(**place, traffic=traffic, policy=policy)
        together = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float)[None], one)
        served, timeline = simulated(together, size_for(traffic, policy), progress=progress)
        served, timeline = jax.tree.map(lambda values: values[0], (served, timeline))
        limits = jax.tree.map(lambda limit: jnp.asarray(limit, dtype=float), given.objective)
        metrics = jax.jit(serving_metrics)(served, timeline, _floats(traffic), jnp.asarray(given.blocks), limits)
        metrics = {name: float(value) for name, value in metrics.items()}
        metrics |= _deployed(given.case, metrics)
    seconds = time.perf_counter() - start
    served, timeline = jax.tree.map(np.asarray, (served, timeline))
    worked = timeline.duration > 0.0
    return Simulation(
        **{field.name: getattr(given, field.name) for field in dataclasses.fields(given)},
        served=served,
        timeline=jax.tree.map(lambda values: values[worked], timeline),
        metrics=metrics,
        seconds=seconds,
    )


def serve(
    hardware: str, model: str, *, progress: Callable[[int, int], None] = lambda done, requests: None, **keys: Any
) -> xr.Dataset:
    """Simulate one deployment under one load and return everything about it as a labelled Dataset.

    Args:
      hardware, model: catalogue names or files.
      progress: called now and then with the requests that are over and with all.
      **keys: fields of `sweeps.serving.question.Question`: deployment, trace, rate, concurrency, isl, osl, requests,
        seed, engine, policy, slo, ...

    Returns:
      Metrics without dimension; latencies and outcome of every request along `request`; what the engine did along
      `iteration`: a step with prompts, several decode steps in which nothing changes, or a wait. SI units, float64.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      sweeps.serve("H100-SXM", "Llama-3.1-8B", rate=8, isl=1024, osl=256, slo="ttft=500ms,tpot=40ms")
    """
    from sweeps.serving.files import dataset

    return dataset(simulation(question(hardware=hardware, model=model, **keys), progress))


def _floats(traffic: Any) -> Any:
    """Traffic whose every leaf is an array of floats."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), traffic)


def waiting(found: Simulation) -> np.ndarray:
    """Requests that wait in the queue while every iteration runs: arrived when it begins, admitted later.

    Shape [iterations]; those that were refused or turned away never wait.
    """
    kept = np.isin(found.served.status, [STATUSES.index(name) for name in ("finished", "unfinished")])
    arrived, admitted = (np.sort(times[kept]) for times in (found.served.arrival, found.served.admitted))
    count = [np.searchsorted(times, found.start, side="right") for times in (arrived, admitted)]
    return count[0] - count[1]


def _case(asked: Question) -> Case:
    """The case without its workload: hardware, model, deployment and efficiency, checked."""
    found = case(
        "request",
        asked.hardware,
        asked.model,
        workload={"isl": 1.0, "osl": 1.0},
        deployment=asked.deployment,
        weights=asked.weights,
        kv=asked.kv,
        communication=asked.communication,
        efficiency=asked.efficiency,
        overrides=asked.overrides,
        draft=asked.draft,
    )
    require_priced(found.model.name, found.scenario.model, found.scenario.deployment)
    return found


def _cache(found: Case, policy: Policy) -> float:
    """KV blocks of one replica; ValueError, one line, where there are none."""
    scenario = found.scenario
    place = scenario.hardware, scenario.model, scenario.deployment
    blocks = float(cache_blocks(*place, policy))
    if blocks < 1.0:
        raise ValueError(f"{no_cache(found.model.name, found.hardware.name, *place)}; use more devices (tp)")
    return blocks


def _deployed(found: Case, metrics: dict[str, float]) -> dict[str, float]:
    """Rates of all replicas, and what one device and a dollar give."""
    scenario = found.scenario
    hardware, deployment = scenario.hardware, scenario.deployment
    whole = {name: metrics[name] * float(deployment.dp) for name in RATES}
    per_device = metrics["tokens_per_second"] / float(replica_devices(deployment))
    whole |= {"devices": float(devices(deployment)), "tokens_per_second_per_device": per_device}
    if hardware.power.tdp is not None:
        whole["tokens_per_joule_at_tdp"] = per_device / float(hardware.power.tdp)
    if hardware.price is not None and per_device > 0.0:
        whole["usd_per_million_tokens"] = 1e6 * float(hardware.price) / per_device
    place = hardware, scenario.model, deployment
    return whole | {
        "weight_bytes": float(memory.weight_bytes(scenario.model, deployment)),
        "kv_capacity_tokens": float(memory.kv_capacity_tokens(*place)),
    }
