"""Every scenario's answer beside its expected values, as rows and as one Dataset."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from hwspaces import formatted
from hwspaces.quantities.expression import Expression
from hwspaces.quantities.units import nearest
from jaxroof.jobs import JOBS
from jaxroof.version import VERSION
from sweeps.ask.names import variable
from sweeps.ask.question import asking
from sweeps.ask.spec import spec
from sweeps.run.asked import answers_over, asked, labelled
from sweeps.run.sweep import sweep
from sweeps.studies.scenarios.suite import NAME, Check, ScenarioEntry, names, scenario

ASSUMED = "half"
"""Efficiency that the hand-worked values assume: half of the matrix peak, all bandwidth, no fixed time."""

STATUSES = ("agrees", "differs", "refused", "not refused")
"""Within the tolerance of the expected value or not; what cannot be is refused, or is not."""

TINY = 1e-9
"""s and shares below which a value is nothing: an expected 0 agrees with it."""


@dataclasses.dataclass(frozen=True)
class ScenarioRow:
    """One number of one scenario."""

    id: str
    title: str
    what: str
    metric: str
    expected: float  # by its derivation, or as published; NaN for a refusal
    most: float  # where it is between two numbers the larger, else `expected`
    found: float  # what is judged: with the hand's assumptions, or `predicted`
    predicted: float  # with default constants, or those of the specification
    tolerance: float  # share by which `found` may be off
    status: str  # one of STATUSES
    unit: str
    why: str  # what the derivation leaves out, or why the value is outside
    by_default: str = ""  # as `status`, of `predicted`: "agrees" or "differs"; "" of a refusal

    @property
    def deviation(self) -> float:
        """Found over expected, minus 1; between the two numbers of an interval 0, outside from the nearer one."""
        return self._off(self.found)

    @property
    def predicted_deviation(self) -> float:
        """The same of the value with default constants."""
        return self._off(self.predicted)

    def _off(self, value: float) -> float:
        # The nearest number of the expected interval: a value inside of it has no deviation.
        nearest = min(max(value, self.expected), self.most)
        if abs(value - nearest) <= TINY:
            return 0.0
        return value / nearest - 1.0 if nearest else math.nan


def run(
    ids: Iterable[str] | None = None,
    efficiency: str | None = None,
    done: Callable[[str], None] = lambda name: None,
) -> list[ScenarioRow]:
    """Rows of scenarios.

    Args:
      ids: numbers of scenarios; None: all.
      efficiency: of the predicted values; None: each specification's, or the default.
      done: called with every scenario's number when it is finished.

    Raises:
      ValueError: one line that names the scenario and what is wrong.
    """
    chosen = list(names() if ids is None else ids)
    return [row for name in chosen for row in _named_rows(name, efficiency, done)]


def _named_rows(name: str, efficiency: str | None, done: Callable[[str], None]) -> list[ScenarioRow]:
    try:
        rows = _rows(scenario(name), efficiency)
    except ValueError as error:
        raise ValueError(f"scenario {name}: {error}") from None
    done(name)
    return rows


def outside_by_default(rows: Iterable[ScenarioRow]) -> dict[str, list[ScenarioRow]]:
    """Rows whose value with default constants is outside of what is expected, by scenario."""
    by_scenario: dict[str, list[ScenarioRow]] = {}
    for row in rows:
        if row.by_default == "differs":
            by_scenario.setdefault(row.id, []).append(row)
    return by_scenario


def table(rows: Iterable[ScenarioRow]) -> xr.Dataset:
    """Rows as a Dataset along one dimension, `row`."""
    rows = list(rows)
    texts = {name: np.array([getattr(row, name) for row in rows]) for name in ("id", "title", "what", "metric", "unit")}
    meanings = {
        "expected": "expected value by its derivation or as published, in the row's unit",
        "most": "largest expected value, in the row's unit",
        "found": "value that is judged, in the row's unit",
        "predicted": "value with default constants, in the row's unit",
        "tolerance": "share by which the found value may be off",
        "deviation": "found over expected, minus 1",
        "predicted_deviation": "value with default constants over expected, minus 1",
    }
    data = {name: ("row", [getattr(row, name) for row in rows], _attributes(text)) for name, text in meanings.items()}
    labels = {name: ("row", values, _attributes(name)) for name, values in texts.items()}
    words = {name: np.array([getattr(row, name) for row in rows]) for name in ("status", "by_default", "why")}
    labels |= {name: ("row", values, _attributes(name)) for name, values in words.items()}
    title = f"{len({row.id for row in rows})} scenarios beside expected values"
    return xr.Dataset(data, labels, {"title": title, "source": f"jaxroof {VERSION}"})


def _attributes(meaning: str) -> dict[str, str]:
    return {"units": "1", "long_name": meaning}


def _rows(entry: ScenarioEntry, efficiency: str | None) -> list[ScenarioRow]:
    predicted = answered(entry, efficiency)
    # Each specification is answered a second time only where a check is judged with the hand's assumptions.
    assumed = answered(entry, ASSUMED) if any(not check.predicted for check in entry.checks) else {}
    rows = [_row(entry, check, predicted, assumed) for check in entry.checks]
    # A refusal is a row without numbers: it counts as met where the error has the expected word.
    for refusal in entry.refusals:
        said = _refused({**entry.spec, **refusal.set})
        status = "refused" if refusal.says in said else "not refused"
        what = ", ".join(f"{key} = {value}" for key, value in refusal.set.items())
        rows.append(
            ScenarioRow(
                id=entry.id,
                title=entry.title,
                what=what,
                metric="",
                expected=math.nan,
                most=math.nan,
                found=math.nan,
                predicted=math.nan,
                tolerance=math.nan,
                status=status,
                unit="",
                why=said,
            )
        )
    return rows


def answered(entry: ScenarioEntry, efficiency: str | None = None) -> dict[str, xr.Dataset]:
    """A scenario's dataset by the name "", and those of its parts by theirs: what any check of its job reads.

    Args:
      efficiency: in place of the specifications' own.
    """
    chosen = {} if efficiency is None else {"efficiency": efficiency}
    return {name: _answered({**spec, **chosen}) for name, spec in {"": entry.spec, **entry.parts}.items()}


def _answered(source: Mapping[str, Any]) -> xr.Dataset:
    # A simulation answers all of its variables; other jobs compute only those that some check reads.
    if JOBS[source["job"]].simulated:
        return sweep(source)
    question = asking(asked(spec(source)), checked_variables(source["job"]))
    return labelled(answers_over(question.computed, question.axes), question.axes, question.attributes)


@functools.cache
def checked_variables(job: str) -> tuple[str, ...]:
    """Variables that checks read of a job, over all scenarios."""
    variables: dict[str, None] = {}
    for entry in map(scenario, names()):
        jobs = {name: part["job"] for name, part in {"": entry.spec, **entry.parts}.items()}
        for metric in (metric for check in entry.checks for metric in _metric(check).names):
            # PART.VARIABLE is a variable of a part; one without a dot is of the scenario itself, whose name is "".
            part, _, name = metric.rpartition(".")
            if jobs.get(part) == job:
                variables[name] = None
    return tuple(variables)


Answers = Mapping[str, xr.Dataset]


def _row(entry: ScenarioEntry, check: Check, predicted: Answers, assumed: Answers) -> ScenarioRow:
    value = _value(check, predicted)
    judged_value = value if check.predicted else _value(check, assumed)
    least, most = check.bounds

    def judged(number: float) -> str:
        # The tolerance widens both ends of the expected interval.
        close = least - _slack(least, check) <= number <= most + _slack(most, check)
        return "agrees" if close else "differs"

    return ScenarioRow(
        id=entry.id,
        title=entry.title,
        what=check.what,
        metric=check.metric,
        expected=least,
        most=most,
        found=judged_value,
        predicted=value,
        tolerance=check.tolerance,
        status=judged(judged_value),
        # A ratio of two points has no dimension, whatever the unit of the metric is.
        unit="1" if check.over is not None else unit(check),
        why=check.finding or check.reason,
        by_default=judged(value),
    )


def value_text(value: float, unit: str) -> str:
    """A value for people; empty where there is none."""
    if math.isnan(value):
        return ""
    if unit not in ("s", "B"):
        return f"{value:,.4g}"
    return formatted(value, unit, 4) if value else f"0 {unit}"


def expected_text(expected: float, most: float, unit: str) -> str:
    """An expected value, or the two that it is between; not a number as the second: there is none."""
    several = most != expected and not math.isnan(most)
    return value_text(expected, unit) + (f" to {value_text(most, unit)}" if several else "")


def _slack(expected: float, check: Check) -> float:
    return max(check.tolerance * abs(expected), TINY)


def _metric(check: Check) -> Expression:
    return Expression(check.metric, _variable_unit, {}, check.what, unit(check))


def unit(check: Check) -> str:
    """SI unit of a check's metric at one point."""
    if check.unit:
        return check.unit
    # Without a unit of its own, an expression has the unit of the first variable that it names.
    name = NAME.search(check.metric)
    if name is None:
        raise ValueError(f"{check.what}: {check.metric!r} names no variable")
    return _variable_unit(name.group())


