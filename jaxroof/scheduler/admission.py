"""Admission of the next prompt: its share of the coming step, its slot and its blocks of the cache."""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.scheduler.blocks import begins_block, counted
from jaxroof.scheduler.drafts import missing_of_returned, verified
from jaxroof.scheduler.engine import Engine, osl_of
from jaxroof.scheduler.prefixes import Place, no_place
from jaxroof.scheduler.state import (
    Slots,
    State,
    Step,
    at_slot,
    blocks_of,
    held_back,
    is_empty,
    is_held_back,
    is_swapped,
    least_slot,
    tokens_left,
    whole,
    with_parked,
)


class Admission(NamedTuple):
    """Result of one admission; ids are -1 where there was nothing."""

    state: State
    happened: Array  # bool
    again: Array  # bool: another one may follow at the same instant
    admitted: Array  # request that had no work before
    hit: Array  # tokens of its prompt that are in the cache
    produced: Array  # request whose prompt is complete or that is back from host memory
    last: Array  # decode count at which it ends
    loaded: Array | None = None  # tokens of the hit that come from every tier, shape [tiers]; None: there are none


class AdmissionCandidate(NamedTuple):
    """The sequence that is next to get work: the prompt under way, else a preempted one, else the queue's first."""

    there: Array  # bool: there is one
    request: Array
    slot: Array
    free_slot: Array  # bool: it has a slot, or one is empty
    under_way: Array  # bool: a part of its prompt is computed
    preempted: Array  # bool: some sequence has lost its cache; the candidate, unless a prompt is under way
    holds_slot: Array  # bool: it is one of these two
    swapped: Array  # bool: its cache is in host memory
    left: Array  # tokens that it has to produce
    isl: Array  # tokens of its prompt
    total: Array  # tokens of its prompt and its output
    target: Array  # tokens whose cache it needs before it decodes


class Room(NamedTuple):
    """Blocks and a slot for a candidate."""

    fits: Array  # bool: there is room
    blocks: Array  # that it takes outside of its group's chain
    starts: Array  # blocks that it begins in the coming step, back from host memory
    cuts_chain: Array  # bool: it fits only without the blocks of its group's chain that are not its own


class Share(NamedTuple):
    """A candidate's share of the coming step, tokens."""

    past: Array  # of its prompt, in the cache already
    remaining: Array  # still to be computed
    budget: Array  # that the step has left
    chunk: Array  # that it may take of it


class Work(NamedTuple):
    """Work of a candidate in the coming step; bools say whether it happens."""

    takes: Array  # bool: it gets work
    enters: Array  # bool: its first, or its first after a preemption
    returns: Array  # bool: it decodes with the cache that comes from host memory
    computes: Array  # bool: it computes `chunk` tokens of its prompt
    chunk: Array
    completes: Array  # bool: these are the last of its prompt
    decodes: Array  # bool: it is among the decoding sequences afterwards
    end: Array  # decode count at which it ends then
    offset: Array  # its context less that count


def admitted(engine: Engine, state: State, need: Array, allowed: Array) -> Admission:
    """The state after the next prompt has got its work for this step, if there is one and if it fits.

    A candidate needs a slot, blocks for its tokens with `Engine.spare` left over, and a share of the token budget.

    Args:
      need: blocks that decoding sequences begin in the coming step, where they take part in it.
      allowed: bool, whether anything may be admitted at this point.
    """
    # 1. Who is next; 2. blocks that it shares with its group; 3. whether it fits; 4. its tokens of the step; 5. what it
    # does with them; 6. the state with it.
    candidate = _candidate(engine, state)
    place = _place(engine, state, candidate)
    room = _room(engine, state, candidate, place, need)
    share = _share(engine, state, candidate, place)
    work = _work(engine, state, candidate, share, allowed & candidate.there & room.fits)
    after = _after(engine, state, candidate, place, room, share, work, need)

    # Another admission may follow at this instant as long as someone is next, a slot is free and the budget has tokens.
    follows = candidate.holds_slot | after.waiting.others_wait(engine, after.clock)
    budget_left = (share.budget - work.chunk >= 1) | candidate.holds_slot
    more_fit = (after.running + after.step.finished < engine.sequences) & budget_left
    return Admission(
        state=after,
        happened=work.takes,
        again=work.takes & (after.progress < 0) & follows & more_fit,
        admitted=jnp.where(work.takes & ~candidate.holds_slot, candidate.request, -1),
        hit=jnp.where(candidate.under_way, 0, place.hit * engine.size),
        produced=jnp.where(work.decodes, candidate.request, -1),
        last=work.end,
        loaded=_loaded(engine, place, work),
    )


