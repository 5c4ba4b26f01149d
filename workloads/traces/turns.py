"""Turns of conversations in a trace: the answer that each request waits for, and the pause after it."""

from typing import Any

import numpy as np

from workloads.streams.stream import NONE
from workloads.traces.rows import Checked

GAPS = "pauses of turns are the times between recorded arrivals, which have the answers' times in them"
"""What to say where a trace has no times of answers."""


def previous(key: np.ndarray) -> np.ndarray:
    """Position of the request before of the same key, NONE for the first one and for negative keys. Shape [requests].

    Args:
      key: conversation of each request, in their order.
    """
    order = np.argsort(key, kind="stable")
    same = (key[order[1:]] == key[order[:-1]]) & (key[order[1:]] >= 0)
    found = np.full(len(key), NONE)
    found[order[1:]] = np.where(same, order[:-1], NONE)
    return found


def numbers_of(names: np.ndarray) -> np.ndarray:
    """Numbers for names, equal for equal ones; -1 for the empty name. Shape [requests]."""
    known, key = np.unique(names.astype(str), return_inverse=True)
    return np.where(known[key] == "", -1, key)


def waiting(after: np.ndarray, pause: np.ndarray) -> dict[str, Any]:
    """Columns of a `Stream` whose requests wait for answers; none where no request does.

    Args:
      after: earlier request that each one waits for, a position in the stream, or NONE.
      pause: s between that answer and the request; what is under 0 counts as 0.
    """
    # A request that is recorded before the one it should follow does not wait for it.
    after = np.where(after < np.arange(len(after)), after, NONE).astype(np.int32)
    if not (after != NONE).any():
        return {}
    return {"after": after, "pause": np.where(after == NONE, 0.0, np.maximum(pause, 0.0))}


def of_rows(requests: Checked, follows: np.ndarray, pause: np.ndarray) -> dict[str, Any]:
    """`waiting`, by rows of the file.

    Args:
      requests: rows that are requests.
      follows: row whose answer each row waits for, or NONE; shape [rows].
      pause: s after it; shape [rows].
    """
    # The last place is that of no row; a row that is left out has no place either.
    place = np.full(len(follows) + 1, NONE)
    place[requests.rows] = np.arange(len(requests.rows))
    return waiting(place[follows[requests.rows]], pause[requests.rows])
