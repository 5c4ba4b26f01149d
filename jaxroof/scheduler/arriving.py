"""Ends of sequences and arrivals of requests between two steps, one of each at a time."""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.scheduler.blocks import counted
from jaxroof.scheduler.engine import Engine, osl_of
from jaxroof.scheduler.queues import Waiting
from jaxroof.scheduler.state import (
    NEVER,
    PARKED,
    Clock,
    State,
    at_slot,
    blocks_of,
    is_due,
    least_slot,
    next_end,
    plus,
    whole,
)


class Ended(NamedTuple):
    """The sequence that has ended, and those that remain."""

    request: Array  # of it; of any where none has
    happened: Array  # bool: one has
    more: Array  # bool: others are due
    next_end: Array  # count of decode steps at which the next one ends
    stays: Array | None  # bool: its cache waits to be sent; None: none is


def completed(engine: Engine, state: State, allowed: Array) -> tuple[State, Ended]:
    """The state after one of the sequences that are due has ended: where it matters, the one admitted first.

    Where answers go on elsewhere after their first token (`Engine.single`), its cache stays until it has been sent.
    """
    slots = state.slots
    due = is_due(slots.end, state.count) & allowed
    # Order of ends at the same instant matters only where groups' last users are told apart, or where they go on.
    slot, ends = least_slot(due, None if state.groups is None and engine.single is None else slots.number)
    request = entry(slots.request, slot)
    here = at_slot(slots, slot, ends)
    stays, end, ready = None, jnp.where(here, NEVER, slots.end), slots.ready
    if engine.single is not None:
        stays = ends & engine.single & (entry(engine.osl, request) > 1)
        end = jnp.where(here & stays, PARKED, end)
        # It has not been sent yet.
        ready = jnp.where(here & stays, jnp.inf, given(ready, "times of arrival"))
    soonest = next_end(end)

    # Its last token has no place in the cache, as no step attends to it.
    total = entry(engine.isl, request) + osl_of(engine, request)
    offset = total - entry(slots.end, slot)
    freed = blocks_of(jnp.where(engine.reserve, total, total - 1), engine.size)
    groups, idle, kept_blocks = state.groups, 0, 0
    gone = ends if stays is None else ends & ~stays
    if groups is not None:
        # Blocks of the shared chain stay with the group.
        chained = entry(slots.chained, slot)
        freed = freed - chained
        groups, kept_blocks, idle = groups.ended(engine, request, chained, state.event, gone)

    # A static batch computes its ended sequences until the last one ends.
    ended, going = whole(ends), whole(gone)
    running = state.running - ended
    empties = (running == 0) & (state.progress < 0) & allowed
    padding = state.padding + jnp.where(engine.static, ended, 0)
    padded = state.padded + jnp.where(engine.static, ended * total, 0)
    return state._replace(
        slots=slots._replace(end=end, ready=ready),
        groups=groups,
        running=running,
        offset=state.offset - ended * offset,
        free=state.free + going * freed - kept_blocks,
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, jnp.where(engine.reserve, 0, -ended)),
        event=state.event + going,
        padding=jnp.where(empties, 0, padding),
        padded=jnp.where(empties, 0, padded),
        parked=None if stays is None else state.parked + whole(stays),
    ), Ended(request, ends, allowed & (soonest <= state.count), soonest, stays)


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
    comes = allowed & (waiting.until(engine, state.clock, place) <= 0.0)
    # A bounded queue turns further requests away, as a server with a limit answers 429 or 503.
    room = waiting.waiting().astype(float) < engine.most_waiting
    index = jnp.where(comes & room, place, waiting.waits.shape[0])
    turned = comes & ~room
    waiting = waiting._replace(waits=waiting.waits.at[index].set(True, mode="drop"), next=place + whole(comes))
    waiting = sent(engine, waiting, state.clock, closed, turned)
    more = allowed & (waiting.until(engine, state.clock, waiting.next) <= 0.0)
    return state._replace(waiting=waiting), more, jnp.where(turned, place, -1).astype(jnp.int32)