def _candidate(engine: Engine, state: State) -> AdmissionCandidate:
    """The prompt under way; else, of the preempted sequences, the one admitted first; else the first of the queue."""
    slots = state.slots
    under_way = state.progress >= 0
    returning, preempted = least_slot(is_held_back(slots.end), slots.number)
    empty, vacant = least_slot(is_empty(slots.end))
    holds_slot = under_way | preempted
    # A prompt that lost its cache on the way comes back before all other preempted ones (vLLM puts it in front).
    returning = jnp.where(state.foremost >= 0, state.foremost, returning)
    # First come, first served over all three kinds: the prompt under way, preempted ones, then the queue.
    slot = jnp.where(under_way, state.partial, jnp.where(preempted, returning, empty))
    queued = state.waiting.next_request(engine, state.clock)
    request = jnp.where(holds_slot, entry(slots.request, slot), queued.request)
    end = entry(slots.end, slot)
    left = jnp.where(holds_slot, tokens_left(end), osl_of(engine, request))
    swapped = holds_slot & is_swapped(end)
    isl = entry(engine.isl, request)
    total = isl + osl_of(engine, request)
    return AdmissionCandidate(
        there=holds_slot | queued.there,
        request=request,
        slot=slot,
        free_slot=preempted | vacant,
        under_way=under_way,
        preempted=preempted,
        holds_slot=holds_slot,
        swapped=swapped,
        left=left,
        isl=isl,
        total=total,
        # A cache in host memory lacks the newest token, which the next decode step writes.
        target=total - left - whole(swapped),
    )


def _place(engine: Engine, state: State, candidate: AdmissionCandidate) -> Place:
    """The candidate's part of the chains of prefixes."""
    if state.groups is None:
        return no_place()
    return state.groups.place(engine, candidate.request, candidate.isl, candidate.target)


def _room(engine: Engine, state: State, candidate: AdmissionCandidate, place: Place, need: Array) -> Room:
    """Whether the candidate's blocks fit beside those that decoding sequences are about to begin, and it has a slot."""
    # Reservation takes blocks for the whole output at once: no preemption later, but fewer sequences.
    tokens = jnp.where(engine.reserve, candidate.total, candidate.target)
    blocks = blocks_of(tokens, engine.size) - place.chained
    starts = _begun_in_first_step(engine, state, candidate, blocks, place)
    demand = blocks + place.growth + starts
    # Idle prefixes count as free, as they can be evicted; those of the candidate itself cannot.
    available = state.free + state.idle - place.idle - jnp.where(engine.mixed, need, 0)

    # A sequence that would be alone always fits: nothing is left to spare for, and its group's chain is cut if need be.
    alone = (with_parked(state, state.running) == 0) & (state.step.finished == 0) & (state.progress < 0)
    cuts_chain = alone & (demand > available)
    spare = jnp.where(alone, 0.0, engine.spare)
    enough = candidate.under_way | cuts_chain | (demand.astype(float) <= available.astype(float) - spare)
    below_limit = (state.running + state.step.finished < engine.sequences) & candidate.free_slot
    return Room(enough & (candidate.under_way | below_limit), blocks, starts, cuts_chain)


def _begun_in_first_step(
    engine: Engine, state: State, candidate: AdmissionCandidate, blocks: Array, place: Place
) -> Array:
    """Blocks that a candidate which is back from host memory begins in the coming step, beside those that it takes."""
    if engine.drafts is not None:
        lacks = missing_of_returned(engine, state, candidate.total, candidate.target, blocks + place.chained)
        return jnp.where(candidate.swapped & engine.mixed, lacks, 0)
    next_begins = begins_block(candidate.target + 1, engine.size)
    return whole(candidate.swapped & engine.mixed & ~engine.reserve & next_begins)


def _share(engine: Engine, state: State, candidate: AdmissionCandidate, place: Place) -> Share:
    """Tokens of the candidate's prompt that the token budget has room for: a chunk, or all of them or none.

    Without chunks a prompt that exceeds the budget runs in a step of its own.
    """
    prompt = state.step.prompt
    past = jnp.where(candidate.under_way, state.progress, place.hit * engine.size)
    remaining = candidate.target - past
    # Decoding sequences have their token of the budget first (decode-prioritised chunking).
    budget = engine.budget - jnp.where(engine.mixed, _rows(engine, state), 0) - prompt
    all_or_none = jnp.where((remaining <= budget) | (prompt == 0), remaining, 0)
    # Chunked prefill takes what is left of the budget, at least one token; else all or nothing.
    chunk = jnp.where(engine.chunked, jnp.minimum(remaining, budget), all_or_none)
    return Share(past, remaining, budget, chunk)


def _rows(engine: Engine, state: State) -> Array:
    """Tokens of the coming step that are decoding sequences', with those that it verifies."""
    running = state.running
    return running if engine.drafts is None else running + verified(engine, state)


