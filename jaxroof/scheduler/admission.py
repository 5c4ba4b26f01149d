"""Giving the next prompt its share of the coming step, and its place in the cache."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.scheduler.arriving import next_request, others_wait, popped
from jaxroof.scheduler.blocks import begins_block, counted
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import (
    NEVER,
    Groups,
    State,
    blocks_of,
    held_back,
    is_swapped,
    least_slot,
    tokens_left,
    whole,
)


class Admission(NamedTuple):
    """What an iteration admitted; ids are -1 where there was nothing."""

    state: State
    happened: jax.Array  # bool
    again: jax.Array  # bool: another one may follow at the same instant
    admitted: jax.Array  # request that had no work before
    hit: jax.Array  # tokens of its prompt that are in the cache
    produced: jax.Array  # request whose prompt is complete or that is back from host memory
    last: jax.Array  # decode count at which it ends


class Place(NamedTuple):
    """Blocks that an admission takes, and what of them is its group's chain."""

    group: jax.Array
    hit: jax.Array  # blocks of the prompt that are there
    chained: jax.Array  # blocks of the prompt that are in the chain afterwards
    growth: jax.Array  # blocks that the chain grows by
    chain: jax.Array  # blocks of the chain before
    idle: jax.Array  # of them, idle ones


def admitted(engine: Engine, state: State, shortest: bool, need: jax.Array, allowed: jax.Array) -> Admission:
    """The state after the next prompt has got its work for this step, if there is one and if it fits.

    Args:
      shortest: whether the queue is ordered by the length of prompts.
      need: blocks that decoding sequences begin in the coming step, where they take part in it.
      allowed: bool, whether anything may be admitted at this point.
    """
    slots, step = state.slots, state.step
    places = jnp.arange(slots.end.shape[0], dtype=jnp.int32)
    begun = state.progress >= 0
    returning, some = least_slot(slots.end < 0, slots.number)
    empty, vacant = least_slot(slots.end == NEVER)
    held = begun | some
    slot = jnp.where(begun, state.partial, jnp.where(some, returning, empty))
    queued = next_request(engine, state, shortest)
    request = jnp.where(held, slots.request[slot], queued.request)
    isl = engine.isl[request]
    total = isl + engine.osl[request]
    before = slots.end[slot]
    left = jnp.where(held, tokens_left(before), engine.osl[request])
    back = held & is_swapped(before)
    target = total - left - whole(back)  # of a prompt, or of a cache that lacks the newest token

    place = _place(engine, state, request, isl, target)
    own = blocks_of(jnp.where(engine.reserve, total, target), engine.size) - place.chained
    starts = back & engine.mixed & ~engine.reserve & begins_block(target + 1, engine.size)
    demand = own + place.growth + whole(starts)
    available = state.free + state.idle - place.idle - jnp.where(engine.mixed, need, 0)
    alone = (state.running == 0) & (step.finished == 0) & (state.progress < 0)
    cut = alone & (demand > available)  # its own group's chain, where that is longer than its prompt
    spare = jnp.where(alone, 0.0, engine.spare)
    fits = begun | cut | (demand.astype(float) <= available.astype(float) - spare)
    room = begun | ((state.running + step.finished < engine.sequences) & (some | vacant))

    past = jnp.where(begun, state.progress, place.hit * engine.size)
    remaining = target - past
    budget = engine.budget - jnp.where(engine.mixed, state.running, 0) - step.prompt
    all_of_it = jnp.where((remaining <= budget) | (step.prompt == 0), remaining, 0)
    chunk = jnp.where(engine.chunked, jnp.minimum(remaining, budget), all_of_it)
    takes = allowed & (held | queued.there) & fits & room & (back | (chunk >= 1))
    works, returns = takes & ~back, takes & back
    chunk = jnp.where(works, chunk, 0)
    finishes = works & (chunk == remaining)
    decodes = finishes | returns
    enters = takes & ~begun

    end = jnp.where(back, state.count + left, state.count + whole(engine.mixed) + left - 1)
    offset = total - end
    mine = (places == slot) & takes
    number = jnp.where(begun, slots.number[slot], state.admissions)
    cut = cut & enters
    shortened = jnp.where(cut, jnp.maximum(place.chain - place.chained, 0), 0)
    after = state._replace(
        slots=slots._replace(
            end=jnp.where(mine, jnp.where(decodes, end, held_back(left, jnp.asarray(False))), slots.end),
            number=jnp.where(mine, number, slots.number),
            request=jnp.where(mine, request, slots.request),
            chained=None if slots.chained is None else jnp.where(mine & ~begun, place.chained, slots.chained),
        ),
        groups=_joined(state.groups, place, state.event, enters, cut),
        waiting=popped(state.waiting, request, takes & ~held),
        step=step._replace(
            prompt=step.prompt + chunk,
            squares=step.squares + _product(chunk, chunk),
            reaches=step.reaches + _product(chunk, past),
            finished=step.finished + whole(finishes),
            joining=step.joining + jnp.where(finishes, offset, 0),
            need=need + whole(starts & returns),
        ),
        running=state.running + whole(returns),
        offset=state.offset + jnp.where(returns, offset, 0),
        free=state.free - jnp.where(enters, own + place.growth, 0) + shortened,
        idle=state.idle - jnp.where(enters, place.idle, 0),
        phases=counted(state.phases, offset, engine.size, whole(decodes & ~engine.reserve)),
        progress=jnp.where(works, jnp.where(finishes, -1, past + chunk), state.progress),
        partial=jnp.where(works & ~finishes, slot, state.partial),
        lost=state.lost - whole(enters & some),
        admissions=state.admissions + whole(enters),
        event=state.event + whole(enters),
        moved=state.moved + jnp.where(returns, target, 0),
    )
    follows = held | others_wait(engine, after)
    room = (after.running + after.step.finished < engine.sequences) & ((budget - chunk >= 1) | held)
    return Admission(
        state=after,
        happened=takes,
        again=takes & (after.progress < 0) & follows & room,
        admitted=jnp.where(takes & ~held, request, -1),
        hit=jnp.where(begun, 0, place.hit * engine.size),
        produced=jnp.where(decodes, request, -1),
        last=end,
    )


