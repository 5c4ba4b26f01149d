"""Requests of a stream, the sequences that an engine makes of them, and what became of them in the end."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxroof.batch import STATUSES

FINISHED, REFUSED, REJECTED, UNFINISHED, _ = range(len(STATUSES))


@dataclasses.dataclass
class Requests:
    """Requests in the order of their arrival, as of `jaxroof.batch.Traffic`."""

    arrival: Sequence[float]
    isl: Sequence[float]
    osl: Sequence[float]
    group: Sequence[float] | None = None
    shared: Sequence[float] | None = None
    keep: Sequence[float] | None = None


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


@dataclasses.dataclass(eq=False)
class Job:
    """One request, and the sequence that it becomes."""

    index: int
    arrival: float
    isl: int
    osl: int
    group: int
    shared: int
    keep: int
    left: int  # tokens to produce when its prompt is next worked on
    status: int = UNFINISHED
    admitted: float = math.nan
    first_token: float = math.nan
    finish: float = math.nan
    preemptions: int = 0
    cached: int = 0
    produced: int = 0  # output tokens so far
    number: int = -1  # of its last admission
    holds: bool = False  # blocks
    chained: int = 0  # its blocks in the chain of its group
    own: int = 0  # its other blocks
    past: int = 0  # prompt tokens in the cache, where a prompt is under way
    target: int = 0  # prompt tokens to have there
    end: int = -1  # value of q at which it has finished

    @property
    def total(self) -> int:
        return self.isl + self.osl


@dataclasses.dataclass
class Group:
    """The blocks with which the requests of a group begin."""

    chain: int = 0  # blocks
    refs: int = 0  # sequences that hold them
    last: int = -1  # event that last touched them


class Place(NamedTuple):
    """Blocks that a sequence takes when it is admitted."""

    group: int
    target: int  # tokens in the cache
    hit: int  # blocks of them that are there
    chained: int  # blocks in the chain of its group
    own: int
    growth: int  # blocks that the chain gets


def jobs(requests: Any, prefix_caching: bool) -> list[Job]:
    """Requests as whole numbers; without a prefix cache none has a group."""
    count = len(requests.arrival)

    def whole(name: str, default: int) -> list[int]:
        values = getattr(requests, name)
        return [default] * count if values is None else [int(value) for value in values]

    arrival = [float(value) for value in requests.arrival]
    isl, osl, shared, keep = whole("isl", 1), whole("osl", 1), whole("shared", 0), whole("keep", 0)
    group = whole("group", -1) if prefix_caching else [-1] * count
    assert arrival == sorted(arrival) and min(isl + osl) >= 1
    return [Job(*row) for row in zip(range(count), arrival, isl, osl, group, shared, keep, osl, strict=True)]


def outcome(jobs: list[Job], steps: list[Step], counts: dict[str, int]) -> Outcome:
    """What became of the sequences; a request that was never sent did not arrive."""
    for job in jobs:
        job.arrival = job.arrival if job.arrival < math.inf else math.nan
    names = ("arrival", "admitted", "first_token", "finish", "status", "preemptions", "cached")
    columns = {name: [getattr(job, name) for job in jobs] for name in names}
    became = {name: columns["status"].count(index) for index, name in enumerate(STATUSES)}
    return Outcome(**columns, steps=steps, counts=counts | became)
