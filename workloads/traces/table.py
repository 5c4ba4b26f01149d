"""CSV files of traces: columns as checked arrays, read in pieces, with the line of every row for messages."""

import csv
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from hwspaces.files import document
from workloads.streams.kinds import nearest
from workloads.streams.stream import MOST_REQUESTS

LARGEST_FILE = 2 * 2**30
"""B of a file of rows; a week of Azure's requests is 1.2 GB."""

LONGEST_ROW = 1 << 16
"""Characters of a row of a CSV file."""

PIECE = 1 << 16
"""Rows that are text at one time."""

LARGEST_OFFSET = 14
"""Hours that a place's time may differ from UTC: Kiribati's are +14:00."""

_TIME = re.compile(r"((?:19[7-9]|20\d|21\d)\d-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:Z|([+-])(\d\d):?(\d\d))?")


@dataclasses.dataclass(frozen=True)
class Column:
    """Reading of the values of one column."""

    convert: Callable[[Sequence[str]], np.ndarray]  # raises ValueError, or gives nan, for values that are wrong
    allowed: str


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns of a CSV file that were asked for. Arrays of shape [rows]."""

    file: str
    header: tuple[str, ...]
    columns: dict[str, np.ndarray]
    lines: np.ndarray  # as an editor counts them, from 1

    def place(self, row: int) -> str:
        """Place of a row, for messages."""
        return f"{self.file}: row {self.lines[row]}"

    def unused(self) -> tuple[str, ...]:
        """A note that names the columns that were not asked for, if there are any."""
        names = [name for name in self.header if name not in self.columns]
        return (f"columns not used: {', '.join(names)}",) if names else ()


def table(
    file: str, wanted: dict[str, Column], optional: Iterable[str] = (), header: Sequence[str] | None = None
) -> Table:
    """The columns `wanted` of a CSV file.

    Args:
      file: path.
      wanted: how to read each column.
      optional: columns among them that may be missing.
      header: names of the columns of a file that has no line of names.

    Raises:
      ValueError: one line: a file that is missing, unreadable or too large, a column that is missing with those there
        are, a row that is too short or long, or a value with its row, column and what is allowed.
    """
    rows = _read(file)
    # White space inside of names is reduced to single spaces, as in the names that callers ask for.
    names = tuple(" ".join(name.split()) for name in (header or next(rows, (0, ()))[1]))
    places = _places(file, names, wanted, set(optional))
    parts: dict[str, list[np.ndarray]] = {name: [] for name in places}
    line_numbers: list[np.ndarray] = []
    rows = _full(rows, file, len(names))
    # Only one piece is text at a time; as arrays the columns take less memory.
    while piece := list(itertools.islice(rows, PIECE)):
        numbers = np.array([line for line, _ in piece])
        for name, place in places.items():
            values = [row[place] for _, row in piece]
            parts[name].append(_converted(values, wanted[name], file, name, numbers))
        line_numbers.append(numbers)
        if sum(map(len, line_numbers)) > MOST_REQUESTS:
            raise ValueError(f"{file}: more than {MOST_REQUESTS} rows, the most that are read")
    if not line_numbers:
        raise ValueError(f"{file}: there are no rows in it")
    columns = {name: np.concatenate(part) for name, part in parts.items()}
    return Table(file, names, columns, np.concatenate(line_numbers))


def header_of(file: str) -> tuple[str, ...]:
    """The names in the first line of a CSV file, none where it is no CSV; ValueError for a file that is no text."""
    # Only the first line is read, as formats are told apart by it.
    first = next(lines(file, LARGEST_FILE, LONGEST_ROW), "")
    try:
        return tuple(" ".join(name.split()) for name in next(csv.reader([first]), ()))
    except csv.Error:
        return ()


def lines(file: str, largest: int, longest: int) -> Iterator[str]:
    """The lines of a text file in UTF-8, with their ends.

    Args:
      file: path.
      largest: B that it may have.
      longest: characters that a line may have.

    Raises:
      ValueError: one line: a file that is missing, no regular file, too large or no text, or a line that is too long.
    """
    document.require_file(file, largest)
    try:
        with open(file, encoding="utf-8-sig", newline="") as text:
            for row in itertools.count(1):
                # The read is bounded: a file without line ends cannot fill the memory.
                line = text.readline(longest + 1)
                if len(line) > longest:
                    raise ValueError(f"{file}: row {row}: more than {longest:,} characters; that many are read")
                if "\x00" in line:
                    raise ValueError(f"{file}: row {row}: it has a zero byte; it is not text")
                if not line:
                    return
                yield line
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not a text file in UTF-8: byte {error.start} is wrong") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None


def _read(file: str) -> Iterator[tuple[int, list[str]]]:
    """Line and values of every row of a CSV file; one that quotes line ends goes over several lines."""
    characters = 0  # of the row that is being read

    def bounded() -> Iterator[str]:
        nonlocal characters
        # Quoted line ends join lines to one row, whose length is limited as a whole.
        for text in lines(file, LARGEST_FILE, LONGEST_ROW):
            characters += len(text)
            if characters > LONGEST_ROW:
                raise ValueError(f"{file}: a row has more than {LONGEST_ROW:,} characters; that many are read")
            yield text

    reader, line = csv.reader(bounded(), strict=True), 1
    try:
        for row in reader:
            # The line on which the row begins; `line_num` is the one on which it ends.
            yield line, row
            characters, line = 0, reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{file}: row {reader.line_num}: not CSV: {error}") from None


def _places(file: str, names: tuple[str, ...], wanted: dict[str, Column], optional: set[str]) -> dict[str, int]:
    """Position of each wanted column."""
    # Of two columns with one name, `index` below would take the first without a word.
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{file}: row 1: column {twice} is there twice")
    for name in wanted:
        if name not in names and name not in optional:
            close = nearest(name, names) if names else "; the file is empty"
            there = close if close.startswith("; known") else f"{close}; it has {', '.join(names)}"
            raise ValueError(f"{file}: row 1: column {name} is missing{there.replace('; known: ', '; it has ')}")
    return {name: names.index(name) for name in wanted if name in names}


def _full(rows: Iterable[tuple[int, list[str]]], file: str, width: int) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty."""
    for line, row in rows:
        if row and len(row) != width:
            raise ValueError(f"{file}: row {line}: it has {len(row)} values; there are {width} columns")
        if row:
            yield line, row


