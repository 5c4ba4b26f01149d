"""Requests of a CSV, of JSON lines or of a JSON list whose columns the caller names."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from workloads.streams.kinds import nearest
from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, numbered
from workloads.traces.documents import TraceRecord, records, starts_list
from workloads.traces.rows import UNITS, ReadOptions, Rows, checked, listed
from workloads.traces.table import COUNT, LARGEST_FILE, LONGEST_ROW, NUMBER, TEXT, TIMESTAMP, lines, table
from workloads.traces.turns import numbers_of, previous, waiting

NEEDED = ("prompt", "output")
KNOWN = ("arrival", *NEEDED, "session", "pause")
"""What a column may be: time of arrival, prompt and output tokens, name of the conversation, and time between an answer
and the turn after it, with which turns wait for answers."""

EXAMPLE = "arrival=ts,prompt=prompt_tokens,output=answer_tokens"

JSON = (".json", ".jsonl", ".ndjson")

LIKELY = {
    "arrival": ("arriv", "timestamp", r"\bts\b", "created", "sent", "start", "when", "time", "date", r"\bt\b"),
    "prompt": ("prompt", "input", "context", "ctx", "prefill", r"\bisl\b", "query"),
    "output": ("output", "completion", "generat", r"\bgen", "answer", "response", "decode", r"\bosl\b"),
}
"""What a column may be -> parts of the names of those that probably are, the surest first, as regular expressions."""

UNLIKELY = {
    "arrival": re.compile(r"latency|duration|first|finish|end\b|ttft|tpot|e2e|token|time.?out"),
    "prompt": re.compile(r"text|string|hash|\bid\b|price|cost|rate|time|latency"),
    "output": re.compile(r"text|string|hash|\bid\b|price|cost|rate|time|latency"),
}
"""What a column may be -> names that it does not have."""

OF_TURNS = {"session": TEXT, "pause": NUMBER}
"""Columns that say what requests wait for."""


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of the columns that `options.columns` names; times count from the first request.

    Times are seconds, or of `options.time_unit`, or dates; without a column of them all requests come at once. In JSON
    lines a name with dots is one inside of others: usage.prompt_tokens. Sessions are groups that share nothing; with a
    column of pauses their turns wait for the answers before them.
    """
    names = named(options.columns)
    tick = UNITS[options.time_unit or "s"]
    rows, turns, unused = (_of_lines if path.lower().endswith(JSON) else _of_table)(path, names, tick)
    requests = checked(rows, options)
    if "session" not in turns:
        return requests.stream(path, unused)
    notes = ("sessions are groups; what their turns share is not in the file and counts as 0", *unused)
    key = numbers_of(turns["session"][requests.rows])
    pauses = turns["pause"][requests.rows] * tick if "pause" in turns else None
    waits = {} if pauses is None else waiting(previous(key), pauses)
    return requests.stream(path, notes, (numbered(key), np.zeros(len(key))), **waits)


