"""Gradient descent from thousands of designs at once: Adam inside the bounds, constraints by augmented Lagrangians."""

from collections.abc import Callable
from types import ModuleType

import numpy as np

from hwspaces.files.extras import installing
from sweeps.run.precision import precision
from sweeps.studies.optimize.problem import Problem

RATE, END = 0.05, 0.05
"""First step of the descent as a share of every variable's range, and the last over the first. Ours."""

PENALTY = 20.0
"""Weight of the squared violation, in logarithms, against the logarithm of the objective. Ours."""

MULTIPLIER_STEPS = 15
"""Steps between two updates of the multipliers. Ours."""

KEPT = 1e-6
"""A constraint counts as kept up to this much, in logarithms."""


def optax() -> ModuleType:
    """The optax package; ValueError in one line where it is not installed."""
    try:
        import optax
    except ImportError:
        raise ValueError(f"gradient descent needs optax: {installing('optimize')}") from None
    return optax


def descended(
    problem: Problem,
    designs: np.ndarray,
    weights: np.ndarray,
    steps: int,
    progress: Callable[[int], None] = lambda steps: None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every design after `steps` steps of descent, and what was seen of feasible ones on the way.

    What is made small is the sum of the logarithms of the objectives times `weights`; with several objectives every
    design has weights of its own, so that together they spread over the Pareto front.

    Args:
      designs: where to start, shape [n, d]; choices stay as they are.
      weights: shape [n, objectives].
      progress: called with 1 after every step.

    Returns:
      For every start, the best feasible design of its way, or, where none was, that which violates least, shape
      [n, d]; its objectives, shape [n, objectives]; and its largest constraint, shape [n].
    """
    package = optax()
    shares = _shares(problem, designs)
    # Adam (Kingma and Ba, arXiv:1412.6980), with shorter means of slopes and squares than its usual ones.
    adam = package.scale_by_adam(b1=0.8, b2=0.95)
    multipliers = np.zeros((len(designs), len(problem.kept)))
    best = _Best(problem, designs, weights)
    with precision("float64"):
        from jaxroof.numerics.arrays import jax

        state = adam.init(shares)
        update = jax.jit(adam.update)
        for step in range(steps):
            designs = _values(problem, shares, designs)
            gradients = problem.value_and_grad(designs)
            best.take(designs, gradients.objectives, gradients.constraints)
            # Augmented Lagrangian of inequalities: max(multiplier + PENALTY * constraint, 0) pulls at a design.
            pull = np.maximum(multipliers + PENALTY * gradients.constraints, 0.0)
            # Derivative of the logarithm of |y|: dy / |y|, times the weight of each objective.
            scale = weights / np.abs(gradients.objectives)
            slopes = np.einsum("nm,nmd->nd", scale, gradients.objective_slopes)
            slopes += np.einsum("nk,nkd->nd", pull, gradients.constraint_slopes)
            # From slopes by values to slopes by shares of the ranges.
            slopes *= _slopes(problem, designs)
            with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
                change, state = update(slopes, state)
            # Steps shrink geometrically, from RATE to RATE * END.
            rate = RATE * END ** (step / steps)
            shares = np.clip(shares - rate * np.where(problem.choice, 0.0, np.asarray(change)), 0.0, 1.0)
            if step % MULTIPLIER_STEPS == MULTIPLIER_STEPS - 1:
                multipliers = pull
            progress(1)
    designs = _values(problem, shares, designs)
    gradients = problem.value_and_grad(designs)
    best.take(designs, gradients.objectives, gradients.constraints)
    return best.designs, best.objectives, best.violations


class _Best:
    """The best design of every start so far."""

    def __init__(self, problem: Problem, designs: np.ndarray, weights: np.ndarray):
        self.designs = designs.copy()
        self.objectives = np.full((len(designs), len(problem.objectives)), np.inf)
        self.violations = np.full(len(designs), np.inf)
        self._scores, self._weights = np.full(len(designs), np.inf), weights

    def take(self, designs: np.ndarray, objectives: np.ndarray, constraints: np.ndarray) -> None:
        """Keep what is better: feasible before infeasible, then the smaller objective or violation."""
        violations = worst(constraints)
        score = scores(objectives, self._weights)
        feasible, known = violations <= KEPT, self.violations <= KEPT
        better = np.where(feasible & known, score < self._scores, feasible | (~known & (violations < self.violations)))
        for mine, given in (
            (self.designs, designs),
            (self.objectives, objectives),
            (self.violations, violations),
            (self._scores, score),
        ):
            mine[better] = given[better]


def worst(constraints: np.ndarray) -> np.ndarray:
    """The largest constraint of every design, shape [n]; -inf without any."""
    return np.max(constraints, axis=1, initial=-np.inf)


def scores(objectives: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums of the logarithms of the objectives, shape [n, objectives], times their weights; to be made small."""
    return np.sum(weights * np.sign(objectives) * np.log(np.abs(objectives)), axis=1)


def best_first(scores: np.ndarray, violations: np.ndarray) -> np.ndarray:
    """Positions of designs: feasible ones before others, then those of smaller score or violation; shape [n]."""
    infeasible = violations > KEPT
    # The last key of `lexsort` is the first one to sort by.
    return np.lexsort((np.where(infeasible, violations, scores), infeasible))


def _shares(problem: Problem, designs: np.ndarray) -> np.ndarray:
    return np.stack([v.shares(designs[:, i]) for i, v in enumerate(problem.variables)], axis=1)


def _values(problem: Problem, shares: np.ndarray, designs: np.ndarray) -> np.ndarray:
    columns = [designs[:, i] if v.choice else v.unit_values(shares[:, i]) for i, v in enumerate(problem.variables)]
    return np.stack(columns, axis=1)


def _slopes(problem: Problem, designs: np.ndarray) -> np.ndarray:
    return np.stack([v.slope(designs[:, i]) for i, v in enumerate(problem.variables)], axis=1)
