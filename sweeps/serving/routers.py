"""One load before one deployment, simulated with several routers."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from sweeps.run.simulated.routes import require_weights, router_names
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.report import replica_loads
from sweeps.serving.run import Simulation, run, setup, with_router


def routed(
    asked: ServeSpec, progress: Callable[[str, int, int], None] = lambda name, done, requests: None
) -> dict[str, Simulation]:
    """The simulation with every router that is asked for, by its name, in their order.

    Args:
      progress: called now and then with the router, its requests that are over, and all.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    names = router_names(asked.router)
    require_weights(asked.router_weights, (*names, asked.decode_router))
    scenario = asked.case().scenario
    if int((scenario.prefill or scenario).deployment.dp) == 1:
        raise ValueError(f"router = {asked.router!r}: before one replica all routers are alike; dp says how many")
    specs = {}
    for name in names:
        weights = asked.router_weights if "prefix" in (name, asked.decode_router) else None
        specs[name] = dataclasses.replace(asked, router=name, router_weights=weights)
    given = setup(specs[names[0]])
    return {name: run(with_router(given, one), functools.partial(progress, name)) for name, one in specs.items()}


def imbalance(simulation: Simulation) -> float:
    """Requests that the replica with most of them has, over the mean of all replicas; 1: all have as many."""
    loads = replica_loads(simulation)
    return float(np.max(loads) / max(np.mean(loads), 1e-30))
