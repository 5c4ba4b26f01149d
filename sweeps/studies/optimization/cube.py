"""A design problem as points of the unit cube, for optimisers that only ask for values: every point is a design."""

import itertools
from typing import Any

import numpy as np

from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.variables import Variable

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
        found, legal = _combinations(problem)
        self._illegal = found[~legal]
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
        return np.minimum(np.floor(points * len(variable.labels)), len(variable.labels) - 1.0)
    return variable.rounded(variable.unit_values(points))


def legal_combinations(problem: Problem) -> np.ndarray:
    """Positions of the choices of every combination whose deployment can be, shape [combinations, choices].

    Raises:
      ValueError: one line: there is none.
    """
    found, legal = _combinations(problem)
    if not legal.any():
        raise ValueError("no combination of the choices is a deployment that can be")
    return found[legal]


def legal_choices(problem: Problem) -> list[dict[str, Any]]:
    """As `legal_combinations`, as labels by name."""
    chosen = [variable for variable in problem.variables if variable.choice]
    rows = legal_combinations(problem)
    return [{v.name: v.labels[int(i)] for v, i in zip(chosen, row, strict=True)} for row in rows]


def _combinations(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the choices of every combination, shape [combinations, choices], and whether it can be."""
    positions = [range(len(variable.labels)) for variable in problem.variables if variable.choice]
    found = np.array(list(itertools.product(*positions)), float)
    designs = np.tile(problem.lower, (len(found), 1))
    designs[:, problem.choice] = found
    return found, problem.legal(designs)
