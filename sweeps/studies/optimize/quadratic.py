"""The optimum nearest to a design: sequential quadratic programming over the variables that are free."""

import dataclasses
import warnings

import numpy as np

from jaxroof.numerics.struct import given
from sweeps.studies.optimize.descent import KEPT, best_first, scores, worst
from sweeps.studies.optimize.problem import Problem

ITERATIONS = 40
"""Of one descent."""

TOLERANCE = 1e-8
"""Change of the logarithm of the objective at which it ends."""


@dataclasses.dataclass(frozen=True)
class Polished:
    """One design and what is known of it."""

    design: np.ndarray  # [d]
    score: float  # weighted logarithm of the objectives, to be made small
    violation: float  # the largest constraint
    seen: int = 1  # designs among which it is the best, where all were evaluated

    @property
    def feasible(self) -> bool:
        """Whether every constraint is kept."""
        return self.violation <= KEPT

    def better(self, other: "Polished") -> bool:
        """Feasible before infeasible, then the smaller score or violation."""
        if self.feasible != other.feasible:
            return self.feasible
        return self.score < other.score if self.feasible else self.violation < other.violation


def refined(
    problem: Problem,
    design: np.ndarray,
    weights: np.ndarray,
    free: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
) -> Polished:
    """SciPy's SLSQP over the shares of the free variables; the best point of its way, the start included.

    The worst of several scenarios has a ridge where two are equally bad. So each objective with several is a number of
    its own, which is made small and which no scenario may exceed.

    Args:
      design: where to begin, shape [d].
      weights: of the logarithms of the objectives, shape [objectives].
      free: which variables move, bool, shape [d].
      bounds: of the variables, shapes [d], in place of the problem's.
    """
    from scipy.optimize import minimize

    low, high = bounds or (problem.lower, problem.upper)
    # Variables whose bounds meet cannot move.
    columns = np.flatnonzero(free & (high > low))
    design = np.clip(design, low, high)
    walk = _Walk(problem, design, weights, columns)
    start = walk.shares(design)
    walk.at(start)
    if not len(columns):
        return walk.found
    # With several scenarios, the level of every objective is a further number of the solver.
    several = len(problem.members) > 1
    levels = walk.levels(start) if several else np.zeros(0)
    count, beside = len(columns), len(levels)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        # The levels are made small instead of the worst scenarios, which have no slope at a ridge.
        if several:
            return float(weights @ x[count:]), np.concatenate([np.zeros(count), weights])
        place = walk.at(x)
        return place.score, place.slopes

    def constraints(x: np.ndarray) -> np.ndarray:
        place = walk.at(x[:count])
        # No scenario's logarithm may exceed the level of its objective.
        above = (place.cases - x[count:, np.newaxis]).ravel() if several else np.zeros(0)
        # SLSQP keeps constraints that are not negative.
        return -np.concatenate([place.constraints, above])

    def constraint_slopes(x: np.ndarray) -> np.ndarray:
        place = walk.at(x[:count])
        rows = [np.concatenate([place.constraint_slopes, np.zeros((len(place.constraints), beside))], axis=1)]
        for j in range(beside):
            # The slope by the own level is -1.
            levels_slope = np.tile(-np.eye(beside)[j], (place.case_slopes.shape[1], 1))
            rows.append(np.concatenate([place.case_slopes[j], levels_slope], axis=1))
        return -np.concatenate(rows)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of steps out of the bounds, which are clipped
        minimize(
            lambda x: objective(x)[0],
            np.concatenate([start, levels]),
            jac=lambda x: objective(x)[1],
            bounds=[*zip(walk.shares(low), walk.shares(high), strict=True), *[(None, None)] * beside],
            constraints={"type": "ineq", "fun": constraints, "jac": constraint_slopes},
            method="SLSQP",
            options={"maxiter": ITERATIONS, "ftol": TOLERANCE},
        )
    return walk.found


@dataclasses.dataclass(frozen=True)
class _Place:
    """What is known at one place: figures in logarithms, and their derivatives by the shares of the free variables."""

    score: float
    slopes: np.ndarray  # [k]
    constraints: np.ndarray  # [constraints]
    constraint_slopes: np.ndarray  # [constraints, k]
    cases: np.ndarray  # [objectives, scenarios]; an objective of one scenario repeats it
    case_slopes: np.ndarray  # [objectives, scenarios, k]


