"""Sequences that have produced their last token, and requests that are sent because of it."""

import jax
import jax.numpy as jnp

from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import FREE, NEVER, RUNNING, Clock, State, Waiting, blocks_of, plus, total_of, whole


def completed(engine: Engine, state: State, closed: bool, allowed: jax.Array) -> tuple[State, jax.Array]:
    """The state after the longest admitted of the sequences that are due has ended; whether others are due."""
    slots = state.slots
    due = (slots.mode == RUNNING) & (slots.end <= state.count) & allowed
    first = jnp.min(jnp.where(due, slots.number, NEVER))
    ends = first < NEVER
    more = total_of(due) > 1
    mine = due & (slots.number == first)
    slot = total_of(jnp.where(mine, jnp.arange(mine.shape[0], dtype=jnp.int32), 0))
    total, offset = slots.total[slot], slots.total[slot] - slots.end[slot]
    freed = blocks_of(jnp.where(engine.reserve, total, total - 1), engine.size) - slots.chained[slot]

    groups, idle, kept = state.groups, 0, 0
    if groups is not None:
        group = slots.group[slot]
        keep = engine.keep[slots.request[slot]] // engine.size
        chain = jnp.arange(groups.chain.shape[0], dtype=jnp.int32) == group
        grown = jnp.where(chain & ends & engine.caching, jnp.maximum(groups.chain, keep), groups.chain)
        kept = total_of(grown - groups.chain)
        groups, idle = left_group(groups._replace(chain=grown), group, state.event, ends)
    gone = ends.astype(jnp.int32)
    running = state.running - gone
    none = (running == 0) & (state.progress < 0) & allowed
    return state._replace(
        slots=slots._replace(mode=jnp.where(mine, FREE, slots.mode)),
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
    ), more


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
