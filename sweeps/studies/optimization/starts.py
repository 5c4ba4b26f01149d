"""Starts of a search: a grid over all combinations of choices, and its best points in each."""

import math

import numpy as np

from sweeps.studies.optimization.descent import worst
from sweeps.studies.optimization.pareto import spread_weights
from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.spec import Effort

FEW_LEVELS = 3
"""A grid with fewer levels per variable says little: as many points are drawn instead."""


def grid(problem: Problem, chosen: np.ndarray, effort: Effort) -> tuple[np.ndarray, bool]:
    """Designs over all combinations: a grid of equal levels, or, where it has too few levels, a Sobol sample."""
    ranges = [v for v in problem.variables if not v.choice]
    per = max(effort.grid // len(chosen), 1)
    levels = int(per ** (1.0 / len(ranges)) + 1e-9) if ranges else 1
    sampled = bool(ranges) and levels < FEW_LEVELS
    if sampled:
        from scipy.stats import qmc

        power = max(int(math.log2(per)), 2)
        shares = qmc.Sobol(len(ranges), rng=np.random.default_rng(effort.seed)).random_base2(power)
        columns = [v.unit_values(shares[:, i]) for i, v in enumerate(ranges)]
        columns = [v.rounded(column) for v, column in zip(ranges, columns, strict=True)]
        numbers = np.stack(columns, axis=1)
    else:
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
        for weight in np.unique(drawn, axis=0):
            own = int(np.sum((drawn == weight).all(axis=1)))
            order = np.argsort(logs @ weight + 100.0 * violations[rows], kind="stable")[:own]
            picks.append(rows[order])
            weights.append(np.tile(weight, (len(order), 1)))
    return designs[np.concatenate(picks)], np.concatenate(weights)


def combination_numbers(problem: Problem, designs: np.ndarray) -> np.ndarray:
    """A number for the combination of choices of every design."""
    if not problem.choices:
        return np.zeros(len(designs), int)
    return np.unique(designs[:, problem.choice], axis=0, return_inverse=True)[1].reshape(-1)
