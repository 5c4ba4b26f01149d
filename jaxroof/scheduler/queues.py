"""The queue of one engine: who has arrived and was not admitted, who is next, and when the next one comes."""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, Clock, since, total_of, whole


class Next(NamedTuple):
    """The request of the queue that is next."""

    request: Array
    there: Array  # bool: there is one


class Waiting(NamedTuple):
    """The queue of an engine that is alone. `next` is the first request that never was in it."""

    next: Array
    waits: Array | None  # arrived and not admitted, bool, shape [requests]: where order or length matter
    arrival: Clock  # shape [requests]; of a closed loop filled as it goes
    ended: Array  # completions and rejections, which release the requests of a closed loop

    def until(self, engine: Engine, clock: Clock, place: Array) -> Array:
        """s until the request at `place` arrives, negative once it has, infinite where there is none."""
        inside = jnp.minimum(place, self.arrival.high.shape[0] - 1)
        arrival = Clock(*(entry(part, inside) for part in self.arrival))
        known = (place < engine.requests) & (arrival.high < jnp.inf)
        # Infinite minus infinite would be nan: unknown arrivals are replaced before the difference.
        safe = Clock(jnp.where(known, arrival.high, clock.high), jnp.where(known, arrival.low, clock.low))
        return jnp.where(known, since(safe, clock), jnp.inf)

    def arrival_of(self, request: Array) -> Clock:
        """Time at which a request joined the queue; for -1, no request, any finite time."""
        inside = jnp.maximum(request, 0)
        high, low = (entry(part, inside) for part in self.arrival)
        return Clock(jnp.where(jnp.isfinite(high), high, 0.0), low)

    def next_request(self, engine: Engine, clock: Clock) -> Next:
        """The first of the queue, or of those with the lowest rank."""
        if self.waits is None:
            arrived = self.until(engine, clock, self.next) <= 0.0
            return Next(jnp.minimum(self.next, engine.isl.shape[0] - 1), arrived)
        places = jnp.arange(engine.isl.shape[0], dtype=jnp.int32)
        key = places if engine.rank is None else engine.rank
        least = jnp.min(jnp.where(self.waits, key, NEVER))
        # Ties go to the earlier one.
        request = jnp.min(jnp.where(self.waits & (key == least), places, places.shape[0] - 1))
        return Next(request, least < NEVER)

    def popped(self, request: Array, leaves: Array) -> "Waiting":
        """The queue without `request`, if it leaves."""
        if self.waits is None:
            return self._replace(next=self.next + whole(leaves))
        place = jnp.where(leaves, request, self.waits.shape[0])
        return self._replace(waits=self.waits.at[place].set(False, mode="drop"))

    def others_wait(self, engine: Engine, clock: Clock) -> Array:
        """Whether another request has arrived."""
        if self.waits is None:
            return self.until(engine, clock, self.next) <= 0.0
        return jnp.any(self.waits)

    def waiting(self) -> Array:
        """Requests in a queue that is no pointer."""
        return total_of(self.waits)
