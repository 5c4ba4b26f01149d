"""Several objectives at once: designs on the Pareto front, and weights that spread a search over them."""

import math

import numpy as np

from sweeps.studies.optimize.descent import worst
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.spec import Effort


def nondominated(objectives: np.ndarray) -> np.ndarray:
    """Rows that no other row beats in every objective, along the first one; rows that are not finite are left out.

    Args:
      objectives: to be made small, shape [n, objectives].
    """
    rows = np.flatnonzero(np.isfinite(objectives).all(axis=1))
    # Sorted by the first objective, then by the next ones: only rows before another one can beat it.
    order = rows[np.lexsort(objectives[rows].T[::-1])]
    front: list[int] = []
    for row in order:
        values = objectives[row]
        if not any((objectives[other] <= values).all() for other in front):
            front.append(int(row))
    return np.array(front, int)


def spread_weights(objectives: int, n: int) -> np.ndarray:
    """`n` weights of the objectives that sum to 1, evenly over the simplex, shape [n, objectives]."""
    if objectives == 1:
        return np.ones((n, 1))
    if objectives == 2:
        shares = np.linspace(0.02, 0.98, n)
        return np.stack([shares, 1.0 - shares], axis=1)
    from scipy.stats import qmc

    # Exponential draws over their sum are uniform on the simplex; Sobol's first point is 0 and is left out.
    draws = -np.log(qmc.Sobol(objectives, scramble=False).random_base2(max(int(np.ceil(np.log2(n + 1))), 1))[1 : n + 1])
    return draws / draws.sum(axis=1, keepdims=True)


# Starts of a search: a grid over all combinations of choices, and its best points in each.


FEW_LEVELS = 3
"""A grid with fewer levels per variable says little: as many points are drawn instead."""


def grid(problem: Problem, chosen: np.ndarray, effort: Effort) -> tuple[np.ndarray, bool]:
    """Designs over all combinations: a grid of equal levels, or, where it has too few levels, a Sobol sample."""
    ranges = [v for v in problem.variables if not v.choice]
    per = max(effort.grid // len(chosen), 1)
    # A small number is added, because a root of a perfect power may round down.
    levels = int(per ** (1.0 / len(ranges)) + 1e-9) if ranges else 1
    sampled = bool(ranges) and levels < FEW_LEVELS
    if sampled:
        from scipy.stats import qmc

        # Sobol points are balanced in powers of two.
        power = max(int(math.log2(per)), 2)
        shares = qmc.Sobol(len(ranges), rng=np.random.default_rng(effort.seed)).random_base2(power)
        columns = [v.unit_values(shares[:, i]) for i, v in enumerate(ranges)]
        columns = [v.rounded(column) for v, column in zip(ranges, columns, strict=True)]
        numbers: np.ndarray | list[list[float]] = np.stack(columns, axis=1)
    else:
        # Rounding may make levels equal: each is taken once.
        sides = [np.unique(v.rounded(v.unit_values(np.linspace(0.0, 1.0, levels)))) for v in ranges]
        numbers = np.stack([side.ravel() for side in np.meshgrid(*sides, indexing="ij")], axis=1) if sides else [[]]
    designs = np.empty((len(chosen) * len(numbers), len(problem.variables)))
    designs[:, problem.choice] = np.repeat(chosen, len(numbers), axis=0)
    designs[:, ~problem.choice] = np.tile(numbers, (len(chosen), 1))
    return designs, sampled


def starts(
    problem: Problem, designs: np.ndarray, objectives: np.ndarray, constraints: np.ndarray, effort: Effort
) -> tuple[np.ndarray, np.ndarray]:
    """Starts of the descent, and the weights of the objectives there: the best of the grid, for every combination."""
    violations = np.maximum(worst(constraints), 0.0)
    groups = combination_numbers(problem, designs)
    count = groups.max() + 1
    per = max(effort.starts // count, 2)
    picks, weights = [], []
    drawn = spread_weights(len(problem.objectives), per)
    for group in range(count):
        rows = np.flatnonzero(groups == group)
        logs = np.sign(objectives[rows]) * np.log(np.abs(objectives[rows]))
        # Each weight gets as many starts as it was drawn.
        for weight in np.unique(drawn, axis=0):
            own = int(np.sum((drawn == weight).all(axis=1)))
            # A violation, in logarithms, counts a hundred times as much as the objectives.
            order = np.argsort(logs @ weight + 100.0 * violations[rows], kind="stable")[:own]
            picks.append(rows[order])
            weights.append(np.tile(weight, (len(order), 1)))
    return designs[np.concatenate(picks)], np.concatenate(weights)


def combination_numbers(problem: Problem, designs: np.ndarray) -> np.ndarray:
    """A number for the combination of choices of every design."""
    if not problem.choices:
        return np.zeros(len(designs), int)
    return np.unique(designs[:, problem.choice], axis=0, return_inverse=True)[1].reshape(-1)
