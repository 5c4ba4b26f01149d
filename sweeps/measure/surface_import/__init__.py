"""Files of measured kernels from several benchmarks, as tables that an efficiency can be made from."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hwspaces
from hwspaces.performance.surface import SurfaceTable
from sweeps.measure.surface_import import aic, infersim, llmcompass
from sweeps.measure.surface_import.complete_grid import Dropped, possible, tables
from sweeps.measure.surface_import.kernel_rows import KernelRows, MeasuredFile, WantedRows, joined
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
    holes: str = "refuse",
) -> Imported:
    """The tables of all files, of one device, engine and version.

    Args:
      files: to read, of one format each.
      format: a key of `FORMATS`, or auto: by the name, header and columns of each file.
      wanted: which device, engine and version, where files hold several.
      drop: leave out rows that are twice, impossible or beyond a complete grid, and count them.
      holes: what happens to shapes of a grid that were not measured: "refuse", an error; "drop", the largest complete
        part stays, as with refuse where `drop` is set; "keep", they stay missing.

    Raises:
      ValueError: one line that names file, row and what is wrong: an unknown format, a device that the catalogue does
        not have, a missing column, a duplicate, a time below the datasheet's bound, a hole, two devices.
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
        for rows in _merged(part.rows):
            # Impossible times are sorted out before the grid is laid, where they would otherwise be nodes.
            rows = possible(rows, entry.hardware, drop, dropped)
            if not len(rows):
                continue
            name = table_name(rows)
            # Where rows may be dropped, holes shrink the grid unless the caller keeps them.
            for table in tables(rows, drop, "drop" if drop and holes == "refuse" else holes, dropped, name):
                if table.name in by_name:
                    raise ValueError(f"{path}: {table.name} is in another of the files already")
                by_name[table.name] = table
    if not by_name or device is None:
        raise ValueError(f"{', '.join(map(str, files))}: no row is of a kernel that can be imported")
    return Imported(tuple(by_name.values()), device, provenance, dropped, tuple(left))


def table_name(rows: KernelRows) -> str:
    """Name of the table of these rows: kind, precision and labels."""
    labels = rows.labels
    words = [rows.kind, rows.precision]
    words += [name for name in ("scaled", "dequantised", "quantised") if labels.get(name)]
    if "heads" in labels:
        # Attention: bits of a cached element; heads, KV heads and width of a head.
        words += [f"kv{8 * labels['kv_bytes']:g}", f"{labels['heads']:g}-{labels['kv_heads']:g}-{labels['head_dim']:g}"]
    elif labels.get("dequantised"):
        # Products of converted weights: bits that are stored per weight, with its part of the scales.
        words.append(f"w{8 * labels['weight_bytes']:.3g}")
    return "_".join(words)


def _merged(rows: Sequence[KernelRows]) -> list[KernelRows]:
    """Rows of the same kernel together: a file may have them under two names, which makes some of them duplicates."""
    return [parts[0] if len(parts) == 1 else joined(parts) for parts in grouped(rows, table_name).values()]


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
