"""Queues of several engines: requests that were delivered to an engine and have not been admitted."""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.queues import Next
from jaxroof.scheduler.state import NEVER, Clock, whole


class Lines(NamedTuple):
    """Queues of all engines, in the order of delivery or of a rank; int32."""

    head: Array  # first request of each, shape [engines]
    tail: Array  # last one of each, shape [engines]
    count: Array  # requests in each, shape [engines]
    link: Array  # the request behind each, shape [requests]
    place: Array | None  # engine in whose queue each is, -1: in none, shape [requests]; None: in order of delivery
    rank: Array | None  # the lowest goes first, then the earliest delivery, shape [queues, requests]
    kind: Array | None  # of every engine's queue, a position in the first axis of `rank`, shape [engines]
    number: Array | None  # of every request's delivery, shape [requests]

    def joined(self, request: Array, engine: Array, number: Array, happens: Array) -> "Lines":
        """The queues with a request at the end of an engine's, if it `happens`.

        Args:
          number: of the delivery.
        """
        requests, engines = self.link.shape[0], self.head.shape[0]
        here = jnp.where(happens, engine, engines)
        alone = self.count[engine] == 0
        behind = jnp.where(happens & ~alone, self.tail[engine], requests)
        lines = self._replace(
            head=self.head.at[jnp.where(alone, here, engines)].set(request, mode="drop"),
            tail=self.tail.at[here].set(request, mode="drop"),
            count=self.count.at[here].add(1, mode="drop"),
            link=self.link.at[behind].set(request, mode="drop"),
        )
        if lines.place is None:
            return lines
        there = jnp.where(happens, request, requests)
        return lines._replace(
            place=lines.place.at[there].set(engine, mode="drop"),
            number=lines.number.at[there].set(number, mode="drop"),  # type: ignore[union-attr]
        )

    def of(self, engine: Array, due: Clock, opened: Array) -> "Line":
        """The queue of one engine.

        Args:
          due: times of deliveries, shape [requests].
          opened: bool: whether prompts may be admitted from it.
        """
        return Line(self, engine, self.head[engine], self.count[engine], due, opened)


class Line(NamedTuple):
    """The queue of one engine, as the rules of admission take it."""

    lines: Lines
    engine: Array
    head: Array
    count: Array
    due: Clock
    opened: Array

    def first(self) -> Array:
        """The request that is next; any where there is none."""
        if self.lines.place is None:
            return jnp.clip(self.head, 0, self.lines.link.shape[0] - 1)
        ranks: Array = self.lines.rank[self.lines.kind[self.engine]]  # type: ignore[index]
        rank = jnp.where(self.lines.place == self.engine, ranks, NEVER)
        delivered = given(self.lines.number, "numbers of deliveries")
        number = jnp.where((rank == jnp.min(rank)) & (rank < NEVER), delivered, NEVER)
        return jnp.argmin(number).astype(jnp.int32)

    def next_request(self, engine: Engine, clock: Clock) -> Next:
        """The request that is next, where prompts are admitted here."""
        return Next(self.first(), self.others_wait(engine, clock))

    def others_wait(self, engine: Engine, clock: Clock) -> Array:
        """Whether a request waits to be admitted."""
        return (self.count > 0) & self.opened

    def popped(self, request: Array, leaves: Array) -> "Line":
        """The queue without `request`, if it leaves."""
        line = self._replace(count=self.count - whole(leaves))
        if self.lines.place is None:
            return line._replace(head=jnp.where(leaves, entry(self.lines.link, request), self.head))
        place = self.lines.place.at[jnp.where(leaves, request, self.lines.link.shape[0])].set(-1, mode="drop")
        return line._replace(lines=self.lines._replace(place=place))

    def arrival_of(self, request: Array) -> Clock:
        """Time of a request's delivery; of -1, no request, any finite time."""
        high, low = (entry(part, jnp.maximum(request, 0)) for part in self.due)
        return Clock(jnp.where(jnp.isfinite(high), high, 0.0), low)

    def put_back(self) -> Lines:
        """The queues of all engines with this one as it is."""
        lines = self.lines
        return lines._replace(
            head=lines.head.at[self.engine].set(self.head), count=lines.count.at[self.engine].set(self.count)
        )


def empty_lines(engines: int, requests: int, ranks: Array | None, kind: Array | None) -> Lines:
    """Queues in which nobody is.

    Args:
      ranks: of every request in queues of each kind, shape [queues, requests]; None: the first delivered goes first.
      kind: of every engine's queue, shape [engines].
    """
    each, none = jnp.zeros(engines, jnp.int32), jnp.zeros(requests, jnp.int32)
    ranked = ranks is not None
    return Lines(each, each, each, none, none - 1 if ranked else None, ranks, kind, none if ranked else None)
