"""Measured calls as a benchmark's file lists them, before they are a grid: one row each, with where it stands."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hwspaces

LARGEST = 1e30
"""Of any figure in a file."""


@dataclasses.dataclass(frozen=True)
class KernelRows:
    """Calls of one kind of kernel that have the same labels."""

    kind: str  # a key of `hwspaces.performance.surface.AXES`
    precision: str
    labels: dict[str, float]  # as of a `SurfaceTable`
    axes: dict[str, np.ndarray]  # shape [rows] each
    seconds: np.ndarray  # shape [rows]
    lines: np.ndarray  # where a row stands in its file, counted from 1, the header not counted; shape [rows]
    file: str
    variant: str = ""  # end of the table's name: kernels of the same ops that are apart in a benchmark

    def __len__(self) -> int:
        return len(self.seconds)

    def chosen(self, rows: np.ndarray) -> "KernelRows":
        """Some of the rows: positions or a mask."""
        axes = {name: values[rows] for name, values in self.axes.items()}
        return dataclasses.replace(self, axes=axes, seconds=self.seconds[rows], lines=self.lines[rows])

    def place(self, row: int) -> str:
        """File, line and shape of one row, for messages."""
        shape = ", ".join(f"{name} {values[row]:g}" for name, values in self.axes.items())
        return f"{self.file}: row {self.lines[row]} ({shape})"


@dataclasses.dataclass(frozen=True)
class MeasuredFile:
    """Everything that one file says."""

    rows: tuple[KernelRows, ...]
    device: str  # as the file calls it
    provenance: dict[str, str]
    left_out: tuple[str, ...] = ()  # sentences: which rows are no table of ours, and how many


@dataclasses.dataclass(frozen=True)
class WantedRows:
    """Part of files that hold several devices and engines to import; None: the only one there is."""

    gpu: str | None = None
    engine: str | None = None
    version: str | None = None


def joined(parts: Sequence[KernelRows]) -> KernelRows:
    """Rows of one kernel and file that were listed apart, as one list; shapes that several of them have, by their mean.

    Such repeats are of one kernel under two names: 28 heads on one device, and 56 on two.
    """
    if len(parts) == 1:
        return parts[0]
    axes = {name: np.concatenate([part.axes[name] for part in parts]) for name in parts[0].axes}
    seconds, lines = (np.concatenate([getattr(part, name) for part in parts]) for name in ("seconds", "lines"))
    _, first, place = np.unique(np.stack(list(axes.values()), axis=1), axis=0, return_index=True, return_inverse=True)
    means = np.bincount(place.ravel(), weights=seconds) / np.bincount(place.ravel())
    own = dataclasses.replace(
        parts[0], axes={name: values[first] for name, values in axes.items()}, seconds=means, lines=lines[first]
    )
    return own.chosen(np.argsort(own.lines))


def listed(
    found: Any, kind: str, precision: str, labels: dict[str, float], columns: Mapping[str, str], path: Path
) -> KernelRows:
    """Rows of a pandas table with `latency_us`.

    Args:
      columns: axis of a table -> column.

    Raises:
      ValueError: file, row and column of the first value that is no number.
    """
    axes = {axis: numbers(found, column, path) for axis, column in columns.items()}
    # The column is in us; the table's index counts rows from 0, messages from 1.
    seconds = numbers(found, "latency_us", path) * 1e-6
    return KernelRows(kind, precision, labels, axes, seconds, found.index.to_numpy() + 1, str(path))


def counted(names: Any) -> list[str]:
    """Sentences about rows that are left out: how many of each name."""
    return [f"{count} rows of {name}" for name, count in names.value_counts().items()]


def header(path: Path) -> list[str]:
    """Columns that the first line of a csv file names; none where it cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().strip().split(",")
    except (OSError, UnicodeDecodeError):
        return []


def numbers(found: Any, column: str, path: Path) -> np.ndarray:
    """A column as floats.

    Raises:
      ValueError: file, row and column of the first value that is no number.
    """
    import pandas

    # Any other type goes through text, so that truth values and dates are refused rather than converted.
    texts = found[column] if found[column].dtype.kind in "iuf" else found[column].astype(str)
    values = pandas.to_numeric(texts, errors="coerce").astype(float)
    if values.isna().any():
        row = values.index[values.isna()][0]
        raise ValueError(f"{path}: row {row + 1}: {column} = {found[column][row]!r} is not a number")
    if (values.abs() > LARGEST).any():
        row = values.index[values.abs() > LARGEST][0]
        raise ValueError(f"{path}: row {row + 1}: {column} = {found[column][row]!r} must be at most {LARGEST:g}")
    return values.to_numpy(float)


def only(found: Any, column: str, wanted: str | None, flag: str, path: Path) -> tuple[Any, str]:
    """The rows with one value of `column`, and that value.

    Args:
      found: a pandas table.
      column: its column.
      wanted: the value; None: the only one there is.
      flag: that a user chooses it with, for messages.
      path: for messages.

    Raises:
      ValueError: there are several and none is chosen, or none is the chosen one; it names those there are.
    """
    there = sorted(map(str, found[column].unique()))
    if wanted is None and len(there) != 1:
        raise ValueError(f"{path}: it has several of {column}: choose one with {flag}: {', '.join(there)}")
    value = there[0] if wanted is None else wanted
    if value not in there:
        raise ValueError(f"{path}: {flag} {value} is not in it; it has {', '.join(there)}")
    return found[found[column].astype(str) == value], value


def of_device(found: Any, wanted: str | None, path: Path) -> tuple[Any, str]:
    """The rows of one device, and what the file calls it; `wanted` may be any of the device's names."""
    if wanted is not None:
        there = sorted(map(str, found["gpu"].unique()))
        # A file may call the device by another of its names: the catalogue tells which are the same.
        same = [name for name in there if wanted not in there and _catalogue_name(name) == _catalogue_name(wanted)]
        wanted = same[0] if same else wanted
    return only(found, "gpu", wanted, "--gpu", path)


def _catalogue_name(name: str) -> str:
    try:
        return hwspaces.hardware(name).name
    except ValueError:
        return name
