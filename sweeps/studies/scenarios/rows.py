"""Every scenario's answer beside its hand-worked values, as rows and as one Dataset."""

import collections
import concurrent.futures
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from hwspaces.units import nearest
from jaxroof.jobs import JOBS
from jaxroof.jobs.colocated import COLOCATED
from jaxroof.version import VERSION
from sweeps.ask.names import variable
from sweeps.ask.question import asking
from sweeps.ask.spec import spec
from sweeps.run.answered import answers_over, labelled
from sweeps.run.asked import asked
from sweeps.run.sweep import sweep
from sweeps.studies.scenarios.suite import Check, ScenarioEntry, names, scenario

ASSUMED = "half"
"""Efficiency that the hand-worked values assume: half of the matrix peak, all bandwidth, no fixed time."""

STATUSES = ("agrees", "explained", "differs", "refused", "not refused")
"""With the hand's assumptions the value is the hand's; differs as the reason says; differs. What cannot be is refused,
or is not."""

TINY = 1e-9
"""s and shares below which a value is nothing: a hand-worked 0 agrees with it."""


@dataclasses.dataclass(frozen=True)
class ScenarioRow:
    """One number of one scenario."""

    id: str
    title: str
    what: str
    metric: str
    value: float  # as jaxroof predicts it; NaN for a refusal
    hand: float  # as worked out by hand
    assumed: float  # with the hand's assumptions; NaN where the hand has others
    status: str  # one of STATUSES
    unit: str
    why: str  # value and hand differ

    @property
    def ratio(self) -> float:
        """Predicted over hand-worked."""
        return self.value / self.hand if self.hand else math.nan

    @property
    def assumed_ratio(self) -> float:
        """With the hand's assumptions, over hand-worked."""
        return self.assumed / self.hand if self.hand else math.nan


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
    simulated = [name for name in chosen if JOBS[scenario(name).spec["job"]].simulated]
    others = [[name] for name in chosen if name not in simulated]
    others.sort(key=lambda names: scenario(names[0]).spec["job"] != COLOCATED.name)  # what takes longest begins first

    def in_turn(some: list[str]) -> dict[str, list[ScenarioRow]]:
        return {name: _named_rows(name, efficiency, done) for name in some}

    # Simulations set the precision of the whole process, so that one follows the other; beside them the rest.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = dict(collections.ChainMap(*pool.map(in_turn, [simulated, *others])))
    return [row for name in chosen for row in rows[name]]


def _named_rows(name: str, efficiency: str | None, done: Callable[[str], None]) -> list[ScenarioRow]:
    try:
        rows = _rows(scenario(name), efficiency)
    except ValueError as error:
        raise ValueError(f"scenario {name}: {error}") from None
    done(name)
    return rows


def table(rows: Iterable[ScenarioRow]) -> xr.Dataset:
    """Rows as a Dataset along one dimension, `row`."""
    rows = list(rows)
    texts = {name: np.array([getattr(row, name) for row in rows]) for name in ("id", "title", "what", "metric", "unit")}
    meanings = {
        "value": "predicted value, in the row's unit",
        "hand": "hand-worked value, in the row's unit",
        "assumed": "value with the hand's assumptions: half of the matrix peak, all bandwidth, no fixed time",
    }
    data = {name: ("row", [getattr(row, name) for row in rows], _attributes(text)) for name, text in meanings.items()}
    data["ratio"] = ("row", [row.ratio for row in rows], _attributes("predicted over hand-worked"))
    data["assumed_ratio"] = ("row", [row.assumed_ratio for row in rows], _attributes("assumed over hand-worked"))
    labels = {name: ("row", values, _attributes(name)) for name, values in texts.items()}
    labels |= {name: ("row", [getattr(row, name) for row in rows], _attributes(name)) for name in ("status", "why")}  # type: ignore[misc]
    title = f"{len({row.id for row in rows})} scenarios beside hand-worked values"
    return xr.Dataset(data, labels, {"title": title, "source": f"jaxroof {VERSION}"})


