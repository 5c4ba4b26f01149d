"""The device that JAX sees, and the catalogue entry made of its measured figures."""

import os
import platform as host
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hwspaces import HardwareEntry, hardware
from jaxroof.numerics.arrays import jax

UNKNOWN_CACHE = 128e6
"""B; taken for a device whose last cache is unknown. No accelerator of 2025 has more."""


class Device(NamedTuple):
    """The first device of JAX's default platform, and its machine."""

    name: str
    platform: str
    count: int  # type: ignore[assignment]
    memory_bytes: float | None
    cache_bytes: float
    cores: int | None
    clock: float | None  # Hz
    versions: dict[str, str]  # of JAX, jaxlib, the driver and the platform's library, where known
    entry: HardwareEntry | None  # of the catalogue


class DeviceFigures(NamedTuple):
    """Measured figures of a device as a whole."""

    matrix: dict[str, float]  # FLOP/s of the fastest product by precision
    vector: float | None  # FLOP/s of float32 multiply-adds
    bandwidths: dict[str, float]  # B/s
    links: tuple[float, float] | None  # bus bandwidth in B/s and time of the smallest all-reduce in s


def seen_device(name: str | None = None) -> Device:
    """The device by JAX and the operating system; `name` is that of its catalogue entry, if not its own."""
    first = jax.devices()[0]
    entry = hardware(name) if name else _entry(first.device_kind)
    cpu = first.platform == "cpu"
    figures = entry.figures if entry else {}
    # A CPU is described by the operating system; an accelerator by its catalogue entry, then by what JAX says.
    return Device(
        name=_processor() if cpu else first.device_kind,
        platform=first.platform,
        count=len(jax.devices()),
        memory_bytes=_host_memory() if cpu else figures.get("memory.hbm.capacity", _device_memory(first)),
        cache_bytes=_host_cache() if cpu else figures.get("memory.l2.capacity", UNKNOWN_CACHE),
        cores=os.cpu_count() if cpu else getattr(first, "core_count", None),
        clock=_host_clock() if cpu else figures.get("cores.clock"),
        versions=_versions(first),
        entry=entry,
    )


def hardware_toml(device: Device, figures: DeviceFigures, date: str) -> str:
    """A file of the catalogue's schema: the device as it was measured.

    Raises:
      ValueError: when no product or no bandwidth was measured.
    """
    if not figures.matrix or "sequential_bandwidth" not in figures.bandwidths or figures.vector is None:
        raise ValueError("a hardware entry needs both gemm and bandwidth among what is measured")
    measured = f"measured by jaxroof bench on {date}"
    lines = [f"# {device.name}, {measured}.", "", f"[accelerator.{_key(device.name)}]"]
    lines += [f'product = "{_quoted(device.name)}"', f"date = {date}", f'source = "{measured}"']
    # Every figure has a source of its own, in a table at the end of the file.
    sources = {}
    for precision, rate in sorted(figures.matrix.items()):
        lines.append(f"matrix.{precision}_GFLOPs = {rate / 1e9:.6g}")
        sources[f"matrix.{precision}"] = f"{measured}: the fastest product that was timed"
    lines.append(f"vector.fp32_GFLOPs = {figures.vector / 1e9:.6g}")
    sources["vector.fp32"] = f"{measured}: a chain of multiply-adds on data in the cache"
    if device.cores is not None:
        lines.append(f"cores.count = {device.cores}")
        sources["cores.count"] = f"counted by jaxroof bench on {date}: what the operating system or the driver says"
    if device.clock is not None:
        lines.append(f"cores.clock_MHz = {device.clock / 1e6:.6g}")
        sources["cores.clock"] = f"read by jaxroof bench on {date}: what the operating system or the catalogue says"
    lines.append(f"memory.hbm.bandwidth_GBps = {figures.bandwidths['sequential_bandwidth'] / 1e9:.6g}")
    sources["memory.hbm.bandwidth"] = f"{measured}: reading an array larger than the caches in order"
    if device.memory_bytes is not None:
        lines.append(f"memory.hbm.capacity_GB = {device.memory_bytes / 1e9:.6g}")
        sources["memory.hbm.capacity"] = f"read by jaxroof bench on {date}: physical memory"
    if figures.links is not None:
        bandwidth, latency = figures.links
        lines.append(f"links.scale_up.bandwidth_GBps = {bandwidth / 1e9:.6g}")
        # A ring all-reduce over n devices has 2 (n - 1) steps, each of which takes one latency.
        lines.append(f"links.scale_up.latency_us = {latency * 1e6 / (2.0 * (device.count - 1)):.6g}")
        lines.append(f"links.scale_up.devices = {device.count}")
        sources["links.scale_up.bandwidth"] = f"{measured}: bus bandwidth of the largest all-reduce"
        sources["links.scale_up.latency"] = f"{measured}: the smallest all-reduce over the steps of a ring"
    lines += ["", f"[accelerator.{_key(device.name)}.sources]"]
    return "\n".join([*lines, *(f'{path} = "{text}"' for path, text in sources.items()), ""])


def _entry(kind: str) -> HardwareEntry | None:
    """The catalogue's entry of that name; None where it has none."""
    try:
        return hardware(kind)
    except ValueError:
        return None


def _versions(device: jax.Device) -> dict[str, str]:
    from jaxlib import version as jaxlib

    versions = {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "python": host.python_version()}
    runtime = getattr(device.client, "platform_version", None)
    if runtime:
        versions["platform_version"] = " ".join(str(runtime).split())
    # NVIDIA's kernel module states its version in this file.
    driver = Path("/proc/driver/nvidia/version")
    if device.platform != "cpu" and driver.is_file():
        match = re.search(r"Kernel Module\D*([\d.]+)", driver.read_text(encoding="utf-8", errors="replace"))
        versions["driver"] = match.group(1) if match else "unknown"
    return versions


def _processor() -> str:
    return _cpuinfo().get("model name") or host.processor() or host.machine() or "cpu"


def _cpuinfo() -> Mapping[str, str]:
    """Key -> text of the first processor; empty where the operating system has no such file."""
    path = Path("/proc/cpuinfo")
    # Processors are separated by empty lines; the first one stands for all of them.
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines() if path.is_file() else []
    return {key.strip(): text.strip() for key, _, text in (line.partition(":") for line in lines)}


def _host_clock() -> float | None:
    megahertz = _cpuinfo().get("cpu MHz")
    return float(megahertz) * 1e6 if megahertz else None


def _host_memory() -> float | None:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


def _host_cache() -> float:
    """B of the largest cache of the first processor."""
    units = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30}
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    # Sizes are texts such as 32768K. The largest level is what cold operands have to exceed.
    known = [float(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units]
    return max(known, default=32.0 * 2**20)


def _device_memory(device: jax.Device) -> float | None:
    """B that JAX may use, where it says so."""
    stats = device.memory_stats() or {}
    return float(stats["bytes_limit"]) if "bytes_limit" in stats else None


def _key(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "device"


def _quoted(text: str) -> str:
    return text.replace("\\", " ").replace('"', " ")
