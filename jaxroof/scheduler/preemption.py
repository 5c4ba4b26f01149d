"""Taking the cache of the latest admitted sequence when the others' next tokens have no room."""

import jax
import jax.numpy as jnp

from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import DROPPED, PARTIAL, RUNNING, SWAPPED, State, blocks_of, total_of, whole

FIRST = -1
"""Number of a partial prompt that lost its cache: it is the next to be admitted."""


def preempted(engine: Engine, state: State, happens: jax.Array) -> tuple[State, jax.Array]:
    """The state after the partial prompt, or else the latest decoding sequence, has lost its cache; its request, or -1.

    Args:
      happens: bool, whether it does.
    """
    slots = state.slots
    begun = state.progress >= 0
    latest = jnp.max(jnp.where(slots.mode == RUNNING, slots.number, -1))
    mine = jnp.where(begun, slots.mode == PARTIAL, (slots.mode == RUNNING) & (slots.number == latest)) & happens
    slot = total_of(jnp.where(mine, jnp.arange(mine.shape[0], dtype=jnp.int32), 0))
    total, end = slots.total[slot], slots.end[slot]
    offset = total - end
    held = jnp.where(begun, offset, offset + state.count - 1)  # tokens that have a place in the cache
    freed = blocks_of(held, engine.size) - slots.chained[slot]
    swaps = engine.swap & ~begun
    decoded = whole(happens & ~begun)
    groups, idle = left_group(state.groups, slots.group[slot], state.event, happens)
    return state._replace(
        slots=slots._replace(
            number=jnp.where(mine & begun, FIRST, slots.number),
            mode=jnp.where(mine, jnp.where(swaps, SWAPPED, DROPPED), slots.mode),
            end=jnp.where(mine, jnp.where(begun, end, end - state.count), slots.end),
            chained=jnp.where(mine, 0, slots.chained),
        ),
        groups=groups,
        running=state.running - decoded,
        offset=state.offset - decoded * offset,
        free=state.free + jnp.where(happens, freed, 0),
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, -decoded),
        progress=jnp.where(happens, -1, state.progress),
        moved=state.moved + jnp.where(happens & swaps, held, 0),
        preempted=state.preempted | happens,
        event=state.event + whole(happens),
    ), jnp.where(happens, slots.request[slot], -1)
