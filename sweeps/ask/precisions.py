"""Precisions that a model needs of a device, and what the device runs weight-only for want of one."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import hwspaces
from jaxroof import batch
from jaxroof.deployment import Deployment
from jaxroof.deployment.deployment import PLACEMENTS
from jaxroof.hardware import Hardware
from jaxroof.jobs import Scenario
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.request import request_cost
from jaxroof.jobs.serve import Service
from jaxroof.jobs.step import StepWork
from jaxroof.memory.capacity import weight_bytes
from jaxroof.memory.placement import DEVICE, expert_bytes, placement, resident_share
from jaxroof.model import Model, WeightFormat
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel, Ops
from jaxroof.step.forward import as_run, converted_precisions
from jaxroof.step.placed import device_ops
from jaxroof.step.step import times_of


def compute_precisions(tree: Any) -> set[str]:
    """Precisions that the weight matrices of models and the attention of deployments are multiplied in."""
    if isinstance(tree, WeightFormat):
        return {tree.compute}
    if isinstance(tree, Deployment):
        return {tree.attention_compute}
    if isinstance(tree, tuple):
        # Structs are trees of structs and tuples: every weight format in them counts.
        return set().union(*map(compute_precisions, tree))
    if dataclasses.is_dataclass(tree):
        return set().union(*(compute_precisions(getattr(tree, field.name)) for field in dataclasses.fields(tree)))
    return set()


def lacking_precisions(hardware: Hardware, model: Model, deployment: Deployment) -> list[str]:
    """Precisions that the model and its attention need and the hardware lacks, but those that it does without."""
    # `as_run` puts fallbacks in their place first, so that only what no kernel converts is missing.
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


def placement_notes(scenario: Scenario) -> list[str]:
    """What of the weights stays on the chip, and what lies in which memory; none where a device has one memory."""
    hardware, model, deployment = scenario.hardware, scenario.model, scenario.deployment
    memory = hardware.memory
    notes: list[str] = []
    if not isinstance(scenario.workload, Requests | Service | StepWork):
        return notes
    if memory.on_chip is not None:
        with eager():
            share, stored = float(resident_share(hardware, model, deployment)), float(weight_bytes(model, deployment))
        notes.append(
            f"{share:.1%} of a device's {hwspaces.formatted(stored, 'B')} of weights stay in its on-chip memory of "
            f"{hwspaces.formatted(float(memory.on_chip.capacity), 'B')} and are not streamed"
        )
    if memory.beside is not None:
        with eager():
            place, experts = placement(hardware, model, deployment), float(expert_bytes(model, deployment))
        held = {"weights": place.weights} | ({"routed experts": place.experts} if experts else {})
        words = [f"{what} {_where(shares)}" for what, shares in held.items()]
        rooms = ", ".join(f"{hwspaces.formatted(float(room), 'B')} of {_memory(n)}" for n, room in place.rooms.items())
        best = _best_placement(scenario)
        notes.append(f"placement {deployment.placement}: {'; '.join(words)}; left for KV cache: {rooms}{best}")
    return notes


def _best_placement(scenario: Scenario) -> str:
    """Whether another way to fill the memories ends requests earlier, in words."""
    work, own = scenario.workload, scenario.deployment
    if not isinstance(work, Requests):
        return ""
    ends = {}
    with eager():
        for way in PLACEMENTS:
            deployment = dataclasses.replace(own, placement=way)
            cost = request_cost(scenario.hardware, scenario.model, deployment, work, scenario.efficiency)
            ends[way] = float(cost.e2e)
    best = min(PLACEMENTS, key=lambda way: (ends[way], way != own.placement))
    if best == own.placement:
        return "; the best of the placements"
    return f"; {best} would end requests {1.0 - ends[best] / ends[own.placement]:.1%} earlier"


def _where(shares: dict[str, Any]) -> str:
    lying = {name: float(share) for name, share in shares.items() if float(share) > 0.0005}
    return " and ".join(f"{share:.1%} in {_memory(name)}" for name, share in lying.items())


def _memory(name: str) -> str:
    return "device memory" if name == DEVICE else name


# Precisions of the KV cache: bytes of each, and the units that a device needs for some.


KV_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5 + 1.0 / 16.0}
"""B per cached key or value element, by the precision that engines store it at; fp4 with a scale per 16 (NVFP4)."""

CACHE_UNITS = {"fp4": "fp4"}
"""Precision of the KV cache -> the matrix units without which no kernel reads it. Bytes of fp8 and int8 are converted
on any device; keys and values of 4 bits with a scale per 16 (NVFP4) are made and read by instructions that devices with
fp4 units have. Source: NVIDIA, "Optimizing Inference for Long Context and Large Batch Sizes with NVFP4 KV Cache", 2025,
developer.nvidia.com: Blackwell."""


def lacking_cache(hardware: Hardware, kv: str) -> str | None:
    """The matrix unit that a KV cache of precision `kv` needs and the hardware lacks; None where it lacks none."""
    unit = CACHE_UNITS.get(kv)
    return unit if unit is not None and unit not in hardware.matrix else None


def require_cache(device: hwspaces.HardwareEntry, kv: str) -> None:
    """ValueError, one line, where no kernel of the device reads a KV cache of precision `kv`."""
    if lacking_cache(device.hardware, kv):
        allowed = ", ".join(name for name in KV_BYTES if not lacking_cache(device.hardware, name))
        raise ValueError(f"kv = {kv}: {device.name} has no {CACHE_UNITS[kv]} figure; its cache may be {allowed}")


def without_cache_units(devices: Sequence[tuple[str, hwspaces.HardwareEntry]], kv: str) -> dict[str, str]:
    """Devices, each beside the name that it was asked for by, that lack a unit for a KV cache of `kv`, and why."""
    return {
        device.name: f"no {CACHE_UNITS[kv]} figure for its KV cache"
        for _, device in devices
        if lacking_cache(device.hardware, kv)
    }


# One line where a cache of less than 16 bits makes decoding slower: some engines convert it on the way.


WIDE_BYTES = 2.0
"""B of a cached element that kernels take as it is."""

SLOWER = 1.01
"""Ratio of both times from which on it is said."""

SERVED = 64.0
"""Sequences that count as decoding at once where requests come over time; ours."""


def slower_cache(scenario: Scenario, work: tuple[float, float] | None = None) -> str | None:
    """The line, where decode attention of the scenario takes longer than it would with a cache of 16 bits; else None.

    Args:
      work: sequences that decode at once and tokens of each; None: those of the scenario's workload.
    """
    work = work or decoding(scenario)
    if work is None or float(scenario.deployment.kv_bytes) >= WIDE_BYTES:
        return None
    sequences, context = work
    # Both times in s, of the same work: with the deployment's cache and with one of 2 B per element.
    narrow, wide = (_attention_time(scenario, kv_bytes, *work) for kv_bytes in (None, WIDE_BYTES))
    if narrow <= SLOWER * wide:
        return None
    return (
        f"decode attention is slower with this cache than with one of 16 bits: {1e3 * narrow:.3g} against "
        f"{1e3 * wide:.3g} ms a step of {sequences:,.0f} sequences of {context:,.0f} tokens"
    )


def attention_note(scenario: Scenario) -> str | None:
    """The line on the precision of attention products beside a cache of 8 bits or fewer; None with a wider cache."""
    deployment = scenario.deployment
    if not scenario.model.generates or float(deployment.kv_bytes) >= WIDE_BYTES:
        return None
    if deployment.attention_compute == "fp8":
        return "attention is multiplied in fp8, as its cache is stored"
    words = f"attention is multiplied in {deployment.attention_compute}, to which kernels convert the narrower cache"
    return f"{words}; --attention fp8 multiplies it as it is"


def decoding(scenario: Scenario) -> tuple[float, float] | None:
    """Sequences that decode at once, and tokens of each; None where nothing decodes."""
    work = scenario.workload
    if isinstance(work, Requests):
        # Averaged over its output, a sequence has written half of it.
        return float(work.batch), float(work.isl + 0.5 * work.osl)
    if isinstance(work, StepWork) and work.decode is not None and work.context is not None:
        return float(work.decode), float(work.context)
    if isinstance(work, Service):
        # Requests that come over time have no batch: a usual number of sequences, and the mean over the traffic's
        # lengths.
        return SERVED, float(np.mean(np.asarray(work.traffic.isl) + 0.5 * np.asarray(work.traffic.osl)))
    return None


def _attention_time(scenario: Scenario, kv_bytes: float | None, sequences: float, context: float) -> float:
    """s of all decode attention of one step."""
    deployment = scenario.deployment
    if kv_bytes is not None:
        deployment = dataclasses.replace(deployment, kv_bytes=kv_bytes)
    work = batch.decode(sequences, context)
    with eager():
        ops = device_ops(scenario.hardware, scenario.model, deployment, work)
        # Only decode attention reads the cache, so the time of all other kernels is the same for both.
        own: Ops = {name: op for name, op in ops.items() if isinstance(op, Kernel) and op.kind == "decode_attention"}
        times = times_of(own, scenario.hardware, deployment, work, scenario.efficiency)
        return float(sum(times[name] for name in own))
