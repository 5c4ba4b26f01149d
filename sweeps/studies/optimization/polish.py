"""Polishing of a design: sequential quadratic programming, whole numbers one by one, a cloud of neighbours.

Slopes are smoothed, so that they lead across steps such as the number of memory stacks; they do not say on which side
of a step to stay. Neighbours drawn around the best design, ever closer, do.
"""

import dataclasses
import warnings

import numpy as np

from sweeps.studies.optimization.descent import KEPT, best_first, scores, worst
from sweeps.studies.optimization.problem import Problem

ITERATIONS = 40
"""Of one polishing."""

NEIGHBOURS, ROUNDS = 4096, 24
"""Designs that are drawn around the best one, and how often."""

SPREAD, NARROWER = 0.1, 0.75
"""Standard deviation of the first cloud, in shares of the ranges, and what each round without success leaves of it."""

TOLERANCE = 1e-8
"""Change of the logarithm of the objective at which polishing ends."""


@dataclasses.dataclass(frozen=True)
class Polished:
    """One design and what is known of it."""

    design: np.ndarray  # [d]
    score: float  # weighted logarithm of the objectives, to be made small
    violation: float  # the largest constraint

    @property
    def feasible(self) -> bool:
        """Whether every constraint is kept."""
        return self.violation <= KEPT

    def better(self, other: "Polished") -> bool:
        """Feasible before infeasible, then the smaller score or violation."""
        if self.feasible != other.feasible:
            return self.feasible
        return self.score < other.score if self.feasible else self.violation < other.violation


def polished(problem: Problem, design: np.ndarray, weights: np.ndarray) -> Polished:
    """The best design near `design`, shape [d]; counts, and lists that were relaxed, take values that they may have.

    Args:
      weights: of the logarithms of the objectives, shape [objectives].
    """
    free = ~problem.choice
    best = _refined(problem, design, weights, free)
    for i, variable in enumerate(problem.variables):
        if variable.choice or (not variable.whole and variable.allowed is None):
            continue
        free[i] = False
        found = None
        for value in variable.neighbours(best.design[i]):
            start = best.design.copy()
            start[i] = value
            point = _refined(problem, start, weights, free)
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


def _refined(problem: Problem, design: np.ndarray, weights: np.ndarray, free: np.ndarray) -> Polished:
    """SciPy's SLSQP over the shares of the free variables; the best point of its way, the start included."""
    from scipy.optimize import minimize

    columns = np.flatnonzero(free & (problem.upper > problem.lower))
    best = _Walk(problem, design, weights, columns)
    start = np.array([problem.variables[i].shares(design[i : i + 1])[0] for i in columns])
    best.at(start)
    if len(columns):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of steps out of the bounds, which are clipped
            minimize(
                lambda shares: best.at(shares)[0],
                start,
                jac=lambda shares: best.at(shares)[1],
                bounds=[(0.0, 1.0)] * len(columns),
                constraints={
                    "type": "ineq",
                    "fun": lambda shares: -best.at(shares)[2],
                    "jac": lambda shares: -best.at(shares)[3],
                },
                method="SLSQP",
                options={"maxiter": ITERATIONS, "ftol": TOLERANCE},
            )
    return best.best


class _Walk:
    """Values and slopes along a solver's way, each design computed once, and the best of them."""

    def __init__(self, problem: Problem, design: np.ndarray, weights: np.ndarray, columns: np.ndarray):
        self.best: Polished | None = None
        self._problem, self._design, self._weights, self._columns = problem, design, weights, columns
        self._last: tuple[bytes, tuple] | None = None

    def at(self, shares: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Score, its slopes, the constraints, and theirs."""
        shares = np.clip(shares, 0.0, 1.0)
        if self._last is None or self._last[0] != shares.tobytes():
            self._last = shares.tobytes(), self._computed(shares)
        return self._last[1]

    def _computed(self, shares: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        design, columns = self._design.copy(), self._columns
        chosen = [self._problem.variables[i] for i in columns]
        design[columns] = [v.unit_values(shares[j : j + 1])[0] for j, v in enumerate(chosen)]
        found = self._problem.value_and_grad(design[np.newaxis])
        objectives, constraints = found.objectives[0], found.constraints[0]
        score = float(scores(objectives[np.newaxis], self._weights)[0])
        inner = np.array([v.slope(design[i : i + 1])[0] for i, v in zip(columns, chosen, strict=True)])
        slopes = (self._weights / np.abs(objectives)) @ found.objective_slopes[0][:, columns] * inner
        point = Polished(design, score, float(worst(constraints[np.newaxis])[0]))
        if self.best is None or point.better(self.best):
            self.best = point
        return score, slopes, constraints, found.constraint_slopes[0][:, columns] * inner
