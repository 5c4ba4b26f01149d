"""From a specification to what the engine computes: names looked up, axes labelled, legality checked."""

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import xarray as xr

import hwspaces
import workloads
from jaxroof.jobs import JOBS, Job, Scenario, legality
from jaxroof.legality import first_broken
from jaxroof.version import VERSION
from sweeps.alike import alike_axes
from sweeps.axes import Axis, Choice, Coordinate
from sweeps.cases import KV_BYTES, Case, case, compute_precisions, leaf_number, model_deployment, require_precisions
from sweeps.dataset import dataset, fill, leaf_long_name, leaf_unit
from sweeps.deployments import PREFIX, is_structure, with_settings
from sweeps.deployments import label as deployment_label
from sweeps.drafting import with_draft
from sweeps.effects import facts, given_paths, require_effect
from sweeps.engine import Plan
from sweeps.followers import followed
from sweeps.paths import number, replaced
from sweeps.pointwise import one_by_one
from sweeps.program import Question
from sweeps.quantities import along_range
from sweeps.spec import Range, Spec, range_values

Parser = Callable[[str, Any], float | str]
"""From a path and what a user wrote to its value."""


FEW = 32
"""Points whose rules are checked one by one, in less time than it takes to compile the check."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question and its axes, ready to be planned, with what the dataset records about them."""

    question: Question
    axes: tuple[Axis, ...]
    attributes: dict[str, Any]
    notes: tuple[str, ...]


def asked(spec: Spec) -> Asked:
    """Resolve every name and number of `spec`.

    Raises:
      ValueError: one line: an unknown name, a wrong unit or value, two axes on one leaf, a combination that cannot be.
    """
    base, axes, notes = resolved(spec)
    axes = alike_axes(axes, precisions_of(base.scenario, axes))
    _check_variables(spec, base.scenario)
    question = Question(JOBS[spec.job], base.scenario, spec.variables, spec.breakdown)
    if spec.illegal == "refuse":
        _refuse_illegal(question.job, base, axes)
    return Asked(question, axes, attributes(spec, base), notes)


def asking(question: Asked, names: tuple[str, ...]) -> Asked:
    """The same of these variables alone."""
    return dataclasses.replace(question, question=dataclasses.replace(question.question, names=names))


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
    return base, (_sampled(axes, spec),) if spec.mode == "sample" else axes, notes


def unsampled(
    spec: Spec, parsers: Mapping[str, Parser] = MappingProxyType({})
) -> tuple[Case, tuple[Axis, ...], tuple[str, ...]]:
    """As `resolved`, with an axis of its own for everything that varies.

    In sample mode the axis of a range has its two ends alone.
    """
    first = {key: names[0] for key, names in spec.objects.items()}
    start = {path: _one(values) for path, values in spec.axes.items() if path not in parsers}
    given = spec.fixed | start
    for path in spec.axes:
        if is_structure(path):
            raise ValueError(f"{path} is structure, which cannot be an axis; list whole deployments instead")
    if spec.deployments:
        given = given | {f"{PREFIX}{name}": value for name, value in spec.deployments[0].items()}
    base = case(
        spec.job,
        **first,
        workload=_under(given, "workload"),
        deployment=_under(given, "deployment"),
        overrides={path: value for path, value in given.items() if not path.startswith(("workload.", "deployment."))},
        check=False,
        prefill=spec.prefill,
        neighbour=spec.neighbour,
    )
    axes, notes = [], list(base.notes)
    for key, names in spec.objects.items():
        if len(names) > 1:
            axis, said = _object_axis(key, names, spec, base)
            axes.append(axis)
            notes += said
    if len(spec.deployments) > 1:
        axes.append(_deployment_axis(spec, base, axes))
    for path, values in spec.axes.items():
        if path not in parsers:
            number(base.scenario, path)
        axes.append(_leaf_axis(path, values, spec, parsers.get(path, leaf_number)))
    words = {key: spec.objects.get(key) for key in ("kv", "communication")}
    named = {name for settings in spec.deployments for name in settings}
    given = given_paths(named, (), (*spec.fixed, *spec.axes), prefill=spec.prefill, neighbour=spec.neighbour, **words)
    require_effect(given, facts(base.scenario, axes))
    return base, followed(tuple(_named_apart(axes)), spec, base.scenario), tuple(dict.fromkeys(notes))