def _place(engine: Engine, state: State, request: jax.Array, isl: jax.Array, target: jax.Array) -> Place:
    none = jnp.int32(0)
    groups = state.groups
    if groups is None:
        return Place(jnp.int32(-1), none, none, none, none, none)
    group = engine.group[request]
    inside = jnp.maximum(group, 0)
    chain = groups.chain[inside]
    member = (group >= 0) & engine.caching
    kept = jnp.minimum(engine.keep[request], isl) // engine.size
    hit = jnp.minimum(jnp.minimum(chain, engine.shared[request] // engine.size), (target - 1) // engine.size)
    hit = jnp.where(member, hit, 0)
    chained = jnp.where(member, jnp.maximum(hit, kept), 0)
    growth = jnp.where(member, jnp.maximum(chained - chain, 0), 0)
    idle = jnp.where(member & (groups.users[inside] == 0), chain, 0)
    return Place(jnp.where(member, group, -1), hit, chained, growth, chain, idle)


def _joined(groups: Groups | None, place: Place, event: jax.Array, enters: jax.Array, cut: jax.Array) -> Groups | None:
    """The groups after a sequence has taken hold of its prefix."""
    if groups is None:
        return None
    mine = (jnp.arange(groups.chain.shape[0], dtype=jnp.int32) == place.group) & enters
    chain = jnp.where(cut, place.chained, jnp.maximum(groups.chain, place.chained))
    return Groups(
        chain=jnp.where(mine, chain, groups.chain),
        users=groups.users + whole(mine),
        used=jnp.where(mine, event, groups.used),
    )


def _product(first: jax.Array, second: jax.Array) -> jax.Array:
    """Of two counts, as a float: it may exceed a whole number's range."""
    return first.astype(float) * second.astype(float)