def _variable_unit(metric: str) -> str:
    return variable(metric.rpartition(".")[2]).unit


def _value(check: Check, data: Answers) -> float:
    """Value that a check reads from datasets."""
    metric = _metric(check)

    def at(place: Mapping[str, Any]) -> float:
        return float(metric.value(lambda name: _at(check, name, data, place), None))

    return at(check.at) if check.over is None else at(check.at) / at(check.over)


def _at(check: Check, metric: str, answers: Answers, place: Mapping[str, Any]) -> float:
    part, _, name = metric.rpartition(".")
    data = answers.get(part)
    if data is None or name not in data:
        raise ValueError(f"{check.what}: there is no variable {metric} here")
    array = data[name]
    # Select one position along every axis that the check names; axes of one value need no selection.
    for axis, label in place.items():
        if part and axis not in data.coords:
            continue  # an axis of the scenario that this part does not have
        if axis not in data.coords:
            raise ValueError(f"{check.what}: there is no axis {axis}{nearest(axis, list(map(str, data.coords)))}")
        if axis in array.dims:
            array = array.isel({axis: _position(check, axis, label, data[axis].values)})
    if array.size != 1:
        raise ValueError(f"{check.what}: {name} still varies along {', '.join(map(str, array.dims))}: say where")
    return float(array)


def _position(check: Check, axis: str, label: Any, labels: np.ndarray) -> int:
    number = labels.dtype.kind == "f"
    # Labels that are real numbers went through float arithmetic: they are compared with a tolerance.
    same = np.isclose(labels, label, rtol=1e-5) if number else labels == label
    if same.sum() != 1:
        raise ValueError(f"{check.what}: {axis} = {label!r} is none of {', '.join(map(str, labels))}")
    return int(np.argmax(same))


def _refused(spec: Mapping[str, Any]) -> str:
    try:
        sweep(spec)
    except ValueError as error:
        return str(error)
    return ""
