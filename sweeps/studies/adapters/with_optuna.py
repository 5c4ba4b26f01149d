"""A design problem as trials of an Optuna study, asked and told in batches."""

from typing import Any

import numpy as np

from sweeps.studies.adapters.libraries import library
from sweeps.studies.optimize.cube import Cube
from sweeps.studies.optimize.problem import Problem


def directions(problem: Problem) -> list[str]:
    """Directions for `optuna.create_study(directions=..)`: "minimize" or "maximize" for every objective."""
    return ["maximize" if objective.maximise else "minimize" for objective in problem.objectives]


def told(problem: Problem, study: Any, trials: int, batch: int = 1) -> Any:
    """The study after `trials` more trials, `batch` of them at a time asked for, evaluated in one call and told.

    Parameters are the problem's variables in SI units: counts whole, choices by their labels, numbers from 0 up in
    ratios. Values are the objectives as users read them, in the study's directions; constraints are set by name and
    kept where <= 0, for any sampler that heeds them.

    Args:
      study: an `optuna.Study` with `directions(problem)`, and any sampler.

    Raises:
      ValueError: one line with the command that installs Optuna, where it is missing.
    """
    optuna = library("optuna", "optuna")
    cube, space = Cube(problem), _space(problem, optuna.distributions)
    # Objectives that are maximised are negated inside, and told as users read them.
    signs = np.array([objective.sign for objective in problem.objectives])
    for done in range(0, trials, batch):
        pending = [study.ask(space) for _ in range(min(batch, trials - done))]
        # One call of the problem for all trials of a batch.
        objectives, constraints = cube.evaluate_designs(np.array([_design(problem, trial.params) for trial in pending]))
        for trial, values, limits in zip(pending, objectives * signs, constraints, strict=True):
            for name, value in zip(cube.constraint_names, limits, strict=True):
                trial.set_constraint(name, float(value))
            study.tell(trial, values.tolist())
    return study


def design(problem: Problem, trial: Any) -> np.ndarray:
    """The design of a trial, as `problem.evaluate` takes it, shape [d]."""
    return _design(problem, trial.params)


def _space(problem: Problem, kinds: Any) -> dict[str, Any]:
    """The distribution of every variable."""
    distributions = {}
    for variable in problem.variables:
        # A list of allowed numbers has no even steps, so that it is categories, as a choice is.
        if variable.choice or variable.allowed is not None:
            distributions[variable.name] = kinds.CategoricalDistribution(_labels(variable))
        # Optuna's logarithmic integers begin at 1.
        elif variable.whole:
            distributions[variable.name] = kinds.IntDistribution(
                int(variable.low), int(variable.high), log=variable.low >= 1
            )
        else:
            distributions[variable.name] = kinds.FloatDistribution(variable.low, variable.high, log=variable.log)
    return distributions


def _labels(variable: Any) -> tuple[Any, ...]:
    labels = variable.labels if variable.choice else variable.allowed
    return tuple(label if isinstance(label, str) else float(label) for label in labels)


def _design(problem: Problem, params: dict[str, Any]) -> np.ndarray:
    return np.array(
        [float(_labels(v).index(params[v.name])) if v.choice else float(params[v.name]) for v in problem.variables]
    )
