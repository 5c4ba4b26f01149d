"""End of a sequence that has produced its last token, and the request that its client then sends."""

from typing import NamedTuple

from jaxroof.arrays import entry
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine, group_of
from jaxroof.scheduler.state import (
    NEVER,
    Clock,
    Groups,
    State,
    Waiting,
    at_slot,
    blocks_of,
    is_due,
    least_slot,
    next_end,
    plus,
    total_of,
    whole,
)
from jaxroof.struct import Array


class Ended(NamedTuple):
    """The sequences that remain after one has ended."""

    more: Array  # bool: others are due
    next_end: Array  # count of decode steps at which the next one ends


def completed(engine: Engine, state: State, closed: bool, allowed: Array) -> tuple[State, Ended]:
    """The state after one of the sequences that are due has ended: where it matters, the one admitted first."""
    slots = state.slots
    due = is_due(slots.end, state.count) & allowed
    slot, ends = least_slot(due, None if state.groups is None else slots.number)
    ended = whole(ends)
    end = jnp.where(at_slot(slots, slot, ends), NEVER, slots.end)
    soonest = next_end(end)

    # Its last token has no place in the cache, as no step attends to it.
    request = entry(slots.request, slot)
    total = entry(engine.isl, request) + entry(engine.osl, request)
    offset = total - entry(slots.end, slot)
    freed = blocks_of(jnp.where(engine.reserve, total, total - 1), engine.size)
    groups, idle, kept = state.groups, 0, 0
    if groups is not None:
        freed = freed - entry(slots.chained, slot)
        group = group_of(engine, request)
        groups, kept = _kept(engine, groups, group, request, ends)
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
        free=state.free + ended * freed - kept,
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, jnp.where(engine.reserve, 0, -ended)),
        event=state.event + ended,
        padding=jnp.where(empties, 0, padding),
        padded=jnp.where(empties, 0, padded),
    ), Ended(allowed & (soonest <= state.count), soonest)


def _kept(engine: Engine, groups: Groups, group: Array, request: Array, ends: Array) -> tuple[Groups, Array]:
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
    place = jnp.where(ends & (place < engine.requests), place, waiting.arrival.high.shape[0])
    then = plus(clock, engine.think + engine.delay)
    arrival = Clock(
        waiting.arrival.high.at[place].set(then.high, mode="drop"),
        waiting.arrival.low.at[place].set(then.low, mode="drop"),
    )
    return waiting._replace(arrival=arrival, ended=waiting.ended + whole(ends))
