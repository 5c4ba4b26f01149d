"""Rows of a trace, checked one by one before they are a stream: lengths, order, and rows to leave out."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, alone
from workloads.streams.tree import Branches
from workloads.traces.table import Table


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """One run of a serving benchmark: its requests and what was measured of them. Times in s.

    Arrays of shape [requests] in the order of `stream`; nan where the file does not say.
    """

    stream: Stream
    ttft: np.ndarray  # s from sending a request to its first output token
    e2e: np.ndarray  # s from sending a request to its last output token
    itl: np.ndarray  # s, mean time between output tokens, without the first: vLLM's TPOT; nan for one output token
    concurrency: float | None  # requests that the client had under way at most; None: as many as arrive
    rate: float | None  # requests per s that the client aimed at, inf: all at once; None: the file does not say
    duration: float  # s that the run took, nan where the file does not say
    summary: Mapping[str, float]  # what the file itself sums up, in s: mean_ttft, p99_itl ...


def mean_gap(ttft: np.ndarray, e2e: np.ndarray, osl: np.ndarray) -> np.ndarray:
    """Mean time between output tokens in s, (e2e - ttft) / (osl - 1); nan for one output token. Shape [requests]."""
    # The maximum avoids a division by 0 in the branch that is not taken.
    return np.where(osl > 1.0, (e2e - ttft) / np.maximum(osl - 1.0, 1.0), np.nan)


LATEST = 1e11
"""s; no request arrives 3,000 years from 1970."""


UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Name of a unit of time -> s."""


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """A caller's choices about a trace."""

    sort: bool = False  # rows that are out of order are put in order instead of refused
    drop: bool = False  # rows without prompt or output tokens are left out and counted instead of refused
    seed: int = 0  # of formats that describe a workload rather than list requests
    span: tuple[float, float] | None = None  # s, the part of such a workload that is wanted
    block_tokens: int | None = None  # prompt tokens that one hash stands for; None: as their number says
    time_unit: str | None = None  # of times that are numbers, a key of `UNITS`; None: as the format has them
    columns: str | None = None  # what a file of other names calls arrival, prompt and output tokens


@dataclasses.dataclass(frozen=True)
class Rows:
    """One request per row, in the order of the file. Arrays of shape [rows]."""

    file: str
    place: Callable[[int], str]  # row -> where it stands: "file: row 7"
    names: tuple[str, str, str]  # what the file calls arrival, prompt tokens and output tokens
    arrival: np.ndarray  # in units of `tick`, float64 or int64; any origin
    tick: float  # s
    isl: np.ndarray  # whole numbers
    osl: np.ndarray


def listed(table: Table, names: tuple[str, str, str], tick: float) -> Rows:
    """The requests of a table: its columns `names` are arrivals in units of `tick` s, prompt and output tokens."""
    time, isl, osl = (table.columns[name] for name in names)
    return Rows(table.file, table.place, names, time, tick, isl, osl)


@dataclasses.dataclass(frozen=True)
class Checked:
    """The rows that are requests of a stream, in the order of arrival."""

    rows: np.ndarray  # position in the file's rows, shape [requests]
    arrival: np.ndarray  # s from the first request, shape [requests]
    isl: np.ndarray
    osl: np.ndarray
    notes: tuple[str, ...]

    def stream(
        self,
        file: str,
        notes: tuple[str, ...] = (),
        groups: tuple[np.ndarray, np.ndarray] | Branches | None = None,
        **more: Any,
    ) -> Stream:
        """The stream of these rows.

        Args:
          file: the trace.
          notes: what else to say.
          groups: `group` and `shared`, or a tree of groups; None: requests begin like no other.
          more: further columns of the `Stream`.
        """
        group, shared = alone(len(self.rows)) if groups is None else groups[:2]
        if isinstance(groups, Branches):
            more |= {"along": groups.along, "parent": groups.parent, "base": groups.base}
        columns = self.arrival, self.isl, self.osl, group, shared
        return Stream(stream_name(file), *columns, source=file, notes=(*notes, *self.notes), **more)


