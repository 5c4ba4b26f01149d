"""Axes over whole structs: accelerators, models, precisions, efficiencies and deployments, labelled by their names."""

import dataclasses
import itertools
from typing import Any

import numpy as np

import hwspaces
import workloads
from jaxroof.model import Model
from jaxroof.step.forward import without_fallbacks
from sweeps.ask.axes import Axis, Choice, Coordinate, number, replaced
from sweeps.ask.cases import KV_BYTES, Case, cache_precision, deployment_of, device_named, require_precisions, under
from sweeps.ask.deployments import label as deployment_label
from sweeps.ask.deployments import with_draft, with_settings
from sweeps.ask.engines import Chosen, chosen, with_host
from sweeps.ask.laws import with_hardware_laws
from sweeps.ask.leaves import leaf_number
from sweeps.ask.names import MODEL
from sweeps.ask.precisions import require_cache, weight_only_notes
from sweeps.ask.spec import AxisRange, Spec

MEANINGS = {
    "hardware": "accelerator",
    "model": MODEL,
    "weights": "precision of the weights",
    "kv": "precision of the KV cache",
    "efficiency": "efficiency constants",
}
"""Axis -> its long name."""


def first_value(values: tuple[Any, ...] | AxisRange) -> Any:
    """The value that an axis starts from."""
    return values.low if isinstance(values, AxisRange) else values[0]


def object_axis(key: str, names: tuple[str, ...], spec: Spec, base: Case) -> tuple[Axis, list[str]]:
    """An axis over whole structs, labelled by their names."""
    columns: dict[str, Any] = {}
    said: list[tuple[str, str]] = []  # name, and a note on it
    index = np.arange(len(names))
    if key == "hardware":
        # Accelerators: each has to multiply the precisions of the model and to read its cache.
        devices = devices_named(spec)
        for device in devices:
            require_precisions(device, base.model, base.scenario.deployment)
            require_cache(device, base.kv)
            said += [(device.name, assumption) for assumption in device.assumptions]
            weight_only = weight_only_notes(device, base.model.model)
            said += [(device.name, note) for note in weight_only if note not in base.notes]
        lawful = tuple(with_hardware_laws(device.hardware, spec.laws) for device in devices)
        columns["hardware"] = Choice(lawful, index)
        columns |= _step_columns(devices, spec, base)
        names = tuple(device.name for device in devices)
    elif key in ("model", "weights"):
        # Several models, or one model at several precisions of its weights.
        own = [(name, spec.words.weights) if key == "model" else (spec.words.model, name) for name in names]
        entries = [workloads.model(name, weights=weights) for name, weights in own]
        entries = [with_draft(entry, spec.words.draft) for entry in entries]
        # Kernels do not convert weights that are trained; with LoRA the frozen ones may stay converted.
        if spec.job == "train" and base.scenario.workload.lora is None:
            entries = [dataclasses.replace(entry, model=without_fallbacks(entry.model)) for entry in entries]
        deployments = []
        for entry in entries:
            # The engine picks precisions by the weights, so that each model has a deployment of its own.
            deployments.append(deployment_of(entry, spec.words, _served(spec, base)))
            for device in devices_named(spec):
                require_precisions(device, entry, deployments[-1])
                require_cache(device, cache_precision(entry, spec.words.kv, _served(spec, base)))
            first = f"weights {entry.precision} (from {entry.precision_source})"
            said += [(entry.name, note) for note in (first, *entry.notes)]
        # Degrees and other settings of the specification are the same for every model.
        deployments = [with_settings(deployment, _spread(spec)) for deployment in deployments]
        models = _with_settings("model", [entry.model for entry in entries], spec)
        columns["model"] = Choice(tuple(models), index)
        columns |= _differing(deployments, index)
        columns |= _host_columns(models, spec, base)
        if key == "model":
            names = tuple(entry.name for entry in entries)
    elif key == "kv":
        # Precisions of the KV cache: bytes per element vary, and with some engines the precision of attention.
        caches = [dataclasses.replace(spec.words, kv=name) for name in names]
        named_deployments = [deployment_of(base.model, words, _served(spec, base)) for words in caches]
        for (name, deployment), device in itertools.product(
            zip(names, named_deployments, strict=True), devices_named(spec)
        ):
            require_cache(device, name)
            require_precisions(device, base.model, deployment)
        engine, others = _served(spec, base), ("model", "weights", "efficiency")
        if any(len(spec.objects.get(other, ())) > 1 for other in others):  # whose deployments are at the first cache
            if engine is not None and engine.precisions.attention == "cache" and "fp8" in names:
                said = [("kv", f"attention is computed in what it is with {names[0]}, whichever the cache")]
        # Attention in another precision is structure: whole deployments vary, not just a number.
        elif len({one.attention_compute for one in named_deployments}) > 1:
            columns |= _differing([with_settings(deployment, _spread(spec)) for deployment in named_deployments], index)
        columns["deployment.kv_bytes"] = np.array([KV_BYTES[name] for name in names])
    else:
        # Constants: each brings its engine, whose precisions may differ.
        engines = [chosen(spec.words.engine, name) for name in names]
        named_deployments = [
            deployment_of(base.model, spec.words, None if spec.job == "train" else of.engine) for of in engines
        ]
        columns |= _differing([with_settings(deployment, _spread(spec)) for deployment in named_deployments], index)
        constants = [of.constants.efficiency for of in engines]
        # Host times come on top of each engine's constants when it serves.
        if spec.job != "train":
            place = base.hardware.vendor, base.hardware.hardware, base.model.model, base.scenario.deployment
            constants = [with_host(of, one, *place) for of, one in zip(engines, constants, strict=True)]
        columns["efficiency"] = Choice(tuple(_with_settings("efficiency", constants, spec)), index)
    # Two spellings of one entry would give two positions one label.
    if len(set(names)) < len(names):
        raise ValueError(f"{key}: two of the names stand for the same entry: {', '.join(names)}")
    label = Coordinate(key, np.array(names, object), "", MEANINGS[key])
    return Axis(key, len(names), columns, (label,)), _by_note(said)


