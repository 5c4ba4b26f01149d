"""One simulated deployment: the outcome of every request, the engine's timeline, and the metrics."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.accelerators.prices import charged_devices, server_devices, servers_text
from jaxroof.batch import STATUSES, Policy, Served, Timeline
from jaxroof.deployment import charged_share, replica_devices
from jaxroof.jobs import Scenario
from jaxroof.jobs.economics import pooled_economics
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.serve import RATES, SERVE, Objective, Service, serving_metrics
from jaxroof.numerics.arrays import eager, jax
from jaxroof.scheduler import cache_blocks
from jaxroof.scheduler.service.outcomes import Places
from sweeps.ask.cases import Case
from sweeps.ask.deployments import PoolEntry
from sweeps.ask.effects import facts, require_effect
from sweeps.ask.offered_load import without_output
from sweeps.ask.precisions import device_notes
from sweeps.run.precision import precision
from sweeps.run.simulated.classes import metrics_of_class, of_classes
from sweeps.run.simulated.encoders import without_encoder
from sweeps.run.simulated.load import Load, load, require_prefix_cache
from sweeps.run.simulated.objective import parse_slo
from sweeps.run.simulated.policies import (
    chosen_policy,
    no_cache,
    policy_values,
    prefill_policy,
    require_lengths,
    require_priced,
)
from sweeps.run.simulated.routes import Routes, routes_of
from sweeps.run.simulated.scaling import Scaled, of_taken, scaled, scaled_metrics
from sweeps.run.simulated.service import EngineKind, kinds, serviced
from sweeps.run.simulated.simulation import simulated, size_for, unfinished
from sweeps.run.simulated.spec import ServeSpec
from sweeps.run.simulated.unlike import require_caches, unlike_replicas
from workloads.streams.streams import mean_rate


@dataclasses.dataclass(frozen=True, eq=False)
class Setup:
    """One deployment under one load: what is asked, and all that a simulation of it takes."""

    spec: ServeSpec
    case: Case  # without a workload: requests are the load's
    policy: Policy
    objective: Objective
    load: Load  # of all replicas
    replica: Load  # of what is simulated: one replica, or a service of all
    blocks: float  # of KV cache of one replica
    routes: Routes | None  # how requests come to replicas, where all are simulated
    also: tuple[PoolEntry, ...]  # replicas of other kinds
    prefill_policy: Policy | None  # of a pool for prompts; None: that of the other pool

    @property
    def engine(self) -> str:
        """The engine and its release, as `engine` takes them."""
        return self.case.engine.words

    @property
    def scenario(self) -> Scenario:
        """What one replica is simulated with: its deployment, its requests, its policy and their limits."""
        work = Service(
            traffic=self.replica.traffic,
            policy=self.policy,
            objective=self.replica.objective(self.objective),
        )
        scenario = dataclasses.replace(self.case.scenario, workload=work)
        return without_encoder(scenario) if self.routes is not None and self.routes.encoders else scenario

    @property
    def replicas(self) -> int:
        """Number of the deployment's replicas, without those of other kinds."""
        return int(self.case.scenario.deployment.dp)

    @property
    def kinds(self) -> list[EngineKind]:
        """Kinds of replicas in the order of their numbers, where all are simulated."""
        return kinds(self.scenario, [kind.pool for kind in self.also], self.prefill_policy)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the case, the stream and what the simulation leaves out."""
        notes = [*self.case.notes, *self.load.stream.notes]
        notes += [note for kind in self.also for note in device_notes(kind.hardware, self.case.model.model)]
        if self.replicas > 1 and self.routes is None:
            notes.append(
                f"one of {self.replicas} replicas was simulated, with one request in {self.replicas}: rates are "
                f"{self.replicas} times its own, counts are of it alone"
            )
        servers_note = self._whole_servers
        notes += [servers_note] if servers_note else []
        longest = self.case.model.max_position
        beyond = 0 if longest is None else int(np.sum(self.load.stream.isl + self.load.stream.osl > longest))
        if beyond:
            notes.append(f"{beyond:,} requests are longer than the model's {longest:,} positions")
        if self.case.model.model.encoder is not None and self.load.images is None:
            notes.append("prompts are text: the model's encoder has no work")
        return tuple(dict.fromkeys(notes))

    @property
    def _whole_servers(self) -> str:
        """By how much whole servers cost more than the devices in use; "" where they do not, or are charged for."""
        scenario, server = self.case.scenario, server_devices(self.case.hardware.name)
        # Servers are rented whole: what is charged over what is used.
        used = int(replica_devices(scenario.deployment))
        share = float(charged_devices(used, server)) / used
        if share == 1.0 or scenario.deployment.charged is not None or scenario.hardware.price is None:
            return ""
        return f"cost is of the devices in use; whole servers cost {share:.3g} times it: {servers_text(used, server)}"


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation(Setup):
    """One deployment under one load: what was asked, and what came of it."""

    served: Served  # what became of its requests, NumPy arrays of shape [requests]
    timeline: Timeline  # what it did, NumPy arrays of shape [iterations], those of no duration left out
    metrics: dict[str, float]  # rates are of all replicas, counts of what was simulated
    seconds: float  # s that the simulation took, compilation included
    classes: dict[str, dict[str, float]]  # metrics of every class of requests by its name, of the one replica
    engines: np.ndarray | None  # of a service the engine of every iteration, shape [iterations]
    places: Places | None  # of a service the engines of every request
    engine_blocks: np.ndarray | None  # of KV cache of every engine of a service, shape [engines]
    scaled: Scaled | None  # replicas over time, where they start and stop

    @property
    def start(self) -> np.ndarray:
        """Time at which every iteration begins, in s, shape [iterations]: of one engine the end of the one before."""
        if self.engines is not None:
            return self.timeline.end - self.timeline.duration
        return np.concatenate([np.zeros(1), self.timeline.end])[:-1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the setup, and how many requests were left."""
        left = unfinished(self.served)
        notes = [*super().notes, *([unfinished_note(left)] if left else [])]
        if self.scaled is not None:
            notes.append("figures per device and costs are of the devices that replicas have taken")
        return tuple(notes)


