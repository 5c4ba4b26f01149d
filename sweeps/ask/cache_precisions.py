"""Precisions of the KV cache: bytes of each, and the units that a device needs for some."""

from collections.abc import Sequence

import hwspaces
from jaxroof.hardware import Hardware

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