def proposed(names: Iterable[str]) -> str:
    """Columns by name as `named` takes them, of those that a file has; COLUMN where none looks like it."""
    # Words of a name are told apart by dots, underscores and capitals.
    words = {name: re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", " ", name).lower() for name in names}
    found: dict[str, str] = {}
    for key, likely in LIKELY.items():
        free = {name: text for name, text in words.items() if name not in found.values()}
        possible = [name for name, text in free.items() if not UNLIKELY[key].search(text)]
        match = (name for part in likely for name in possible if re.search(part, words[name]))
        found[key] = next(match, "COLUMN")
    return ",".join(f"{key}={name}" for key, name in found.items())


def names_of(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names of the numbers and texts of an object, dotted in at most two objects around each."""
    for key, value in values.items():
        if isinstance(value, Mapping) and prefix.count(".") < 2:
            yield from names_of(value, f"{prefix}{key}.")
        elif not isinstance(value, Mapping | list):
            yield f"{prefix}{key}"


def named(text: str | None) -> dict[str, str]:
    """What each column is called, by what it is; ValueError for text that does not say it."""
    names: dict[str, str] = {}
    for item in (text or "").split(","):
        key, equals, name = (part.strip() for part in item.partition("="))
        if not (equals and key and name):
            raise ValueError(f"columns is {text!r}; it must be such as {EXAMPLE}")
        if key not in KNOWN:
            raise ValueError(f"columns is {text!r}: {key} is not known{nearest(key, KNOWN)}")
        if key in names:
            raise ValueError(f"columns is {text!r}: {key} is given twice")
        names[key] = name
    for key in NEEDED:
        if key not in names:
            raise ValueError(f"columns is {text!r}: {key} is missing; it must be such as {EXAMPLE}")
    if "pause" in names and "session" not in names:
        raise ValueError(f"columns is {text!r}: pause cannot be given without session, whose turns wait")
    return names


def _of_table(path: str, names: dict[str, str], tick: float) -> tuple[Rows, dict[str, np.ndarray], tuple[str, ...]]:
    kinds = {**dict.fromkeys(NEEDED, COUNT), **OF_TURNS}
    wanted = {names[key]: kind for key, kind in kinds.items() if key in names}
    # Without times all requests arrive at once.
    if "arrival" not in names:
        trace = table(path, wanted)
        columns = ("arrival", names["prompt"], names["output"])
        isl, osl = (trace.columns[name] for name in columns[1:])
        rows = Rows(path, trace.place, columns, np.zeros(len(trace.lines)), 1.0, isl, osl)
    else:
        # The first row decides whether times are dates or numbers.
        dated = _dated(path, names["arrival"])
        trace = table(path, wanted | {names["arrival"]: TIMESTAMP if dated else NUMBER})
        rows = listed(trace, (names["arrival"], names["prompt"], names["output"]), UNITS["ns"] if dated else tick)
    return rows, {key: trace.columns[names[key]] for key in OF_TURNS if key in names}, trace.unused()


def _dated(path: str, name: str) -> bool:
    """Whether the first time in a CSV is a date, not a number."""
    rows = csv.reader(lines(path, LARGEST_FILE, LONGEST_ROW))
    try:
        # The first row under the header; white space in names is reduced as `table` does.
        header, first = ([" ".join(word.split()) for word in next(rows, [])] for _ in range(2))
    except csv.Error:
        return False
    value = first[header.index(name)] if name in header and len(first) == len(header) else ""
    # A date has colons in its time of day, a number has none.
    return ":" in value


def _of_lines(path: str, names: dict[str, str], tick: float) -> tuple[Rows, dict[str, np.ndarray], tuple[str, ...]]:
    numbers, times, isl, osl, keys, pauses = [], [], [], [], [], []
    listed_rows = starts_list(path)
    for number, record in records(path):
        numbers.append(number)
        prompt, output = (_inner(record, names[key]) for key in NEEDED)
        isl.append(prompt[0].count(prompt[1], high=LARGEST_TOKENS))
        osl.append(output[0].count(output[1], high=LARGEST_TOKENS))
        times.append(_time(*_inner(record, names["arrival"]), tick) if "arrival" in names else 0)
        if "session" in names:
            owner, key = _inner(record, names["session"])
            keys.append(str(owner.values.get(key, "")))
        if "pause" in names:
            owner, key = _inner(record, names["pause"])
            pauses.append(owner.number(key))
        if len(numbers) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} requests, the most that are read")
    called = (names.get("arrival", "arrival"), names["prompt"], names["output"])
    # An array of integers holds dates in nanoseconds; numbers are seconds, as floats.
    dated = np.array(times).dtype.kind == "i"
    arrival = np.array(times, np.int64 if dated else float)
    unit = UNITS["ns"] if dated else 1.0
    rows = Rows(
        path,
        lambda row: f"{path}: [{numbers[row]}]" if listed_rows else f"{path}: row {numbers[row]}",
        called,
        arrival,
        unit,
        np.array(isl, float),
        np.array(osl, float),
    )
    turns = {"session": np.array(keys, object), "pause": np.array(pauses, float)}
    return rows, {key: column for key, column in turns.items() if key in names}, ()


def _time(record: TraceRecord, key: str, tick: float) -> float | int:
    """A time in s, or that of a date in ns."""
    if isinstance(record.values.get(key), str):
        try:
            return int(TIMESTAMP.convert([record.values[key]])[0])
        except ValueError:
            raise record.error(key, f"a number, or {TIMESTAMP.allowed}") from None
    return record.number(key, low=-np.inf) * tick


def _inner(record: TraceRecord, name: str) -> tuple[TraceRecord, str]:
    """The object that a name with dots is in, and its last part."""
    # Keys may have dots themselves: a name that is a key as it stands is not split.
    if name in record.values:
        return record, name
    *outer, last = name.split(".")
    for part in outer:
        record = record.table(part)
    return record, last
