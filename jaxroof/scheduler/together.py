"""Decode steps with drafts that one iteration makes together: planned one by one, until something may happen between.

What happens between two steps is an end of a sequence, a shortage of blocks, or something that comes. As nothing else
changes an engine that decodes alone, its next steps are found beforehand, with the time at which each of them ends.
Those that have not begun when a request comes are taken back.
"""

from typing import NamedTuple

from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.prices.prices import Price, next_node
from jaxroof.scheduler.advance import Steps, planned, step_time
from jaxroof.scheduler.drafts import missing, progress
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, Clock, State, next_end, plus, total_of


class Stretch(NamedTuple):
    """Steps that have been planned so far, and what they change."""

    number: Array
    goes_on: Array  # bool: another one may follow
    last: Array  # s of the last one
    clock: Clock  # at its end
    ends: Clock  # of all of them, shape [most]
    end: Array  # of slots after it, shape [slots]
    held: Array  # shape [slots]
    count: Array
    offset: Array
    free: Array


def together(
    engine: Engine, price: Price, state: State, plan: Steps, begins: Array, ready: Array, most: int
) -> tuple[Steps, Clock]:
    """The steps of a plan with those that follow, and the times at which each of them ends, shape [most].

    Up to a node of the price tables a step's time is linear in the context, as of decode steps without drafts.

    Args:
      plan: one step.
      begins: bool: it begins now.
      ready: s at which something comes that no step may begin after.
      most: steps.
    """
    clock = plus(state.clock, step_time(engine, state, plan.duration))
    slots = state.slots
    alone = Stretch(
        number=plan.number,
        goes_on=begins & plan.decodes & ~state.preempted,
        last=plan.first,
        clock=clock,
        ends=Clock(*(jnp.full(most, part) for part in clock)),
        end=slots.end,
        held=given(slots.held, "blocks of slots"),
        count=state.count,
        offset=state.offset,
        free=state.free,
    )
    tokens = _tokens(state)
    idle = state.idle if engine.tiers is None else jnp.where(engine.tiers.stepwise, 0, state.idle)

    def longer(alone: Stretch) -> Stretch:
        """The first step, and those that follow it."""
        room = _to_node(state)
        beyond = planned(engine, price, state._replace(offset=state.offset + room), jnp.int32(NEVER), None, None)
        slope = (beyond.first - plan.first) / room.astype(float)

        def after_step(stretch: Stretch) -> Stretch:
            """What its last step changes, and whether another one may follow."""
            one = _state(state, stretch)
            made = progress(engine, one, jnp.asarray(True))
            one = one._replace(
                slots=made.slots, count=one.count + 1, offset=one.offset + made.right, free=one.free - made.begun
            )
            within = (stretch.number < most) & (stretch.number < engine.longest) & (_tokens(one) - tokens <= room)
            fits = total_of(missing(engine, one)) <= one.free + idle
            stays = next_end(one.slots.end) > one.count
            return stretch._replace(
                goes_on=within & fits & stays & (stretch.clock.high < ready),
                end=one.slots.end,
                held=given(one.slots.held, "blocks of slots"),
                count=one.count,
                offset=one.offset,
                free=one.free,
            )

        def further(stretch: Stretch) -> Stretch:
            """The next step."""
            takes = plan.first + slope * (_tokens(_state(state, stretch)) - tokens).astype(float)
            clock = plus(stretch.clock, takes)
            pairs = zip(stretch.ends, clock, strict=True)
            ends = Clock(*(times.at[stretch.number].set(time) for times, time in pairs))
            return after_step(stretch._replace(number=stretch.number + 1, last=takes, clock=clock, ends=ends))

        return jax.lax.while_loop(lambda stretch: stretch.goes_on, further, after_step(alone))

    found = jax.lax.cond(alone.goes_on, longer, lambda stretch: stretch, alone)
    slope = (found.last - plan.first) / jnp.maximum(found.number - 1, 1).astype(float)
    return plan._replace(number=found.number, slope=slope), found.ends


def _tokens(state: State) -> Array:
    """Tokens that the decoding sequences attend to in the coming step."""
    return state.offset + state.running * state.count


def _to_node(state: State) -> Array:
    """Tokens by which all contexts may grow until their mean is at the next node of the price tables, 1 at least."""
    sequences = jnp.maximum(state.running, 1) + state.padding
    mean = (_tokens(state) + state.padded).astype(float) / sequences.astype(float)
    room = jnp.floor((next_node(mean) - mean) * sequences.astype(float))
    return jnp.clip(room, 1.0, 2.0**20).astype(jnp.int32)


def _state(state: State, stretch: Stretch) -> State:
    """The state after what a stretch of steps has changed."""
    return state._replace(
        slots=state.slots._replace(end=stretch.end, held=stretch.held),
        count=stretch.count,
        offset=stretch.offset,
        free=stretch.free,
    )


def begun_before(ends: Clock, number: Array, time: Array) -> Array:
    """Steps of `number` that have begun before `time` in s, one at least.

    Args:
      ends: times at which they end, shape [most].
    """
    places = jnp.arange(ends.high.shape[0], dtype=jnp.int32)
    return jnp.minimum(1 + total_of((places < number - 1) & (ends.high < time)), number)
