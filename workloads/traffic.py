"""A request stream as the arrays that the scheduler takes."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.batch import Encode, Traffic
from workloads.stream import ALONE, Stream

ABSENT = {"arrival": np.inf, "isl": 1.0, "osl": 0.0, "group": float(ALONE), "shared": 0.0, "keep": 0.0, "kind": -1.0}
"""What a request that never comes is, by field of `Traffic`."""


def traffic(
    stream: Stream,
    *,
    clients: int | None = None,
    think: float = 0.0,
    pad: int = 0,
    encode: Encode | None = None,
) -> Traffic:
    """The requests of a stream, NumPy arrays of float64, shape [max(requests, pad)].

    Args:
      stream: requests; without groups the traffic has none.
      clients: of a closed loop, which takes lengths from the stream and ignores its times; None: an open loop.
      think: s between an answer and its client's next request.
      pad: requests to fill the arrays up to with absent ones, so that streams of several lengths stack.
      encode: of every request; None: the encoder has no work.

    Raises:
      ValueError: one line, for clients or a think time that cannot be.
    """
    if clients is not None and (clients != int(clients) or clients < 1):
        raise ValueError(f"clients is {clients}; it must be a whole number of at least 1")
    if not 0.0 <= think < 1e9:
        raise ValueError(f"think is {think:g} s; it must be from 0 to 1e9")
    grouped = bool((stream.group != ALONE).any())
    found = Traffic(
        arrival=np.asarray(stream.arrival if clients is None else np.zeros(len(stream)), float),
        isl=np.asarray(stream.isl, float),
        osl=np.asarray(stream.osl, float),
        group=np.asarray(stream.group, float) if grouped else None,
        shared=np.asarray(stream.shared, float) if grouped else None,
        keep=np.asarray(kept(stream), float) if grouped else None,
        kind=None if stream.kind is None else np.asarray(stream.kind, float),
        encode=encode,
        clients=None if clients is None else float(clients),
        think=float(think),
    )
    return padded(found, pad)


def padded(requests: Traffic, count: int) -> Traffic:
    """The requests, and absent ones up to `count`, so that traffic of several lengths stacks."""
    more = count - len(requests.isl)
    if more <= 0:
        return requests
    columns = {name: getattr(requests, name) for name in ABSENT if getattr(requests, name) is not None}
    made: dict[str, Any] = {
        name: np.concatenate([column, np.full(more, ABSENT[name])]) for name, column in columns.items()
    }
    return dataclasses.replace(requests, **made)


def kept(stream: Stream) -> np.ndarray:
    """Tokens of each request's prompt and output, but for the last, that a later one of its group begins with.

    Shape [requests]; 0 where there is no later one.
    """
    order = np.lexsort((np.arange(len(stream)), stream.group))[::-1]
    group, shared = stream.group[order], stream.shared[order]
    following = np.concatenate([[0.0], shared[:-1]])
    following[np.concatenate([[True], group[1:] != group[:-1]])] = 0.0
    # Groups come in falling order: an offset that rises keeps the running maximum of one from the next.
    offset = (group.max(initial=0) - group).astype(float) * (shared.max(initial=0.0) + 1.0)
    most = np.maximum.accumulate(following + offset) - offset
    keep = np.zeros(len(stream))
    keep[order] = np.minimum(most, (stream.isl + stream.osl - 1.0)[order])
    return np.where(stream.group == ALONE, 0.0, keep)
