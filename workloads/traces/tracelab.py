"""Requests of TraceLab's traces of coding agents: JSON lines of tokens, cached prefixes and timed events."""

import dataclasses

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream
from workloads.streams.tree import branches
from workloads.traces.blocks import deep_notes
from workloads.traces.documents import TraceRecord, json_lines
from workloads.traces.rows import UNITS, ReadOptions, Rows, checked
from workloads.traces.table import TIMESTAMP
from workloads.traces.turns import numbers_of, previous, waiting

COLUMNS = ("timing_events", "input_tokens_total", "output_tokens")
SESSION, PREFIX, EVENTS = "session_id", "prefix_tokens", "timing_events"

INPUTS = ("user_message", "tool_result")
OUTPUTS = ("text", "reasoning", "tool_call")
"""Events that a request waits for, and those of its answer."""


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of `input_tokens_total` and `output_tokens`; times count from the first request.

    A request comes with the last user's message or tool's result of its `timing_events`, and is answered with the last
    event of its output; one without events is left out. Requests of a session wait for one another, and come as long
    after the answer before as they were recorded to. A request shares `prefix_tokens`, those that the provider's cache
    had, with the request before it: where they are fewer than before, as after a summary of the conversation, the
    session goes on in a branch. What sessions share with one another is not in the file.

    Source: uw-syfi/TraceLab, README.md, "Data format" (arXiv:2606.30560).
    """
    lines: list[int] = []
    numbers: tuple[list[int], ...] = ([], [], [], [], [])
    sessions: list[str] = []
    untimed = 0
    for line, record in json_lines(path):
        begun, ended = _times(record)
        if begun is None:
            untimed += 1
            continue
        tokens = (record.count(name, high=LARGEST_TOKENS) for name in (*COLUMNS[1:], PREFIX))
        for column, value in zip(numbers, (begun, max(ended or begun, begun), *tokens), strict=True):
            column.append(value)
        sessions.append(record.text(SESSION))
        lines.append(line)
        if len(lines) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} requests, the most that are read")
    begun, ended, isl, osl, prefix = (np.array(column, np.int64) for column in numbers)
    rows = Rows(path, lambda row: f"{path}: row {lines[row]}", COLUMNS, begun, UNITS["ns"], isl, osl)
    # Sessions stand one after the other in the file, whatever their times.
    requests = checked(rows, dataclasses.replace(options, sort=True))
    after = previous(numbers_of(np.array(sessions, object)[requests.rows]))
    pause = (begun[requests.rows] - ended[requests.rows][after]) * UNITS["ns"]
    # A cache has at most what the request before had as prompt and output.
    ends = requests.isl + requests.osl
    shared = np.where(after < 0, 0.0, np.minimum(np.minimum(prefix[requests.rows], requests.isl), ends[after]))
    node, parent, base, along = continued(after, shared)
    groups = branches(node, parent, base, shared, ends, along)
    notes = (f"{untimed} rows without timed events left out",) if untimed else ()
    return requests.stream(path, (*notes, *deep_notes(groups)), groups, **waiting(after, pause))


def continued(after: np.ndarray, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The tree of conversations whose requests each begin with a part of the one before.

    Args:
      after: request before each one, NONE: it is the first; shape [requests].
      shared: tokens of it that a request begins with; shape [requests].

    Returns:
      Node of every request, shape [requests]; the node above each one and the tokens at which it begins, shape [nodes];
      tokens of every request that lie along the path, shape [requests].
    """
    node, along = np.zeros(len(after), np.int64), np.zeros(len(after))
    parent: list[int] = []
    base: list[float] = []
    for request, (before, tokens) in enumerate(zip(after.tolist(), shared.tolist(), strict=True)):
        above = int(node[before]) if before >= 0 else -1
        # What the request before went along is what this one begins with, if that is as long as what was shared so far.
        if above >= 0 and tokens >= along[before]:
            node[request], along[before] = above, tokens
        else:
            # The node that holds the last token in common; without one it is a root of its own.
            while above >= 0 and base[above] >= tokens:
                above = parent[above]
            node[request] = len(parent)
            parent.append(above)
            base.append(tokens if above >= 0 else 0.0)
        along[request] = tokens
    return node, np.array(parent, np.int64), np.array(base), along


def _times(record: TraceRecord) -> tuple[int | None, int | None]:
    """When a request was sent and when it was answered, ns since 1970; None where no event says so."""
    times: dict[str, list[int]] = {"in": [], "out": []}
    for event in record.tables(EVENTS) if EVENTS in record else []:
        kind = event.values.get("event_type")
        if kind not in (*INPUTS, *OUTPUTS) or "timestamp" not in event:
            continue
        try:
            time = int(TIMESTAMP.convert([event.text("timestamp")])[0])
        except ValueError:
            raise event.error("timestamp", TIMESTAMP.allowed) from None
        times["in" if kind in INPUTS else "out"].append(time)
    ended = max(times["out"], default=None)
    # Without an input its first output is the nearest to when it was sent.
    return max(times["in"], default=min(times["out"], default=None)), ended