def unfinished_note(left: int) -> str:
    """Note on a run that ended with `left` requests."""
    return f"the run ended with {left:,} requests unfinished; metrics are of those that finished"


def setup(asked: ServeSpec) -> Setup:
    """Input of a simulation, checked; nothing is simulated.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    objective = parse_slo(asked.slo)
    given = load(asked)
    given.objective(objective)  # limits of classes are read before anything is simulated
    # The deployment, then the checks that need its model and its engine's policy.
    case = asked.case()
    require_priced(case.model.name, case.scenario.model, case.scenario.deployment)
    policy = chosen_policy(case.engine.words, asked.policy)
    require_prefix_cache(asked.hit_rate, policy)
    require_lengths(policy, case.scenario.deployment)
    require_effect((f"policy.{name}" for name in asked.policy), facts(case.scenario, beside=policy_values(policy)))
    prompts = prefill_policy(case.engine.words, asked.policy, asked.prefill_policy) if asked.prefill_policy else None
    # One replica is simulated, with its part of the requests; or all of them.
    also = unlike_replicas(asked, case)
    routes = routes_of(asked, given, case, policy, also)
    part = given if routes is not None else given.replica(int(case.scenario.deployment.dp))
    with precision("float64"):
        blocks = _cache(case, policy, routes)
        require_caches(also, case, policy)
    return Setup(
        spec=asked,
        case=case,
        policy=policy,
        objective=objective,
        load=given,
        replica=part,
        blocks=blocks,
        routes=routes,
        also=also,
        prefill_policy=prompts,
    )


def simulation(asked: ServeSpec, progress: Callable[[int, int], None] = lambda done, requests: None) -> Simulation:
    """Simulate what is asked.

    Args:
      progress: called now and then with the requests that are over and with all of the replica that is simulated.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    return run(setup(asked), progress)


def at_rate(given: Setup, rate: float) -> Setup:
    """The setup of a service in which the same requests come at `rate` requests/s: their times are stretched."""
    own = mean_rate(given.load.stream)
    stream = dataclasses.replace(given.load.stream, arrival=given.load.stream.arrival * (own / rate))
    sent = dataclasses.replace(given.load, stream=stream)
    return dataclasses.replace(given, load=sent, replica=sent)


def with_router(given: Setup, asked: ServeSpec) -> Setup:
    """The setup of a service with another router and its weights; nothing is read again.

    Raises:
      ValueError: one line, as of `setup`.
    """
    return dataclasses.replace(
        given, spec=asked, routes=routes_of(asked, given.load, given.case, given.policy, given.also)
    )


