"""Variables of an optimum that stand at an end of their range or list, and what lies beyond it."""

import dataclasses
import math

import numpy as np

from sweeps.ask.leaves import leaf
from sweeps.studies.optimize.confirmation import ACTIVE, Balance
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.variables import Variable

FURTHER = 0.1
"""Share of an end's value by which it is asked what lies beyond."""


@dataclasses.dataclass(frozen=True)
class End:
    """A variable at an end of what it may be."""

    name: str
    value: float  # SI
    unit: str
    upper: bool  # at its most, else at its least
    step: float | None  # of a list, the neighbour by which the slope is known; None: by the gradient
    change: float  # of the objective as users read it, relative, for `FURTHER` beyond the end; to first order
    better: bool  # whether the objective still improves there


def at_ends(problem: Problem, design: np.ndarray, held: Balance) -> tuple[End, ...]:
    """Every variable of a design, shape [d], that is at an end, what gains most beyond it first.

    Active constraints are held: what they are worth, by their forces, is a part of each slope. Ends that nothing can
    lie beyond, such as one device, are left out. Of a problem of one objective.
    """
    found = []
    for i, variable in enumerate(problem.variables):
        numbers = _numbers(variable)
        if numbers is None or numbers[0] == numbers[-1]:
            continue
        value = float(numbers[int(round(design[i]))] if variable.choice else design[i])
        low, high = float(numbers.min()), float(numbers.max())
        upper = _near(value, high, low)
        if not (upper or _near(value, low, high)) or not _beyond(variable, value, upper):
            continue
        if variable.choice:
            step, elasticity = _by_step(problem, design, held, i, numbers)
        else:
            # From a slope per share of the range to one per logarithm of the value.
            slope = variable.slope(design[i : i + 1])[0]
            step, elasticity = None, float(held.pull[i]) * value / float(slope)
        # Change of the logarithm that is made small.
        log = elasticity * math.log(1.0 + FURTHER if upper else 1.0 - FURTHER)
        change = math.expm1(problem.objectives[0].sign * log)
        unit = variable.axis.coordinates[0].unit
        found.append((log, End(variable.name, value, unit, upper, step, change, log < 0.0)))
    return tuple(end for _, end in sorted(found, key=lambda one: one[0]))


def _numbers(variable: Variable) -> np.ndarray | None:
    """Values that a variable may have, or the ends of its range; None of names and of single values of 0."""
    if not variable.choice:
        return np.array([variable.low, variable.high])
    numeric = variable.labels.dtype.kind in "fiu" and variable.path is not None
    return variable.labels.astype(float) if numeric else None


def _near(value: float, end: float, other: float) -> bool:
    return abs(value - end) <= ACTIVE * abs(other - end)


def _beyond(variable: Variable, value: float, upper: bool) -> bool:
    """Whether a number further than this one could be."""
    declared = None if variable.path is None else leaf(variable.path)
    if value <= 0.0 or (declared is not None and declared.counts and not upper and value <= 1.0):
        return False
    return declared is None or declared.allows(value * (1.0 + FURTHER if upper else 1.0 - FURTHER))


def _by_step(problem: Problem, design: np.ndarray, held: Balance, i: int, numbers: np.ndarray) -> tuple[float, float]:
    """The neighbour of a list's end, and d ln objective / d ln value by the step from it, active constraints held."""
    place = int(round(design[i]))
    others = np.delete(np.arange(len(numbers)), place)
    near = int(others[np.argmin(np.abs(np.log(numbers[others] / numbers[place])))])
    both = np.tile(design, (2, 1))
    both[1, i] = near
    objectives, constraints = problem.evaluate(both)
    logs = np.sign(objectives[:, 0]) * np.log(np.abs(objectives[:, 0])) + constraints @ held.forces
    return float(numbers[near]), float((logs[0] - logs[1]) / math.log(numbers[place] / numbers[near]))
