"""A design problem as points of the unit cube, for optimisers that only ask for values: every point is a design."""

from typing import Any

import numpy as np

from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.variables import Variable, combinations

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
        self._choice = np.array([variable.choice for variable in problem.variables])
        self._illegal = _illegal(problem)
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
        wrong = (designs[:, self._choice][:, np.newaxis] == self._illegal).all(axis=2).any(axis=1)
        possible = np.where(wrong, IMPOSSIBLE, -IMPOSSIBLE)[:, np.newaxis]
        return objectives, np.concatenate([constraints, possible], axis=1)


def allowed_values(variable: Variable, values: np.ndarray) -> np.ndarray:
    """The nearest numbers that a result may have: whole ones, or those of a list."""
    if variable.allowed is not None:
        return variable.allowed[np.argmin(np.abs(np.log(values[:, np.newaxis] / variable.allowed)), axis=1)]
    return np.clip(np.round(values), variable.low, variable.high) if variable.whole else values


def _values(variable: Variable, points: np.ndarray) -> np.ndarray:
    """A column of designs."""
    if variable.choice:
        return np.minimum(np.floor(points * len(variable.labels)), len(variable.labels) - 1.0)
    return allowed_values(variable, variable.unit_values(points))


def _illegal(problem: Problem) -> np.ndarray:
    """Positions of the choices of every combination that is no deployment, shape [combinations, choices]."""
    found, legal = _combinations(problem)
    return found[~legal]


def legal_choices(problem: Problem) -> list[dict[str, Any]]:
    """Every combination of choices whose deployment can be, as labels by name.

    Raises:
      ValueError: one line: there is none.
    """
    found, legal = _combinations(problem)
    if not legal.any():
        raise ValueError("no combination of the choices is a deployment that can be")
    chosen = [variable for variable in problem.variables if variable.choice]
    return [{v.name: v.labels[int(i)] for v, i in zip(chosen, row, strict=True)} for row in found[legal]]


def _combinations(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the choices of every combination, shape [combinations, choices], and whether it can be."""
    choice = np.array([variable.choice for variable in problem.variables])
    found = np.array(list(combinations(problem.variables)), float).reshape(-1, int(choice.sum()))
    designs = np.tile(problem.lower, (len(found), 1))
    designs[:, choice] = found
    return found, problem.legal(designs)
