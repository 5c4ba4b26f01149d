"""Goals of an optimiser: objectives, and constraints with their limits in SI units."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hwspaces.quantities.units import TEXT_UNITS, formatted, nearest, quantity
from jaxroof.chip.area import USES
from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.smooth import SHARPNESS, maximum, minimum
from jaxroof.numerics.struct import Array
from sweeps.ask.axes import number
from sweeps.ask.leaves import leaf_unit
from sweeps.ask.names import VARIABLES, variable

ROOTS = ("hardware.", "model.", "deployment.", "workload.", "efficiency.")
"""What the path of a leaf begins with."""


LIMITS = tuple(f"{name}_use" for name in USES)
"""Metrics that say which share of a limit of its package a device takes."""

OF_DIES = ("die_area", "device_cost", "device_price")
"""Metrics that are as uncertain as the area of dies that nobody has built."""

OF_DEVICE = (*OF_DIES, *LIMITS)
"""Metrics that depend on the hardware alone."""


@dataclasses.dataclass(frozen=True)
class Goal:
    """A metric, or a leaf by its path, to be made small or large."""

    name: str
    maximise: bool
    of: str = ""  # the one member of a mix that it is of; "": the mean of all

    @property
    def text(self) -> str:
        """It in words, with its member."""
        return f"{self.of}.{self.name}" if self.of else self.name

    @property
    def sign(self) -> float:
        """1 where smaller is better, -1 where larger is."""
        return -1.0 if self.maximise else 1.0


@dataclasses.dataclass(frozen=True)
class Constraint:
    """A metric, or a leaf by its path, that must not exceed a limit, or must not be below it."""

    name: str
    limit: float  # SI
    at_least: bool
    of: str = ""  # the one member, of a mix or of the scenarios, that keeps it; "": all

    @property
    def unit(self) -> str:
        """SI unit of the quantity."""
        return unit_of(self.name)

    @property
    def text(self) -> str:
        """The limit in words: tpot <= 40 ms."""
        shown = f"{self.limit:g}" if self.unit == "1" else formatted(self.limit, self.unit)
        whose = f"{self.of}." if self.of else ""
        return f"{whose}{self.name} {'>=' if self.at_least else '<='} {shown}"

    @property
    def of_device(self) -> bool:
        """Whether the quantity depends on the hardware alone, so that it is the same whatever runs there."""
        return self.name.startswith("hardware.") or self.name in OF_DEVICE


FITS = Constraint("memory_use", 1.0, at_least=False)
"""Model and workload fit in memory: always asked for."""


BUILT = tuple(Constraint(name, 1.0, at_least=False) for name in LIMITS)
"""A device can be built: always asked for where the limits of its package are known."""

SUSTAINED = Constraint("rate_use", 1.0, at_least=False)
WITHIN = Constraint("limit_ratio", 1.0, at_least=False)
"""Engines answer the rate of a served stream, and keep its limits: always asked for of one."""


def unit_of(name: str) -> str:
    """SI unit of a metric or a leaf."""
    return leaf_unit(name) if name.startswith(ROOTS) else variable(name).unit


def objectives(table: Mapping[str, Any], members: Collection[str] = ()) -> tuple[Goal, ...]:
    """The objectives of `[optimize]`: minimize and maximize, each a name or a list of names.

    Args:
      members: names that a metric may have before it: chat.tpot.

    Raises:
      ValueError: one line: none is given, or one is given twice or is no text.
    """
    goals: list[Goal] = []
    for key in ("minimize", "maximize"):
        names = table.get(key, [])
        for name in names if isinstance(names, list | tuple) else [names]:
            if not isinstance(name, str):
                raise ValueError(f"optimize.{key} = {name!r} must be the name of a metric, or a list of names")
            of, plain = of_member(name, members)
            # The same metric of the same member, even in the other direction.
            if any((plain, of) == (other.name, other.of) for other in goals):
                raise ValueError(f"optimize.{key}: {name} is given twice")
            goals.append(Goal(plain, key == "maximize", of))
    if not goals:
        raise ValueError("optimize.minimize is missing: name the metric to minimise (or optimize.maximize)")
    return tuple(goals)


def constraints(table: Mapping[str, Any], members: Collection[str] = ()) -> tuple[Constraint, ...]:
    """The constraints of `[constraints]`: {max = "40ms"}, {min = ..}, or both, by metric or leaf.

    Args:
      members: names that a metric or leaf may have before it: "chat.ttft".

    Raises:
      ValueError: one line that names the key, its value and what is allowed.
    """
    checked = []
    for given, limits in table.items():
        if not isinstance(limits, Mapping) or not limits or set(limits) - {"min", "max"}:
            raise ValueError(f'constraints."{given}" = {limits!r} must be {{max = ..}}, {{min = ..}} or both')
        of, name = of_member(given, members)
        for key, value in limits.items():
            where = f'constraints."{given}".{key}'
            _require_known(name, where)
            limit = (
                quantity(value, leaf_unit(name), where)
                if name.startswith(ROOTS)
                else quantity(value, _read_unit(name), where)
            )
            # Constraints are computed as ln(value / limit).
            if limit <= 0.0:
                raise ValueError(f"{where} = {value!r} must be positive")
            checked.append(Constraint(name, limit, key == "min", of))
    return tuple(checked)


def of_member(text: str, members: Collection[str]) -> tuple[str, str]:
    """The member that a name begins with, "" without one, and the name itself."""
    # A path of a leaf has dots as well: its first part is a member only where one has that name.
    first, dot, rest = text.partition(".")
    return (first, rest) if dot and first in members else ("", text)


def require_answered(names: list[str], answers: Mapping[str, Any], scenario: Any, job: str) -> None:
    """ValueError, one line, for a name that is no number of the job, or that has no gradient.

    Args:
      answers: metric -> its shape and type.
    """
    for name in names:
        if name.startswith(ROOTS):
            number(scenario, name)
        elif name not in answers:
            raise ValueError(f"a {job} has no {name} here{nearest(name, _numbers(answers))}")
        elif name not in _numbers(answers):
            raise ValueError(f"{name} is not a number that varies smoothly{nearest(name, _numbers(answers))}")


def _numbers(answers: Mapping[str, jax.ShapeDtypeStruct]) -> list[str]:
    return [name for name, value in answers.items() if value.dtype.kind == "f"]


def _require_known(name: str, where: str) -> None:
    if not name.startswith(ROOTS) and name not in VARIABLES:
        raise ValueError(f"{where}: there is no {name}{nearest(name, VARIABLES)}")


def _read_unit(name: str) -> str:
    """The unit in which a user may write a limit of the metric; plain SI numbers where text has no way to write it."""
    unit = variable(name).unit
    return unit if unit in TEXT_UNITS else "1"


# One figure from those of several members: the mean over a mix of workloads, and the worst of several scenarios.


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
    def _slopes(self) -> np.ndarray:
        if self.slopes is None:
            raise ValueError("an objective without derivatives has no slopes")
        return self.slopes

    @property
    def log_slopes(self) -> np.ndarray:
        """Their derivatives, shape [n, scenarios, d]."""
        # Derivative of ln y: dy / y, with the sign of the goal.
        return self.goal.sign * self._slopes / self.values[..., np.newaxis]

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
            return self.goal.sign * self._slopes[:, 0]
        logs = self.logs
        # Shares of a softmax; without the largest logarithm, so that no exponential overflows.
        shares = np.exp(SHARPNESS * (logs - np.max(logs, axis=1, keepdims=True)))
        shares /= np.sum(shares, axis=1, keepdims=True)
        # From slopes of the logarithm to those of the figure: dy = y d ln y.
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
        # With the mean 1 / sum(w / y), the derivative by y_i is w_i (mean / y_i)^2.
        weights = weights * (mean(goal, values, weights)[..., np.newaxis] / values) ** 2
    return np.sum(np.broadcast_to(weights, values.shape)[..., np.newaxis] * slopes, axis=-2)


def worst_traced(goal: Goal, values: list[Array]) -> Array:
    """As `Cases.worst`, of one design, for JAX to transform."""
    if len(values) == 1:
        return goal.sign * values[0]
    return -minimum(*values) if goal.maximise else maximum(*values)