def _under(paths: dict[str, Any], root: str) -> dict[str, Any]:
    prefix = f"{root}."
    return {path.removeprefix(prefix): value for path, value in paths.items() if path.startswith(prefix)}


def _one(values: tuple | Range) -> Any:
    return values.low if isinstance(values, Range) else values[0]


def _object_axis(key: str, names: tuple[str, ...], spec: Spec, base: Case) -> tuple[Axis, list[str]]:
    """An axis over whole structs, labelled by their names."""
    columns: dict[str, Any] = {}
    notes: list[str] = []
    index = np.arange(len(names))
    if key == "hardware":
        devices = [_device(name, spec) for name in names]
        for device in devices:
            require_precisions(device, base.model, base.scenario.deployment)
            notes += [f"{device.name}: {assumption}" for assumption in device.assumptions]
        columns["hardware"] = Choice(tuple(device.hardware for device in devices), index)
        names = tuple(device.name for device in devices)
    elif key in ("model", "weights"):
        own = spec.objects.get("weights", (None,))
        entries = (
            [workloads.model(name, weights=own[0]) for name in names]
            if key == "model"
            else [workloads.model(spec.objects["model"][0], weights=name) for name in names]
        )
        kv, sent = (spec.objects.get(key, (None,))[0] for key in ("kv", "communication"))
        entries = [with_draft(entry, spec.objects.get("draft", (None,))[0]) for entry in entries]
        deployments = []
        for entry in entries:
            deployments.append(model_deployment(entry, kv, sent))
            for name in spec.objects["hardware"]:
                require_precisions(_device(name, spec), entry, deployments[-1])
            notes.append(f"{entry.name}: weights {entry.precision} (from {entry.precision_source})")
            notes += [f"{entry.name}: {note}" for note in entry.notes]
        deployments = [with_settings(deployment, _spread(spec)) for deployment in deployments]
        models = _with_settings("model", [entry.model for entry in entries], spec)
        columns["model"] = Choice(tuple(models), index)
        if any(deployment != deployments[0] for deployment in deployments):
            columns["deployment"] = Choice(tuple(deployments), index)
        if key == "model":
            names = tuple(entry.name for entry in entries)
    elif key == "kv":
        for name in names:
            model_deployment(base.model, name)
        columns["deployment.kv_bytes"] = np.array([KV_BYTES[name] for name in names])
    else:
        constants = [hwspaces.efficiency(name).efficiency for name in names]
        columns["efficiency"] = Choice(tuple(_with_settings("efficiency", constants, spec)), index)
    if len(set(names)) < len(names):
        raise ValueError(f"{key}: two of the names stand for the same entry: {', '.join(names)}")
    label = Coordinate(key, np.array(names, object), "", _OBJECT_MEANINGS[key])
    return Axis(key, len(names), columns, (label,)), notes


def _deployment_axis(spec: Spec, base: Case, axes: list[Axis]) -> Axis:
    """An axis over whole deployments, labelled by what sets each apart."""
    for axis in axes:
        if "deployment" in axis.columns or "deployment.kv_bytes" in axis.columns:
            raise ValueError(f"{axis.name} and deployments both set the precision of the KV cache: list one of them")
    kv, sent = (spec.objects.get(key, (None,))[0] for key in ("kv", "communication"))
    plain = model_deployment(base.model, kv, sent)
    structs = tuple(with_settings(plain, _spread(spec) | dict(settings)) for settings in spec.deployments)
    for struct, name in itertools.product(structs, spec.objects["hardware"]):
        require_precisions(_device(name, spec), base.model, struct)
    names = [deployment_label(settings) for settings in spec.deployments]
    if len(set(names)) < len(names):
        raise ValueError(f"deployments: two are the same: {', '.join(names)}")
    label = Coordinate("deployment", np.array(names, object), "", "deployment")
    return Axis("deployment", len(names), {"deployment": Choice(structs, np.arange(len(names)))}, (label,))


def _spread(spec: Spec) -> dict[str, Any]:
    """Settings of the deployment that the specification fixes, and where its axes over them start, by name."""
    return _under(spec.fixed | {path: _one(values) for path, values in spec.axes.items()}, "deployment")


