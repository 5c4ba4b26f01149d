"""Measured calls of one kind on one device, and what an efficiency says they take."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hwspaces.files import document
from hwspaces.files.extras import installing
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware, on_host
from jaxroof.numerics.arrays import eager
from jaxroof.op import AnyOp
from jaxroof.roofline import op_deviation, op_time
from workloads.traces.table import LONGEST_ROW, lines

Columns = Mapping[str, Any]
"""Numbers of one call by the name of their column: scalars of one row, or arrays of shape [rows]."""

Call = Callable[[Columns], tuple[AnyOp, ...]]
"""The ops that one call runs, from its numbers."""

CHUNK = 1 << 13
"""Rows that are priced at once: columns whose intermediate numbers stay in a cache."""


@dataclasses.dataclass(frozen=True)
class HostLaunches:
    """A benchmark whose host launches kernels one by one: it takes no less than the host does."""

    time: float  # s of the host per kernel
    more: float = 0.0  # kernels beside those of the ops
    above: float = 0.0  # sequences of a batch up to which kernels are replayed from a graph all the same

    def seconds(self, ops: Sequence[AnyOp], columns: Columns, hardware: Hardware) -> Any:
        """s that the host takes, shape [rows]; 0 where it launches nothing."""
        kernels = sum(op.count * op.kernels for op in ops) + self.more
        return np.where(columns["batch_size"] > self.above, on_host(self.time * kernels, hardware), 0.0)


@dataclasses.dataclass(frozen=True)
class KernelGroup:
    """Rows whose ops are of one structure: one kind, precision, engine, version, kernel and device."""

    family: str  # "GEMM", "prefill attention", ...
    precision: str  # as the table says it
    engine: str
    version: str  # of the engine
    kernel: str  # what the engine calls the kernel
    device: str  # a name of the catalogue
    call: Call
    columns: dict[str, np.ndarray]  # shape [rows] each
    seconds: np.ndarray  # measured, shape [rows]
    table: str | None = None  # of rows that are whole blocks of many ops: its name
    host: HostLaunches | None = None  # None: kernels are replayed from a graph, or are one

    def __len__(self) -> int:
        return len(self.seconds)

    def chosen(self, rows: np.ndarray) -> "KernelGroup":
        """Some of the rows: positions or a mask."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return dataclasses.replace(self, columns=columns, seconds=self.seconds[rows])


def predicted(group: KernelGroup, hardware: Hardware, efficiency: Efficiency) -> tuple[np.ndarray, np.ndarray]:
    """Time and standard deviation in s of every row, chunk by chunk on NumPy; the ops of one call err alike."""
    figures = np.empty((2, len(group)))
    with eager():
        for start in range(0, len(group), CHUNK):
            part = slice(start, start + CHUNK)
            columns = {name: column[part] for name, column in group.columns.items()}
            ops = group.call(columns)
            times = sum(op.count * op_time(op, hardware, efficiency) for op in ops)
            least = 0.0 if group.host is None else group.host.seconds(ops, columns, hardware)
            figures[0, part] = np.maximum(times, least)
            figures[1, part] = sum(op.count * op_deviation(op, hardware, efficiency) for op in ops)
    return figures[0], figures[1]


LARGEST = 2 * 2**30
"""B of a file that is read."""

MOST_VALUES = 10**8
"""Rows times columns. A parquet file packs a million equal ones into a few bytes."""

MOST_COLUMNS = 1_000
"""Columns of a file."""


def _require_believable(path: Path) -> None:
    """ValueError for a file of more values than are read, or of rows that take the parser minutes."""
    # A csv has to be counted line by line; a parquet file states both numbers in its metadata.
    if path.suffix == ".csv":
        rows = lines(str(path), LARGEST, LONGEST_ROW)
        columns = next(rows, "").count(",") + 1
        count = sum(1 for _ in rows)
    else:
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        columns, count = metadata.num_columns, metadata.num_rows
    if columns > MOST_COLUMNS:
        raise ValueError(f"it has {columns:,} columns; at most {MOST_COLUMNS:,} are read")
    if columns * count > MOST_VALUES:
        raise ValueError(f"it has {columns * count:,} values; at most {MOST_VALUES:,} are read")


def table(path: Path, columns: tuple[str, ...]) -> Any:
    """A parquet or csv file as a pandas table.

    Raises:
      ValueError: one line: the file is missing or unreadable, a column is missing, or pandas and pyarrow are.
    """
    try:
        import pandas
    except ImportError:
        raise ValueError(f"{path}: reading it needs pandas and pyarrow: {installing('validate')}") from None
    document.require_file(path, LARGEST)
    try:
        _require_believable(path)
        frame = pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)
    except Exception as error:  # of pandas and pyarrow, whatever a damaged file makes of them
        raise ValueError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    # Where rows have more cells than the header, pandas makes the first columns an index instead of failing.
    if path.suffix == ".csv" and not isinstance(frame.index, pandas.RangeIndex):
        raise ValueError(f"{path}: its rows have more values than there are columns")
    frame.columns = [" ".join(str(name).split()) for name in frame.columns]
    require_columns(frame, columns, path)
    return frame


def columns_of(path: Path) -> list[str]:
    """Names of a parquet file's columns, without its rows; ValueError of one line as `table`."""
    document.require_file(path, LARGEST)
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path}: reading it needs pandas and pyarrow: {installing('validate')}") from None
    try:
        return [" ".join(name.split()) for name in parquet.read_schema(path).names]
    except Exception as error:  # of pyarrow, whatever a damaged file makes of it
        raise ValueError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None


def require_columns(frame: Any, columns: tuple[str, ...], path: Path) -> None:
    """ValueError that names the first of `columns` that the table lacks."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"{path}: column {missing[0]} is missing; it has {', '.join(map(str, frame.columns))}")


def groups(
    frame: Any, family: str, labels: Mapping[str, str], numbers: tuple[str, ...], call: Callable[..., Call | None]
) -> list[KernelGroup]:
    """The rows of `frame` by device, engine, version, kernel and the columns that decide structure.

    Args:
      frame: a pandas table with gpu, backend, version, kernel_source and latency_us.
      family: its name.
      labels: columns that decide structure -> how a precision's label names their values ("{}" where they stand).
      numbers: columns that become numbers of a call.
      call: the ops of a row, from the values of `labels` by keyword; None where the kind is not modelled.
        It returns the same function for the same values.
    """
    keys = ["gpu", "backend", "version", "kernel_source", *labels]
    kernel_groups = []
    for values, rows in frame.groupby(keys, sort=True, observed=True):
        named = dict(zip(keys, values, strict=True))
        kinds = {name: named[name] for name in labels}
        function = call(**kinds)
        # A structure that is not modelled has no op, and its rows are left out.
        if function is None:
            continue
        precision = " ".join(text.format(kinds[name]) for name, text in labels.items() if text).strip()
        kernel_groups.append(
            KernelGroup(
                family=family,
                precision=precision,
                engine=str(named["backend"]),
                version=str(named["version"]),
                kernel=str(named["kernel_source"]),
                device=str(named["gpu"]),
                call=function,
                columns={name: rows[name].to_numpy(float) for name in numbers},
                # The tables' times are in us.
                seconds=rows["latency_us"].to_numpy(float) * 1e-6,
            )
        )
    return kernel_groups
