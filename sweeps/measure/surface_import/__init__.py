"""Files of measured kernels from several benchmarks, as tables that an efficiency can be made from."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hwspaces
from hwspaces.performance.surface import SurfaceTable
from sweeps.measure.surface_import import aic, infersim, llmcompass
from sweeps.measure.surface_import.kernel_rows import KernelRows, MeasuredFile, WantedRows, joined
from sweeps.measure.surface_import.tables import Dropped, possible, table_of, without_duplicates
from sweeps.measure.validate.relative_errors import grouped

FORMATS = {"infersim": infersim, "aic": aic, "llmcompass": llmcompass}
"""Format -> the module that reads it: `recognised(path)` and `measured(path, wanted)`."""


@dataclasses.dataclass(frozen=True)
class Imported:
    """Content of imported files."""

    tables: tuple[SurfaceTable, ...]
    device: str  # its name in the catalogue
    provenance: dict[str, str]
    dropped: Dropped
    left_out: tuple[str, ...]  # sentences: which rows are no table of ours


def imported(
    files: Sequence[Path],
    format: str = "auto",
    wanted: WantedRows | None = None,
    drop: bool = False,
) -> Imported:
    """The tables of all files, of one device, engine and version.

    Args:
      files: to read, of one format each.
      format: a key of `FORMATS`, or auto: by the name, header and columns of each file.
      wanted: which device, engine and version, where files hold several.
      drop: leave out rows that are twice or impossible, and count them.

    Raises:
      ValueError: one line that names file, row and what is wrong: an unknown format, a device that the catalogue does
        not have, a missing column, a duplicate, a time below the datasheet's bound, two devices.
    """
    wanted = wanted or WantedRows()
    dropped, left, provenance, device = Dropped(), list[str](), dict[str, str](), None
    by_name: dict[str, SurfaceTable] = {}
    for path in files:
        part = _reader(path, format).measured(path, wanted)
        # The catalogue resolves names, so that two names of one device are not taken for two devices.
        entry = _device(part, path)
        if device not in (None, entry.name):
            raise ValueError(f"{path}: measured on {entry.name}, the files before on {device}: one device a file")
        device = entry.name
        # Provenance that differs between files is listed in one text, separated by semicolons.
        for key, value in part.provenance.items():
            provenance[key] = value if key not in provenance else _joined(provenance[key], value)
        left += [f"{path}: {sentence}" for sentence in part.left_out]
        # Rows that cannot be are sorted out first: a mean with a repeat would hide them.
        checked = [
            possible(without_duplicates(rows, drop, dropped), entry.hardware, drop, dropped) for rows in part.rows
        ]
        for name, parts in grouped([rows for rows in checked if len(rows)], table_name).items():
            if name in by_name:
                raise ValueError(f"{path}: {name} is in another of the files already")
            by_name[name] = table_of(joined(parts), name)
    if not by_name or device is None:
        reasons = "".join(f": {sentence.partition(': ')[2]}" for sentence in left[:1])
        raise ValueError(f"{', '.join(map(str, files))}: no row is of a kernel that can be imported{reasons}")
    return Imported(tuple(by_name.values()), device, provenance, dropped, tuple(left))


def table_name(rows: KernelRows) -> str:
    """Name of the table of these rows: kind, precision and labels."""
    labels = rows.labels
    words = [rows.kind, rows.precision]
    words += [name for name in ("scaled", "dequantised", "quantised", "latent") if labels.get(name)]
    if "kv_bytes" in labels:
        # Attention: bits of a cached element; heads, KV heads and width of a head; keys that are selected.
        sizes = [labels[each] for each in ("heads", "kv_heads", "head_dim") if each in labels]
        words += [f"kv{8 * labels['kv_bytes']:g}", "-".join(f"{size:g}" for size in sizes)]
        words += [f"top{labels['selected']:g}"] if "selected" in labels else []
    elif labels.get("dequantised"):
        # Products of converted weights: bits that are stored per weight, with its part of the scales.
        words.append(f"w{8 * labels['weight_bytes']:.3g}")
    if labels.get("up_projections", 2.0) != 2.0:
        words.append("ungated")
    words += [rows.variant] if rows.variant else []
    return "_".join(words)


def _reader(path: Path, format: str) -> Any:
    if format != "auto":
        if format not in FORMATS:
            raise ValueError(f"format {format!r} must be one of auto, {', '.join(FORMATS)}")
        return FORMATS[format]
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    for reader in FORMATS.values():
        if reader.recognised(path):
            return reader
    raise ValueError(f"{path}: its format is not recognised; choose one with --format: {', '.join(FORMATS)}")


def _device(part: MeasuredFile, path: Path) -> hwspaces.HardwareEntry:
    try:
        return hwspaces.hardware(part.device)
    except ValueError as error:
        raise ValueError(f"{path}: device {part.device!r}: {error}") from None


def _joined(first: str, second: str) -> str:
    return first if second in first.split("; ") else f"{first}; {second}"