def _device(name: str, spec: Spec) -> hwspaces.HardwareEntry:
    """The accelerator of that name with the single figures that the specification sets."""
    settings = {path: value for path, value in spec.fixed.items() if path.startswith("hardware.")}
    device = hwspaces.hardware(name)
    return hwspaces.overridden(device, settings) if settings else device


def _with_settings(root: str, structs: list[Any], spec: Spec) -> list[Any]:
    """Every struct with the single values that the specification sets below `root`."""
    for path, value in spec.fixed.items():
        if path.startswith(f"{root}."):
            for struct in structs:
                number({root: struct}, path)
            structs = [replaced({root: struct}, path, leaf_number(path, value))[root] for struct in structs]
    return structs


_OBJECT_MEANINGS = {
    "hardware": "accelerator",
    "model": "model",
    "weights": "precision of the weights",
    "kv": "precision of the KV cache",
    "efficiency": "efficiency constants",
}


def _leaf_axis(path: str, values: tuple | Range, spec: Spec, parsed: Parser) -> Axis:
    """An axis over one number, or words. In sample mode a range has no positions yet: `_sampled` draws them."""
    if isinstance(values, Range):
        low, high = parsed(path, values.low), parsed(path, values.high)
        if isinstance(low, str) or isinstance(high, str):
            raise ValueError(f"{path}: from = {values.low!r}, to = {values.high!r} must be numbers; list words instead")
        if not low < high and values.n != 1:
            raise ValueError(f"{path}: from = {values.low!r} must be below to = {values.high!r}")
        if values.log and low == 0:
            raise ValueError(f"{path}: a log range cannot start at 0")
        shares = np.linspace(0.0, 1.0, 2 if spec.mode == "sample" else values.n)
        between = range_values(values, low, high, shares)
        numbers = along_range(path, between)
        if numbers is not between and len(np.unique(numbers)) < len(numbers):
            raise ValueError(f"{path}: {values.n} steps from {low:g} to {high:g} repeat whole numbers; ask for fewer")
    else:
        found = [parsed(path, value) for value in values]
        if any(isinstance(value, str) for value in found):
            return _words_axis(path, found)
        numbers = np.array(found)
        if len(set(numbers.tolist())) < len(numbers):
            raise ValueError(f"{path} = {list(values)!r} has a value twice")
    label = Coordinate(short_name(path), numbers, leaf_unit(path), leaf_long_name(path))
    return Axis(label.name, len(numbers), {path: numbers}, (label,))


def _words_axis(path: str, found: list[str | float]) -> Axis:
    """An axis over words, and numbers among them, labelled by themselves."""
    words = np.array([value if isinstance(value, str) else f"{value:g}" for value in found], object)
    label = Coordinate(short_name(path), words, "", leaf_long_name(path))
    return Axis(label.name, len(words), {path: Choice(tuple(found), np.arange(len(words)))}, (label,))


def short_name(path: str) -> str:
    """Name of the axis over the leaf at `path`: its last two components, or one for workload and deployment numbers."""
    parts = path.split(".")[1:]
    return "_".join(parts[-2:])


def _named_apart(axes: list[Axis]) -> list[Axis]:
    """The axes with names of their own: where two would share one, the whole path makes the name."""
    names = [axis.name for axis in axes]
    renamed = []
    for axis in axes:
        if names.count(axis.name) > 1:
            (path,) = axis.columns
            name = path.replace(".", "_")
            axis = dataclasses.replace(
                axis, name=name, coordinates=(dataclasses.replace(axis.coordinates[0], name=name),)
            )
        renamed.append(axis)
    return renamed


def _sampled(axes: tuple[Axis, ...], spec: Spec) -> Axis:
    """One axis of `points` draws from all the given ones: ranges by their scale, lists and names with equal chance."""
    shares = _draws(len(axes), spec)
    columns: dict[str, Any] = {}
    labels = []
    for axis, share in zip(axes, shares.T, strict=True):
        label = axis.coordinates[0]
        pick = np.minimum((share * axis.size).astype(int), axis.size - 1)
        interval = next((spec.axes[path] for path in axis.columns if isinstance(spec.axes.get(path), Range)), None)
        for path, column in axis.columns.items():
            if isinstance(column, Choice):
                columns[path] = Choice(column.items, column.index[pick])
            elif interval is not None:
                columns[path] = along_range(path, range_values(interval, column[0], column[-1], share))
            else:
                columns[path] = column[pick]
        values = next(iter(columns[path] for path in axis.columns)) if interval is not None else label.values[pick]
        labels.append(dataclasses.replace(label, values=values))
    point = Coordinate("point", np.arange(spec.points), "1", "sample point")
    return Axis("point", spec.points, columns, (point, *labels))


