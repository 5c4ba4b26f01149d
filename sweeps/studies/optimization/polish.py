"""Polishing of a design: descent to the nearest optimum, whole numbers one by one, a cloud of neighbours.

Slopes are smoothed, so that they lead across steps such as the number of memory stacks; they do not say on which side
of a step to stay. Neighbours drawn around the best design, ever closer, do.
"""

import numpy as np

from sweeps.studies.optimization.descent import best_first, scores, worst
from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.quadratic import Polished, refined

NEIGHBOURS, ROUNDS = 4096, 24
"""Designs that are drawn around the best one, and how often."""

SPREAD, NARROWER = 0.1, 0.75
"""Standard deviation of the first cloud, in shares of the ranges, and what each round without success leaves of it."""


def polished(problem: Problem, design: np.ndarray, weights: np.ndarray) -> Polished:
    """The best design near `design`, shape [d]; counts, and lists that were relaxed, take values that they may have.

    Args:
      weights: of the logarithms of the objectives, shape [objectives].
    """
    free = ~problem.choice
    best = refined(problem, design, weights, free)
    for i, variable in enumerate(problem.variables):
        if variable.choice or (not variable.whole and variable.allowed is None):
            continue
        free[i] = False
        found = None
        for value in variable.neighbours(best.design[i]):
            start = best.design.copy()
            start[i] = value
            point = refined(problem, start, weights, free)
            found = point if found is None or point.better(found) else found
        best = found
    return best


def settled(problem: Problem, point: Polished, weights: np.ndarray, seed: int) -> Polished:
    """The best of clouds of neighbours around a design, each drawn around the best so far; choices stay."""
    draws = np.random.default_rng(seed)
    moves = [i for i, v in enumerate(problem.variables) if not v.choice and v.high > v.low]
    spread = SPREAD
    for _ in range(ROUNDS if moves else 0):
        designs = np.tile(point.design, (NEIGHBOURS, 1))
        for i in moves:
            variable = problem.variables[i]
            steps = spread * draws.normal(size=NEIGHBOURS) * (draws.random(NEIGHBOURS) < 0.5)
            shares = variable.shares(point.design[i : i + 1]) + steps
            designs[:, i] = variable.rounded(variable.unit_values(np.clip(shares, 0.0, 1.0)))
        objectives, constraints = problem.evaluate(designs)
        found_scores, violations = scores(objectives, weights), worst(constraints)
        best = int(best_first(found_scores, violations)[0])
        found = Polished(designs[best], float(found_scores[best]), float(violations[best]))
        if found.better(point):
            point = found
        else:
            spread *= NARROWER
    return point
