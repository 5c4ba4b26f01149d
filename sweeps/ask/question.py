"""Questions from specifications: every name looked up, every axis made and labelled."""

import dataclasses
import hashlib
import importlib.metadata
import itertools
import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from hwspaces.quantities.units import nearest
from jaxroof.jobs import JOBS, Job, Scenario
from jaxroof.jobs.job import some_terms
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from jaxroof.version import VERSION
from sweeps.ask.alike import alike, alike_axes, all_alike
from sweeps.ask.axes import Axis, Choice, number
from sweeps.ask.cases import Case, case_of, under
from sweeps.ask.deployments import PREFIX, is_structure
from sweeps.ask.effects import facts, given_paths, require_effect
from sweeps.ask.followers import followed
from sweeps.ask.laws import held_note, require_free
from sweeps.ask.leaf_axes import Parser, leaf_axis, named_apart, sampled
from sweeps.ask.leaves import leaf, leaf_number
from sweeps.ask.objects import deployment_axis, devices_named, first_value, object_axis
from sweeps.ask.precisions import compute_precisions
from sweeps.ask.spec import AxisRange, Spec


@dataclasses.dataclass(frozen=True)
class Question:
    """Computation at a point: a job, the scenario that axes start from, metrics, and op tables or not."""

    job: Job
    base: Scenario
    names: tuple[str, ...] | None = None  # None: all
    breakdown: bool = False


@dataclasses.dataclass(frozen=True)
class AskedSweep:
    """A question and its axes, ready to be planned, with what the dataset records about them."""

    question: Question | None  # None: a simulation
    axes: tuple[Axis, ...]
    case: Case  # what the axes start from
    attributes: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def computed(self) -> Question:
        """The question of a sweep that is computed point by point; ValueError for a simulation."""
        return given(self.question, "question that is computed at points: the sweep is simulated")


def named(spec: Spec) -> AskedSweep:
    """Every name and number of `spec` looked up; whether its deployments are legal is not checked.

    Raises:
      ValueError: one line: an unknown name, a wrong unit or value, two axes on one leaf, a combination that cannot be.
    """
    # Accelerators of one structure are evaluated in one array operation, so unlike ones are made alike.
    base, axes, notes = resolved(spec)
    axes = alike_axes(axes, precisions_of(base.scenario, axes))
    _check_variables(spec, base.scenario)
    question = Question(JOBS[spec.job], base.scenario, spec.variables, spec.breakdown)
    return AskedSweep(question, axes, base, attributes(spec, base), notes)


def asking(question: AskedSweep, names: tuple[str, ...]) -> AskedSweep:
    """The same of these variables alone."""
    return dataclasses.replace(question, question=dataclasses.replace(question.computed, names=names))


def alike_devices(question: AskedSweep, precisions: Collection[str]) -> AskedSweep:
    """The question with every accelerator, the first and those along axes, replaced by `alike`."""
    base = question.computed.base
    base = dataclasses.replace(base, hardware=alike(base.hardware, precisions))
    axes = all_alike(question.axes, precisions)
    return dataclasses.replace(question, question=dataclasses.replace(question.computed, base=base), axes=axes)


def precisions_of(base: Scenario, axes: tuple[Axis, ...]) -> set[str]:
    """Precisions that anything is multiplied in anywhere on the axes."""
    items = (column.items for axis in axes for column in axis.columns.values() if isinstance(column, Choice))
    return compute_precisions((base, *itertools.chain.from_iterable(items)))


def resolved(
    spec: Spec, parsers: Mapping[str, Parser] = MappingProxyType({})
) -> tuple[Case, tuple[Axis, ...], tuple[str, ...]]:
    """The case that the axes of `spec` start from, the axes, and notes on what was looked up.

    In sample mode there is one axis, of the points that are drawn from the others.

    Args:
      parsers: of values along axes that the scenario has no leaf for, by path; text makes an axis of words.
    """
    base, axes, notes = unsampled(spec, parsers)
    return base, (sampled(axes, spec),) if spec.mode == "sample" else axes, notes


def _start(path: str, values: tuple[Any, ...] | AxisRange) -> Any:
    """The value that an axis starts from: of a range of what is counted, its first whole number.

    Raises:
      ValueError: one line, where a range has no whole number.
    """
    first = first_value(values)
    declared = leaf(path)
    # Text with a unit is left to the parser of its leaf; a bare number of a count starts at a whole one.
    counted = declared is not None and declared.counts and isinstance(first, int | float)
    if not isinstance(values, AxisRange) or not counted:
        return first
    if math.ceil(first) > float(values.high):
        raise ValueError(f"{path}: there is no whole number from {first:g} to {float(values.high):g}")
    return math.ceil(first)


