"""Sequences that have produced their last token, and requests that are sent because of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine, group_of
from jaxroof.scheduler.state import NEVER, Clock, State, Waiting, blocks_of, least_slot, plus, total_of, whole


class Ended(NamedTuple):
    """What is left after one sequence has ended."""

    more: jax.Array  # bool: others are due
    next_end: jax.Array  # count of decode steps at which the next one ends


def completed(engine: Engine, state: State, closed: bool, allowed: jax.Array) -> tuple[State, Ended]:
    """The state after one of the sequences that are due has ended: where it matters, the one admitted first."""
    slots = state.slots
    due = (slots.end >= 0) & (slots.end <= state.count) & allowed
    slot, ends = least_slot(due, None if state.groups is None else slots.number)
    mine = (jnp.arange(due.shape[0], dtype=jnp.int32) == slot) & ends
    end = jnp.where(mine, NEVER, slots.end)
    next_end = jnp.min(jnp.where(end >= 0, end, NEVER))
    more = allowed & (next_end <= state.count)
    request = slots.request[slot]
    total = engine.isl[request] + engine.osl[request]
    offset = total - slots.end[slot]
    freed = blocks_of(jnp.where(engine.reserve, total, total - 1), engine.size)

    groups, idle, kept = state.groups, 0, 0
    if groups is not None:
        freed = freed - slots.chained[slot]
        group = group_of(engine, request)
        keep = engine.keep[request] // engine.size
        chain = jnp.arange(groups.chain.shape[0], dtype=jnp.int32) == group
        grown = jnp.where(chain & ends & engine.caching, jnp.maximum(groups.chain, keep), groups.chain)
        kept = total_of(grown - groups.chain)
        groups, idle = left_group(groups._replace(chain=grown), group, state.event, ends)
    gone = ends.astype(jnp.int32)
    running = state.running - gone
    none = (running == 0) & (state.progress < 0) & allowed
    return state._replace(
        slots=slots._replace(end=end),
        groups=groups,
        waiting=sent(engine, state.waiting, state.clock, closed, ends),
        running=running,
        offset=state.offset - gone * offset,
        free=state.free + gone * freed - kept,
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, jnp.where(engine.reserve, 0, -gone)),
        event=state.event + gone,
        padding=jnp.where(none, 0, state.padding + jnp.where(engine.static, gone, 0)),
        padded=jnp.where(none, 0, state.padded + jnp.where(engine.static, gone * total, 0)),
    ), Ended(more, next_end)


def sent(engine: Engine, waiting: Waiting, clock: Clock, closed: bool, ends: jax.Array) -> Waiting:
    """The queue after a client of a closed loop has its answer: it sends the next request when it has thought."""
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
