"""Sensitivities of a simulated service: elasticities of latencies and rates of one stream of requests."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.jobs import JOBS, Scenario
from jaxroof.jobs.serve import serving_metrics
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import SHARPNESS
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.scheduler.service.handover import WHOLE
from sweeps.ask.leaves import leaf_unit
from sweeps.run.points import scenario_at
from sweeps.run.precision import precision
from sweeps.run.simulated.routes import Routes
from sweeps.run.simulated.service import EngineKind, Serviced, room_for, serviced
from sweeps.run.simulated.simulation import unfinished
from sweeps.run.simulated.slopes import slopes
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.run import Setup, setup, unfinished_note
from sweeps.studies.sensitivity.knobs import Knob, knobs, without_elasticity
from sweeps.studies.sensitivity.point import Sensitivities, chosen, known_metrics, require_some
from sweeps.studies.sensitivity.turns import Turn, turned_values, turns
from workloads.streams.streams import mean_rate, with_rate

REQUESTS = 200
"""Requests that are simulated where nobody says how many."""

DECISIONS = "steps or the scheduler's decisions"
"""Reason of all differences between gradients and real changes of a simulation."""

SIZES = ("deployment.dp", "prefill.deployment.dp", "policy.max_sequences", "policy.token_budget")
"""Whole numbers that decide and have no gradient: new simulations alone say what they do."""


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

    Reverse mode from the record of one simulation: `sweeps.run.simulated.slopes`. What the scheduler decides
    (routes, admissions, batches, preemptions, counts of requests) has no gradient; when steps end has one. A rate
    scales the times of all arrivals.

    Args:
      asked: what is simulated.
      metrics: real-valued ones of the simulation; None: mean latencies.
      wanted: knobs, as `sweeps.studies.sensitivity.knobs.knobs` takes them, and `SIZES`.
      exponent: of smoothing; None: `jaxroof.numerics.smooth.SHARPNESS`.
      top: knobs that are turned, those with the largest elasticities: each takes two simulations. Sizes of pools and
        of batches are turned beside them.

    Raises:
      ValueError: one line, for a metric or knob that there is not, and for what `sweeps.serving.run.setup` refuses.
    """
    if asked.requests is None and asked.duration is None and asked.trace is None:
        asked = dataclasses.replace(asked, requests=REQUESTS)
    prepared = setup(asked)
    rate = _rate(prepared)
    # The stream's rate takes the place of the workload, so that it is a knob as well.
    scenario = dataclasses.replace(prepared.case.scenario, workload=ServedStream(rate=rate))
    sizes = _sizes(prepared, wanted)
    own = None if wanted is None else [path for path in wanted if path.partition(".")[0] != "policy"]
    named = {knob.path for knob in sizes}
    plain = tuple(knob for knob in knobs(scenario, own) if knob.path not in named) if own or wanted is None else ()
    turned = (*plain, *sizes)
    require_some(turned)
    with precision("float64"), chosen(exponent):
        here = _moved(prepared, scenario)
        found, values = _simulated(here)
        # Without a choice of metrics, those that are 0 are left out: they have no elasticity.
        known = [name for name, value in values.items() if metrics is not None or value > 0.0]
        names = known_metrics("serve", known, metrics)
        values = {name: values[name] for name in names}
        point = Sensitivities(
            job="serve",
            knobs=turned,
            left_out=without_elasticity(scenario, own) if own or wanted is None else {},
            metrics=values,
            elasticities=_elasticities(here, found, values, plain, len(sizes)),
            bounds={},
            smoothing=SHARPNESS if exponent is None else exponent,
        )
        shown = [knob for knob in point.top(len(turned)) if not knob.whole][:top]  # degrees change what is simulated
        ends = np.concatenate([turned_values(JOBS["serve"], scenario, shown), _neighbours(sizes)])
        shown = [*shown, *sizes]
        moved_to = {name: np.full(ends.shape, np.nan) for name in values}
        for place in zip(*np.nonzero(np.isfinite(ends)), strict=True):
            there = _turned(prepared, scenario, shown[place[0]], float(ends[place]))
            for name, column in moved_to.items():
                column[place] = np.nan if there is None else there[name]
        checks = {
            name: tuple(row if row.agrees else dataclasses.replace(row, reason=DECISIONS) for row in rows)
            for name, rows in turns(moved_to, point, shown, ends).items()
        }
    left = unfinished(found.served)
    notes = (*prepared.notes, *([unfinished_note(left)] if left else []))
    return prepared, notes, point, checks