def unsampled(
    spec: Spec, parsers: Mapping[str, Parser] = MappingProxyType({})
) -> tuple[Case, tuple[Axis, ...], tuple[str, ...]]:
    """As `resolved`, with an axis of its own for everything that varies.

    In sample mode the axis of a range has its two ends alone.
    """
    # The base point: fixed numbers, the first position of every axis and the first whole deployment.
    start = {path: _start(path, values) for path, values in spec.axes.items() if path not in parsers}
    given = spec.fixed | start
    for path in spec.axes:
        if is_structure(path):
            raise ValueError(f"{path} is structure, which cannot be an axis; list whole deployments instead")
    if spec.deployments:
        given = given | {f"{PREFIX}{name}": value for name, value in spec.deployments[0].items()}
    first = dataclasses.replace(
        spec.words,
        deployment=under(given, "deployment"),
        overrides={path: value for path, value in given.items() if not path.startswith(("workload.", "deployment."))},
    )
    # Other points may be legal where the base is not, so that legality is not required here.
    base = case_of(
        spec.job,
        first,
        under(given, "workload"),
        check=False,
        prefill=spec.prefill,
        neighbour=spec.neighbour,
        laws=spec.laws,
    )
    several = {key for key, names in spec.objects.items() if len(names) > 1}
    of_axes = {
        *(base.model_notes if several & {"model", "weights"} else ()),
        *(base.hardware.assumptions if "hardware" in several else ()),
    }  # the axis says them of each of its entries
    axes, notes = [], [note for note in base.notes if note not in of_axes]
    # Axes in a fixed order: names, whole deployments, then single leaves as the specification lists them.
    for key, names in spec.objects.items():
        if len(names) > 1:
            axis, said = object_axis(key, names, spec, base)
            axes.append(axis)
            notes += said
    if len(spec.deployments) > 1:
        axes.append(deployment_axis(spec, base, axes))
    for path, values in spec.axes.items():
        if path not in parsers:
            number(base.scenario, path)
        axes.append(leaf_axis(path, values, spec, parsers.get(path, leaf_number)))
    require_free(base.scenario, spec.axes)
    # What is held constant is said where hardware figures vary on one device, not between devices.
    held = held_note(base.hardware, spec.axes) if len(spec.objects["hardware"]) == 1 else None
    notes += [held] if held else []
    # A setting has to have an effect somewhere on the axes, not at every point.
    tried = {name: value for settings in spec.deployments for name, value in settings.items()}
    words = dataclasses.replace(spec.words, deployment=tried, overrides=spec.fixed | spec.axes)
    given_ones = given_paths(words, prefill=spec.prefill, neighbour=spec.neighbour)
    require_effect(given_ones, facts(base.scenario, axes))
    # Prefill pools and neighbours move with the axes of the deployment beside them.
    return base, followed(tuple(named_apart(axes)), spec, base.scenario), tuple(dict.fromkeys(notes))


def _check_variables(spec: Spec, scenario: Scenario) -> None:
    """Refuse a wanted variable that the job does not have, or that none of the accelerators has figures for."""
    if spec.variables is None:
        return
    job = JOBS[spec.job]
    known: dict[str, Any] = {}
    for device in devices_named(spec):
        # Devices differ in the figures they have: later ones are priced only while a wanted variable is unknown.
        if not set(spec.variables) <= known.keys():
            place = dataclasses.replace(scenario, hardware=device.hardware)
            with eager():
                known |= job.metrics(place, *some_terms(job, place))
    for name in spec.variables:
        if name not in known:
            raise ValueError(f"output.variables: a {spec.job} has no {name} here{nearest(name, known)}")


def attributes(spec: Spec, base: Case) -> dict[str, Any]:
    """Provenance of the dataset: enough to make it again."""
    names = {key: list(values) for key, values in spec.objects.items()}
    records = {"efficiency": [base.efficiency.name]} | names
    return {
        # Title and source are attributes of the CF conventions; the hashes tell two questions apart without comparing
        # them.
        "Conventions": "CF-1.11",
        "title": f"{spec.job} sweep of {', '.join(names['model'])} on {', '.join(names['hardware'])}",
        "source": f"jaxroof {VERSION}, jax {importlib.metadata.version('jax')}",
        "jaxroof_version": VERSION,
        "job": spec.job,
        "mode": spec.mode,
        "spec": spec.text(),
        "spec_sha256": hashlib.sha256(spec.text().encode()).hexdigest(),
        "base_scenario_sha256": hashlib.sha256(repr(base.scenario).encode()).hexdigest(),
        "dtype": spec.dtype,
        "entries": ", ".join(f"{key}: {' | '.join(values)}" for key, values in records.items()),
        **({} if spec.per is None else {"per": ", ".join(spec.per)}),
        **({"seed": spec.seed, "method": spec.method} if spec.mode == "sample" else {}),
        "notes": " | ".join(base.notes),
    }
