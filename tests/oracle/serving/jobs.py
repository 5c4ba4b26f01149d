"""Requests of a stream, the sequences that an engine makes of them, and what became of them in the end."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxroof.batch import STATUSES
from tests.oracle.serving.tree import Path, path

FINISHED, REFUSED, REJECTED, UNFINISHED, _ = range(len(STATUSES))


@dataclasses.dataclass
class Requests:
    """Requests in the order of their arrival, as of `jaxroof.batch.Traffic`; a group is a path of one node.

    `nodes` and `starts` have a row of all depths for each request; a node of -1: the path has ended.
    """

    arrival: Sequence[float]
    isl: Sequence[float]
    osl: Sequence[float]
    group: Sequence[float] | None = None
    shared: Sequence[float] | None = None
    keep: Sequence[float] | None = None
    after: Sequence[float] | None = None  # the request whose answer it waits for, or -1
    pause: Sequence[float] | None = None  # s between that answer and this request
    priority: Sequence[float] | None = None  # the lowest goes first
    nodes: Sequence[Sequence[float]] | None = None
    starts: Sequence[Sequence[float]] | None = None  # tokens


class Step(NamedTuple):
    """One engine step."""

    start: float  # s
    end: float  # s
    prompt_tokens: int
    decoding: int  # sequences that add a token, without padding
    logits: int
    blocks: int  # in use at its end, those of idle prefixes included


@dataclasses.dataclass
class Outcome:
    """What became of the requests, a number each; times in s, NaN where it did not come to that."""

    arrival: list[float]
    admitted: list[float]
    first_token: list[float]
    finish: list[float]
    status: list[int]
    preemptions: list[int]
    cached: list[int]  # tokens found in the prefix cache at the first admission
    steps: list[Step]
    counts: dict[str, int]


class Request(NamedTuple):
    """One request in whole numbers; its path in tokens."""

    index: int
    arrival: float
    isl: int
    osl: int
    shared: int
    keep: int
    after: int
    pause: float
    priority: int
    nodes: tuple[int, ...]
    starts: tuple[int, ...]


@dataclasses.dataclass(eq=False)
class Job:
    """One request, and the sequence that an engine makes of it."""

    index: int
    arrival: float
    isl: int
    osl: int
    shared: int
    keep: int
    priority: int
    path: Path  # in blocks
    left: int  # tokens to produce when its prompt is next worked on
    more: int = 0  # tokens that another engine makes of it afterwards
    status: int = UNFINISHED
    admitted: float = math.nan
    first_token: float = math.nan
    finish: float = math.nan
    preemptions: int = 0
    cached: int = 0
    loaded: list[int] = dataclasses.field(default_factory=list)  # tokens of them from every tier
    produced: int = 0  # output tokens so far
    number: int = -1  # of its last admission
    holds: bool = False  # blocks
    chained: int = 0  # its blocks in the prefix tree
    own: int = 0  # its other blocks
    past: int = 0  # prompt tokens in the cache, where a prompt is under way
    target: int = 0  # prompt tokens to have there
    end: int = -1  # value of q at which it has finished
    ready: float = math.inf  # s, end of its transfer, where it is parked

    @property
    def total(self) -> int:
        return self.isl + self.osl


class Place(NamedTuple):
    """Blocks that a sequence takes when it is admitted."""

    path: Path
    target: int  # tokens in the cache
    hit: int  # blocks of them that are there
    chained: int  # blocks in the prefix tree
    own: int
    growth: int  # blocks that the prefix tree gets
    loads: tuple[int, ...] = ()  # blocks of the hit that come from every tier


def listed(requests: Any) -> list[Request]:
    """Requests in whole numbers."""
    count = len(requests.arrival)

    def whole(name: str, default: int) -> list[int]:
        values = getattr(requests, name)
        return [default] * count if values is None else [int(value) for value in values]

    arrival = [float(value) for value in requests.arrival]
    isl, osl, shared, keep = whole("isl", 1), whole("osl", 1), whole("shared", 0), whole("keep", 0)
    after, priority = whole("after", -1), whole("priority", 0)
    pause = [0.0] * count if requests.pause is None else [float(value) for value in requests.pause]
    nodes, starts = [(group,) for group in whole("group", -1)], [(0,)] * count
    if requests.nodes is not None and requests.starts is not None:
        nodes = [tuple(int(node) for node in row) for row in requests.nodes]
        starts = [tuple(int(start) for start in row) for row in requests.starts]
    sent = [time for time, other in zip(arrival, after, strict=True) if other < 0]
    assert sent == sorted(sent) and min(isl + osl) >= 1
    assert all(other < index for index, other in enumerate(after))
    columns = (range(count), arrival, isl, osl, shared, keep, after, pause, priority, nodes, starts)
    return [Request(*row) for row in zip(*columns, strict=True)]


def job(request: Request, policy: Any) -> Job:
    """A request as one engine sees it; without a prefix cache it has no path."""
    index, arrival, isl, osl, shared, keep, _, _, priority, nodes, starts = request
    known = path(nodes, starts, int(policy.block_size)) if policy.prefix_caching else ()
    return Job(index, arrival, isl, osl, shared, keep, priority, known, left=osl)
