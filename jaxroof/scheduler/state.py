"""State of the simulator between two iterations, and the arithmetic of its clock, slots and blocks."""

from typing import Any, NamedTuple, TypeVar

from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array, Scalar

T = TypeVar("T")

NEVER = 2**31 - 1
"""A count that no sequence reaches."""

PARKED = NEVER - 1
"""`Slots.end` of a sequence whose cache is here and that does not decode here: not yet, or no more."""


class Clock(NamedTuple):
    """A time in s as a sum of two floats, so that adding small durations for long does not drift."""

    high: Array
    low: Array


class Slots(NamedTuple):
    """Admitted sequences, arrays of shape [slots], int32.

    `end` says what is in a slot and until when: one number, so that iterations select and carry one array.

    | what is in the slot | `end` | reads it | makes it |
    |---|---|---|---|
    | nothing | NEVER | `is_empty` | NEVER |
    | a decoding sequence | the count of decode steps at which it ends, from 0 | `is_decoding`, `is_due` | the count |
    | a prompt that is not complete | -1 - 2 left: below 0, odd | `is_held_back`, `tokens_left` | `held_back` |
    | a preempted sequence | the same; -2 - 2 left where its cache is in host memory | and `is_swapped` | `held_back` |
    | a sequence whose cache is on its way | PARKED | `is_parked` | PARKED |

    left: tokens that it has to produce.
    """

    end: Array
    number: Array  # of its admission: later ones have larger numbers
    request: Array
    chained: Array | None  # its blocks that are in its group's chain; None: there are no groups
    ready: Array | None = None  # s, float: when a parked one's cache has arrived; None: none is ever parked
    held: Array | None = None  # its blocks, those of the chain too; None: nothing is drafted
    joins: Array | None = None  # bool: its prompt is complete with the coming step; None: nothing is drafted


class Step(NamedTuple):
    """Sums over what the coming engine step has been given so far."""

    prompt: Scalar  # tokens, int32
    squares: Scalar  # sum of squared chunks, float
    reaches: Scalar  # sum of chunk * past, float
    finished: Scalar  # prompts that it completes, int32
    joining: Scalar  # sum of their offsets, as `State.offset`
    need: Scalar  # blocks that decoding sequences begin in it
    encodes: Scalar | None = None  # prompts that it begins, whose images are encoded, int32; None: there are no images


class State(NamedTuple):
    """All that the next iteration depends on."""

    clock: Clock
    count: Array  # hides tuple.count; decode steps so far
    slots: Slots
    groups: Any  # prefixes in the cache: `PrefixGroups`, or those of several engines; None: nothing is shared
    waiting: Any  # the queue: `Waiting`, or one of several engines
    step: Step
    running: Array  # sequences that decode
    offset: Array  # sum over them of total tokens - end: their context is offset + running * count
    free: Array  # blocks; below zero until idle prefixes are evicted
    idle: Array  # blocks of prefixes that nobody uses
    phases: Array  # growing sequences with offset mod block size below each place, shape [phases + 1]; [0] with drafts
    progress: Array  # tokens in the cache of the prompt that takes several steps; -1: there is none
    partial: Array  # its slot
    foremost: Array  # slot of a prompt that has lost its cache on the way, and is the next to be admitted; -1: none
    lost: Array  # sequences whose cache was taken
    admissions: Array
    event: Array
    moved: Array  # tokens whose cache goes to or from host memory in the coming step
    preempted: Array  # bool: at this instant
    gate: Array  # bool: whether an exclusive order admits
    pace: Array  # s of the last engine step
    ahead: Array  # decode steps: 0, with the gradient of how many more a faster engine would have made
    padding: Array  # ended sequences that a static batch still computes
    padded: Array  # their context, tokens
    parked: Array | None = None  # sequences whose cache is on its way; None: there are none
    loading: Array | None = None  # s of cache from tiers for prompts of the coming step; None: there are no tiers


def is_empty(end: Array) -> Array:
    """Whether nothing is in a slot with this `Slots.end`."""
    return end == NEVER


def is_decoding(end: Array) -> Array:
    """Whether a slot holds a decoding sequence."""
    return (end >= 0) & (end < PARKED)


def is_parked(end: Array) -> Array:
    """Whether a slot holds a sequence whose cache is on its way."""
    return end == PARKED


def is_due(end: Array, count: Array) -> Array:
    """Whether a slot holds a sequence that has produced its last token after `count` decode steps."""
    return (end >= 0) & (end <= count)


def next_end(end: Array) -> Array:
    """Count of decode steps at which the next of the decoding sequences ends, shape (); NEVER if there is none."""
    return jnp.min(jnp.where(is_decoding(end), end, NEVER))


def is_held_back(end: Array) -> Array:
    """Whether a slot holds a sequence that does not decode: an incomplete prompt, or a preempted one."""
    return end < 0


def held_back(left: Array, swapped: Array) -> Array:
    """`Slots.end` of a sequence that does not decode and has `left` tokens to produce.

    Args:
      swapped: bool, whether its cache is in host memory.
    """
    return -1 - (2 * left + whole(swapped))


def tokens_left(end: Array) -> Array:
    """Tokens that a sequence which is held back has to produce."""
    return (-1 - end) // 2


def is_swapped(end: Array) -> Array:
    """Whether a slot holds a sequence whose cache is in host memory."""
    return (end < 0) & (jnp.mod(-1 - end, 2) == 1)


