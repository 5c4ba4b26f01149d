"""One reader of CSV files of measurements: rows, numbers out of them, and which rows were left out for which reason."""

import csv
import io
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hwspaces.files import document
from sweeps.measure.kernel_data.group import columns_of, table
from sweeps.measure.validate.relative_errors import grouped

LARGEST = 64 * 2**20
"""B of a file of measurements."""

MOST_VALUES = 5 * 10**6
"""Rows times columns of one."""

PARQUET = ".parquet"
"""Ending of files that are read as tables; all others are CSV."""

Item = TypeVar("Item")

Limit = tuple[float, str]
"""Least number that a cell may hold, and what it must be, in words."""

ANY: Limit = (-math.inf, "")
NOT_NEGATIVE: Limit = (0.0, "not be negative")
POSITIVE: Limit = (math.ulp(0.0), "be positive")


def at_least(least: float) -> Limit:
    """Numbers from `least` on."""
    return least, f"be at least {least:g}"


class BadCell(ValueError):
    """A cell that no file may have: the file is refused, where other errors of a row leave the row out."""


class CsvRow(dict[str, str]):
    """One line of a file: column -> text, empty where nothing was recorded."""

    def __init__(self, file: str | Path, line: int, cells: Mapping[str, str]):
        super().__init__(cells)
        self.file, self.line, self.where = str(file), line, f"{file}: row {line}"

    def number(self, column: str, limit: Limit = ANY) -> float | None:
        """The finite number in `column`, None where the row has none.

        Raises:
          BadCell: one line that names file, row, column and value, for other text and for a number that cannot be.
        """
        text = self.get(column, "")
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        # Text, NaN and infinities are refused alike: nothing measured is one of them.
        if not math.isfinite(value):
            raise BadCell(f"{self.where}: {column} = {text!r} is not a finite number")
        least, allowed = limit
        if value < least:
            raise BadCell(f"{self.where}: {column} = {text!r} must {allowed}")
        return value

    def numbers(self, columns: Iterable[str], limit: Limit = ANY) -> dict[str, float]:
        """The numbers in `columns`, by column; BadCell as of `number`, and where one is empty."""
        values = {column: self.number(column, limit) for column in columns}
        for column, value in values.items():
            if value is None:
                raise BadCell(f"{self.where}: {column} is empty")
        return {column: value for column, value in values.items() if value is not None}


class LeftOut(NamedTuple):
    """A row that has no prediction, and why."""

    row: int  # line of the file
    name: str  # as the file identifies it, "" where it does not
    reason: str
    file: str = ""  # where several are read


def by_reason(left: Iterable[LeftOut]) -> list[tuple[str, list[LeftOut]]]:
    """Every reason why rows were left out and its rows, the commonest first."""
    return sorted(grouped(left, lambda one: one.reason).items(), key=lambda pair: -len(pair[1]))


def records(
    rows: Iterable[CsvRow], read: Callable[[CsvRow], Item | None], name: str = ""
) -> tuple[list[Item], list[LeftOut]]:
    """What `read` makes of rows, and the rows that it refuses with a ValueError, with its words as the reason.

    Args:
      read: of one row; None where the row is of no interest.
      name: column that identifies a row.

    Raises:
      BadCell: of `read`.
    """
    items, left = [], []
    for row in rows:
        try:
            item = read(row)
        # A broken cell refuses the whole file; other reasons leave their row out. `BadCell` is a ValueError too, so it
        # comes first.
        except BadCell:
            raise
        except ValueError as reason:
            left.append(LeftOut(row.line, row.get(name, ""), str(reason), row.file))
        else:
            items += [] if item is None else [item]
    return items, left


def require_some(path: str | Path, found: Sequence[Any], left: Sequence[LeftOut]) -> None:
    """ValueError, one line, where all rows of a file are left out."""
    if not found:
        raise ValueError(f"{path}: none of {len(left)} rows can be predicted; row {left[0].row}: {left[0].reason}")


def header(path: str | Path) -> list[str]:
    """Names of the columns of a CSV or parquet file; ValueError of one line as `rows`."""
    if Path(path).suffix != PARQUET:
        return list(rows(path, ())[0])
    return columns_of(Path(path))


def rows(path: str | Path, columns: Iterable[str]) -> list[CsvRow]:
    """Lines of the file in order, each text stripped.

    Args:
      path: a CSV file with one header line, or a parquet file, whose rows count as lines from the second on.
      columns: those that it must have; it may have more.

    Raises:
      ValueError: one line, when the file is missing, unreadable or without rows, or lacks a column.
    """
    if Path(path).suffix == PARQUET:
        return [CsvRow(path, place, line) for place, line in enumerate(_cells(Path(path), columns), start=2)]
    try:
        reader = csv.DictReader(io.StringIO(document.text(path, LARGEST), newline=""))
        # Names of columns may have any white space around and inside them.
        reader.fieldnames = header = [" ".join(name.split()) for name in reader.fieldnames or ()]
        # One line beyond the limit tells that a file is longer, without reading all of it.
        lines = list(itertools.islice(reader, MOST_VALUES // max(len(header), 1) + 1))
    except csv.Error as error:
        raise ValueError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    # `DictReader` would keep the last of two columns with one name.
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: column {twice} is there twice")
    if len(lines) * len(header) > MOST_VALUES:
        raise ValueError(f"{path}: more than {MOST_VALUES:,} values in {len(header):,} columns; that many are read")
    missing = [column for column in columns if column not in header]
    if missing and header:
        raise ValueError(f"{path}: no column {', '.join(missing)}; it has {', '.join(header)}")
    if not lines:
        raise ValueError(f"{path}: no rows in it")
    cells = ({column: (line.get(column) or "").strip() for column in header} for line in lines)
    # The header is line 1.
    return [CsvRow(path, place, line) for place, line in enumerate(cells, start=2)]


def _cells(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """Rows of a parquet file as texts, empty where nothing was recorded."""
    frame = table(path, tuple(columns))
    if frame.size > MOST_VALUES:
        raise ValueError(f"{path}: more than {MOST_VALUES:,} values in {frame.shape[1]:,} columns; that many are read")
    texts = {name: frame[name].astype(str).where(frame[name].notna(), "").tolist() for name in frame.columns}
    return [dict(zip(texts, line, strict=True)) for line in zip(*texts.values(), strict=True)]
