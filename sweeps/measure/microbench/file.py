"""Files of a benchmark: its surfaces with their provenance, and the device as a hardware entry."""

import datetime
import os
from collections.abc import Iterable, Sequence

from hwspaces.files.output import saved_text
from hwspaces.performance.surface import SurfaceTable, write_surfaces
from sweeps.measure.microbench.device import Device, hardware_toml
from sweeps.measure.microbench.run import BenchRequest, BenchResult


def written(
    path: str,
    asked: BenchRequest,
    device: Device,
    bench_result: BenchResult,
    command: str,
    hardware: str | None = None,
    force: bool = False,
) -> None:
    """Write what was measured.

    Args:
      path: the file of surfaces.
      asked, device, found: the benchmark, what it ran on, and its result.
      command: that was called, which the file repeats.
      hardware: where the device is written as a hardware entry, if anywhere.
      force: replace files that jaxroof did not write.

    Raises:
      ValueError: one line, for a figure that was not measured, or a file that must not or cannot be written.
    """
    date = datetime.date.today().isoformat()
    # A figure that is missing raises here, before any file is written.
    toml = hardware_toml(device, bench_result.figures, date) if hardware else None
    stored, beside = _stored(bench_result.tables)
    provenance = _provenance(asked, device, bench_result, date, command, hardware) | beside
    write_surfaces(path, stored, provenance, bench_result.figures.bandwidths, force)
    if hardware and toml is not None:
        saved_text(hardware, "hardware", toml, force)


def _provenance(
    asked: BenchRequest, device: Device, bench_result: BenchResult, date: str, command: str, hardware: str | None
) -> dict[str, str]:
    """What a file says of its origin; `device` is what an efficiency looks up: a catalogue's name, an entry's file."""
    entry = device.entry.name if device.entry else None
    lookup = entry or (os.path.abspath(hardware) if hardware else device.name)
    spreads = {f"{name}_spread": f"{spread:.4f}" for name, spread in bench_result.spreads.items()}
    kernels = {f"{name}_implementation": text for name, text in bench_result.implementations.items()}
    # Collectives are no surface of a kernel: their sizes and times are stored as text.
    messages = {}
    for name in sorted({message.name for message in bench_result.collectives}):
        own = [message for message in bench_result.collectives if message.name == name]
        messages[f"{name}_seconds"] = _pairs([m.bytes for m in own], [m.measurement.seconds for m in own])
    return {
        "title": f"kernels measured on {device.name}",
        "device": lookup,
        "device_kind": device.name,
        "platform": device.platform,
        "devices": str(device.count),
        **device.versions,
        "date": date,
        "command": command,
        "seed": str(asked.seed),
        "repeats": "5 samples (3 of a long kernel) or 80 ms of samples per shape; a time is their fastest tenth",
        "measures": "device time of one call among several in one compiled program, dispatch taken off; weights and "
        "caches cold, activations warm",
        "dispatch": f"{bench_result.dispatch:.4g} s per program beside its calls, not in the times",
        **spreads,
        **kernels,
        **messages,
    }


def _stored(tables: Sequence[SurfaceTable]) -> tuple[tuple[SurfaceTable, ...], dict[str, str]]:
    """The tables of a file, and others as attributes: only one of them can price element-wise ops, norms the best."""
    beside = {}
    # Copies and norms are both tables of element-wise ops over bytes: one goes into the file as a surface.
    if any(table.name.startswith("elementwise") for table in tables):
        beside = {
            f"{table.name}_seconds": _pairs(table.axes["bytes"], table.seconds)
            for table in tables
            if table.name.startswith("copy")
        }
    return tuple(table for table in tables if f"{table.name}_seconds" not in beside), beside


def _pairs(sizes: Iterable[float], seconds: Iterable[float]) -> str:
    """Sizes in B and times in s as text."""
    return " ".join(f"{size:.0f}:{time:.4g}" for size, time in zip(sizes, seconds, strict=True))
