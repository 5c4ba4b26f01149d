"""Active constraints and bounds of an optimum, and the gain from a little more of each."""

import dataclasses

import numpy as np

from sweeps.studies.optimization.problem import Problem

ACTIVE = 1e-3
"""A constraint or bound is active where it is met up to this much, in logarithms or shares of the range."""


@dataclasses.dataclass(frozen=True)
class Active:
    """One active constraint or bound."""

    name: str  # of the constraint as text, or of the variable
    limit: float  # SI: the constraint's limit, or the bound
    unit: str
    kind: str  # "constraint", "upper bound" or "lower bound"
    elasticity: float  # d ln objective / d ln limit, of the objective that is made small or large

    def bought(self, objective: float) -> float:
        """Change of an objective of that value per unit of the limit."""
        return self.elasticity * objective / self.limit


def active(problem: Problem, design: np.ndarray, weights: np.ndarray) -> tuple[tuple[Active, ...], float]:
    """Active constraints and bounds of a design, the strongest first, and how far it is from being stationary.

    At an optimum the slopes of the objective are a non-negative combination of those of what is active (Karush, Kuhn
    and Tucker). The combination is found by non-negative least squares over the variables that may move; the second
    result is the length of what it leaves, over the length of the slopes: 0 at a smooth optimum.

    Args:
      design: shape [d].
      weights: of the logarithms of the objectives, shape [objectives].
    """
    from scipy.optimize import nnls

    found = problem.value_and_grad(design[np.newaxis])
    objectives, constraints = found.objectives[0], found.constraints[0]
    moving = np.array([not (v.choice or v.whole or v.allowed is not None) for v in problem.variables])
    moving &= problem.upper > problem.lower
    inner = np.array([v.slope(design[i : i + 1])[0] for i, v in enumerate(problem.variables)])
    slopes = ((weights / np.abs(objectives)) @ found.objective_slopes[0] * inner)[moving]
    columns, names = [], []
    for i, constraint in enumerate(problem.constraints):
        if constraints[i] > -ACTIVE:
            columns.append((found.constraint_slopes[0, i] * inner)[moving])
            sign = 1.0 if constraint.at_least else -1.0
            names.append((constraint.text, constraint.limit, constraint.unit, "constraint", sign))
    places = np.flatnonzero(moving)
    for j, i in enumerate(places):
        variable = problem.variables[i]
        share = variable.shares(design[i : i + 1])[0]
        for side, kind, limit in ((1.0, "upper bound", variable.high), (-1.0, "lower bound", variable.low)):
            if side * (share - 0.5) >= 0.5 - ACTIVE:
                columns.append(side * np.eye(len(places))[j])
                unit = variable.axis.coordinates[0].unit
                names.append((variable.name, limit, unit, kind, -side * limit / variable.slope(np.array([limit]))[0]))
    size = float(np.linalg.norm(slopes))
    if not columns or size == 0.0:
        return (), (1.0 if size else 0.0)
    forces, left = nnls(np.stack(columns, axis=1), -slopes)
    found_active = [
        Active(name, limit, unit, kind, float(factor * force))
        for (name, limit, unit, kind, factor), force in zip(names, forces, strict=True)
    ]
    return tuple(sorted(found_active, key=lambda one: -abs(one.elasticity))), float(left / size)
