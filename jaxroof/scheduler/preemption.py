"""Preemption: the latest admitted sequence loses its cache when the others' next tokens have no room."""

from jaxroof.arrays import entry
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.scheduler.blocks import counted, left_group
from jaxroof.scheduler.engine import Engine, group_of
from jaxroof.scheduler.state import State, at_slot, blocks_of, held_back, is_decoding, least_slot, tokens_left, whole
from jaxroof.struct import Array


def preempted(engine: Engine, state: State, happens: Array) -> tuple[State, Array]:
    """The state after the partial prompt, or else the latest decoding sequence, has lost its cache; its request, or -1.

    Args:
      happens: bool, whether it does.
    """
    slots = state.slots

    # The prompt under way, else the decoding sequence with the latest admission.
    under_way = state.progress >= 0
    decoding = is_decoding(slots.end)
    latest, _ = least_slot(decoding, state.admissions - slots.number)
    slot = jnp.where(under_way, state.partial, latest)

    request, end = entry(slots.request, slot), entry(slots.end, slot)
    total = entry(engine.isl, request) + entry(engine.osl, request)
    left = jnp.where(under_way, tokens_left(end), end - state.count)
    offset = total - end
    cached = total - left - whole(~under_way)  # tokens that have a place in the cache: the newest one has none yet
    swaps = engine.swap & ~under_way

    freed = blocks_of(cached, engine.size)
    groups, idle = state.groups, 0
    if groups is not None:
        freed = freed - entry(slots.chained, slot)
        groups, idle = left_group(groups, group_of(engine, request), state.event, happens)
    decoded = whole(happens & ~under_way)
    return state._replace(
        slots=slots._replace(end=jnp.where(at_slot(slots, slot, happens), held_back(left, swaps), slots.end)),
        groups=groups,
        running=state.running - decoded,
        offset=state.offset - decoded * offset,
        free=state.free + jnp.where(happens, freed, 0),
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, -decoded),
        progress=jnp.where(happens, -1, state.progress),
        foremost=jnp.where(happens & under_way, slot, state.foremost),
        lost=state.lost + whole(happens),
        moved=state.moved + jnp.where(happens & swaps, cached, 0),
        preempted=state.preempted | happens,
        event=state.event + whole(happens),
    ), jnp.where(happens, request, -1)
