"""Queue of prompts in front of engines that only prefill, in closed form: waiting, latency and its spread."""

import dataclasses

from jaxroof.batch import ORDERS, Policy
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.prices.prices import Price
from jaxroof.steady.distributions import gamma_share
from jaxroof.steady.steady_state import (
    ALIKE,
    FULLEST,
    LEAST_STEPS,
    Demand,
    SteadyState,
    StepTimes,
    step_times,
    whole_steps,
)

NEWTON = 3
"""Rounds in which the mean number of prompts of a step is found; it is then exact to 0.1 %."""


@struct
class PromptQueue:
    """Prompts that arrive as a Poisson stream at an engine whose steps have prompts only."""

    use: Scalar  # load over the largest load that steps full of prompts can do
    prompts: Scalar  # of one step of an engine that no other shares the prompts with, mean
    ttft: Scalar  # s from a prompt's arrival to the end of the step that ends it, mean
    spread: Scalar  # s, its standard deviation
    meets: Scalar  # share of the prompts that wait, or share their step
    alone_spread: Scalar  # s, standard deviation of the latency of the others: that of their lengths


def prompt_times(price: Price, policy: Policy, demand: Demand) -> StepTimes:
    """Times in s of steps of prompts alone: those of `step_times` where no sequence decodes in the same step."""
    alone = dataclasses.replace(policy, order=float(ORDERS.index("prefill_first")))
    return step_times(price, alone, demand, jnp.ones_like(jnp.asarray(demand.prompt)))


def prompt_service(times: StepTimes) -> tuple[Array, Array, Array]:
    """What a step of n prompts takes, fixed + n each in s; and the prompts of a full step, at least 1."""
    # Linear service: a fixed part (weights are read, kernels launched) and one per prompt.
    each = jnp.minimum(times.further, times.first)
    return times.first - each, each, jnp.maximum(times.full, 1.0)


def prompt_rate(times: StepTimes) -> Array:
    """Prompts/s that an engine can do at most: all its steps are full."""
    fixed, each, full = prompt_service(times)
    # Batch service: throughput is largest when every step is full.
    return full / (fixed + full * each)


def prompt_steps(first: Scalar, whole: Scalar, prompts: Scalar) -> StepTimes:
    """Times in s of steps of prompts alone from those of two: with one prompt, and full.

    Args:
      first, whole: s of a step with one prompt, and with as many as it has room for.
      prompts: for which a step has room.
    """
    more = jnp.asarray(prompts) > 1.0
    further = jnp.where(more, (whole - first) / jnp.where(more, prompts - 1.0, 1.0), first)
    return StepTimes(decode=0.0, first=first, further=further, steps=1.0, full=prompts, filled=whole)


def prompt_queue(load: Scalar, times: StepTimes, evenness: Scalar, engines: Scalar = 1.0) -> PromptQueue:
    """Waiting and latency at `load` prompts/s of each of `engines` equal engines that get the prompts in turn.

    An idle engine begins a step with the prompt that comes. Those that come during a step wait for its end and are
    worked on together in the next, as far as it has room. A step of n prompts takes T = F + n S.

    Engines in turn see less random arrivals than one alone: times between them are sums of `engines` exponential ones.
    The wait W has a part without chance, of steps that follow each other without a pause, and a part by chance, which
    shrinks as that of a queue of one server does where many serve it:

        W = r D + (W1 - r D) u^(sqrt(2 (c + 1)) - 2) / c,    D = T / 2 + S (n - 1),    n = load F / (1 - load S)

    W1 is the wait at one engine, u the use, c the engines, r the share of prompts that come within a step with one
    prompt, without those for which steps have no room. Where steps have room for one prompt this is the M/D/c queue,
    by Sakasegawa's approximation. A use of 1 or more is told as if it were `FULLEST`.

    Args:
      times: of steps of prompts alone.
      evenness: as of `Demand`: 1 where all prompts are equally long.

    Source: ours; Sakasegawa, Annals of the Institute of Statistical Mathematics 29(1), 1977. Means are within 20 %, the
    median and p99 within a factor of 1.45 of queues event by event (`tests/jaxroof/test_prompt_queue.py`).
    """
    alone = _one_engine(load, times, evenness)
    fixed, each, full = prompt_service(times)
    full_time = fixed + full * each
    busiest = jnp.minimum(alone.use, FULLEST)
    load = busiest * full / full_time

    # Steps that follow each other at a steady pace: prompts of each, its time, and the wait in it and for it.
    prompts = jnp.clip(load * fixed / jnp.maximum(1.0 - load * each, 1e-3), 1.0, full)
    step = fixed + each * prompts
    paced = 0.5 * step + each * (prompts - 1.0)
    gap = 1.0 / load
    within = gamma_share(times.first, gap, gap / jnp.sqrt(engines)) * (1.0 - 1.0 / full)
    paced_variance = within * (step**2 / 12.0 + (1.0 - within) * paced**2)
    paced = within * paced

    # By chance: the share that waits at one of several servers, over that at one, and how much shorter its wait is.
    waits = busiest ** (jnp.sqrt(2.0 * (engines + 1.0)) - 1.0)
    wait, variance = alone.ttft - times.first, alone.spread**2
    # Exponential waits of a share p have the mean p m and the variance p (2 - p) m^2.
    spreads = waits * (2.0 - waits) / (busiest * (2.0 - busiest)) / engines**2
    wait = jnp.minimum(wait, paced) + jnp.maximum(wait - paced, 0.0) * waits / busiest / engines
    # Lengths vary whoever waits.
    own = each**2 * (1.0 / evenness - 1.0)
    least = jnp.minimum(variance - own, paced_variance)
    variance = least + (variance - own - least) * spreads + own
    return PromptQueue(
        use=alone.use,
        prompts=alone.prompts,
        ttft=times.first + wait,
        spread=jnp.sqrt(jnp.maximum(variance, 0.0)),
        meets=1.0 - (1.0 - waits) * (1.0 - within),
        alone_spread=jnp.sqrt(own),
    )


