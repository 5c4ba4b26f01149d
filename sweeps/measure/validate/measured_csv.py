"""Rows of a CSV file of measurements, and numbers out of them, with messages that name file, row, column and value."""

import csv
import io
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hwspaces import document

LARGEST = 64 * 2**20
"""B of a file of measurements."""

MOST_VALUES = 5 * 10**6
"""Rows times columns of one."""

CsvRow = dict[str, str]
"""One line of the file: column -> text, empty where nothing was recorded."""


class LeftOut(NamedTuple):
    """A row that has no prediction, and why."""

    row: int  # line of the file
    name: str  # as the file identifies it, "" where it does not
    reason: str
    file: str = ""  # where several are read


def rows(path: str | Path, columns: Iterable[str]) -> list[CsvRow]:
    """Lines of the file in order, each text stripped.

    Args:
      path: a CSV file with one header line.
      columns: those that it must have; it may have more.

    Raises:
      ValueError: one line, when the file is missing, unreadable or without rows, or lacks a column.
    """
    try:
        reader = csv.DictReader(io.StringIO(document.text(path, LARGEST), newline=""))
        reader.fieldnames = header = [" ".join(name.split()) for name in reader.fieldnames or ()]
        lines = list(itertools.islice(reader, MOST_VALUES // max(len(header), 1) + 1))
    except csv.Error as error:
        raise ValueError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
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
    return [{column: (line.get(column) or "").strip() for column in header} for line in lines]


def number(row: CsvRow, column: str, where: str) -> float | None:
    """The finite number in `column`, None where the row has none.

    Raises:
      ValueError: one line that names `where` (file and row), column and value, when the text is no finite number.
    """
    text = row.get(column, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: {column} = {text!r} is not a finite number")
    return value


def numbers(row: CsvRow, columns: Iterable[str], where: str) -> dict[str, float]:
    """The numbers in `columns`, by column.

    Raises:
      ValueError: one line that names `where` (file and row) and the column, when one is empty or no finite number.
    """
    values = {column: number(row, column, where) for column in columns}
    for column, value in values.items():
        if value is None:
            raise ValueError(f"{where}: {column} is empty")
    return values
