"""Sensitivities of a simulated engine: elasticities of latencies and rates of one stream of requests."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.batch import STATUSES
from jaxroof.jobs import JOBS, Scenario
from jaxroof.jobs.serve import serving_metrics
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.smooth import SHARPNESS
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.numerics.xla_options import QUICK
from jaxroof.scheduler import Size, cache_blocks, simulate
from sweeps.ask.axes import leaf, leaf_paths
from sweeps.run.points import scenario_at
from sweeps.run.precision import precision
from sweeps.run.simulated.simulation import grown, size_for
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.run import Setup, setup, unfinished_note
from sweeps.studies.sensitivity.gradient import moved
from sweeps.studies.sensitivity.knobs import knobs, without_elasticity
from sweeps.studies.sensitivity.point import Sensitivities, chosen, known_metrics, require_some
from sweeps.studies.sensitivity.turns import Turn, turned_values, turns

REQUESTS = 64
"""Requests that are simulated where nobody says how many: a gradient takes several times a simulation."""

ITERATIONS = 4
"""Of the simulator per request, to begin with; doubled while requests are left."""

MOST_DOUBLINGS = 4

DECISIONS = "steps or the scheduler's decisions"
"""Reason of all differences between gradients and real changes of a simulation."""


@struct
class ServedStream:
    """Real numbers of a stream of requests."""

    rate: Scalar | None  # requests/s; None: clients, who send when their last request has ended


def sensitivity_of_serve(
    asked: ServeSpec,
    metrics: Sequence[str] | None = None,
    wanted: Sequence[str] | None = None,
    exponent: float | None = None,
    top: int = 8,
) -> tuple[Setup, tuple[str, ...], Sensitivities, dict[str, tuple[Turn, ...]]]:
    """Setup, notes, elasticities of the metrics of a simulation, and new simulations beside the largest ones.

    Forward mode, one compiled program of the whole simulation and one call per knob. What the scheduler decides
    (admissions, batches, preemptions, counts of requests) has no gradient; when steps end has one. A rate scales the
    times of all arrivals.

    Args:
      asked: what is simulated.
      metrics: real-valued ones of the simulation; None: mean latencies.
      wanted: knobs, as `sweeps.studies.sensitivity.knobs.knobs` takes them.
      exponent: of smoothing; None: `jaxroof.numerics.smooth.SHARPNESS`.
      top: knobs that are turned, those with the largest elasticities: each takes two simulations.

    Raises:
      ValueError: one line, for a metric or knob that there is not, and for what `sweeps.serving.run.setup` refuses.
    """
    if asked.requests is None and asked.duration is None and asked.trace is None:
        asked = dataclasses.replace(asked, requests=REQUESTS)
    prepared = setup(asked)
    traffic, policy = prepared.replica.traffic, prepared.policy
    arrivals = np.asarray(traffic.arrival)
    span = float(arrivals[-1] - arrivals[0]) if traffic.clients is None else 0.0
    # Requests/s of all replicas, from the intervals of the one that is simulated.
    rate = prepared.replicas * (len(arrivals) - 1) / span if span > 0.0 else None
    # The stream's rate takes the place of the workload, so that it is a knob as well.
    scenario = dataclasses.replace(prepared.case.scenario, workload=ServedStream(rate=rate))
    turned = knobs(scenario, wanted)
    size = size_for(traffic, policy)
    # Few iterations to begin with; `grown` doubles them while requests are left.
    size = dataclasses.replace(size, iterations=ITERATIONS * len(arrivals) + 64)
    with precision("float64"), chosen(exponent):
        limits = prepared.replica.objective(prepared.objective)
        one = functools.partial(_metrics, traffic=traffic, policy=policy, objective=limits)
        numbers = [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]
        parts = {knob.path.partition(".")[0] for knob in turned}  # every other number would add to what is compiled
        still = {path: np.float64(0.0) for path in numbers if path.partition(".")[0] in parts}

        def tried(size: Size) -> tuple[tuple[Any, ...], jax.Array]:
            along = jax.jit(functools.partial(_slopes, one, size), compiler_options=dict(QUICK))
            values, _, left = jax.device_get(along(scenario, still))
            return (along, values), left

        # Values too come from the gradient's program, along no direction: one compilation.
        (along, values), _, left = grown(tried, size, MOST_DOUBLINGS)
        # Without a choice of metrics, those that are 0 are left out: they have no elasticity.
        known = [name for name, value in values.items() if metrics is not None or value > 0.0]
        names = known_metrics("serve", known, metrics)
        require_some(turned)
        # One call per knob, along its direction of d ln x.
        rows = [along(scenario, still | {knob.path: np.float64(1.0)})[:2] for knob in turned]
        values = {name: float(rows[0][0][name]) for name in names}
        slopes = {
            name: np.array([float(row[name]) for _, row in rows]) / (value if value > 0.0 else np.nan)
            for name, value in values.items()
        }
        point = Sensitivities(
            job="serve",
            knobs=turned,
            left_out=without_elasticity(scenario, wanted),
            metrics=values,
            elasticities=slopes,
            bounds={},
            smoothing=SHARPNESS if exponent is None else exponent,
        )
        matter = point.top(len(turned))
        shown = [knob for knob in matter if not knob.whole][:top]  # degrees change what is simulated
        ends = turned_values(JOBS["serve"], scenario, shown)
        moved_to = {name: np.full(ends.shape, np.nan) for name in values}
        for place in zip(*np.nonzero(np.isfinite(ends)), strict=True):
            there = along(scenario_at(scenario, [{shown[place[0]].path: float(ends[place])}]), still)[0]
            for name, column in moved_to.items():
                column[place] = there[name]
        checks = {
            name: tuple(row if row.agrees else dataclasses.replace(row, reason=DECISIONS) for row in rows)
            for name, rows in turns(moved_to, point, shown, ends).items()
        }
    notes = (*prepared.notes, *([unfinished_note(left)] if left else []))
    return prepared, notes, point, checks


def _metrics(
    scenario: Scenario, size: Size, traffic: Any, policy: Any, objective: Any
) -> tuple[dict[str, Any], jax.Array]:
    """Metrics of one simulation, rates of all replicas; and how many requests were left."""
    place = scenario.hardware, scenario.model, scenario.deployment
    rate = scenario.workload.rate
    arrival = jnp.asarray(traffic.arrival, dtype=float)
    # At the drawn rate the factor is 1; its derivative scales the times of all arrivals with the rate.
    if rate is not None:
        arrival = arrival * (jax.lax.stop_gradient(_known(rate, traffic, scenario)) / rate)
    traffic = jax.tree.map(lambda column: jnp.asarray(column, dtype=float), traffic)
    traffic = dataclasses.replace(traffic, arrival=arrival)
    served, timeline = simulate(*place, scenario.efficiency, traffic, policy, size)
    # The number of blocks in the cache is whole: it has no gradient.
    blocks = jax.lax.stop_gradient(cache_blocks(*place, policy))
    limits = jax.tree.map(lambda limit: jnp.asarray(limit, dtype=float), objective)
    metrics = serving_metrics(served, timeline, traffic, blocks, limits)
    left = jnp.sum(served.status == STATUSES.index("unfinished"), dtype=jnp.int32)
    return metrics, left


def _known(rate: Scalar, traffic: Any, scenario: Scenario) -> jax.Array:
    """Requests/s of the stream as it was drawn, of all replicas."""
    arrival = np.asarray(traffic.arrival, dtype=float)
    return jnp.asarray((len(arrival) - 1) / (arrival[-1] - arrival[0])) * scenario.deployment.dp


def _slopes(
    one: Any, size: Size, scenario: Scenario, direction: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], jax.Array]:
    """Metrics y, dy for d ln x of every number along `direction`, and how many requests were left."""

    def metrics(factors: dict[str, Any]) -> tuple[dict[str, jax.Array], jax.Array]:
        return one(moved(scenario, factors), size=size)

    # At factors of 1, the derivative by a factor is the one by ln x.
    return jax.jvp(metrics, (jax.tree.map(jnp.ones_like, direction),), (direction,), has_aux=True)
