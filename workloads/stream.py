"""Request stream: arrival times, lengths, and groups of requests with a common beginning."""

import dataclasses

import numpy as np

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
    kind: np.ndarray | None = None  # class of each request, a position in `workloads.classes`; None: there are none

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
    _, first, inverse, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    real = (count > 1) & (keys[first] >= 0) if len(keys) else np.zeros(0, bool)
    place = np.full(len(first), ALONE, np.int32)
    order = np.argsort(first, kind="stable")
    order = order[real[order]]
    place[order] = np.arange(len(order), dtype=np.int32)
    return place[inverse]
