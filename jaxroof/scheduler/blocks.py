"""Blocks of the KV cache: those that sequences begin, how long free ones last, and eviction of idle prefixes."""

from jaxroof.arrays import jax_numpy as jnp
from jaxroof.scheduler.engine import Engine, group_of
from jaxroof.scheduler.state import NEVER, Groups, State, is_decoding, least_slot, total_of, whole
from jaxroof.struct import Array


def begins_block(context: Array, size: Array) -> Array:
    """Whether a decode step that attends to `context` tokens, the new one included, writes the first of a block."""
    return jnp.mod(context, size) == jnp.mod(1, size)


def begun(state: State, engine: Engine, steps: Array) -> Array:
    """Blocks that the decoding sequences begin in the next `steps` decode steps."""
    cycles = steps // engine.size  # each sequence begins one block per cycle
    rest = jnp.mod(steps, engine.size)
    return cycles * total_of(state.phases) + total_of(jnp.where(_order(state, engine) < rest, state.phases, 0))


def lasting(state: State, engine: Engine) -> Array:
    """Decode steps until the free blocks and those of idle prefixes are used up."""
    left = state.free + state.idle
    each = total_of(state.phases)
    cycles = left // jnp.maximum(each, 1)
    rest = left - cycles * each
    # Of the last cycle, as many steps as the rest of the blocks suffices for.
    order, steps = _order(state, engine), jnp.arange(1, state.phases.shape[0] + 1, dtype=jnp.int32)
    needed = total_of(jnp.where(order[None, :] < steps[:, None], state.phases[None, :], 0), axis=1)
    more = total_of((needed <= rest) & (steps < engine.size))
    return jnp.where(each > 0, cycles * engine.size + more, NEVER)


def _order(state: State, engine: Engine) -> Array:
    """Decode steps from now until sequences of each phase begin a block: 0 .. size - 1, shape [phases]."""
    return jnp.mod(1 - state.count - jnp.arange(state.phases.shape[0], dtype=jnp.int32), engine.size)


def counted(phases: Array, offset: Array, size: Array, change: Array) -> Array:
    """`phases` with `change` more sequences of this `offset`, total tokens - end."""
    places = jnp.arange(phases.shape[0], dtype=jnp.int32)
    return phases + jnp.where(places == jnp.mod(offset, size), change, 0)


def left_group(groups: Groups | None, group: Array, event: Array, leaves: Array) -> tuple[Groups | None, Array | int]:
    """The groups after one sequence has let go of its prefix, and the blocks that this leaves idle.

    Args:
      group: of the sequence; -1: none.
      event: number of this event.
      leaves: bool, whether it happens.
    """
    if groups is None:
        return None, 0
    here = (jnp.arange(groups.chain.shape[0], dtype=jnp.int32) == group) & leaves
    users = groups.users - whole(here)
    idle = total_of(jnp.where(here & (users == 0), groups.chain, 0))
    return Groups(groups.chain, users, jnp.where(here, event, groups.used)), idle


def shortened(engine: Engine, state: State, happens: Array) -> State:
    """The state after a sequence that is alone has given up the blocks of its group's chain that are not its own.

    Args:
      happens: bool; then there is one decoding sequence.
    """
    if state.groups is None:
        return state
    slots, groups = state.slots, state.groups
    slot, _ = least_slot(is_decoding(slots.end))
    group = group_of(engine, slots.request[slot])
    chained = slots.chained[slot]
    here = (jnp.arange(groups.chain.shape[0], dtype=jnp.int32) == group) & happens
    chain = jnp.where(here, jnp.minimum(groups.chain, chained), groups.chain)
    return state._replace(groups=groups._replace(chain=chain), free=state.free + total_of(groups.chain - chain))


def evicted(state: State) -> State:
    """The state with blocks of the idle prefix that was used longest ago given back, as many as are missing."""
    if state.groups is None:
        return state
    missing = jnp.maximum(-state.free, 0)
    groups = state.groups
    candidates = (groups.users == 0) & (groups.chain > 0)
    oldest = jnp.min(jnp.where(candidates, groups.used, NEVER))
    here = candidates & (groups.used == oldest)
    taken = jnp.minimum(total_of(jnp.where(here, groups.chain, 0)), missing)
    chain = groups.chain - jnp.where(here, taken, 0)
    return state._replace(
        groups=Groups(chain, groups.users, groups.used), free=state.free + taken, idle=state.idle - taken
    )
