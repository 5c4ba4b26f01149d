"""Decode steps with drafts that one iteration makes together: planned one by one, until something may happen between.

What happens between two steps is an end of a sequence, a shortage of blocks, or something that comes. As nothing else
changes an engine that decodes alone, its next steps are found beforehand, with the time at which each of them ends.
Those that have not begun when a request comes are taken back.
"""

from typing import NamedTuple

from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.prices.prices import Price
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


def together(engine: Engine, price: Price, state: State, plan: Steps, begins: Array, ready: Array, most: int) -> tuple[
    Steps, Clock
]:
    """The steps of a plan with those that follow, and the times at which each of them ends, shape [most].

    Args:
      plan: one step, or decode steps of which each is one of its own.
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

    def after_step(stretch: Stretch) -> Stretch:
        """What its last step changes, and whether another one may follow."""
        one = _state(state, stretch)
        made = progress(engine, one, jnp.asarray(True))
        one = one._replace(
            slots=made.slots, count=one.count + 1, offset=one.offset + made.right, free=one.free - made.begun
        )
        idle = one.idle if engine.tiers is None else jnp.where(engine.tiers.stepwise, 0, one.idle)
        room = total_of(missing(engine, one)) <= one.free + idle
        within = (stretch.number < most) & (stretch.number < engine.longest)
        ended = next_end(one.slots.end) <= one.count
        return stretch._replace(
            goes_on=within & room & ~ended & (stretch.clock.high < ready),
            end=one.slots.end,
            held=given(one.slots.held, "blocks of slots"),
            count=one.count,
            offset=one.offset,
            free=one.free,
        )

    def further(stretch: Stretch) -> Stretch:
        """The next step."""
        takes = planned(engine, price, _state(state, stretch), jnp.int32(NEVER), None, None).first
        clock = plus(stretch.clock, takes)
        pairs = zip(stretch.ends, clock, strict=True)
        return after_step(
            stretch._replace(
                number=stretch.number + 1,
                last=takes,
                clock=clock,
                ends=Clock(*(times.at[stretch.number].set(time) for times, time in pairs)),
            )
        )

    found = jax.lax.cond(
        alone.goes_on,
        lambda stretch: jax.lax.while_loop(lambda stretch: stretch.goes_on, further, after_step(stretch)),
        lambda stretch: stretch,
        alone,
    )
    slope = (found.last - plan.first) / jnp.maximum(found.number - 1, 1).astype(float)
    return plan._replace(number=found.number, slope=slope), found.ends


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
