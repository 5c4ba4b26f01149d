"""One figure from those of several members: the mean over a mix of workloads, and the worst of several scenarios."""

import dataclasses

import numpy as np

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import SHARPNESS, maximum, minimum
from jaxroof.numerics.struct import Array
from sweeps.studies.optimization.goals import Goal, unit_of

PER = ("1/s", "1/J")
"""Units of rates, whose mean over tokens is the harmonic one."""


@dataclasses.dataclass(frozen=True)
class Cases:
    """An objective in every scenario: its figures, and their derivatives."""

    goal: Goal
    values: np.ndarray  # [n, scenarios], as users read them
    slopes: np.ndarray | None = None  # [n, scenarios, d]

    @property
    def logs(self) -> np.ndarray:
        """Logarithms to be made small, shape [n, scenarios]."""
        return self.goal.sign * np.log(np.abs(self.values))

    @property
    def log_slopes(self) -> np.ndarray:
        """Their derivatives, shape [n, scenarios, d]."""
        return self.goal.sign * self.slopes / self.values[..., np.newaxis]

    @property
    def worst(self) -> np.ndarray:
        """The objective, shape [n]: the worst scenario's figure, negated where it is to be maximised."""
        return np.max(self.goal.sign * self.values, axis=1)

    @property
    def worst_slopes(self) -> np.ndarray:
        """Derivatives of the worst figure, shape [n, d]; shared among scenarios that are nearly as bad, as
        `jaxroof.numerics.smooth` does it.
        """
        if self.values.shape[1] == 1:
            return self.goal.sign * self.slopes[:, 0]
        logs = self.logs
        shares = np.exp(SHARPNESS * (logs - np.max(logs, axis=1, keepdims=True)))
        shares /= np.sum(shares, axis=1, keepdims=True)
        return np.abs(self.worst)[:, np.newaxis] * np.einsum("ns,nsd->nd", shares, self.log_slopes)


def harmonic(goal: Goal) -> bool:
    """Whether the mean of a figure over tokens is the harmonic one: tokens/s, but not s, J or USD per token."""
    return unit_of(goal.name) in PER


def mean(goal: Goal, values: Array, weights: np.ndarray) -> Array:
    """Mean of positive figures of a mix, shape [..., workloads], over the last axis.

    Workloads weigh by their share of the tokens. So times, joules and dollars per token have the arithmetic mean, which
    is all seconds, joules or dollars over all tokens; and rates have the harmonic one.

    Args:
      weights: shape [workloads], whose sum is 1.
    """
    if len(weights) == 1:
        return values[..., 0]
    if harmonic(goal):
        return 1.0 / jnp.sum(weights / values, axis=-1)
    return jnp.sum(weights * values, axis=-1)


def mean_slopes(goal: Goal, values: np.ndarray, slopes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Derivatives of `mean`, shape [..., d], from those of the figures, shape [..., workloads, d]."""
    if len(weights) == 1:
        return slopes[..., 0, :]
    if harmonic(goal):
        weights = weights * (mean(goal, values, weights)[..., np.newaxis] / values) ** 2
    return np.sum(np.broadcast_to(weights, values.shape)[..., np.newaxis] * slopes, axis=-2)


def worst_traced(goal: Goal, values: list[Array]) -> Array:
    """As `Cases.worst`, of one design, for JAX to transform."""
    if len(values) == 1:
        return goal.sign * values[0]
    return -minimum(*values) if goal.maximise else maximum(*values)
