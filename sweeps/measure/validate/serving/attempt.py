"""Every served point as a prediction or as the reason why it has none: what fails takes nothing else with it."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.deployment import GROUPS, degree
from jaxroof.jobs import Scenario
from jaxroof.model import has_experts
from jaxroof.numerics.tree import structure
from sweeps.measure.validate.measured_csv import LeftOut
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving.scores import ServingPrediction
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.measure.validate.serving.suspects import checked
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import WIDTH, Metrics, comparable, outcomes
from sweeps.run.simulated.lanes import power
from sweeps.run.simulated.policies import require_room
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.run import setup, simulation

Progress = Callable[[str, int, int], None]
"""Called with what is counted, how much of it is done, and all of it."""


def silent(what: str, done: int, every: int) -> None:
    """A `Progress` that says nothing."""


def attempted(
    points: Sequence[ServingPoint], efficiency: str | None = None, progress: Progress = silent
) -> tuple[list[ServingPrediction], list[LeftOut]]:
    """Predictions of the points that have one, in their order, and the others with their reasons.

    A point is the simulation that `jaxroof serve` runs of `ServingPoint.spec`. Left out are points whose requests the
    cache cannot hold, whose simulation failed, whose latencies are not finite, and whose simulation left requests
    unanswered. Points of one structure share programs; the figures of every point are of its own hardware.

    Args:
      points: of any devices, models and engines.
      efficiency: name of the constants; None: those of each point's engine.
      progress: called as requests are answered.
    """
    predictions: dict[int, ServingPrediction | str] = {}
    scenarios: dict[int, Scenario] = {}
    services: dict[int, ServeSpec] = {}
    points = _checked(points)
    for i, point in enumerate(points):
        try:
            # The very simulation that the command would run, but for the constants.
            asked = dataclasses.replace(point.spec, efficiency=efficiency)
            given = setup(asked)
            of = given.case.scenario
            # A request that the cache cannot hold would never be answered.
            require_room(point.model_name, point.gpu, of.hardware, of.model, of.deployment, point.isl + point.osl)
            if given.routes is None:
                scenarios[i] = _with_all_degrees(given.scenario)
            else:
                services[i] = asked
        except ValueError as error:
            predictions[i] = str(error)
    # In 64 bits, as `jaxroof serve` simulates: equal points must have equal results.
    with precision("float64"):
        predictions |= _simulated(points, scenarios, progress)
    predictions |= _served(points, services, progress)
    # In the order of the points: every one has a prediction or a reason by now.
    outcomes_of = [one if isinstance(one, str) else _reason(one) or one for _, one in sorted(predictions.items())]
    pairs = list(zip(points, outcomes_of, strict=True))
    left = [LeftOut(point.row, point.id, one) for point, one in pairs if isinstance(one, str)]
    return [one for one in outcomes_of if not isinstance(one, str)], left


def _with_all_degrees(scenario: Scenario) -> Scenario:
    """A mixture of experts with degrees of 1 in place of none: layouts of one model are then of one structure."""
    deployment = scenario.deployment
    if not has_experts(scenario.model):
        return scenario
    # None and 1 mean the same, but are different structures to the compiler.
    degrees = {name: degree(getattr(deployment, name)) for name in (GROUPS, "ep")}
    return dataclasses.replace(scenario, deployment=dataclasses.replace(deployment, **degrees))


def _simulated(
    points: Sequence[ServingPoint], scenarios: dict[int, Scenario], progress: Progress
) -> dict[int, ServingPrediction | str]:
    """The prediction of every scenario's point, or the reason why it has none."""
    predictions: dict[int, ServingPrediction | str] = {}
    done, every = 0, sum(points[i].requests for i in scenarios)

    def kind(i: int) -> Any:
        return structure(comparable(scenarios[i], single=False))

    def clients(i: int) -> int:
        """Clients within a factor of 4 above 16: few absent requests beside others."""
        return power(math.sqrt(points[i].concurrency), 4)

    # One compiled program per group: to compile takes longer than to simulate few points with absent requests.
    groups: list[list[int]] = []
    for alike in grouped(scenarios, kind).values():
        groups += grouped(alike, clients).values() if len(alike) > WIDTH else [alike]
    for members in groups:
        # Few and many clients in calls of their own, which then end apart.
        members = sorted(members, key=lambda i: points[i].concurrency)
        try:
            values = outcomes([scenarios[i] for i in members])
            predictions |= {i: _prediction(points[i], values, row) for row, i in enumerate(members)}
        except Exception as error:  # whatever it is, the results of other groups are kept
            predictions |= dict.fromkeys(members, f"its simulation failed: {_line(error)}")
        done += sum(points[i].requests for i in members)
        progress("requests", done, every)
    return predictions


def _served(
    points: Sequence[ServingPoint], services: dict[int, ServeSpec], progress: Progress
) -> dict[int, ServingPrediction | str]:
    """The same of points with pools, whose replicas are all simulated: one after the other, equal ones once."""
    found: dict[str, Mapping[str, float] | str] = {}
    done, every = 0, sum(points[i].requests for i in services)
    for i, asked in services.items():
        if asked.text() not in found:
            try:
                found[asked.text()] = simulation(asked).metrics
            except Exception as error:  # whatever it is, the results of others are kept
                found[asked.text()] = f"its simulation failed: {_line(error)}"
        done += points[i].requests
        progress("requests of services", done, every)
    each = {i: found[asked.text()] for i, asked in services.items()}
    return {i: one if isinstance(one, str) else _made(points[i], one) for i, one in each.items()}


def _prediction(point: ServingPoint, values: Metrics, row: int) -> ServingPrediction | str:
    """The prediction in one row of a group's metrics; the reason where the deployment is not feasible."""
    if not values["feasible"][row]:
        return "the deployment is not feasible"
    return _made(point, {name: column[row] for name, column in values.items()})


def _made(point: ServingPoint, metrics: Mapping[str, Any]) -> ServingPrediction:
    """The prediction of these metrics, times in s."""
    names = ("ttft_mean", "tpot_mean", "finished", "ttft_p50", "tpot_p50", "run_tokens_per_second")
    ttft, tpot, finished, *others = (float(metrics[name]) for name in names)
    return ServingPrediction(point, ttft, tpot, int(finished), *others)


def _checked(points: Sequence[ServingPoint]) -> list[ServingPoint]:
    """The points with what speaks against their labels; with that alone where the rules cannot be tried."""
    # The rules know neither pools nor drafts.
    known = [i for i, point in enumerate(points) if point.prompts is None and not point.drafting]
    try:
        found = dict(zip(known, checked([points[i] for i in known]), strict=True))
        return [found.get(i, point) for i, point in enumerate(points)]
    except Exception as error:  # predictions are worth having without it
        reason = f"labels could not be checked: {_line(error)}"
        return [dataclasses.replace(point, suspect=point.suspect or reason) for point in points]


def _reason(one: ServingPrediction) -> str | None:
    """Why a simulated point has no value; None where it has."""
    sent = one.point.requests
    if one.answered is not None and one.answered < sent:
        return f"{sent - one.answered} of {sent} requests were not answered when the simulation ended"
    if not np.isfinite([one.ttft, one.tpot]).all():
        return f"its latencies are not finite: TTFT {one.ttft:g} s, TPOT {one.tpot:g} s"
    return None


def _line(error: Exception) -> str:
    """An error in one line, with its kind where that is not a plain complaint about a value."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