def _converted(values: list[str], column: Column, file: str, name: str, lines: np.ndarray) -> np.ndarray:
    """The values as an array, or the first that is wrong."""
    array = _array(values, column)
    if array is not None:
        return array
    # Values are tried one by one only to name the first that is wrong.
    for value, line in zip(values, lines, strict=True):
        if _array([value], column) is None:
            text = value if len(value) <= 60 else value[:57] + "..."
            raise ValueError(f"{file}: row {line}: {name} is {text!r}; it must be {column.allowed}")
    raise AssertionError(f"{file}: {name}: the values are wrong together, but right one by one")


def _array(values: list[str], column: Column) -> np.ndarray | None:
    """The values as an array, None where one of them is wrong."""
    try:
        array = column.convert(values)
    except (ValueError, OverflowError):
        return None
    # Texts such as nan and inf are floats for Python, but no measurements.
    return array if array.dtype.kind != "f" or np.isfinite(array).all() else None


def _numbers(values: Sequence[str]) -> np.ndarray:
    if "_" in "".join(values):  # Python's float and int take 1_000
        raise ValueError
    return np.array([float(value) for value in values])


def _counts(values: Sequence[str]) -> np.ndarray:
    counts = _numbers(values)
    if not ((counts >= 0) & (counts == np.floor(counts)) & np.isfinite(counts)).all():
        raise ValueError
    return counts


def _integers(values: Sequence[str]) -> np.ndarray:
    if "_" in "".join(values):
        raise ValueError
    return np.array([int(value) for value in values], np.int64)


def _ticks(values: Sequence[str]) -> np.ndarray:
    """Nanoseconds since 1970 in UTC; a time without a zone counts as UTC."""
    plain, offsets = [], []
    for value in values:
        match = _TIME.fullmatch(value.strip())
        if match is None:
            raise ValueError
        date, time, sign, hours, minutes = match.groups()
        if sign is not None and (int(hours) > LARGEST_OFFSET or int(minutes) > 59):
            raise ValueError
        plain.append(f"{date}T{time}")
        # Minutes by which the local time is ahead of UTC.
        offsets.append(0 if sign is None else (1 if sign == "+" else -1) * (int(hours) * 60 + int(minutes)))
    # A minute has 6e10 ns.
    return np.array(plain, "datetime64[ns]").astype(np.int64) - np.array(offsets, np.int64) * 60_000_000_000


NUMBER = Column(_numbers, "a finite number")
COUNT = Column(_counts, "a whole number of at least 0")
INTEGER = Column(_integers, "a whole number")
TIMESTAMP = Column(_ticks, "a time such as 2023-11-16 18:15:46.6805900 or 2024-05-10 00:00:00.009930+00:00")
TEXT = Column(lambda values: np.array(values, object), "a text")
