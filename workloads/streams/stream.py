"""Times of a stream in words."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.batch import Encode, Traffic

TIME_UNITS = (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
"""Units of time and their seconds, the largest first."""


def span_text(seconds: float) -> str:
    """A time with the unit that suits it: "58.3 min", "0.25 s"."""
    # A unit is used from two of it on: 90 min, not 1.5 h.
    unit, size = next((one for one in TIME_UNITS if seconds >= 2.0 * one[1]), TIME_UNITS[-1])
    value = seconds / size
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


# Request stream: arrival times, lengths, and groups of requests with a common beginning.


ALONE = -1
"""Group of a request whose prompt begins like no other's."""

MOST_REQUESTS = 50_000_000
"""Requests in one stream: 2 GB of arrays."""

LARGEST_TOKENS = 10_000_000
"""Tokens of one prompt or one output; what is above is a wrong figure."""


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """Requests in the order of their arrival. Arrays of shape [requests].

    Requests of one group begin alike: `shared` tokens of a request's prompt are the beginning of what an earlier
    request of its group had as prompt and output, so a prefix cache can have them. A system prompt is a group whose
    members all share its length; the turns of a conversation are a group whose `shared` grows.
    """

    name: str
    arrival: np.ndarray  # s, non-decreasing, first one 0 or later, float64
    isl: np.ndarray  # prompt tokens, at least 1, float64
    osl: np.ndarray  # output tokens, at least 1, float64
    group: np.ndarray  # int32, 0 .. groups - 1 in the order of first appearance, or ALONE
    shared: np.ndarray  # prompt tokens that an earlier request of the group began with, 0 .. isl, float64
    source: str  # file, or the words that describe the distributions and their seed
    notes: tuple[str, ...] = ()  # what was left out or assumed
    # class of each request, a position in `workloads.streams.classes`; None: there are none
    kind: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.arrival)


def part(stream: Stream, chosen: slice | np.ndarray) -> Stream:
    """Some requests of a stream, as if the others had never come.

    Args:
      chosen: a slice, or which ones, bool of shape [requests].
    """
    group = numbered(stream.group[chosen])
    return dataclasses.replace(
        stream,
        arrival=stream.arrival[chosen],
        isl=stream.isl[chosen],
        osl=stream.osl[chosen],
        group=group,
        shared=np.where(group == ALONE, 0.0, stream.shared[chosen]),
        kind=None if stream.kind is None else stream.kind[chosen],
    )


def alone(requests: int) -> tuple[np.ndarray, np.ndarray]:
    """`group` and `shared` of requests that begin like no other. Shape [requests] each."""
    return np.full(requests, ALONE, np.int32), np.zeros(requests)


def numbered(keys: np.ndarray) -> np.ndarray:
    """Groups as a `Stream` numbers them, from any integers that name them.

    Args:
      keys: one per request in the order of arrival, negative where a request belongs to none, shape [requests].

    Returns:
      0 .. groups - 1 in the order of first appearance; ALONE for negative keys and for groups of a single request.
      int32, shape [requests].
    """
    # Keys come sorted; `first` is the request at which each appears first, the order of the new numbers.
    _, first, inverse, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    real = (count > 1) & (keys[first] >= 0) if len(keys) else np.zeros(0, bool)
    place = np.full(len(first), ALONE, np.int32)
    order = np.argsort(first, kind="stable")
    order = order[real[order]]
    place[order] = np.arange(len(order), dtype=np.int32)
    return place[inverse]


# A request stream as the arrays that the scheduler takes.


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
    unpadded = Traffic(
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
    return padded(unpadded, pad)


def padded(requests: Traffic, count: int) -> Traffic:
    """The requests, and absent ones up to `count`, so that traffic of several lengths stacks."""
    more = count - len(requests.isl)
    if more <= 0:
        return requests
    columns = {name: getattr(requests, name) for name in ABSENT if getattr(requests, name) is not None}
    extended: dict[str, Any] = {
        name: np.concatenate([column, np.full(more, ABSENT[name])]) for name, column in columns.items()
    }
    return dataclasses.replace(requests, **extended)


def kept(stream: Stream) -> np.ndarray:
    """Tokens of each request's prompt and output, but for the last, that a later one of its group begins with.

    Shape [requests]; 0 where there is no later one.
    """
    # From the last group to the first, and the latest request first: each one comes after its follower.
    order = np.lexsort((np.arange(len(stream)), stream.group))[::-1]
    group, shared = stream.group[order], stream.shared[order]
    following = np.concatenate([[0.0], shared[:-1]])
    # The latest request of a group has no follower.
    following[np.concatenate([[True], group[1:] != group[:-1]])] = 0.0
    # Groups come in falling order: an offset that rises keeps the running maximum of one from the next.
    offset = (group.max(initial=0) - group).astype(float) * (shared.max(initial=0.0) + 1.0)
    most = np.maximum.accumulate(following + offset) - offset
    keep = np.zeros(len(stream))
    keep[order] = np.minimum(most, (stream.isl + stream.osl - 1.0)[order])
    return np.where(stream.group == ALONE, 0.0, keep)
