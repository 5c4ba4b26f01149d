"""The queue: arrivals, rejections by a full queue, and the request that is next."""

from typing import NamedTuple

from jaxroof.arrays import entry
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.scheduler.ending import sent
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, Clock, State, Waiting, since, total_of, whole
from jaxroof.struct import Array


class Next(NamedTuple):
    """The request of the queue that is next."""

    request: Array
    there: Array  # bool: there is one


def until(engine: Engine, waiting: Waiting, clock: Clock, place: Array) -> Array:
    """s until the request at `place` arrives, negative once it has, infinite where there is none."""
    inside = jnp.minimum(place, waiting.arrival.high.shape[0] - 1)
    arrival = Clock(*(entry(part, inside) for part in waiting.arrival))
    known = (place < engine.requests) & (arrival.high < jnp.inf)
    safe = Clock(jnp.where(known, arrival.high, clock.high), jnp.where(known, arrival.low, clock.low))
    return jnp.where(known, since(safe, clock), jnp.inf)


def arrival_of(waiting: Waiting, request: Array) -> Clock:
    """Time at which a request joined the queue; for -1, no request, any finite time."""
    inside = jnp.maximum(request, 0)
    high, low = (entry(part, inside) for part in waiting.arrival)
    return Clock(jnp.where(jnp.isfinite(high), high, 0.0), low)


def received(engine: Engine, state: State, closed: bool, allowed: Array) -> tuple[State, Array, Array]:
    """The queue after one more arrival has joined it or found it full.

    A queue that is a pointer receives nothing: who has arrived is compared with the clock.

    Args:
      closed: structure: whether a rejection makes its client send the next request.
      allowed: bool, whether arrivals are due at this point.

    Returns:
      The state; whether others have arrived as well, bool; the request that was rejected, or -1.
    """
    waiting = state.waiting
    if waiting.waits is None:
        return state, jnp.asarray(False), jnp.int32(-1)
    place = waiting.next
    comes = allowed & (until(engine, waiting, state.clock, place) <= 0.0)
    room = total_of(waiting.waits).astype(float) < engine.most_waiting
    index = jnp.where(comes & room, place, waiting.waits.shape[0])
    turned = comes & ~room
    waiting = waiting._replace(waits=waiting.waits.at[index].set(True, mode="drop"), next=place + whole(comes))
    waiting = sent(engine, waiting, state.clock, closed, turned)
    more = allowed & (until(engine, waiting, state.clock, waiting.next) <= 0.0)
    return state._replace(waiting=waiting), more, jnp.where(turned, place, -1).astype(jnp.int32)


def next_request(engine: Engine, state: State, shortest: bool) -> Next:
    """The first of the queue, or of those with the shortest prompt."""
    waiting = state.waiting
    if waiting.waits is None:
        arrived = until(engine, waiting, state.clock, waiting.next) <= 0.0
        return Next(jnp.minimum(waiting.next, engine.isl.shape[0] - 1), arrived)
    places = jnp.arange(engine.isl.shape[0], dtype=jnp.int32)
    key = engine.isl if shortest else places
    least = jnp.min(jnp.where(waiting.waits, key, NEVER))
    request = jnp.min(jnp.where(waiting.waits & (key == least), places, places.shape[0] - 1))
    return Next(request, least < NEVER)


def popped(waiting: Waiting, request: Array, leaves: Array) -> Waiting:
    """The queue without `request`, if it leaves."""
    if waiting.waits is None:
        return waiting._replace(next=waiting.next + whole(leaves))
    place = jnp.where(leaves, request, waiting.waits.shape[0])
    return waiting._replace(waits=waiting.waits.at[place].set(False, mode="drop"))


def others_wait(engine: Engine, state: State) -> Array:
    """Whether another request has arrived."""
    waiting = state.waiting
    if waiting.waits is None:
        return until(engine, waiting, state.clock, waiting.next) <= 0.0
    return jnp.any(waiting.waits)