def stream_name(file: str) -> str:
    """A file's name without folder and ending."""
    return file.replace("\\", "/").rpartition("/")[2].rpartition(".")[0] or file


def checked(found: Rows, options: ReadOptions, kept: np.ndarray | None = None) -> Checked:
    """The rows in order, or the first row that is wrong.

    Args:
      found: what the file lists.
      options: whether to sort, and to leave out rows without tokens.
      kept: rows that are requests; the others are left out, and counted by the caller. Shape [rows], bool.

    Raises:
      ValueError: one line that names file, row, column, value and what is allowed.
    """
    if not len(found.arrival):
        raise ValueError(f"{found.file}: there are no requests in it")
    if len(found.arrival) > MOST_REQUESTS:
        raise ValueError(f"{found.file}: {len(found.arrival)} requests; at most {MOST_REQUESTS} are allowed")
    kept = np.ones(len(found.arrival), bool) if kept is None else kept
    notes: list[str] = []
    # Tokens come before times: a row that is left out may have any time.
    for name, tokens in zip(found.names[1:], (found.isl, found.osl), strict=True):
        kept = _with_tokens(found, name, tokens, options, kept, notes)
    wild = kept & (np.abs(found.arrival.astype(float)) * found.tick > LATEST)
    if wild.any():
        row = int(np.argmax(wild))
        raise ValueError(
            f"{found.place(row)}: {found.names[0]} is {found.arrival[row]:.12g}; it must be within {LATEST:g} s of 0"
        )
    rows = np.flatnonzero(kept)
    if not len(rows):
        raise ValueError(f"{found.file}: all of its {len(kept)} rows are left out: {'; '.join(notes) or 'they failed'}")
    rows = _in_order(found, rows, options, notes)
    arrival = found.arrival[rows]
    # Differences are exact in int64; nanoseconds since 1970 exceed the 53 bits of a float.
    seconds = (arrival - arrival[0]).astype(float) * found.tick
    return Checked(rows, seconds, found.isl[rows].astype(float), found.osl[rows].astype(float), tuple(notes))


def _with_tokens(
    rows: Rows, name: str, tokens: np.ndarray, options: ReadOptions, kept: np.ndarray, notes: list[str]
) -> np.ndarray:
    """`kept` without rows of 0 tokens if these may be left out; raises for any other number that is not allowed."""
    empty = kept & (tokens == 0)
    if options.drop and empty.any():
        notes.append(f"{empty.sum()} of {len(tokens)} rows with {name} 0 left out")
        # A new array, as the mask belongs to the caller.
        kept = kept & ~empty
    wrong = kept & ~((tokens >= 1) & (tokens <= LARGEST_TOKENS))
    if wrong.any():
        row = int(np.argmax(wrong))
        help_text = "; drop=True or --drop leaves rows with 0 out" if tokens[row] == 0 else ""
        raise ValueError(
            f"{rows.place(row)}: {name} is {tokens[row]:.12g}; it must be from 1 to {LARGEST_TOKENS}{help_text}"
        )
    return kept


def _in_order(found: Rows, rows: np.ndarray, options: ReadOptions, notes: list[str]) -> np.ndarray:
    """`rows` by arrival: as they are, or sorted if that is allowed; raises for the first that is early otherwise."""
    arrival = found.arrival[rows]
    # Positions whose next row is earlier.
    late = np.flatnonzero(np.diff(arrival) < 0)
    if not len(late):
        return rows
    if not options.sort:
        before, after = arrival[late[0]], arrival[late[0] + 1]
        raise ValueError(
            f"{found.place(int(rows[late[0] + 1]))}: {found.names[0]} is {_plain(after)}, before the row above it, "
            f"{_plain(before)}; sort=True or --sort puts rows in order"
        )
    notes.append(f"{len(late)} rows were earlier than the row above them; rows are sorted by {found.names[0]}")
    # Stable: requests of one time stay in the order of the file.
    return rows[np.argsort(arrival, kind="stable")]


def _plain(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.12g}"
