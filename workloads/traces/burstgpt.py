"""Requests of the BurstGPT traces: a CSV of seconds and token counts, with failures and, since v3, sessions."""

from typing import Any

import numpy as np

from workloads.streams.stream import Stream, numbered
from workloads.traces.rows import ReadOptions, checked, listed
from workloads.traces.table import COUNT, NUMBER, TEXT, Column, table
from workloads.traces.turns import GAPS, numbers_of, previous, waiting

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
SESSION, ELAPSED = "Session ID", "Elapsed time"

_ELAPSED = Column(
    lambda values: np.array([float(value) if value.strip() else 0.0 for value in values]), "a finite number, or empty"
)


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of the requests that did not fail; times count from the first of them.

    A request with 0 response tokens failed: it is left out and counted. Sessions of the newer files are groups. What
    a turn's prompt has in common with the turns before is not in the file, so `shared` is 0. A turn waits for the
    answer before it, `Elapsed time` after that request, and comes as long after it as it was recorded to.

    Source: HPMLL/BurstGPT, README.md: columns in words, and "some failure that Response tokens are 0s". The files
    BurstGPT_3 of its release v2.0 add `Session ID` (empty for API logs) and `Elapsed time`.
    """
    wanted = dict(zip(COLUMNS, (NUMBER, COUNT, COUNT), strict=True)) | {SESSION: TEXT, ELAPSED: _ELAPSED}
    trace = table(path, wanted, optional=(SESSION, ELAPSED))
    # A failed request has 0 response tokens.
    failed = trace.columns[COLUMNS[2]] == 0
    notes = (f"{failed.sum()} of {len(failed)} requests failed (Response tokens 0) and are left out",)
    if failed.all():
        raise ValueError(f"{path}: all of its {len(failed)} requests failed: Response tokens is 0")
    requests = checked(listed(trace, COLUMNS, 1.0), options, ~failed)
    key, turns = np.full(len(requests.rows), -1), dict[str, Any]()
    if SESSION in trace.columns:
        # Requests of API logs have no session: each is alone.
        key = numbers_of(trace.columns[SESSION][requests.rows])
        notes += ("sessions are groups; what their turns share is not in the file and counts as 0",)
        elapsed = trace.columns.get(ELAPSED, np.zeros(len(failed)))[requests.rows]
        after = previous(key)
        turns = waiting(after, requests.arrival - (requests.arrival + np.maximum(elapsed, 0.0))[after])
        notes += (GAPS,) if turns and ELAPSED not in trace.columns else ()
    # The first note is about failures, and is left out where there are none.
    notes = (*(notes if failed.any() else notes[1:]), *trace.unused())
    return requests.stream(path, notes, (numbered(key), np.zeros(len(key))), **turns)
