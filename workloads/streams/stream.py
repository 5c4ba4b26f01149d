"""Request streams: arrivals, lengths, what prompts share and what they wait for; and as the scheduler takes them."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.batch import Encode, Traffic
from jaxroof.numerics.struct import given
from workloads.streams.tree import ALONE, branches, kept_tokens, paths, shared_tokens

TIME_UNITS = (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
"""Units of time and their seconds, the largest first."""


def span_text(seconds: float) -> str:
    """A time with the unit that suits it: "58.3 min", "0.25 s"."""
    # A unit is used from two of it on: 90 min, not 1.5 h.
    unit, size = next((one for one in TIME_UNITS if seconds >= 2.0 * one[1]), TIME_UNITS[-1])
    value = seconds / size
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


# Request stream: arrival times, lengths, and groups of requests with a common beginning.


NONE = -1
"""Request that one waits for which waits for none."""

MOST_REQUESTS = 50_000_000
"""Requests in one stream: 2 GB of arrays."""

LARGEST_TOKENS = 10_000_000
"""Tokens of one prompt or one output; what is above is a wrong figure."""


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """Requests in the order of their arrival. Arrays of shape [requests], or of [groups] where they say so.

    Requests of one group begin alike: `shared` tokens of a request's prompt are the beginning of what an earlier
    request had as prompt and output, so a prefix cache can have them. A system prompt is a group whose members all
    share its length; the turns of a conversation are a group whose `shared` grows. A group may branch off from
    another: conversations from their system prompt, sub-agents from a conversation. All groups are then a tree, and a
    request's `group` is the deepest one of its path; there are at most as many groups as requests.

    A request with `after` is sent `pause` s after the answer to that request. Its `arrival` is its time by plan: as if
    answers took no time, or when a trace recorded it. Whoever knows nothing of turns takes that.
    """

    name: str
    arrival: np.ndarray  # s, non-decreasing, first one 0 or later, float64
    isl: np.ndarray  # prompt tokens, at least 1, float64
    osl: np.ndarray  # output tokens, at least 1, float64
    group: np.ndarray  # int32, 0 .. groups - 1 in the order of first appearance, or ALONE
    shared: np.ndarray  # prompt tokens that an earlier request began with, 0 .. isl, float64
    source: str  # file, or the words that describe the distributions and their seed
    notes: tuple[str, ...] = ()  # what was left out or assumed
    # class of each request, a position in `workloads.streams.classes`; None: there are none
    kind: np.ndarray | None = None
    # int32 [groups], group that each branches off from, a smaller number, or -1; None: none does
    parent: np.ndarray | None = None
    base: np.ndarray | None = None  # float64 [groups], tokens of the prompt at which it begins; 0 without a parent
    # float64, tokens of prompt and output that lie along the path: no later request shares more; None: all may
    along: np.ndarray | None = None
    after: np.ndarray | None = None  # int32, earlier request whose answer this one waits for, or NONE; None: none waits
    pause: np.ndarray | None = None  # float64, s between that answer and this request; 0 where it waits for none
    priority: np.ndarray | None = None  # float64, lower ones go first; None: there are none

    def __len__(self) -> int:
        return len(self.arrival)


def part(stream: Stream, chosen: slice | np.ndarray) -> Stream:
    """Some requests of a stream, as if the others had never come.

    A turn whose predecessor is left out is a first turn, which arrives at its time by plan.

    Args:
      stream: the whole.
      chosen: a slice of positive step, or which ones, bool of shape [requests].
    """
    tree: dict[str, Any] = {}
    if stream.parent is None or stream.base is None:
        group = numbered(stream.group[chosen])
        shared = np.where(group == ALONE, 0.0, stream.shared[chosen])
        tree["along"] = None if stream.along is None else stream.along[chosen]
    else:
        along = None if stream.along is None else stream.along[chosen]
        ends = (stream.isl + stream.osl)[chosen]
        found = branches(stream.group[chosen], stream.parent, stream.base, stream.shared[chosen], ends, along)
        tree = {"parent": found.parent, "base": found.base, "along": found.along}
        # Those that a request shared with may have been left out.
        group, along = found.group, ends if found.along is None else found.along
        shared = shared_tokens(*paths(group, found.parent, found.base), found.shared, along)
    return dataclasses.replace(
        stream,
        arrival=stream.arrival[chosen],
        isl=stream.isl[chosen],
        osl=stream.osl[chosen],
        group=group,
        shared=shared,
        kind=None if stream.kind is None else stream.kind[chosen],
        priority=None if stream.priority is None else stream.priority[chosen],
        **tree,
        **_turns_of_part(stream, chosen),
    )


def _turns_of_part(stream: Stream, chosen: slice | np.ndarray) -> dict[str, Any]:
    """`after` and `pause` of some requests."""
    if stream.after is None or stream.pause is None:
        return {"after": None, "pause": None}
    # The new place of every request; the last one is that of none.
    place = np.full(len(stream) + 1, NONE, np.int32)
    places = np.arange(len(stream))[chosen]
    place[places] = np.arange(len(places), dtype=np.int32)
    after = place[stream.after[chosen]]
    if not (after != NONE).any():
        return {"after": None, "pause": None}
    return {"after": after, "pause": np.where(after == NONE, 0.0, stream.pause[chosen])}


def sessions_of(after: np.ndarray) -> np.ndarray:
    """First request of the conversation of every request, a position. int64, shape [requests].

    Args:
      after: of a `Stream`.
    """
    # Each one takes over what its predecessor points to: twice as far every time.
    first = np.where(after == NONE, np.arange(len(after)), after)
    while (further := first[first] != first).any():
        first = np.where(further, first[first], first)
    return first


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


ABSENT = {
    "arrival": np.inf,
    "isl": 1.0,
    "osl": 0.0,
    "group": float(ALONE),
    "shared": 0.0,
    "keep": 0.0,
    "kind": -1.0,
    "path": float(ALONE),
    "starts": 1.0,
    "after": float(NONE),
    "pause": 0.0,
    "priority": 0.0,
    "opens": 0.0,
    "closes": 0.0,
}
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

    `opens` and `closes` are there where clients hold conversations: of each its first request, and its last by plan.

    Args:
      stream: requests; without groups the traffic has none, without branches no paths, without turns no `after`.
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
    columns = {name: getattr(stream, name) for name in ("kind", "after", "pause", "priority")}
    if (stream.group != ALONE).any():
        columns |= {"group": stream.group, "shared": stream.shared, "keep": kept(stream)}
    if stream.parent is not None:
        nodes, starts = paths(stream.group, stream.parent, stream.base)
        columns |= {"path": nodes, "starts": np.minimum(starts, (stream.isl + stream.osl)[:, None])}
    if stream.after is not None and clients is not None:
        # The last place of each conversation's first request is the one that stays.
        last = np.zeros(len(stream), np.int64)
        last[sessions_of(stream.after)] = np.arange(len(stream))
        closes = np.zeros(len(stream))
        closes[last[stream.after == NONE]] = 1.0
        columns |= {"opens": stream.after == NONE, "closes": closes}
    unpadded = Traffic(
        arrival=np.asarray(stream.arrival if clients is None else np.zeros(len(stream)), float),
        isl=np.asarray(stream.isl, float),
        osl=np.asarray(stream.osl, float),
        **{name: np.asarray(column, float) for name, column in columns.items() if column is not None},
        encode=encode,
        clients=None if clients is None else float(clients),
        think=float(think),
    )
    return padded(unpadded, pad)


def levels_of(requests: Traffic) -> int:
    """Groups on the longest path of a request; 0 where no group branches off from another."""
    return 0 if requests.path is None else int(requests.path.shape[1])


def padded(requests: Traffic, count: int, levels: int = 0) -> Traffic:
    """The requests, and absent ones up to `count`, with paths of `levels`: traffic of several lengths then stacks."""
    if 0 < levels_of(requests) < levels:
        longer = [(0, 0), (0, levels - levels_of(requests))]
        path = np.pad(given(requests.path, "paths"), longer, constant_values=ALONE)
        # No group begins where the request ends.
        ends = np.asarray(requests.isl + requests.osl)[:, None]
        starts = np.concatenate([requests.starts, np.repeat(ends, longer[1][1], axis=1)], axis=1)
        requests = dataclasses.replace(requests, path=path, starts=starts)
    more = count - len(requests.isl)
    if more <= 0:
        return requests
    columns = {name: getattr(requests, name) for name in ABSENT if getattr(requests, name) is not None}
    extended: dict[str, Any] = {
        name: np.concatenate([column, np.full((more, *column.shape[1:]), ABSENT[name])])
        for name, column in columns.items()
    }
    return dataclasses.replace(requests, **extended)


def kept(stream: Stream) -> np.ndarray:
    """Tokens of each request's prompt and output, but for the last, that a later request begins with.

    A later one of its group, of one that branches off from it, or of one that branches off with it. Shape [requests];
    0 where there is no later one.
    """
    ends = stream.isl + stream.osl - 1.0
    along = ends if stream.along is None else np.minimum(stream.along, ends)
    return kept_tokens(*paths(stream.group, stream.parent, stream.base), stream.shared, along)
