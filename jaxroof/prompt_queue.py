"""Queue of prompts in front of an engine that only prefills, in closed form: waiting, latency and its spread."""

import dataclasses

from jaxroof.arrays import jnp
from jaxroof.policy import ORDERS, Policy
from jaxroof.steady_state import FULLEST, Demand, StepTimes, step_times
from jaxroof.step_price import Price
from jaxroof.struct import Array, Scalar, struct

NEWTON = 3
"""Rounds in which the mean number of prompts of a step is found; it is then exact to 0.1 %."""


@struct
class PromptQueue:
    """Prompts that arrive as a Poisson stream at an engine whose steps have prompts only."""

    use: Scalar  # load over the largest load that steps full of prompts can do
    prompts: Scalar  # of one step, mean
    ttft: Scalar  # s from a prompt's arrival to the end of the step that ends it, mean
    spread: Scalar  # s, its standard deviation


def prompt_times(price: Price, policy: Policy, demand: Demand) -> StepTimes:
    """Times in s of steps of prompts alone: those of `step_times` where no sequence decodes in the same step."""
    alone = dataclasses.replace(policy, order=float(ORDERS.index("prefill_first")))
    return step_times(price, alone, demand, jnp.ones_like(jnp.asarray(demand.prompt)))


def prompt_service(times: StepTimes) -> tuple[Array, Array, Array]:
    """What a step of n prompts takes, fixed + n each in s; and the prompts of a full step, at least 1."""
    each = jnp.minimum(times.further, times.first)
    return times.first - each, each, jnp.maximum(times.full, 1.0)


def prompt_rate(times: StepTimes) -> Array:
    """Prompts/s that an engine can do at most: all its steps are full."""
    fixed, each, full = prompt_service(times)
    return full / (fixed + full * each)


def prompt_queue(load: Scalar, times: StepTimes, evenness: Scalar) -> PromptQueue:
    """Waiting and latency at `load` prompts/s.

    An idle engine begins a step with the prompt that comes. Those that come during a step wait for its end and are
    worked on together in the next, as far as it has room. A step of n prompts takes T = F + n S, so

        n = load T + e^(-load T) on average,    E[T^2] = (F^2 + 2 F S n + S^2 n / evenness) / (1 - (load S)^2)

    A prompt that meets a step waits for half of E[T^2] / E[T] and takes part in the next one. Where steps have room for
    one prompt this is the M/D/1 queue; a use of 1 or more is told as if it were `FULLEST`.

    Args:
      times: of steps of prompts alone.
      evenness: as of `Demand`: 1 where all prompts are equally long.

    Source: ours; the M/D/1 queue; the residual life of a renewal process, Cox, Renewal Theory, 1962.
    """
    fixed, each, full = prompt_service(times)
    whole = fixed + full * each
    use = load * whole / full
    busiest = jnp.minimum(use, FULLEST)
    load = busiest * full / whole
    own = load * each

    # Prompts of a step: Newton's method from below, on an increasing concave function.
    prompts = jnp.maximum(1.0, load * fixed / (1.0 - own))
    for _ in range(NEWTON):
        none = jnp.exp(-load * fixed - own * prompts)
        prompts = prompts + (load * fixed + none - prompts * (1.0 - own)) / (1.0 - own + own * none)
    prompts = jnp.minimum(prompts, full)

    # Length of the step that an arrival meets, and of its own.
    mean = fixed + each * prompts
    square = (fixed**2 + 2.0 * fixed * each * prompts + each**2 * prompts / evenness) / (1.0 - own**2)
    met = jnp.minimum(square / mean, whole / evenness)
    met_variance = met**2 * jnp.maximum(met / mean - 1.0, 0.0)
    busy = jnp.minimum(load * mean / prompts, 1.0)
    others = jnp.minimum(load * met, full - 1.0)
    later = 0.5 * met + each * others  # beyond a step with the prompt alone
    later_variance = met_variance * (0.5 + own) ** 2 + (met**2 + met_variance) / 12.0 + each**2 * others / evenness

    # Those that find the next step full wait for another one.
    turned_away = busiest ** (full + 1.0)
    service = whole / full
    further = turned_away * service / (2.0 * (1.0 - busiest) * evenness)
    idle = 1.0 - busiest
    third = 0.25 / idle**2 + 1.0 / (3.0 * idle) + 0.25  # of the M/D/1 queue where steps have room for one prompt
    further_variance = turned_away * (service / evenness) ** 2 * third

    variance = busy * later_variance + busy * (1.0 - busy) * later**2 + further_variance
    return PromptQueue(
        use=use,
        prompts=prompts,
        ttft=times.first + busy * later + further,
        spread=jnp.sqrt(variance + each**2 * (1.0 / evenness - 1.0)),
    )
