"""Blocks of the KV cache: those that sequences begin, how long free ones last, and eviction of idle prefixes."""

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.drafts import missing
from jaxroof.scheduler.engine import Engine, osl_of
from jaxroof.scheduler.state import (
    NEVER,
    State,
    at_slot,
    blocks_of,
    held_back,
    is_decoding,
    least_slot,
    tokens_left,
    total_of,
    whole,
)


def begins_block(context: Array, size: Array) -> Array:
    """Whether a decode step that attends to `context` tokens, the new one included, writes the first of a block."""
    # Block boundaries: tokens 1, 1 + size, ...: a new block begins where the context is 1 modulo the size.
    return jnp.mod(context, size) == jnp.mod(1, size)


def begun(state: State, engine: Engine, steps: Array) -> Array:
    """Blocks that the decoding sequences begin in the next `steps` decode steps."""
    if engine.drafts is not None:  # which makes one step at a time
        return total_of(missing(engine, state))
    # Sequences are counted by phase, their offset modulo the block size, which decoding does not change: one cumulative
    # histogram stands for all their lengths.
    below, following = state.phases, _following(state, engine)
    cycles = steps // engine.size  # each sequence begins one block per cycle
    first = following - (steps - cycles * engine.size)
    # The window of phases wraps around once.
    around = first < 0  # the phases of the last steps are the highest
    here = entry(below, following) - entry(below, jnp.where(around, first + engine.size, first))
    return (cycles + whole(around)) * below[-1] + here


def lasting(state: State, engine: Engine) -> Array:
    """Decode steps until the free blocks and those of idle prefixes are used up."""
    below, following = state.phases, _following(state, engine)
    idle = state.idle if engine.tiers is None else jnp.where(engine.tiers.stepwise, 0, state.idle)
    left, each = state.free + idle, below[-1]
    # Whole cycles first: in `size` steps every sequence begins exactly one block.
    cycles = left // jnp.maximum(each, 1)
    rest = left - cycles * each
    # Of the last cycle, as many steps as the rest of the blocks suffices for: of those that begin the phases from each
    # place on, but not the step after which all have begun one.
    places = jnp.arange(below.shape[0] - 1, dtype=jnp.int32)
    needed = entry(below, following) - below[:-1] + jnp.where(places >= following, each, 0)
    within = (places < engine.size) & (places != jnp.where(following < engine.size, following, 0))
    more = total_of((needed <= rest) & within)
    return jnp.where(each > 0, cycles * engine.size + more, NEVER)


def _following(state: State, engine: Engine) -> Array:
    """The phase after the one that begins a block in the next decode step, 1 .. size; later steps begin lower ones."""
    return jnp.mod(1 - state.count, engine.size) + 1


def counted(phases: Array, offset: Array, size: Array, change: Array) -> Array:
    """`State.phases` with `change` more sequences of this `offset`, total tokens - end."""
    places = jnp.arange(phases.shape[0], dtype=jnp.int32)
    # Cumulative counts: a sequence adds to all places above its phase.
    return phases + jnp.where(places > jnp.mod(offset, size), change, 0)


def shortened(engine: Engine, state: State, happens: Array) -> State:
    """The state after a sequence that is alone has given up the blocks of its group's chain that are not its own.

    Args:
      happens: bool; then there is one decoding sequence.
    """
    if state.groups is None:
        return state
    slots = state.slots
    slot, _ = least_slot(is_decoding(slots.end))
    request, chained = entry(slots.request, slot), entry(slots.chained, slot)
    groups, freed = state.groups.shortened(engine, request, chained, happens)
    return state._replace(groups=groups, free=state.free + freed)


def evicted(state: State, engine: Engine | None = None) -> State:
    """The state with blocks of the idle prefix that was used longest ago given back, as many as are missing.

    Args:
      engine: where it has tiers below its cache, they get what it evicts.
    """
    if state.groups is None:
        return state
    missing = jnp.maximum(-state.free, 0)
    tiers = () if engine is None or engine.tiers is None else (engine,)
    groups, taken = state.groups.evicted(missing, *tiers)
    return state._replace(groups=groups, free=state.free + taken, idle=state.idle - taken)


# Preemption: the latest admitted sequence loses its cache when the others' next tokens have no room.


def preempted(engine: Engine, state: State, happens: Array) -> tuple[State, Array]:
    """The state after the partial prompt, or else the latest decoding sequence, has lost its cache; its request, or -1.

    Args:
      happens: bool, whether it does.
    """
    slots = state.slots

    # The prompt under way, else the decoding sequence with the latest admission.
    under_way = state.progress >= 0
    decoding = is_decoding(slots.end)
    # vLLM preempts the latest admitted sequence, so that first come stays first served.
    latest, _ = least_slot(decoding, state.admissions - slots.number)
    slot = jnp.where(under_way, state.partial, latest)

    request, end = entry(slots.request, slot), entry(slots.end, slot)
    total = entry(engine.isl, request) + osl_of(engine, request)
    left = jnp.where(under_way, tokens_left(end), end - state.count)
    offset = total - end
    cached = total - left - whole(~under_way)  # tokens that have a place in the cache: the newest one has none yet
    held = blocks_of(cached, engine.size) if slots.held is None else entry(slots.held, slot)
    # A partial prompt is recomputed, never swapped.
    swaps = engine.swap & ~under_way

    freed = held
    groups, idle = state.groups, 0
    if groups is not None:
        chained = entry(slots.chained, slot)
        freed = freed - chained
        groups, idle = groups.left(engine, request, chained, state.event, happens)
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
        # Recomputation runs the prompt and the tokens produced so far as one new prompt; swapping moves the blocks
        # instead.
        moved=state.moved + jnp.where(happens & swaps, cached, 0),
        preempted=state.preempted | happens,
        event=state.event + whole(happens),
    ), jnp.where(happens, request, -1)