def _work(engine: Engine, state: State, candidate: AdmissionCandidate, share: Share, fits: Array) -> Work:
    """The candidate's work in the coming step, if it `fits` and the budget has a token for it."""
    swapped = candidate.swapped
    takes = fits & (swapped | (share.chunk >= 1))
    computes, returns = takes & ~swapped, takes & swapped
    chunk = jnp.where(computes, share.chunk, 0)
    # The last chunk samples the first token: from then on the sequence decodes.
    completes = computes & (chunk == share.remaining)
    # The step that completes a prompt produces one of the tokens left; in a mixed engine it counts as a decode step.
    after_prompt = state.count + whole(engine.mixed) + candidate.left - 1
    end = jnp.where(swapped, state.count + candidate.left, after_prompt)
    return Work(
        takes=takes,
        enters=takes & ~candidate.under_way,
        returns=returns,
        computes=computes,
        chunk=chunk,
        completes=completes,
        decodes=completes | returns,
        end=end,
        offset=candidate.total - end,
    )


def _after(
    engine: Engine,
    state: State,
    candidate: AdmissionCandidate,
    place: Place,
    room: Room,
    share: Share,
    work: Work,
    need: Array,
) -> State:
    """The state after the candidate has got its work."""
    cuts_chain = room.cuts_chain & work.enters
    freed = jnp.where(cuts_chain, place.beyond, 0)
    groups, loading = state.groups, state.loading
    if groups is not None:
        tiers = () if engine.tiers is None else (engine,)
        groups = groups.entered(place, state.event, work.enters, cuts_chain, *tiers)
    if engine.tiers is not None and loading is not None:
        begins = work.enters & work.computes
        loading = loading + jnp.where(begins, given(place.load_time, "s of loads"), 0.0)
    return state._replace(
        slots=_slots_after(state, candidate, place, room, work),
        groups=groups,
        waiting=state.waiting.popped(candidate.request, work.takes & ~candidate.holds_slot),
        step=_step_after(state.step, share, work, need + room.starts * whole(work.returns)),
        running=state.running + whole(work.returns),
        offset=state.offset + jnp.where(work.returns, work.offset, 0),
        # Blocks are taken at admission for all tokens of the prompt, so that its later chunks cannot run out.
        free=state.free - jnp.where(work.enters, room.blocks + place.growth, 0) + freed,
        idle=state.idle - jnp.where(work.enters, place.idle, 0),
        phases=counted(state.phases, work.offset, engine.size, whole(work.decodes & ~engine.reserve)),
        progress=jnp.where(work.computes, jnp.where(work.completes, -1, share.past + work.chunk), state.progress),
        partial=jnp.where(work.computes & ~work.completes, candidate.slot, state.partial),
        foremost=jnp.where(work.enters & candidate.preempted, -1, state.foremost),
        lost=state.lost - whole(work.enters & candidate.preempted),
        admissions=state.admissions + whole(work.enters),
        event=state.event + whole(work.enters),
        moved=state.moved + jnp.where(work.returns, candidate.target, 0),
        loading=loading,
    )


def _loaded(engine: Engine, place: Place, work: Work) -> Array | None:
    """Tokens that come from every tier for a prompt that begins, shape [tiers]."""
    if place.loads is None:
        return None
    return jnp.where(work.enters & work.computes, place.loads * engine.size, 0)


def _slots_after(state: State, candidate: AdmissionCandidate, place: Place, room: Room, work: Work) -> Slots:
    """The slots with the candidate in its own: it decodes, or holds the place of a prompt that is not complete."""
    slots = state.slots
    here = at_slot(slots, candidate.slot, work.takes)
    entered = at_slot(slots, candidate.slot, work.enters)
    end = jnp.where(work.decodes, work.end, held_back(candidate.left, jnp.asarray(False)))
    return slots._replace(
        end=jnp.where(here, end, slots.end),
        number=jnp.where(entered, state.admissions, slots.number),
        request=jnp.where(entered, candidate.request, slots.request),
        chained=None if slots.chained is None else jnp.where(entered, place.chained, slots.chained),
        held=None if slots.held is None else jnp.where(entered, room.blocks + place.chained, slots.held),
        joins=None if slots.joins is None else jnp.where(here, work.completes, slots.joins),
    )


def _step_after(step: Step, share: Share, work: Work, need: Array) -> Step:
    """The coming step with the candidate's chunk in its sums."""
    return Step(
        prompt=step.prompt + work.chunk,
        # Query-key pairs of chunks need the sums of squares and of products with the past only.
        squares=step.squares + _product(work.chunk, work.chunk),
        reaches=step.reaches + _product(work.chunk, share.past),
        finished=step.finished + whole(work.completes),
        joining=step.joining + jnp.where(work.completes, work.offset, 0),
        need=need,
        encodes=None if step.encodes is None else step.encodes + whole(work.enters & work.computes),
    )


def _product(first: Array, second: Array) -> Array:
    """Product of two counts, as a float: it may exceed a whole number's range."""
    return first.astype(float) * second.astype(float)
