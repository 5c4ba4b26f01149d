"""Precisions that a model needs of a device, and what the device runs weight-only for want of one."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import hwspaces
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.model import Model, WeightFormat
from jaxroof.step.forward import as_run, converted_precisions


def compute_precisions(tree: Any) -> set[str]:
    """Precisions that the weight matrices of models and the attention of deployments are multiplied in."""
    if isinstance(tree, WeightFormat):
        return {tree.compute}
    if isinstance(tree, Deployment):
        return {tree.attention_compute}
    if isinstance(tree, tuple):
        return set().union(*map(compute_precisions, tree))
    if dataclasses.is_dataclass(tree):
        return set().union(*(compute_precisions(getattr(tree, field.name)) for field in dataclasses.fields(tree)))
    return set()


def lacking_precisions(hardware: Hardware, model: Model, deployment: Deployment) -> list[str]:
    """Precisions that the model and its attention need and the hardware lacks, but those that it does without."""
    return sorted(compute_precisions((as_run(model, hardware), deployment)) - set(hardware.matrix))


Named = tuple[str, hwspaces.HardwareEntry]
"""An accelerator, and the name it was asked for by."""


def sorted_out(entries: Iterable[Named], model: Model, deployment: Deployment) -> tuple[list[Named], dict[str, str]]:
    """Accelerators that run a model, and what the others lack."""
    runnable, lacking = [], {}
    for name, device in entries:
        missing = lacking_precisions(device.hardware, model, deployment)
        if missing:
            has = ", ".join(device.hardware.matrix)
            lacking[device.name] = f"no matrix peak for {' and '.join(missing)}; it has {has}"
        else:
            runnable.append((name, device))
    return runnable, lacking


def device_notes(device: hwspaces.HardwareEntry, model: Model) -> list[str]:
    """What to say aloud of one device of several: what it runs weight-only, and which figures only the press gives."""
    return [*weight_only_notes(device, model), *(f"{device.name}: {text}" for text in device.press)]


def weight_only_notes(device: hwspaces.HardwareEntry, model: Model) -> list[str]:
    """What is run weight-only on a device for want of a precision, as a note to say aloud."""
    return [
        f"{device.name} does not multiply {lacking}: {lacking} weights stay stored as they are and the kernel converts "
        f"them to {taken} (weight-only, as vLLM and SGLang do by Marlin on NVIDIA)"
        for lacking, taken in converted_precisions(model, device.hardware)
    ]
