"""Hand-over of a prompt's cache from an engine that computes prompts to one that decodes.

A completed prompt is parked where it was computed: it keeps its blocks there. A router sends it to a decoding engine,
in whose queue it waits for a slot and for blocks. Then its cache is sent, over the slower of both engines' links, which
carry one cache after the other. Until it has arrived it is parked there too; then it decodes, and the blocks of the
first engine are free. Layer by layer, only the last layer is sent after the prompt, and what the prompt's last step
was too short for.
"""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.scheduler.blocks import counted
from jaxroof.scheduler.engine import Engine, osl_of
from jaxroof.scheduler.service.lines import Line
from jaxroof.scheduler.state import NEVER, PARKED, State, at_slot, blocks_of, is_empty, is_parked, least_slot, whole

WHOLE, PREFILL, DECODE = range(3)
"""Roles of engines: requests to their end, prompts alone, and what follows them."""

ROLES = ("whole", "prefill", "decode")


class Transfer(NamedTuple):
    """Links between engines."""

    rate: Array  # tokens per s that an engine sends or receives, shape [engines]
    latency: Array  # s of every hand-over
    layers: Array  # that are sent one by one, while the next are computed; 0: all together after the prompt


def arrival(transfer: Transfer, isl: Array, start: Array, sender: Array, receiver: Array, spent: Array) -> Array:
    """Time in s at which a prompt's cache has arrived that is sent from `start` on.

    Args:
      spent: s of the step that completed the prompt.
    """
    slower = jnp.minimum(transfer.rate[sender], transfer.rate[receiver])
    return start + exposed(transfer._replace(rate=slower), isl, spent)


def exposed(transfer: Transfer, isl: Array, spent: Array) -> Array:
    """s from the time at which a cache is sent for until it is there, over a link of one rate."""
    takes = transfer.latency + isl.astype(float) / transfer.rate
    each = takes / jnp.maximum(transfer.layers, 1.0)
    return jnp.where(transfer.layers > 0.0, jnp.maximum(each, takes - spent), takes)


class Acceptance(NamedTuple):
    """A decoding engine after it has found room for a prompt's cache."""

    state: State
    happened: Array  # bool
    request: Array
    slot: Array


def accepted(engine: Engine, state: State, line: Line, need: Array, allowed: Array) -> Acceptance:
    """The state after the first of the queue has got a slot and blocks for its cache, if there is room.

    Args:
      need: blocks that decoding sequences begin in the coming step.
      allowed: bool: nothing else is to be admitted first.
    """
    request = line.first()
    isl = entry(engine.isl, request)
    blocks = blocks_of(jnp.where(engine.reserve, isl + entry(engine.osl, request), isl), engine.size)
    slot, vacant = least_slot(is_empty(state.slots.end))
    available = state.free + state.idle - jnp.where(engine.mixed, need, 0)
    alone = (state.running + state.parked == 0) & (state.step.finished == 0) & (state.progress < 0)
    enough = alone | (blocks.astype(float) <= available.astype(float) - engine.spare)
    below_limit = vacant & (state.running + state.step.finished < engine.sequences)
    happens = allowed & (line.count > 0) & enough & below_limit
    here = at_slot(state.slots, slot, happens)
    slots = state.slots._replace(
        end=jnp.where(here, PARKED, state.slots.end),
        number=jnp.where(here, state.admissions, state.slots.number),
        request=jnp.where(here, request, state.slots.request),
        chained=None if state.slots.chained is None else jnp.where(here, 0, state.slots.chained),
        held=None if state.slots.held is None else jnp.where(here, blocks, state.slots.held),
    )
    state = state._replace(
        slots=slots,
        waiting=line.popped(request, happens),
        free=state.free - jnp.where(happens, blocks, 0),
        admissions=state.admissions + whole(happens),
        event=state.event + whole(happens),
        parked=state.parked + whole(happens),
    )
    return Acceptance(state, happens, request, slot)


class Arrived(NamedTuple):
    """An engine after one parked sequence's cache has arrived."""

    state: State
    joined: Array  # request that decodes from here on; -1: none
    more: Array  # bool: that of others has too


def arrived(engine: Engine, state: State, time: Array, allowed: Array) -> Arrived:
    """The state after one sequence has joined those that decode, or has left the engine that computed its prompt.

    Args:
      time: s of this instant.
    """
    slots = state.slots
    due = is_parked(slots.end) & (slots.ready <= time) & allowed
    slot, happens = least_slot(due, slots.number)
    request = entry(slots.request, slot)
    isl, osl = entry(engine.isl, request), osl_of(engine, request)
    total = isl + osl
    joins, leaves = happens & ~engine.single, happens & engine.single  # type: ignore[operator]
    end = state.count + osl - 1
    here = at_slot(slots, slot, happens)
    slots = slots._replace(end=jnp.where(here, jnp.where(joins, end, NEVER), slots.end))

    freed = blocks_of(jnp.where(engine.reserve, total, total - 1), engine.size)
    groups, kept, idle = state.groups, 0, 0
    if groups is not None:
        chained = entry(state.slots.chained, slot)
        freed = freed - chained
        groups, kept, idle = groups.ended(engine, request, chained, state.event, leaves)
    offset = total - end
    state = state._replace(
        slots=slots,
        groups=groups,
        running=state.running + whole(joins),
        offset=state.offset + jnp.where(joins, offset, 0),
        free=state.free + jnp.where(leaves, freed, 0) - kept,
        idle=state.idle + idle,
        phases=counted(state.phases, offset, engine.size, whole(joins & ~engine.reserve)),
        event=state.event + whole(happens),
        parked=state.parked - whole(happens),
    )
    others = due & ~here
    return Arrived(state, jnp.where(joins, request, -1), jnp.any(others))


def next_ready(state: State) -> Array:
    """Time in s at which the next cache arrives, infinite where none is on its way."""
    ready = given(state.slots.ready, "times of arrival")
    return jnp.min(jnp.where(is_parked(state.slots.end), ready, jnp.inf))