def _attributes(meaning: str) -> dict[str, str]:
    return {"units": "1", "long_name": meaning}


def _rows(entry: ScenarioEntry, efficiency: str | None) -> list[ScenarioRow]:
    predicted = answered(entry, efficiency)
    assumed = answered(entry, ASSUMED) if any(check.assumed for check in entry.checks) else None
    rows = [_row(entry, check, predicted, assumed) for check in entry.checks]
    for refusal in entry.refusals:
        said = _refused({**entry.spec, **refusal.set})
        status = "refused" if refusal.says in said else "not refused"
        what = ", ".join(f"{key} = {value}" for key, value in refusal.set.items())
        rows.append(ScenarioRow(entry.id, entry.title, what, "", math.nan, math.nan, math.nan, status, "", said))
    return rows


def answered(entry: ScenarioEntry, efficiency: str | None = None) -> dict[str, xr.Dataset]:
    """A scenario's dataset by the name "", and those of its parts by theirs: what any check of its job reads.

    Args:
      efficiency: in place of the specifications' own.
    """
    chosen = {} if efficiency is None else {"efficiency": efficiency}
    return {name: _answered({**spec, **chosen}) for name, spec in {"": entry.spec, **entry.parts}.items()}


def _answered(source: Mapping[str, Any]) -> xr.Dataset:
    if JOBS[source["job"]].simulated:
        return sweep(source)
    question = asking(asked(spec(source)), checked_variables(source["job"]))
    return labelled(answers_over(question.question, question.axes), question.axes, question.attributes)


@functools.cache
def checked_variables(job: str) -> tuple[str, ...]:
    """Variables that checks read of a job, over all scenarios."""
    found: dict[str, None] = {}
    for entry in map(scenario, names()):
        jobs = {name: part["job"] for name, part in {"": entry.spec, **entry.parts}.items()}
        for metric in (metric for check in entry.checks for metric in check.metric):
            part, _, name = metric.rpartition(".")
            if jobs.get(part) == job:
                found[name] = None
    return tuple(found)


Answers = Mapping[str, xr.Dataset]


def _row(entry: ScenarioEntry, check: Check, predicted: Answers, assumed: Answers | None) -> ScenarioRow:
    value = _value(check, predicted)
    known = _value(check, assumed) if check.assumed and assumed is not None else math.nan
    judged = known if check.assumed else value
    meant = check.expected * check.hand
    close = abs(judged - meant) <= max(check.tolerance * abs(meant), TINY)
    unit = check.unit or ("1" if check.over is not None else variable(check.metric[0].rpartition(".")[2]).unit)
    metric = " + ".join(check.metric)
    status = ("agrees" if check.expected == 1.0 else "explained") if close else "differs"
    return ScenarioRow(entry.id, entry.title, check.what, metric, value, check.hand, known, status, unit, check.why)


def _value(check: Check, data: Answers) -> float:
    """Value that a check reads from a dataset."""
    value = _at(check, data, check.at)
    if check.over is not None:
        value = value / _at(check, data, check.over)
    return value / check.per


def _at(check: Check, answers: Answers, place: Mapping[str, Any]) -> float:
    total = 0.0
    for metric in check.metric:
        part, _, name = metric.rpartition(".")
        data = answers.get(part, {})
        if name not in data:
            raise ValueError(f"{check.what}: there is no variable {metric} here")
        found = data[name]
        for axis, label in place.items():
            if axis not in data.coords:
                raise ValueError(f"{check.what}: there is no axis {axis}{nearest(axis, list(map(str, data.coords)))}")
            if axis in found.dims:
                found = found.isel({axis: _position(check, axis, label, data[axis].values)})
        if found.size != 1:
            raise ValueError(f"{check.what}: {name} still varies along {', '.join(map(str, found.dims))}: say where")
        total += float(found)
    return total


def _position(check: Check, axis: str, label: Any, labels: np.ndarray) -> int:
    number = labels.dtype.kind == "f"
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