def _by_note(said: list[tuple[str, str]]) -> list[str]:
    """Every note once, after the names that it is on."""
    names: dict[str, list[str]] = {}
    for name, note in said:
        if name not in names.setdefault(note, []):
            names[note].append(name)
    return [f"{', '.join(whose)}: {note}" for note, whose in names.items()]


def deployment_axis(spec: Spec, base: Case, axes: list[Axis]) -> Axis:
    """An axis over whole deployments, labelled by what sets each apart."""
    for axis in axes:
        if "deployment" in axis.columns or "deployment.kv_bytes" in axis.columns:
            raise ValueError(f"{axis.name} and deployments both set the precision of the KV cache: list one of them")
    plain = deployment_of(base.model, spec.words, _served(spec, base))
    structs = tuple(with_settings(plain, _spread(spec) | dict(settings)) for settings in spec.deployments)
    computing = {struct.attention_compute: struct for struct in structs}  # all that a deployment adds to precisions
    for struct, device in itertools.product(computing.values(), devices_named(spec)):
        require_precisions(device, base.model, struct)
    names = [deployment_label(settings) for settings in spec.deployments]
    if len(set(names)) < len(names):
        raise ValueError(f"deployments: two are the same: {', '.join(names)}")
    label = Coordinate("deployment", np.array(names, object), "", "deployment")
    return Axis("deployment", len(names), {"deployment": Choice(structs, np.arange(len(names)))}, (label,))


def _served(spec: Spec, base: Case) -> hwspaces.EngineEntry | None:
    """The engine whose rules deployments follow; None where a model is trained."""
    return None if spec.job == "train" else base.engine


def _differing(deployments: list[Any], index: np.ndarray) -> dict[str, Any]:
    """The column of deployments along an axis, where they differ."""
    return (
        {} if all(one == deployments[0] for one in deployments) else {"deployment": Choice(tuple(deployments), index)}
    )


def _host_columns(models: list[Model], spec: Spec, base: Case) -> dict[str, Any]:
    """The column of what the host adds to a request of every model along an axis, where it differs."""
    path = "efficiency.host.request_time"
    # A time that the user fixes holds for every model.
    if spec.job == "train" or path in spec.fixed:
        return {}
    of = Chosen(base.engine, base.efficiency)
    place = base.hardware.vendor, base.hardware.hardware
    constants = base.efficiency.efficiency
    times = [with_host(of, constants, *place, model, base.scenario.deployment).host.request_time for model in models]
    return {} if len(set(times)) == 1 else {path: np.array(times)}


def _step_columns(devices: list[hwspaces.HardwareEntry], spec: Spec, base: Case) -> dict[str, Any]:
    """The column of what the host adds to a step on every accelerator along an axis, where it differs."""
    path = "efficiency.host.step_time"
    if _served(spec, base) is None or path in spec.fixed or len(spec.objects.get("efficiency", ())) > 1:
        return {}
    of, constants = Chosen(base.engine, base.efficiency), base.efficiency.efficiency
    place = base.model.model, base.scenario.deployment
    each = [with_host(of, constants, device.vendor, device.hardware, *place).host.step_time for device in devices]
    return {} if len(set(each)) == 1 else {path: np.array(each)}


def _spread(spec: Spec) -> dict[str, Any]:
    """Settings of the deployment that the specification fixes, and where its axes over them start, by name."""
    return under(spec.fixed | {path: first_value(values) for path, values in spec.axes.items()}, "deployment")


def devices_named(spec: Spec) -> list[hwspaces.HardwareEntry]:
    """Every accelerator at the specification's prices, with the single figures that it sets."""
    return [device_named(name, spec.words.prices, spec.fixed) for name in spec.objects["hardware"]]


def _with_settings(root: str, structs: list[Any], spec: Spec) -> list[Any]:
    """Every struct with the single values that the specification sets below `root`."""
    for path, value in spec.fixed.items():
        if path.startswith(f"{root}."):
            # Models may differ in structure: the path has to be a number in each.
            for struct in structs:
                number({root: struct}, path)
            structs = [replaced({root: struct}, path, leaf_number(path, value))[root] for struct in structs]
    return structs
