"""Every served point as a prediction or as the reason why it has none: what fails takes nothing else with it."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from jaxroof.efficiency import Efficiency
from jaxroof.price_tables import Limits
from sweeps.measure.validate.measured_csv import LeftOut
from sweeps.measure.validate.serving.predict import extent, lane_groups, simulated_points, units
from sweeps.measure.validate.serving.scores import Prediction
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.measure.validate.serving.step_tables import OpTimes, Progress, Unit, op_times, silent, summed
from sweeps.measure.validate.serving.suspects import checked
from sweeps.measure.validate.stacks import positions_by_structure
from sweeps.run.precision import precision
from sweeps.run.simulated.refusals import require_room


def attempted(
    points: Sequence[ServingPoint], efficiencies: Mapping[str, Efficiency], progress: Progress = silent
) -> tuple[list[Prediction], list[LeftOut]]:
    """Predictions of the points that have one, in their order, and the others with their reasons.

    Left out are points whose requests the cache cannot hold, whose steps cannot be priced, whose step times or
    latencies are not finite, whose simulation failed, and whose simulation left requests unanswered. Points of one
    structure share programs, whatever their hardware; the figures of every point are of its own hardware.

    Args:
      points: of any devices, models and engines.
      efficiencies: engine -> constants.
      progress: called as structures and kernels are priced, and as requests are answered.
    """
    found: dict[int, Prediction | str] = {}
    for i, point in enumerate(points):
        try:
            place = point.hardware, point.model, point.deployment
            require_room(point.model_name, point.gpu, *place, point.isl + point.osl)
        except ValueError as error:
            found[i] = str(error)
    held = [i for i in range(len(points)) if i not in found]
    able = _checked([points[i] for i in held])
    with precision("float64"):
        found |= dict(zip(held, _simulated(able, efficiencies, progress), strict=True))
    outcomes = [one if isinstance(one, str) else _reason(one) or one for _, one in sorted(found.items())]
    pairs = list(zip(points, outcomes, strict=True))
    left = [LeftOut(point.row, point.id, one) for point, one in pairs if isinstance(one, str)]
    return [one for one in outcomes if not isinstance(one, str)], left


def _simulated(
    points: Sequence[ServingPoint], efficiencies: Mapping[str, Efficiency], progress: Progress
) -> list[Prediction | str]:
    """The prediction of every point, or the reason why it has none."""
    if not points:
        return []
    made, places = units(points, efficiencies)
    size = extent(points)
    known = _times(made, size, progress)
    tables = {i: summed(made[i], times, size) for i, times in known.items() if not isinstance(times, str)}
    found: dict[int, Prediction | str] = {i: known[place] for i, place in enumerate(places) if place not in tables}  # type: ignore[misc]
    able = [i for i in range(len(points)) if i not in found]
    total, done = sum(int(points[i].requests) for i in able), 0
    for _, group in lane_groups([points[i] for i in able]):
        members = [able[j] for j in group]
        lanes = [points[i] for i in members], [tables[places[i]] for i in members]
        try:
            found |= dict(zip(members, simulated_points(*lanes, efficiencies), strict=True))
        except Exception as error:  # whatever it is, the results of other groups are kept
            found |= dict.fromkeys(members, f"its simulation failed: {_line(error)}")
        done += sum(int(points[i].requests) for i in members)
        progress("requests", done, total)
    return [found[i] for i in range(len(points))]


def _checked(points: Sequence[ServingPoint]) -> list[ServingPoint]:
    """The points with what speaks against their labels; with that alone where the rules cannot be tried."""
    try:
        return checked(points)
    except Exception as error:  # predictions are worth having without it
        reason = f"labels could not be checked: {_line(error)}"
        return [dataclasses.replace(point, suspect=point.suspect or reason) for point in points]


def _times(made: Sequence[Unit], size: Limits, progress: Progress) -> dict[int, OpTimes | str]:
    """Times of the ops of every unit, or the reason why it has none.

    All units are tried together, which compiles least; where that fails, each structure is tried on its own.
    """
    try:
        return {i: _bad_op(times) or times for i, times in enumerate(op_times(made, size, progress))}
    except Exception as error:
        parts = positions_by_structure([(unit.hardware, unit.model, unit.deployment) for unit in made])
        if len(parts) == 1:
            return dict.fromkeys(range(len(made)), f"its steps cannot be priced: {_line(error)}")
    found: dict[int, OpTimes | str] = {}
    for members in parts:
        times = _times([made[i] for i in members], size, progress)
        found |= {i: times[place] for place, i in enumerate(members)}
    return found


def _bad_op(times: OpTimes) -> str | None:
    """The reason where an op takes no finite time somewhere."""
    for kind in times.values():
        for name, values in kind.items():
            if not np.isfinite(values).all():
                return f"the time of {name} is not finite"
    return None


def _reason(one: Prediction) -> str | None:
    """Why a simulated point has no value; None where it has."""
    sent = max(round(one.point.requests), 1)
    if one.answered is not None and one.answered < sent:
        return f"{sent - one.answered} of {sent} requests were not answered when the simulation ended"
    if not np.isfinite([one.ttft, one.tpot]).all():
        return f"its latencies are not finite: TTFT {one.ttft:g} s, TPOT {one.tpot:g} s"
    return None


def _line(error: Exception) -> str:
    """An error in one line, with its kind where that is not a plain complaint about a value."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