class _Walk:
    """Values and slopes along a solver's way, each design computed once, and the best of them."""

    def __init__(self, problem: Problem, design: np.ndarray, weights: np.ndarray, columns: np.ndarray):
        self.best: Polished | None = None
        self._problem, self._design, self._weights, self._columns = problem, design, weights, columns
        self._variables = [problem.variables[i] for i in columns]
        self._last: tuple[bytes, _Place] | None = None

    @property
    def found(self) -> Polished:
        """The best of them, once there is one."""
        return given(self.best, "design that was computed")

    def shares(self, design: np.ndarray) -> np.ndarray:
        """Shares of the free variables of a design, shape [k]."""
        own = zip(self._variables, self._columns, strict=True)
        return np.clip([v.shares(design[i : i + 1])[0] for v, i in own], 0.0, 1.0)

    def levels(self, shares: np.ndarray) -> np.ndarray:
        """Logarithms of the objectives, shape [objectives]."""
        return self.at(shares).cases.max(axis=1)

    def at(self, shares: np.ndarray) -> _Place:
        """What is known at shares of shape [k]."""
        # The solver may step out of the ranges: what it learns is of the nearest place inside.
        shares = np.clip(shares, 0.0, 1.0)
        if self._last is None or self._last[0] != shares.tobytes():
            self._last = shares.tobytes(), self._computed(shares)
        return self._last[1]

    def _computed(self, shares: np.ndarray) -> _Place:
        design, columns = self._design.copy(), self._columns
        design[columns] = [v.unit_values(shares[j : j + 1])[0] for j, v in enumerate(self._variables)]
        gradients = self._problem.value_and_grad(design[np.newaxis])
        objectives, constraints = gradients.objectives[0], gradients.constraints[0]
        score = float(scores(objectives[np.newaxis], self._weights)[0])
        # Chain rule: slopes by values, times the change of each value per share.
        inner = np.array([v.slope(design[i : i + 1])[0] for i, v in zip(columns, self._variables, strict=True)])
        slopes = (self._weights / np.abs(objectives)) @ gradients.objective_slopes[0][:, columns] * inner
        point = Polished(design, score, float(worst(constraints[np.newaxis])[0]))
        # A solver need not end at the best place of its way: it is kept here.
        if self.best is None or point.better(self.best):
            self.best = point
        # An objective of one scenario is repeated, so that all have the same number of cases.
        most = len(self._problem.members)
        cases = [np.resize(one.logs[0], most) for one in gradients.cases]
        case_slopes = [np.resize(one.log_slopes[0], (most, len(design)))[:, columns] * inner for one in gradients.cases]
        return _Place(
            score,
            slopes,
            constraints,
            gradients.constraint_slopes[0][:, columns] * inner,
            np.stack(cases),
            np.stack(case_slopes),
        )


# Polishing of a design: descent to the nearest optimum, whole numbers one by one, a cloud of neighbours.


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
    # The relaxed optimum first, then one variable after the other takes a value that it may have.
    best = refined(problem, design, weights, free)
    for i, variable in enumerate(problem.variables):
        if variable.choice or (not variable.whole and variable.allowed is None):
            continue
        free[i] = False
        nearest_best = None
        # The allowed values on either side are tried, each with all other free variables adapted to it.
        for value in variable.neighbours(best.design[i]):
            start = best.design.copy()
            start[i] = value
            point = refined(problem, start, weights, free)
            nearest_best = point if nearest_best is None or point.better(nearest_best) else nearest_best
        best = given(nearest_best, f"allowed value of {variable.path}")
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
            # Normal steps in shares; half of the draws leave the variable where it is.
            steps = spread * draws.normal(size=NEIGHBOURS) * (draws.random(NEIGHBOURS) < 0.5)
            shares = variable.shares(point.design[i : i + 1]) + steps
            designs[:, i] = variable.rounded(variable.unit_values(np.clip(shares, 0.0, 1.0)))
        objectives, constraints = problem.evaluate(designs)
        found_scores, violations = scores(objectives, weights), worst(constraints)
        best = int(best_first(found_scores, violations)[0])
        candidate = Polished(designs[best], float(found_scores[best]), float(violations[best]))
        if candidate.better(point):
            point = candidate
        else:
            spread *= NARROWER
    return point
