"""One measured time of an engine step, what ran in it, and what the cost model says it takes."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.step.step import step_time
from sweeps.measure.validate.relative_errors import stacked


@struct
class Step:
    """A decode step, and prompts that a share of such steps also works on."""

    hardware: Hardware
    model: Model
    deployment: Deployment
    decode: Batch
    mixed: Batch  # the same decode part with prompts in it
    mixed_share: Scalar  # mixed steps per decode step; 0: never, 1: this very step


@dataclasses.dataclass(frozen=True)
class Observation:
    """A step with the time that was measured for it."""

    step: Step
    seconds: float
    group: str  # rows that share a deployment, and so an error
    model: str
    engine: str


def mean_step_time(step: Step, efficiency: Efficiency) -> jax.Array:
    """Time in s of the decode step, plus what the prompts of mixed steps add, spread over all steps; shape ().

    time = T(decode) + mixed_share * (T(mixed) - T(decode))
    """
    decode = step_time(step.hardware, step.model, step.deployment, step.decode, efficiency)
    mixed = step_time(step.hardware, step.model, step.deployment, step.mixed, efficiency)
    return decode + step.mixed_share * (mixed - decode)


def step_times(steps: Sequence[Step]) -> Callable[[Efficiency], jax.Array]:
    """A function from efficiency to the times in s of all `steps`, shape [steps].

    Steps of one structure are stacked and evaluated together.
    """
    order, stacks = stacked(steps)

    def times(efficiency: Efficiency) -> jax.Array:
        each = [jax.vmap(lambda step: mean_step_time(step, efficiency))(stack) for stack in stacks]
        return jnp.concatenate(each)[order]

    return times
