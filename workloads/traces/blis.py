"""Requests of BLIS's TraceV2: a CSV of requests with microseconds, beside a YAML header."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from workloads.streams.kinds import nearest
from workloads.streams.stream import Stream, numbered
from workloads.traces.documents import TraceRecord, yaml_object
from workloads.traces.rows import Checked, Measured, ReadOptions, Rows, checked, mean_gap
from workloads.traces.table import COUNT, INTEGER, TEXT, Table, table
from workloads.traces.turns import GAPS, numbers_of, previous, waiting

COLUMNS = ("arrival_time_us", "input_tokens", "output_tokens")
TIMES = ("send_time_us", "first_chunk_time_us", "last_chunk_time_us")
WANTED = {
    **dict(zip(COLUMNS, (INTEGER, COUNT, COUNT), strict=True)),
    **dict.fromkeys(("prefix_group", "status", "session_id"), TEXT),
    **dict.fromkeys(("prefix_length", "server_input_tokens", "vllm_priority"), COUNT),
    **dict.fromkeys(TIMES, INTEGER),
}
STATUSES = ("ok", "error", "timeout", "incomplete")
VERSIONS = (2, 3)
UNITS = ("us", "microseconds")


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of the requests whose status is ok; times count from the first of them.

    `path` is the CSV or the YAML; the other one has the same name with the other ending. `input_tokens` of a request
    with a prefix group are those after the prefix, so its prompt is `prefix_length` longer. Without one,
    `server_input_tokens` goes first where it is not 0. The turns of a session wait for one another: a turn comes as
    long after the last chunk of the turn before it as it was recorded to. `vllm_priority` is the priority.

    Source: inference-sim/inference-sim, sim/workload/tracev2.go (columns, header; "InputTokens records the
    suffix-only count"; vLLM's priority, "0=highest urgency") and replay.go (`effectiveInputTokenCount`, sessions).
    """
    return _parts(path, options)[0]


def measured(path: str, options: ReadOptions) -> Measured:
    """Measurements of a real run (header: mode real): from sending to the first and the last chunk.

    Raises:
      ValueError: also for a generated or replayed trace, whose times are a simulator's.
    """
    stream, requests, trace, header = _parts(path, options)
    mode = header.text("mode")
    if mode != "real":
        raise ValueError(f"{header.place}: mode is {mode}; only a real run is measured")
    # Microseconds at which the requests of the stream were sent, and had their first and last chunk.
    sent, begun, ended = (trace.columns[name][requests.rows] for name in TIMES)
    wrong = (begun < sent) | (ended < begun)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{trace.place(requests.rows[row])}: send, first and last chunk are at {sent[row]}, {begun[row]} and "
            f"{ended[row]} us; they must not go back"
        )
    ttft, e2e = (begun - sent) * 1e-6, (ended - sent) * 1e-6
    duration = float(ended.max() - sent.min()) * 1e-6
    return Measured(stream, ttft, e2e, mean_gap(ttft, e2e, stream.osl), None, None, duration, {})


def _parts(path: str, options: ReadOptions) -> tuple[Stream, Checked, Table, TraceRecord]:
    data, header_file = _pair(path)
    header = yaml_object(header_file)
    _check(header)
    trace = table(data, WANTED, optional=("server_input_tokens", "vllm_priority"))
    time, own, osl = (trace.columns[name] for name in COLUMNS)
    ok = _ok(trace)
    grouped = trace.columns["prefix_group"] != ""
    server = trace.columns.get("server_input_tokens", np.zeros(len(own)))  # older files have none
    prefix = np.where(grouped, trace.columns["prefix_length"], 0.0)
    # With a prefix: prefix and suffix. Without: the server's count where it has one, else the client's.
    isl = np.where(grouped, prefix + own, np.where(server > 0, server, own))
    requests = checked(Rows(data, trace.place, COLUMNS, time, 1e-6, isl, osl), options, ok)
    # Names of groups become integers, -1 for requests without a group.
    names = trace.columns["prefix_group"][requests.rows].astype(str)
    key = np.where(grouped[requests.rows], np.unique(names, return_inverse=True)[1], -1)
    group = numbered(key)
    shared = _shared(group, prefix[requests.rows])
    turns, gaps = _turns(trace, requests)
    priority = trace.columns.get("vllm_priority")
    more = turns | ({} if priority is None else {"priority": priority[requests.rows]})
    stream = requests.stream(data, (*_notes(trace, header, ok, requests), *gaps), (group, shared), **more)
    return stream, requests, trace, header


def _turns(trace: Table, requests: Checked) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the turns of sessions wait for, and what to say of it."""
    after = previous(numbers_of(trace.columns["session_id"][requests.rows]))
    arrival, ended = (trace.columns[name][requests.rows] for name in (COLUMNS[0], TIMES[2]))
    # A generated trace has no last chunks: 0.
    answered = np.where(ended > 0, ended, arrival)
    turns = waiting(after, (arrival - answered[after]) * 1e-6)
    return turns, (GAPS,) if turns and not (ended > 0).all() else ()


def _pair(path: str) -> tuple[str, str]:
    """The CSV and the YAML file."""
    # One of the two files is named; the other one has the same stem.
    ending = Path(path).suffix.lower()
    if ending in (".yaml", ".yml"):
        return str(Path(path).with_suffix(".csv")), path
    headers = [str(Path(path).with_suffix(name)) for name in (".yaml", ".yml") if Path(path).with_suffix(name).exists()]
    if not headers:
        raise ValueError(f"{path}: its header is missing: there is no {Path(path).with_suffix('.yaml')} beside it")
    return path, headers[0]


def _check(header: TraceRecord) -> None:
    version = header.count("trace_version")
    if version not in VERSIONS:
        raise header.error("trace_version", f"one of {', '.join(map(str, VERSIONS))}")
    if header.text("time_unit") not in UNITS:
        raise header.error("time_unit", f"one of {', '.join(UNITS)}")


def _ok(table: Table) -> np.ndarray:
    """True where a request's status is ok, shape [rows]."""
    status = table.columns["status"]
    # The first row whose status is unknown is the one to report.
    for row in np.flatnonzero(~np.isin(status.astype(str), STATUSES)).tolist():
        raise ValueError(f"{table.place(row)}: status is {status[row]!r}{nearest(status[row], STATUSES)}")
    if not (status == "ok").any():
        raise ValueError(f"{table.file}: none of its {len(status)} requests has the status ok")
    return status == "ok"


def _shared(group: np.ndarray, prefix: np.ndarray) -> np.ndarray:
    """Prefix tokens that an earlier request of the group had: the shorter of its own and the longest before it."""
    shared, longest = np.zeros(len(group)), dict[float, float]()
    for row in np.flatnonzero(group >= 0):
        before = longest.get(group[row], 0.0)
        shared[row], longest[group[row]] = min(before, prefix[row]), max(before, prefix[row])
    return shared


def _notes(table: Table, header: TraceRecord, ok: np.ndarray, kept: Checked) -> tuple[str, ...]:
    notes = []
    if not ok.all():
        notes.append(f"{(~ok).sum()} of {len(ok)} requests left out: their status is not ok")
    # Requests of the warm-up stay in the stream; only a note says which they are.
    warm = header.number("warm_up_requests", high=math.inf) if "warm_up_requests" in header else 0.0
    if warm:
        notes.append(f"the first {warm:.0f} requests are the benchmark's warm-up")
    sessions = int((table.columns["session_id"][kept.rows] != "").sum())
    if sessions:
        notes.append(f"{sessions} requests belong to sessions; what their turns share is not in the file: 0")
    return tuple(notes)
