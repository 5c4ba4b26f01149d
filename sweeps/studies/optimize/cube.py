"""A design problem as points of the unit cube, for optimisers that only ask for values: every point is a design."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from hwspaces.quantities.units import nearest
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.variables import Variable

IMPOSSIBLE = 1.0
"""Value of the constraint of a deployment that cannot be; -1 of one that can."""


class Cube:
    """Points, shape [n, d], each coordinate from 0 to 1, as designs that a result may have.

    Numbers are spread in ratios where positive, and rounded where they are whole or from a list; the places of a choice
    share the coordinate equally.

    Attributes:
      problem: the problem.
      constraint_names: the problem's, and one for deployments that cannot be, where the choices hold any.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        combinations, legal = _combinations(problem)
        self._illegal = combinations[~legal]
        self.constraint_names = problem.constraint_names + (("possible deployment",) if len(self._illegal) else ())

    def designs(self, points: np.ndarray) -> np.ndarray:
        """The designs of points, shape [n, d]."""
        points = np.clip(np.asarray(points, float), 0.0, 1.0)
        return np.stack([_values(v, points[:, i]) for i, v in enumerate(self.problem.variables)], axis=1)

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Objectives, shape [n, objectives], and constraints, shape [n, constraints], kept where <= 0."""
        return self.evaluate_designs(self.designs(points))

    def evaluate_designs(self, designs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `evaluate`, of designs."""
        objectives, constraints = self.problem.evaluate(designs)
        if not len(self._illegal):
            return objectives, constraints
        wrong = (designs[:, self.problem.choice][:, np.newaxis] == self._illegal).all(axis=2).any(axis=1)
        possible = np.where(wrong, IMPOSSIBLE, -IMPOSSIBLE)[:, np.newaxis]
        return objectives, np.concatenate([constraints, possible], axis=1)


def _values(variable: Variable, points: np.ndarray) -> np.ndarray:
    """A column of designs."""
    if variable.choice:
        # The places of a choice have equal intervals; a coordinate of 1 belongs to the last one.
        return np.minimum(np.floor(points * len(variable.labels)), len(variable.labels) - 1.0)
    return variable.rounded(variable.unit_values(points))


def legal_combinations(problem: Problem) -> np.ndarray:
    """Positions of the choices of every combination whose deployment can be, shape [combinations, choices].

    Raises:
      ValueError: one line: there is none.
    """
    combinations, legal = _combinations(problem)
    if not legal.any():
        raise ValueError("no combination of the choices is a deployment that can be")
    return combinations[legal]


def legal_choices(problem: Problem) -> list[dict[str, Any]]:
    """As `legal_combinations`, as labels by name."""
    chosen = [variable for variable in problem.variables if variable.choice]
    rows = legal_combinations(problem)
    return [{v.name: v.labels[int(i)] for v, i in zip(chosen, row, strict=True)} for row in rows]


def _combinations(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the choices of every combination, shape [combinations, choices], and whether it can be."""
    positions = [range(len(variable.labels)) for variable in problem.variables if variable.choice]
    combinations = np.array(list(itertools.product(*positions)), float)
    # Numbers stand at their lower bounds: only the choices differ.
    designs = np.tile(problem.lower, (len(combinations), 1))
    designs[:, problem.choice] = combinations
    return combinations, problem.legal(designs)


# The numbers of a design problem at given choices, scaled for solvers: shares of their ranges, goals in logarithms.


@dataclasses.dataclass(frozen=True)
class CubeGoals:
    """Goals of one design for a solver, in logarithms, with the derivatives by every share."""

    objective: float  # to be made small
    score: float  # its logarithm
    constraints: np.ndarray  # [constraints], kept where <= 0
    slopes: np.ndarray  # [k]
    constraint_slopes: np.ndarray  # [constraints, k]


class Shares:
    """The k numbers of a problem as shares of their ranges: 0 is the lower bound, 1 the upper; ratios where positive.

    Bandwidths in 1e12 B/s beside core counts in 1e2 then weigh the same, and a power law is a straight line.

    Attributes:
      problem: the problem.
      names: of the numbers.
      start: the middle of every range, shape [k].
    """

    def __init__(self, problem: Problem, choices: Mapping[str, Any] | None = None):
        """At `choices`, the label of every variable that is a choice, by name; one that has one label may be left out.

        Raises:
          ValueError: one line: there are several objectives, or a choice is missing, unknown or has no such label.
        """
        if len(problem.objectives) != 1:
            raise ValueError(f"a solver has one objective; there are {', '.join(problem.objective_names)}")
        self.problem = problem
        self._base = _chosen(problem, choices or {})
        self.columns = np.array([i for i, v in enumerate(problem.variables) if not v.choice], int)
        self.names = tuple(problem.names[i] for i in self.columns)
        self.start = np.full(len(self.columns), 0.5)
        self._last: tuple[bytes, CubeGoals] | None = None

    @property
    def base(self) -> np.ndarray:
        """A design with the choices, its numbers at their lower bounds, shape [d]."""
        return self._base.copy()

    def designs(self, shares: np.ndarray) -> np.ndarray:
        """Designs of the problem, shape [..., d], at shares of shape [..., k]; shares beyond 0 and 1 are clipped."""
        shares = np.clip(np.asarray(shares, float), 0.0, 1.0)
        designs = np.broadcast_to(self._base, (*shares.shape[:-1], len(self._base))).copy()
        for j, i in enumerate(self.columns):
            designs[..., i] = self.problem.variables[i].unit_values(shares[..., j])
        return designs

    def goals(self, shares: np.ndarray) -> CubeGoals:
        """Goals at shares of shape [k]; the last answer is kept, so that a solver may ask for its parts one by one."""
        # Solvers ask for values and for slopes at one place in separate calls.
        key = np.asarray(shares, float).tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._computed(shares)
        return self._last[1]

    def _computed(self, shares: np.ndarray) -> CubeGoals:
        design = self.designs(shares)
        gradients = self.problem.value_and_grad(design[np.newaxis])
        moved = [self.problem.variables[i].slope(design[i : i + 1])[0] for i in self.columns]
        value = gradients.objectives[0, 0]
        return CubeGoals(
            float(value),
            float(np.sign(value) * np.log(np.abs(value))),
            gradients.constraints[0],
            # Derivative of sign(y) ln|y|: dy / |y|, times the change of each value per share.
            gradients.objective_slopes[0, 0, self.columns] * moved / np.abs(value),
            gradients.constraint_slopes[0][:, self.columns] * moved,
        )


def _chosen(problem: Problem, choices: Mapping[str, Any]) -> np.ndarray:
    """A design with the positions of the choices."""
    for name in choices:
        if name not in problem.choices:
            raise ValueError(f"choices: {name} is not a choice of this problem{nearest(name, list(problem.choices))}")
    design = problem.lower.copy()
    for i, variable in enumerate(problem.variables):
        if not variable.choice:
            continue
        labels = list(variable.labels)
        shown = ", ".join(str(label) for label in labels)
        if variable.name not in choices:
            # A choice with one label needs no answer: its position is that of the lower bounds, 0.
            if len(labels) > 1:
                raise ValueError(f"choices: {variable.name} is missing; it must be one of {shown}")
            continue
        if choices[variable.name] not in labels:
            raise ValueError(f"choices: {variable.name} = {choices[variable.name]!r} must be one of {shown}")
        design[i] = labels.index(choices[variable.name])
    return design
