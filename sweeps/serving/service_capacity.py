"""The largest rate that a whole service takes: all replicas of one or two pools behind a router, by simulation."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.ask.names import STATES
from sweeps.ask.spaces import specification
from sweeps.run.simulated.classes import class_metric, target_of
from sweeps.run.simulated.objective import SHARE, Target, limits
from sweeps.run.simulated.spec import ServeSpec, serve_spec
from sweeps.serving.bracket import bracket, waited_of_pools
from sweeps.serving.run import Setup, Simulation, at_rate, run, setup
from sweeps.serving.target import free
from workloads.streams.arrivals import MOST_RATE
from workloads.streams.classes import classes_of
from workloads.streams.streams import mean_rate

TOLERANCE = 0.02
"""How far apart the rate that is kept and the one that is not are in the end, relative."""

USUAL, MOST = 1000, 8000
"""Requests of every replica that ends them where nothing says how many there are, and of all of them at most."""

AT_ONCE, BELOW = 1e6, 0.8
"""Rate at which all requests come practically at once, and the share of the throughput at it that is simulated next."""

SIMULATIONS = 10
"""Simulations, about."""

MET, MORE, NEVER = STATES


@dataclasses.dataclass(frozen=True, eq=False)
class ServiceCapacity:
    """Capacity of one service."""

    state: str  # MET, MORE (every rate is kept: the requests are too few) or NEVER
    load: float  # requests/s, the largest that keeps the target, of MORE its throughput; NaN: none does
    fails: float  # the smallest above it that does not; NaN: none
    missed: str  # what `fails` misses
    target: Target
    tolerance: float
    simulation: Simulation  # at `load`; of NEVER at `fails`
    simulations: int
    seconds: float


def service_capacity(
    model: str,
    hardware: str,
    slo: str | Mapping[str, Any],
    *,
    share: float | str = SHARE,
    tolerance: float = TOLERANCE,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **keys: Any,
) -> ServiceCapacity:
    """The largest rate at which a whole service keeps the objective, all its replicas simulated together.

    All requests at once give its throughput; from 0.8 of that the rate is bracketed, and halved in its ratio until both
    ends are within `tolerance`. Requests are the same at every rate, their times stretched. A rate at which more than
    1 % of the requests wait on average for longer than two steps is not kept, as their queue grows.

    Args are those of `sweeps.service_capacity`.
    """
    start = time.perf_counter()
    if not 1e-4 <= tolerance < 1.0:
        raise ValueError(f"tolerance = {tolerance:g} must be from 0.0001 to below 1")
    for name in ("rate", "concurrency"):
        if keys.get(name) is not None:
            raise ValueError(f"{name} = {keys[name]} cannot be given: the rate of a service is what is looked for")
    traffic = keys.get("traffic")
    target = target_of(slo, share, () if traffic is None else classes_of(str(specification(traffic))))
    given = _service(serve_spec(hardware=hardware, model=model, **keys), target)
    own, plain = mean_rate(given.load.stream), given.spec.rate is not None
    done = begun(SIMULATIONS)
    runs: dict[float, Simulation] = {}

    def at(load: float) -> dict[str, float]:
        # Requests that are drawn at one rate are, stretched, those that are drawn at another.
        runs[load] = run(setup(dataclasses.replace(given.spec, rate=load)) if plain else at_rate(given, load))
        done(1)
        return _metrics(runs[load], load)

    # The throughput with all requests there bounds what any rate can get.
    most = min(own * AT_ONCE, MOST_RATE) if plain else own * AT_ONCE
    at(most)
    throughput = runs[most].metrics["requests_per_second"]
    found = bracket(at, BELOW * throughput, target, tolerance)
    state = NEVER if not found.low > 0.0 else MET if math.isfinite(found.high) else MORE
    load = found.low if state == MET else throughput if state == MORE else math.nan
    return ServiceCapacity(
        state=state,
        load=load,
        fails=found.high if math.isfinite(found.high) else math.nan,
        missed=found.missed,
        target=target,
        tolerance=tolerance,
        simulation=runs[found.high if state == NEVER else found.low],
        simulations=1 + found.simulations,
        seconds=time.perf_counter() - start,
    )


def _service(asked: ServeSpec, target: Target) -> Setup:
    """What is simulated at every rate.

    Raises:
      ValueError: one line, where one replica can be simulated on its own, or requests have no rate to change.
    """
    plain = asked.trace is None and asked.arrivals is None
    replicas = int(asked.deployment.get("dp", 1))
    requests = min(USUAL * replicas, MOST) if free(asked) else asked.requests
    words = dataclasses.replace(
        asked, rate=1.0 if plain else None, requests=requests, slo=limits(target.objective) or None
    )
    given = setup(words)
    if given.routes is None:
        raise ValueError("a service needs router, prefill or tiers; one replica is `sweeps.capacity`'s")
    if not math.isfinite(mean_rate(given.load.stream)):
        raise ValueError(f"{given.load.stream.name}: its requests arrive at one time, so they have no rate to change")
    return given


def _metrics(simulation: Simulation, load: float) -> dict[str, float]:
    """Metrics of a run, those of its classes by the names that a target of classes asks for."""
    each = {
        class_metric(position, name): value
        for position, metrics in enumerate(simulation.classes.values())
        for name, value in metrics.items()
    }
    waits = {}
    if simulation.case.scenario.prefill is not None:
        most, output = float(simulation.policy.max_sequences) * simulation.replicas, simulation.load.stream.osl
        waits["waited_mean"] = waited_of_pools(simulation.served, load, most, output, simulation.metrics)
    # Requests of one token have no TPOT.
    return {"tpot_mean": math.nan} | simulation.metrics | each | waits