def _draws(dimensions: int, spec: Spec) -> np.ndarray:
    """Points in the unit cube, shape (points, dimensions), the same for the same seed."""
    if spec.method == "random":
        return np.random.default_rng(spec.seed).random((spec.points, dimensions))
    from scipy.stats import qmc  # half a second to import, and only samples need it

    if spec.method == "latin_hypercube":
        return qmc.LatinHypercube(dimensions, rng=np.random.default_rng(spec.seed)).random(spec.points)
    sampler = qmc.Sobol(dimensions, rng=np.random.default_rng(spec.seed))
    return sampler.random_base2(int(np.ceil(np.log2(spec.points))))[: spec.points]


def _check_variables(spec: Spec, scenario: Scenario) -> None:
    """Refuse a wanted variable that the job does not have, or that none of the accelerators has figures for."""
    if spec.variables is None:
        return
    job = JOBS[spec.job]
    number = jax.ShapeDtypeStruct((), np.float32)
    known: dict[str, Any] = {}
    for name in spec.objects["hardware"]:
        if not set(spec.variables) <= known.keys():
            place = dataclasses.replace(scenario, hardware=_device(name, spec).hardware)
            sums = {name: number for name in job.sums(place)}
            tables = {name: {"some op": number} for name in job.tables(place)}
            known |= jax.eval_shape(job.metrics, place, sums, tables)
    for name in spec.variables:
        if name not in known:
            raise ValueError(f"output.variables: a {spec.job} has no {name} here{hwspaces.units.nearest(name, known)}")


def _refuse_illegal(job: Job, base: Case, axes: tuple[Axis, ...]) -> None:
    """ValueError with the broken rule when any point's deployment cannot be."""
    legal = _verdicts(Question(legality(job), base.scenario), axes)["legal"]
    if bool(legal.all()):
        return
    corner = dict(zip(legal.dims, np.argwhere(~legal.values)[0].tolist(), strict=True))
    scenario = base.scenario
    for axis in axes:
        position = corner.get(axis.name, 0)
        for path, column in sorted(axis.columns.items(), key=lambda item: item[0].count(".")):
            value = column.items[column.index[position]] if isinstance(column, Choice) else float(column[position])
            scenario = replaced(scenario, path, value)
    names = {"hardware": base.hardware.name, "model": base.model.name}
    for axis in axes:
        for label in axis.coordinates:
            if label.name in names:
                names[label.name] = label.values[corner.get(axis.name, 0)]
    rule = first_broken(job.rules(scenario))
    raise ValueError(
        f'{names["model"]} on {names["hardware"]}: {rule} (output.illegal = "mask" keeps such points as infeasible)'
    )


def _verdicts(question: Question, axes: tuple[Axis, ...]) -> xr.Dataset:
    if math.prod(axis.size for axis in axes) <= FEW:
        return one_by_one(question, axes, {})
    plan = Plan(question, axes)
    return fill(dataset(axes, plan.outputs, {}), plan.pieces())


def attributes(spec: Spec, base: Case) -> dict[str, Any]:
    """How the dataset was made: enough to make it again."""
    names = {key: list(values) for key, values in spec.objects.items()}
    records = {"efficiency": [base.efficiency.name]} | names
    return {
        "Conventions": "CF-1.11",
        "title": f"{spec.job} sweep of {', '.join(names['model'])} on {', '.join(names['hardware'])}",
        "source": f"jaxroof {VERSION}, jax {jax.__version__}",
        "jaxroof_version": VERSION,
        "job": spec.job,
        "mode": spec.mode,
        "spec": spec.text(),
        "spec_sha256": hashlib.sha256(spec.text().encode()).hexdigest(),
        "base_scenario_sha256": hashlib.sha256(repr(base.scenario).encode()).hexdigest(),
        "dtype": spec.dtype,
        "entries": ", ".join(f"{key}: {' | '.join(values)}" for key, values in records.items()),
        **({"seed": spec.seed, "method": spec.method} if spec.mode == "sample" else {}),
        "notes": " | ".join(base.notes),
    }
