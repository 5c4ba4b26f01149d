"""Optimisers that only ask for values, on a design problem: the values of their designs in the order they asked."""

import numpy as np

from sweeps.studies.adapters import with_optuna, with_pymoo
from sweeps.studies.optimize.cube import Cube
from sweeps.studies.optimize.problem import Problem

POPULATION = 20
"""Of the genetic algorithm."""


def random(problem: Problem, budget: int, seed: int) -> np.ndarray:
    """Uniform over the unit cube: numbers in ratios, choices alike."""
    return _values(*Cube(problem).evaluate(np.random.default_rng(seed).random((budget, len(problem.names)))))


def tpe(problem: Problem, budget: int, seed: int) -> np.ndarray:
    """Optuna's tree-structured Parzen estimator, multivariate, with constraints."""
    import optuna

    return _studied(problem, budget, optuna.samplers.TPESampler(seed=seed, multivariate=True))


def gp(problem: Problem, budget: int, seed: int) -> np.ndarray:
    """Optuna's Gaussian process with log expected improvement and constraints; it needs torch."""
    import optuna

    return _studied(problem, budget, optuna.samplers.GPSampler(seed=seed, deterministic_objective=True))


def genetic(problem: Problem, budget: int, seed: int) -> np.ndarray:
    """pymoo's genetic algorithm, constraints first."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.optimize import minimize

    asked = _Recorded(problem)
    minimize(with_pymoo.pymoo_problem(asked), GA(pop_size=POPULATION), ("n_eval", budget), seed=seed)
    return asked.values[:budget]


METHODS = {"random": random, "tpe": tpe, "gp": gp, "genetic": genetic}


class _Recorded:
    """A problem that keeps what it answered."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self.values = np.empty(0)

    def __getattr__(self, name):
        return getattr(self._problem, name)

    def evaluate(self, designs):
        found = self._problem.evaluate(designs)
        self.values = np.concatenate([self.values, _values(*found)])
        return found


def _studied(problem: Problem, budget: int, sampler) -> np.ndarray:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=with_optuna.directions(problem), sampler=sampler)
    sign = problem.objectives[0].sign
    with_optuna.told(problem, study, budget)
    kept = [max(trial.constraints.values()) <= 0.0 for trial in study.trials]
    return np.where(kept, [sign * trial.value for trial in study.trials], np.inf)


def _values(objectives: np.ndarray, constraints: np.ndarray) -> np.ndarray:
    """Objectives, infinite where a constraint is not kept, shape [n]."""
    return np.where((constraints <= 0.0).all(axis=1), objectives[:, 0], np.inf)
