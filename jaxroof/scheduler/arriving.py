"""The queue: arrivals, rejections by a full queue, and the request that is next."""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine, group_of
from jaxroof.scheduler.state import (
    NEVER,
    Clock,
    PrefixGroups,
    State,
    Waiting,
    at_slot,
    blocks_of,
    is_due,
    least_slot,
    next_end,
    plus,
    since,
    total_of,
    whole,
)


class Ended(NamedTuple):
    """The sequences that remain after one has ended."""

    more: Array  # bool: others are due
    next_end: Array  # count of decode steps at which the next one ends


def completed(engine: Engine, state: State, closed: bool, allowed: Array) -> tuple[State, Ended]:
    """The state after one of the sequences that are due has ended: where it matters, the one admitted first."""
    slots = state.slots
    due = is_due(slots.end, state.count) & allowed
    # Order of ends at the same instant matters only where groups' last users are told apart.
    slot, ends = least_slot(due, None if state.groups is None else slots.number)
    ended = whole(ends)
    end = jnp.where(at_slot(slots, slot, ends), NEVER, slots.end)
    soonest = next_end(end)

    # Its last token has no place in the cache, as no step attends to it.
    request = entry(slots.request, slot)
    total = entry(engine.isl, request) + entry(engine.osl, request)
    offset = total - entry(slots.end, slot)
    freed = blocks_of(jnp.where(engine.reserve, total, total - 1), engine.size)
    groups, idle, kept_blocks = state.groups, 0, 0
    if groups is not None:
        # Blocks of the shared chain stay with the group.
        freed = freed - entry(slots.chained, slot)
        group = group_of(engine, request)
        groups, kept_blocks = _kept(engine, groups, group, request, ends)
        groups, idle = left_group(groups, group, state.event, ends)

    # A static batch computes its ended sequences until the last one ends.
    running = state.running - ended
    empties = (running == 0) & (state.progress < 0) & allowed
    padding = state.padding + jnp.where(engine.static, ended, 0)
    padded = state.padded + jnp.where(engine.static, ended * total, 0)
    return state._replace(
        slots=slots._replace(end=end),
        groups=groups,
        waiting=sent(engine, state.waiting, state.clock, closed, ends),
        running=running,
        offset=state.offset - ended * offset,
        free=state.free + ended * freed - kept_blocks,
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, jnp.where(engine.reserve, 0, -ended)),
        event=state.event + ended,
        padding=jnp.where(empties, 0, padding),
        padded=jnp.where(empties, 0, padded),
    ), Ended(allowed & (soonest <= state.count), soonest)


def _kept(
    engine: Engine, groups: PrefixGroups, group: Array, request: Array, ends: Array
) -> tuple[PrefixGroups, Array]:
    """The groups with the blocks of an ended sequence that a later one of its group begins with; the chain's growth."""
    keep = entry(engine.keep, request) // engine.size
    here = jnp.arange(groups.chain.shape[0], dtype=jnp.int32) == group
    grown = jnp.where(here & ends & engine.caching, jnp.maximum(groups.chain, keep), groups.chain)
    return groups._replace(chain=grown), total_of(grown - groups.chain)


def sent(engine: Engine, waiting: Waiting, clock: Clock, closed: bool, ends: Array) -> Waiting:
    """The queue after a client of a closed loop has its answer: it sends the next request after its think time."""
    if not closed:
        return waiting
    place = engine.clients + waiting.ended
    # Sequence k of a closed loop is sent when some client has its answer: places are handed out in order.
    place = jnp.where(ends & (place < engine.requests), place, waiting.arrival.high.shape[0])
    then = plus(clock, engine.think + engine.delay)
    arrival = Clock(
        waiting.arrival.high.at[place].set(then.high, mode="drop"),
        waiting.arrival.low.at[place].set(then.low, mode="drop"),
    )
    return waiting._replace(arrival=arrival, ended=waiting.ended + whole(ends))


class Next(NamedTuple):
    """The request of the queue that is next."""

    request: Array
    there: Array  # bool: there is one


def until(engine: Engine, waiting: Waiting, clock: Clock, place: Array) -> Array:
    """s until the request at `place` arrives, negative once it has, infinite where there is none."""
    inside = jnp.minimum(place, waiting.arrival.high.shape[0] - 1)
    arrival = Clock(*(entry(part, inside) for part in waiting.arrival))
    known = (place < engine.requests) & (arrival.high < jnp.inf)
    # Infinite minus infinite would be nan: unknown arrivals are replaced before the difference.
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
    # A bounded queue turns further requests away, as a server with a limit answers 429 or 503.
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
    # Shortest prompt first, or first come first served: the key that is minimised.
    key = engine.isl if shortest else places
    least = jnp.min(jnp.where(waiting.waits, key, NEVER))
    # Ties go to the earlier one.
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