def run(given: Setup, progress: Callable[[int, int], None] = lambda done, requests: None) -> Simulation:
    """Simulate a setup; `progress` as of `simulation`."""
    start = time.perf_counter()
    traffic = given.replica.traffic
    scenario, objective = given.scenario, given.replica.objective(given.objective)
    engines, places, replicas, blocks = None, None, None, given.blocks
    with precision("float64"):
        if given.routes is None:
            # A batch of one: simulations have a leading axis, which is taken off again.
            together = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64)[None], scenario)
            served, timeline = simulated(together, size_for(traffic, given.policy), progress=progress)
            served, timeline = jax.tree.map(lambda values: values[0], (served, timeline))
        else:
            whole = serviced(given.kinds, given.routes, progress)
            served, places, timeline, blocks = whole.served, whole.places, whole.timelines, whole.blocks
            if given.routes.scaling is not None and whole.replicas is not None:
                replicas = scaled(given.routes.scaling, whole.replicas, served, places, len(whole.roles))
    with eager():

        def scores(of: Served) -> dict[str, Any]:
            return serving_metrics(of, timeline, traffic, blocks, objective)

        found = SERVE.metrics(scenario, _of_one_replica(scores(served), given), {})
        metrics = {name: float(value) for name, value in _of_pools(given, found).items()}
        metrics = metrics if replicas is None else _of_scaled(given, metrics, replicas)
        # Classes of requests are scored one by one on the same timeline.
        each = of_classes(served, traffic.kind, scores)
    classes = {
        one.name: {name: float(value) for name, value in metrics_of_class(each, position).items()}
        for position, one in enumerate(given.load.classes)
    }
    # Nothing was generated, so a price per token means nothing; or one token per request, so figures are of requests.
    if not metrics["tokens_per_second"] > 0.0:
        metrics.pop("usd_per_million_tokens", None)
    elif np.max(given.load.stream.osl) <= 1.0:
        metrics = without_output(metrics, metrics["prompt_tokens_per_second"] / metrics["requests_per_second"])
    seconds = time.perf_counter() - start
    served = jax.tree.map(np.asarray, served)
    if isinstance(timeline, Timeline):
        # Iterations of no duration are room that the simulation did not use.
        alone = jax.tree.map(np.asarray, timeline)
        over_time = jax.tree.map(lambda values: values[alone.duration > 0.0], alone)
    else:
        over_time, engines = _merged(timeline)
    return Simulation(
        **{field.name: getattr(given, field.name) for field in dataclasses.fields(given)},
        served=served,
        timeline=over_time,
        metrics=metrics,
        seconds=seconds,
        classes=classes,
        engines=engines,
        places=places,
        engine_blocks=None if engines is None else np.asarray(blocks),
        scaled=replicas,
    )


def _of_one_replica(scores: dict[str, Any], given: Setup) -> dict[str, Any]:
    """Metrics in which rates are of one replica, as those of a deployment are worked out from."""
    if given.routes is None:
        return scores
    return scores | {name: scores[name] / given.replicas for name in RATES}


def _of_pools(given: Setup, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metrics, with devices and what tokens cost of all pools and kinds of replicas where there are several."""
    scenario = given.scenario
    more = [kind.pool for kind in given.also] if scenario.prefill is None else [scenario.prefill]
    more += [given.routes.encoders.pool] if given.routes is not None and given.routes.encoders else []
    if not more:
        return found
    own = Pool(hardware=scenario.hardware, deployment=scenario.deployment, efficiency=scenario.efficiency)
    # Power and price of one device say nothing of two kinds.
    left_out = ("tokens_per_joule_at_tdp", "usd_per_million_tokens")
    metrics = {name: value for name, value in found.items() if name not in left_out}
    return metrics | pooled_economics((*more, own), found["tokens_per_second"])


def _of_scaled(given: Setup, found: Mapping[str, Any], replicas: Scaled) -> dict[str, Any]:
    """The metrics of replicas that start and stop, with what they take."""
    each = [kind.scenario for kind in given.kinds for _ in range(kind.replicas)]
    devices = np.array([float(replica_devices(one.deployment)) for one in each])
    known = [one.hardware.price for one in each]
    charged = devices * [float(charged_share(one.deployment)) for one in each]
    prices = None if None in known else charged * np.array(known, float)
    return of_taken(found, replicas, scaled_metrics(replicas, devices, prices))


def _merged(timelines: Sequence[Timeline]) -> tuple[Timeline, np.ndarray]:
    """Iterations of all engines in the order of their ends, and the engine of each."""
    engines = np.concatenate([np.full(len(one.end), number) for number, one in enumerate(timelines)])
    together = jax.tree.map(lambda *parts: np.concatenate(parts), *timelines)
    order = np.argsort(together.end, kind="stable")
    return jax.tree.map(lambda values: values[order], together), engines[order]


def waiting(simulation: Simulation) -> np.ndarray:
    """Requests that wait in the queue while every iteration runs: arrived when it begins, admitted later.

    Shape [iterations]; those that were refused or turned away never wait.
    """
    # Requests that were refused or rejected never stood in the queue.
    was_queued = np.isin(simulation.served.status, [STATUSES.index(name) for name in ("finished", "unfinished")])
    arrived, admitted = (
        np.sort(times[was_queued]) for times in (simulation.served.arrival, simulation.served.admitted)
    )
    # Arrivals less admissions up to the start of every iteration.
    count = [np.searchsorted(times, simulation.start, side="right") for times in (arrived, admitted)]
    return count[0] - count[1]


def _cache(case: Case, policy: Policy, routes: Routes | None) -> float:
    """KV blocks of one replica; ValueError, one line, where there are none."""
    scenario = without_encoder(case.scenario) if routes is not None and routes.encoders else case.scenario
    place = scenario.hardware, scenario.model, scenario.deployment
    blocks = float(cache_blocks(*place, policy))
    if blocks < 1.0:
        raise ValueError(f"{no_cache(case.model.name, case.hardware.name, *place)}; use more devices (tp)")
    return blocks
