"""A design problem as a user writes it: a sweep's specification whose ranges are bounds, with goals beside them."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

import hwspaces
from hwspaces.accelerators.unbuilt import area_note
from hwspaces.quantities.units import plain_arguments
from jaxroof.chip.area import package_known
from jaxroof.jobs import JOBS
from jaxroof.jobs.steady import STEADY
from sweeps.ask import spec as sweep_spec
from sweeps.ask.axes import Axis
from sweeps.ask.cases import Case
from sweeps.ask.question import attributes, unsampled
from sweeps.data.conditions import conditions, names_of
from sweeps.data.store import coordinates
from sweeps.studies.optimize.evaluator import Evaluator
from sweeps.studies.optimize.goals import (
    BUILT,
    FITS,
    OF_DIES,
    SUSTAINED,
    WITHIN,
    Constraint,
    Goal,
    constraints,
    objectives,
)
from sweeps.studies.optimize.members import Entry, MemberSpec, entries, members
from sweeps.studies.optimize.problem import Member, Problem
from sweeps.studies.optimize.served import ServedCase, served_case
from sweeps.studies.optimize.variables import Variable, relaxed, variables_of

MOST = {"starts": 10**6, "steps": 10**6, "grid": 10**8, "seed": sweep_spec.LARGEST_INTEGER}
"""How hard a search may be asked to look: its designs are in memory."""

OWN = ("optimize", "constraints", "mix", "scenarios")
FOREIGN = ("mode", "sample", "output")
"""Keys of a sweep's specification that an optimisation has no use for."""


@dataclasses.dataclass(frozen=True)
class Effort:
    """Effort of a search."""

    starts: int = 512  # designs that gradient descent starts from
    steps: int = 150  # of the descent
    grid: int = 100_000  # points of the grid that starts are taken from
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class DesignSpec:
    """A checked specification: the sweep's part of it, the goals, and how to search."""

    spec: sweep_spec.Spec
    members: tuple[MemberSpec, ...]  # the first scenario's first; the specification itself where it has none
    objectives: tuple[Goal, ...]
    constraints: tuple[Constraint, ...]
    search: Effort


