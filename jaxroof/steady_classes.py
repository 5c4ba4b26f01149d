"""Latencies of the classes of requests that share an engine in its steady state."""

import dataclasses

from jaxroof.arrays import jnp
from jaxroof.policy import Policy
from jaxroof.steady_state import LEAST_STEPS, Demand, SteadyState, StepTimes
from jaxroof.struct import Array, Scalar


def with_classes(state: SteadyState, times: StepTimes, slope: Scalar, demand: Demand, policy: Policy) -> SteadyState:
    """The state with that of every class of the demand.

    The step, the batch, the wait for room and the prompts of others are the same for all classes. TTFT differs by the
    steps that a class's own prompt takes and what it adds to them; the spread of TPOT by the number of steps over which
    a request sees the batch and other prompts vary.

    Args:
      state, times, slope, demand: as `jaxroof.steady_state.steady_state` has them, for all requests together.
    """
    return dataclasses.replace(
        state, classes=tuple(_class_state(state, times, slope, demand, own, policy) for own in demand.classes)
    )


def _class_state(
    state: SteadyState, times: StepTimes, slope: Scalar, demand: Demand, own: Demand, policy: Policy
) -> SteadyState:
    # TTFT: the mean prompt's own part is replaced by that of the class, in the mean and in the variance.
    room = times.full * demand.prompt  # prompt tokens of one step
    steps = jnp.where(jnp.asarray(policy.chunked) > 0.5, jnp.maximum(own.prompt / room, 1.0), 1.0)
    mean, longer = times.first, times.first * own.prompt / demand.prompt
    ttft = state.ttft + times.decode * (steps - times.steps) + longer - mean
    variance = state.ttft_spread**2 - mean**2 * (1.0 / demand.evenness - 1.0) + longer**2 * (1.0 / own.evenness - 1.0)

    # TPOT: how much it varies, with the class's steps in place of the mean request's.
    of_all = _tpot_variance(state, times, slope, demand, demand)
    share = _tpot_variance(state, times, slope, demand, own) / jnp.maximum(of_all, 1e-30)
    return dataclasses.replace(
        state,
        ttft=ttft,
        ttft_spread=jnp.sqrt(jnp.maximum(variance, (0.1 * state.ttft_spread) ** 2)),
        tpot_spread=state.tpot_spread * jnp.sqrt(share),
        decode_steps=jnp.maximum(own.output - 1.0, LEAST_STEPS),
    )


def _tpot_variance(state: SteadyState, times: StepTimes, slope: Scalar, demand: Demand, own: Demand) -> Array:
    """Variance of TPOT of requests like `own` among those of `demand`, up to a factor that all classes share, s^2.

    A request of r times the mean number of steps sees a batch whose deviation dies away within the mean number of
    steps, and prompts that each take `added` s once:

        slope^2 v(r) + slope added / steps w(r) + added^2 / (evenness steps^2 r)

    v is the mean of (1 - |t - u|)+ over two times within r, w twice the mean of min(r - t, 1) / r: 2/3 and 1 at r = 1.
    """
    mean = jnp.maximum(demand.output - 1.0, LEAST_STEPS)
    steps = jnp.maximum(own.output - 1.0, LEAST_STEPS)
    ratio = steps / mean
    none = jnp.exp(-state.batch / mean)
    added = none * times.first + (1.0 - none) * times.further
    beyond = jnp.maximum(ratio, 1.0)
    level = jnp.where(ratio <= 1.0, 1.0 - ratio / 3.0, 1.0 / beyond - 1.0 / (3.0 * beyond**2))
    cross = 2.0 / beyond - 1.0 / beyond**2
    varied = (1.0 - state.held_back) * (level * slope**2 + cross * slope * added / mean)
    return varied + own.briefness / demand.evenness * added**2 / (mean * steps)