def _one_engine(load: Scalar, times: StepTimes, evenness: Scalar) -> PromptQueue:
    """Waiting and latency at `load` prompts/s, a Poisson stream, of one engine.

        n = load T + e^(-load T) on average,    E[T^2] = (F^2 + 2 F S n + S^2 n / evenness) / (1 - (load S)^2)

    A prompt that meets a step waits for half of E[T^2] / E[T] and takes part in the next one. Where steps have room for
    one prompt this is the M/D/1 queue. The wait is at most that of an M/D/1 queue of full steps' shares, and of a step.

    Source: ours; the M/D/1 queue; the residual life of a renewal process, Cox, Renewal Theory, 1962.
    """
    fixed, each, full = prompt_service(times)
    full_time = fixed + full * each
    use = load * full_time / full
    # Beyond saturation there is no steady state; figures are told as at the last stable point.
    busiest = jnp.minimum(use, FULLEST)
    load = busiest * full / full_time
    own = load * each

    # Prompts of a step: Newton's method from below, on an increasing concave function.
    prompts = jnp.maximum(1.0, load * fixed / (1.0 - own))
    for _ in range(NEWTON):
        # An empty system serves the next arrival alone: the Poisson probability of none during a step.
        none = jnp.exp(-load * fixed - own * prompts)
        prompts = prompts + (load * fixed + none - prompts * (1.0 - own)) / (1.0 - own + own * none)
    prompts = jnp.minimum(prompts, full)

    # Length of the step that an arrival meets, and of its own.
    mean = fixed + each * prompts
    # Inspection paradox: an arrival meets long steps more often, E[T^2] / E[T] on average.
    square = (fixed**2 + 2.0 * fixed * each * prompts + each**2 * prompts / evenness) / (1.0 - own**2)
    met = jnp.minimum(square / mean, full_time / evenness)
    met_variance = met**2 * jnp.maximum(met / mean - 1.0, 0.0)
    # Little's law on the server: probability that a step is under way when a prompt comes.
    busy = jnp.minimum(load * mean / prompts, 1.0)
    others = jnp.minimum(load * met, full - 1.0)
    # Half of the residual step, then those served together with it.
    later = 0.5 * met + each * others  # beyond a step with the prompt alone
    later_variance = met_variance * (0.5 + own) ** 2 + (met**2 + met_variance) / 12.0 + each**2 * others / evenness

    # Those that find the next step full wait for another one.
    turned_away = busiest ** (full + 1.0)
    service = full_time / full
    # M/D/1: mean wait = rho s / (2 (1 - rho)); `turned_away` has the power of rho of many servers.
    idle = 1.0 - busiest
    further = turned_away * service / (2.0 * idle * evenness)
    third = 0.25 / idle**2 + 1.0 / (3.0 * idle) + 0.25  # of the M/D/1 queue where steps have room for one prompt
    further_variance = turned_away * (service / evenness) ** 2 * third

    # Variance of a mixture: within those that wait, and between those that do and do not.
    variance = busy * later_variance + busy * (1.0 - busy) * later**2 + further_variance
    # No longer than one after the other at the pace of full steps, and then half a step and the others of its own.
    wait = busy * later + further
    least = jnp.minimum(busiest * service / (2.0 * idle * evenness) + 0.5 * mean + each * (prompts - 1.0), wait)
    variance = variance * (least / jnp.maximum(wait, 1e-30)) ** 2
    return PromptQueue(
        use=use,
        prompts=prompts,
        ttft=times.first + least,
        spread=jnp.sqrt(variance + each**2 * (1.0 / evenness - 1.0)),
        meets=busy,
        alone_spread=each * jnp.sqrt(1.0 / evenness - 1.0),
    )


# Latencies of the classes of requests that share an engine in its steady state.


def with_classes(state: SteadyState, times: StepTimes, demand: Demand, policy: Policy) -> SteadyState:
    """The state with that of every class of the demand.

    The step, the batch, the wait for room and the prompts of others are the same for all classes. TTFT differs by the
    steps that a class's own prompt takes and what it adds to them; the spread of TPOT by the number of steps over which
    a request sees the batch and other prompts vary.

    Args:
      state, times, demand: as `jaxroof.steady.steady_state.steady_state` has them, for all requests together.
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