class Record(NamedTuple):
    """Record of one iteration; ids are -1 where there was none."""

    high: Array  # the clock after it, s
    low: Array
    duration: Array  # s
    ahead: Array  # as of `State`
    steps: Array
    count: Array  # hides tuple.count
    decoding: Array
    prompt: Array
    blocks: Array
    running: Array
    admitted: Array  # request that got its first work, with `hit` tokens of its prompt in the cache
    hit: Array
    produced: Array  # request whose prompt is complete; it ends at count `last`
    last: Array
    preempted: Array
    rejected: Array
    ended: Array | None = None  # request that was answered before the step; None: nothing is drafted
    right: Array | None = None  # drafts of its step that were right; None: nothing is drafted


FLOATS = 4
"""The first fields of `Record` are floats, the others whole numbers."""


def resting(free: Array, images: bool) -> State:
    """The scalars of an engine that has had nothing to do; its arrays are None.

    Args:
      free: blocks of its cache.
      images: whether prompts have some.
    """
    zero, no, number = jnp.int32(0), jnp.asarray(False), jnp.zeros((), float)
    return State(
        clock=Clock(number, number),
        count=zero,
        slots=None,  # type: ignore[arg-type]
        groups=None,
        waiting=None,
        step=Step(zero, number, number, zero, zero, zero, zero if images else None),
        running=zero,
        offset=zero,
        free=free,
        idle=zero,
        phases=None,
        progress=jnp.int32(-1),
        partial=zero,
        foremost=jnp.int32(-1),
        lost=zero,
        admissions=jnp.int32(1),
        event=zero,
        moved=zero,
        preempted=no,
        gate=no,
        pace=number,
        ahead=number,
        padding=zero,
        padded=zero,
    )


def plus(clock: Clock, duration: Array) -> Clock:
    """The clock after `duration` s. The low part keeps what the high part rounds away (Knuth's two-sum)."""
    # Two-sum: `low` is exactly what rounding `high` lost, so a million additions of microseconds do not drift.
    small = duration + clock.low
    high = clock.high + small
    added = high - clock.high
    low = (clock.high - (high - added)) + (small - added)
    return Clock(high, low)


def since(later: Clock, earlier: Clock) -> Array:
    """s from one time to another."""
    # Differences of the large parts first: they cancel before the small ones are added.
    return (later.high - earlier.high) + (later.low - earlier.low)


def pick(condition: Array, yes: T, no: T) -> T:
    """`yes` where the condition holds, else `no`, of two trees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def with_parked(state: State, count: Array) -> Array:
    """`count` sequences and the parked ones."""
    return count if state.parked is None else count + state.parked


def blocks_of(tokens: Array, size: Array) -> Array:
    """Blocks that hold `tokens`."""
    return (tokens + size - 1) // size


def whole(condition: Array) -> Array:
    """1 where it holds, else 0, int32."""
    return condition.astype(jnp.int32)


def least_slot(chosen: Array, key: Array | None = None) -> tuple[Array, Array]:
    """The slot with the smallest key among the chosen ones, or the first of them; whether there is one.

    Args:
      chosen: bool, shape [slots].
      key: less than 2^31 / slots, shape [slots].
    """
    slots = chosen.shape[0]
    places = jnp.arange(slots, dtype=jnp.int32)
    # Key and place in one whole number: one minimum gives both.
    ranked = places if key is None else key * slots + places
    least = jnp.min(jnp.where(chosen, ranked, NEVER))
    there = least < NEVER
    return jnp.where(there, jnp.mod(least, slots), 0), there


def at_slot(slots: Slots, slot: Array, happens: Array) -> Array:
    """Where this slot is, bool, shape [slots]; nowhere unless it `happens`."""
    return jnp.arange(slots.end.shape[0], dtype=jnp.int32) == jnp.where(happens, slot, -1)


def total_of(values: Array, axis: int | None = None) -> Array:
    """Sum of whole numbers or of conditions, int32 in every mode of JAX."""
    return jnp.sum(values, axis=axis, dtype=jnp.int32)


# Gradients of a simulation's times: the end of a step is tied to the arrival that waited for it.


def slope_of(value: Array) -> Array:
    """0, with the gradient of `value`."""
    # Value 0, derivative 1 (a straight-through estimator).
    return value - jax.lax.stop_gradient(value)


def tied(state: State, arrival: Clock, enters: Array) -> State:
    """The state with its clock tied to the arrival of a request that enters. No value changes.

    The end of the last step is the arrival and a share r of that step; `State.ahead` gains the steps that fit into what
    the clock has lost.

    Args:
      arrival: of the request; anything finite where none enters.
      enters: bool: whether one does, and is the first at this instant.
    """
    waited = since(state.clock, arrival)
    enters = enters & (waited >= 0.0) & (waited <= state.pace) & (state.pace > 0.0)
    pace = jnp.where(enters, state.pace, 1.0)
    waited = jnp.where(enters, waited, 0.0)
    # The arrival came a share r into the step: the step's end moves by r times the change of its length.
    share = jax.lax.stop_gradient(waited / pace)
    moved = slope_of(share * pace - waited)
    moved = jnp.where(enters, moved, 0.0)
    return state._replace(
        clock=Clock(state.clock.high + moved, state.clock.low),
        ahead=state.ahead + moved / jax.lax.stop_gradient(pace),
    )
