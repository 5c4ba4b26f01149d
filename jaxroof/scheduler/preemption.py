"""Taking the cache of the latest admitted sequence when the others' next tokens have no room."""

import jax
import jax.numpy as jnp

from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine, group_of
from jaxroof.scheduler.state import NEVER, State, blocks_of, held_back, least_slot, tokens_left, whole

FIRST = 0
"""Number of a partial prompt that lost its cache: it is the next to be admitted."""


def preempted(engine: Engine, state: State, happens: jax.Array) -> tuple[State, jax.Array]:
    """The state after the partial prompt, or else the latest decoding sequence, has lost its cache; its request, or -1.

    Args:
      happens: bool, whether it does.
    """
    slots = state.slots
    begun = state.progress >= 0
    decoding = (slots.end >= 0) & (slots.end < NEVER)
    latest, _ = least_slot(decoding, state.admissions - slots.number)
    slot = jnp.where(begun, state.partial, latest)
    mine = (jnp.arange(decoding.shape[0], dtype=jnp.int32) == slot) & happens
    request, end = slots.request[slot], slots.end[slot]
    total = engine.isl[request] + engine.osl[request]
    left = jnp.where(begun, tokens_left(end), end - state.count)
    offset = total - end
    held = total - left - whole(~begun)  # tokens that have a place in the cache
    freed = blocks_of(held, engine.size)
    groups, idle = state.groups, 0
    if groups is not None:
        freed = freed - slots.chained[slot]
        group = group_of(engine, request)
        groups, idle = left_group(groups, group, state.event, happens)
    swaps = engine.swap & ~begun
    decoded = whole(happens & ~begun)
    return state._replace(
        slots=slots._replace(
            number=jnp.where(mine & begun, FIRST, slots.number),
            end=jnp.where(mine, held_back(left, swaps), slots.end),
        ),
        groups=groups,
        running=state.running - decoded,
        offset=state.offset - decoded * offset,
        free=state.free + jnp.where(happens, freed, 0),
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, -decoded),
        progress=jnp.where(happens, -1, state.progress),
        lost=state.lost + whole(happens),
        moved=state.moved + jnp.where(happens & swaps, held, 0),
        preempted=state.preempted | happens,
        event=state.event + whole(happens),
    ), jnp.where(happens, slots.request[slot], -1)
