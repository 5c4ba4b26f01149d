"""Latencies of the classes of requests that share an engine in its steady state."""

import dataclasses

from jaxroof.arrays import jnp
from jaxroof.policy import Policy
from jaxroof.steady_state import ALIKE, LEAST_STEPS, Demand, SteadyState, StepTimes, whole_steps
from jaxroof.struct import Array, Scalar


def with_classes(state: SteadyState, times: StepTimes, demand: Demand, policy: Policy) -> SteadyState:
    """The state with that of every class of the demand.

    The step, the batch, the wait for room and the prompts of others are the same for all classes. TTFT differs by the
    steps that a class's own prompt takes and what it adds to them; the spread of TPOT by the number of steps over which
    a request sees the batch and other prompts vary.

    Args:
      state, times, demand: as `jaxroof.steady_state.steady_state` has them, for all requests together.
    """
    return dataclasses.replace(
        state, classes=tuple(_class_state(state, times, demand, own, policy) for own in demand.classes)
    )


def _class_state(state: SteadyState, times: StepTimes, demand: Demand, own: Demand, policy: Policy) -> SteadyState:
    # TTFT: the mean prompt's own part is replaced by that of the class, in the mean and in the variance.
    room = times.full * demand.prompt  # prompt tokens of one step
    steps = jnp.where(jnp.asarray(policy.chunked) > 0.5, whole_steps(own.prompt / room, own.evenness), 1.0)
    mean, longer = times.first, times.first * own.prompt / demand.prompt
    ttft = state.ttft + times.decode * (steps - times.steps) + longer - mean
    variance = state.ttft_spread**2 - mean**2 * (1.0 / demand.evenness - 1.0) + longer**2 * (1.0 / own.evenness - 1.0)

    # TPOT: how much it varies, with the class's steps in place of the mean request's: each prompt that comes meanwhile
    # is a larger part of fewer steps, over which the batch varies more, too.
    ratio = jnp.maximum(own.output - 1.0, LEAST_STEPS) / jnp.maximum(demand.output - 1.0, LEAST_STEPS)
    alone = jnp.maximum(state.ttft_alone_spread**2 + variance - state.ttft_spread**2, (0.1 * state.ttft_spread) ** 2)
    return dataclasses.replace(
        state,
        ttft=ttft,
        ttft_spread=jnp.sqrt(jnp.maximum(variance, (0.1 * state.ttft_spread) ** 2)),
        ttft_alone=state.ttft_alone + ttft - state.ttft,
        ttft_alone_spread=jnp.sqrt(alone),
        tpot_varied=state.tpot_varied * jnp.sqrt(_level(ratio) / _level(1.0)),
        tpot_jumps=state.tpot_jumps / jnp.sqrt(ratio),
        tpot_jump=state.tpot_jump / ratio,
        even=jnp.where(own.briefness / demand.evenness < ALIKE, state.even, 0.0),
        briefness=own.briefness,
        decode_steps=jnp.maximum(own.output - 1.0, LEAST_STEPS),
        output_evenness=own.output_evenness,
    )


def _level(ratio: Scalar) -> Array:
    """Mean of (1 - |t - u|)+ over two times within `ratio`: 2/3 at 1.

    It is what is left of the variance of a batch in its mean over so many mean times of decoding: a deviation dies away
    within one of them.
    """
    beyond = jnp.maximum(ratio, 1.0)
    return jnp.where(ratio <= 1.0, 1.0 - ratio / 3.0, 1.0 / beyond - 1.0 / (3.0 * beyond**2))