def _rate(prepared: Setup) -> float | None:
    """Requests/s of all replicas, from the intervals of those that are simulated; None: clients send them."""
    rate = _parts(prepared) * mean_rate(prepared.replica.stream)
    return None if prepared.replica.clients is not None or not math.isfinite(rate) else rate


def _parts(prepared: Setup) -> int:
    """Replicas for each of which as many requests come as are simulated."""
    return prepared.replicas if prepared.routes is None else 1


def _moved(prepared: Setup, scenario: Scenario) -> Setup:
    """The setup of a scenario whose workload is the stream's rate, which the times of its requests follow."""
    replica, rate = prepared.replica, scenario.workload.rate
    if rate is not None:
        replica = dataclasses.replace(replica, stream=with_rate(replica.stream, rate / _parts(prepared)))
    return dataclasses.replace(prepared, case=dataclasses.replace(prepared.case, scenario=scenario), replica=replica)


def _simulated(given: Setup) -> tuple[Serviced, dict[str, float]]:
    """A simulation and its metrics."""
    engines = [EngineKind(given.scenario, 1, WHOLE)] if given.routes is None else given.kinds
    routes, work = _routes(given), given.scenario.workload
    found = serviced(engines, routes, room=room_for(engines, routes, traced=True))
    with eager():
        metrics = serving_metrics(found.served, found.timelines, work.traffic, found.blocks, work.objective)
    return found, {name: float(value) for name, value in metrics.items()}


def _routes(given: Setup) -> Routes:
    return Routes() if given.routes is None else given.routes


def _elasticities(
    given: Setup, found: Serviced, values: dict[str, float], plain: Sequence[Knob], sizes: int
) -> dict[str, np.ndarray]:
    """Elasticities of metrics in knobs, and in sizes, which have none."""
    paths, also = [knob.path for knob in plain], [kind.pool for kind in given.also]
    by_metric = slopes(found, given.scenario, tuple(values), paths, _routes(given), also)
    return {
        name: np.array([*by_metric[name].values(), *[0.0] * sizes]) / (value if value > 0.0 else np.nan)
        for name, value in values.items()
    }


def _sizes(prepared: Setup, wanted: Sequence[str] | None) -> tuple[Knob, ...]:
    """Sizes of pools and of batches as knobs."""
    scenario, policy = prepared.case.scenario, prepared.policy
    values = {f"policy.{name}": float(getattr(policy, name)) for name in ("max_sequences", "token_budget")}
    if prepared.routes is not None:
        values["deployment.dp"] = float(scenario.deployment.dp)
    if scenario.prefill is not None:
        values["prefill.deployment.dp"] = float(scenario.prefill.deployment.dp)

    def named(path: str) -> bool:
        return wanted is None or any(path == part or path.startswith(f"{part}.") for part in wanted)

    return tuple(
        Knob(path, values[path], leaf_unit(path), True, True)
        for path in SIZES
        if path in values and values[path] < 2.0**30 and named(path)
    )


def _neighbours(sizes: Sequence[Knob]) -> np.ndarray:
    """Whole numbers next to a tenth less and more of sizes, at least one away, shape [sizes, 2]; NaN below 1."""
    ends = np.array([[min(round(0.9 * k.value), k.value - 1), max(round(1.1 * k.value), k.value + 1)] for k in sizes])
    return np.where(ends >= 1.0, ends, np.nan).reshape(-1, 2)


def _turned(prepared: Setup, scenario: Scenario, knob: Knob, value: float) -> dict[str, float] | None:
    """Metrics with a knob turned to a value; None where that cannot be simulated."""
    if knob.path not in SIZES:
        return _simulated(_moved(prepared, scenario_at(scenario, [{knob.path: value}])))[1]
    part, _, name = knob.path.rpartition(".")
    field = part.partition(".")[0]
    settings: dict[str, Any] = {field: {**getattr(prepared.spec, field), name: int(value)}}
    asked = dataclasses.replace(prepared.spec, **settings)
    try:
        other = setup(asked)
    except ValueError:  # such as clients that cannot be shared evenly
        return None
    return _simulated(other)[1]