def read(source: str | os.PathLike[str] | Mapping[str, Any]) -> DesignSpec:
    """The design problem in a TOML file, or in a dictionary with its content.

    Raises:
      ValueError: one line that names the file, the key, its value and what is allowed.
    """
    if isinstance(source, Mapping):
        return design(source)
    path = pathlib.Path(source)
    content = sweep_spec.content(path)
    try:
        return design(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def design(source: Mapping[str, Any]) -> DesignSpec:
    """Check a design problem given as a dictionary; ValueError as `read`."""
    for key in FOREIGN:
        if key in source:
            raise ValueError(f"{key} = {source[key]!r} is not read by an optimisation")
    tables = {}
    for key in ("optimize", "constraints"):
        tables[key] = source.get(key, {})
        if not isinstance(tables[key], Mapping):
            raise ValueError(f"{key} = {tables[key]!r} must be a table")
    sweep_spec.require_known(tables["optimize"], ("minimize", "maximize", *MOST), "optimize.")
    mix, scenarios = (entries(source.get(key), key) for key in ("mix", "scenarios"))
    names = [entry.name for entry in (*mix, *scenarios) if entry.name]
    goals = objectives(tables["optimize"], names)
    limits = constraints(tables["constraints"], names)
    counts = {
        name: sweep_spec.integer(tables["optimize"][name], f"optimize.{name}", 0 if name == "seed" else 1, most)
        for name, most in MOST.items()
        if name in tables["optimize"]
    }
    rest = {key: value for key, value in source.items() if key not in OWN}
    member_specs = tuple(_members(rest, mix, scenarios))
    # The first member's axes stand for the problem's, and the source is recorded as it was given.
    checked = dataclasses.replace(member_specs[0].spec, source=dict(source))
    return DesignSpec(checked, member_specs, goals, (*limits, *_always(member_specs)), Effort(**counts))


def _always(members: Sequence[MemberSpec]) -> tuple[Constraint, ...]:
    """What is always asked for: room in memory, a device that could be built where its package is known; of served
    streams the rate, and the limits where there are some.
    """
    spec = members[0].spec
    devices = {name for one in members for name in one.spec.objects["hardware"]}
    # A device can be checked against its package only where the package of all devices is known.
    known = all(package_known(hwspaces.hardware(name).hardware) for name in devices)
    built = BUILT if known else ()
    if not JOBS[spec.job].simulated:
        return (FITS, *built)
    # The limits are one constraint of every member, which needs them for all.
    if len({bool(one.spec.source.get("slo")) for one in members}) > 1:
        raise ValueError("slo is given for some members only: give it for all, or limit metrics in [constraints]")
    return (FITS, *built, SUSTAINED, *((WITHIN,) if spec.source.get("slo") else ()))


def _members(rest: Mapping[str, Any], mix: Sequence[Entry], scenarios: Sequence[Entry]) -> Iterator[MemberSpec]:
    """Every member with its own specification, checked."""
    for scenario, workload, source in members(rest, mix, scenarios):
        names = [f"{key} {entry.name}" for key, entry in (("mix", workload), ("scenarios", scenario)) if entry.name]
        try:
            # A sample takes ranges as bounds, as an optimisation does.
            yield MemberSpec(scenario, workload, sweep_spec.spec({**source, "mode": "sample"}))
        except ValueError as error:
            raise ValueError(": ".join([", ".join(names), str(error)] if names else [str(error)])) from None


@plain_arguments
def problem(source: str | os.PathLike[str] | Mapping[str, Any]) -> Problem:
    """A design problem as arrays, for any optimiser: batches of designs to objectives, constraints and gradients.

    Args:
      source: a TOML specification, or its content as a dictionary: a sweep's, with [optimize] and [constraints].

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      problem({"hardware": "H100-SXM", "model": "Llama-3.1-8B",
               "workload": {"batch": 16, "isl": 1024, "osl": 256},
               "axes": {"hardware.memory.hbm.bandwidth": {"from": "2TB/s", "to": "8TB/s"}},
               "optimize": {"minimize": "tpot"}})
    """
    return made(read(source))


def made(asked: DesignSpec) -> Problem:
    """The problem of a checked specification."""
    goals = [goal.name for goal in asked.objectives]
    names = tuple(dict.fromkeys([*goals, *(one.name for one in asked.constraints)]))
    resolved = [(one, *_resolved(one.spec)) for one in asked.members]
    for one, _, axes, _, _ in resolved:
        _require_free(one.spec, axes)
    named: dict[str, Variable] = {}
    own_names = []
    # Variables of the same name are one for all members; an entry's own have its name before theirs.
    for one, _, axes, _, _ in resolved:
        own = {f"{one.prefix(axis)}{v.name}": v for axis, v in zip(axes, variables_of(one.spec, axes), strict=True)}
        named |= {name: dataclasses.replace(v, name=name) for name, v in own.items() if name not in named}
        own_names.append({name: v.axis for name, v in own.items()})
    # Bounds of lists may change here, before members take their columns.
    variables = relaxed(tuple(named.values()))
    columns = {variable.name: i for i, variable in enumerate(variables)}
    rows: dict[str, list[Member]] = {}
    for (one, base, _, _, stream), own in zip(resolved, own_names, strict=True):
        places = np.array([columns[name] for name in own], int)
        # The problem's variable along the member's own axis, which has the member's objects.
        seen = tuple(dataclasses.replace(variables[columns[name]], axis=axis) for name, axis in own.items())
        job = JOBS[one.spec.job] if stream is None else STEADY
        evaluator = Evaluator(job, base.scenario, seen, names)
        member = Member(one.scenario.name, one.workload.name, one.workload.weight, evaluator, places, stream)
        rows.setdefault(one.scenario.name, []).append(member)
    recorded = attributes(asked.spec, resolved[0][1])
    # Keys of a sample say nothing about an optimisation.
    for key in ("mode", "method", "seed"):
        recorded.pop(key, None)
    title = f"optimum of {', '.join(goal.text for goal in asked.objectives)}: {recorded['title']}"
    notes = dict.fromkeys(note for _, _, _, said, _ in resolved for note in said)
    named_metrics = {goal.name for goal in asked.objectives} | {one.name for one in asked.constraints}
    if not named_metrics.isdisjoint(OF_DIES):
        notes |= dict.fromkeys(note for _, base, *_ in resolved if (note := area_note(base.hardware)))
    recorded |= {"title": title.replace(" sweep", ""), "notes": " | ".join(notes)}
    members = tuple(map(tuple, rows.values()))
    return Problem(members, variables, asked.objectives, asked.constraints, recorded)


def _require_free(spec: sweep_spec.Spec, axes: tuple[Axis, ...]) -> None:
    """ValueError of one line for a variable that is a condition: what is asked is no freedom of a design."""
    labels = xr.Dataset(coords=coordinates(axes, {}))
    # Of what is named, some has one value here.
    per = None if spec.per is None else [name for name in names_of(spec.per) or () if name in labels.coords]
    for name in conditions(labels, per):
        raise ValueError(
            f"{name} is a condition, not a freedom of the design: give one value; [mix] or [scenarios] for a design of "
            'several; or per = "none" (--per none) to choose the best of them'
        )


def _resolved(spec: sweep_spec.Spec) -> tuple[Case, tuple[Axis, ...], tuple[str, ...], ServedCase | None]:
    """A member's case, its axes, notes, and what a served stream is."""
    if not JOBS[spec.job].simulated:
        return *unsampled(spec), None
    served = served_case(spec)
    return served.case, served.axes, served.notes, served
