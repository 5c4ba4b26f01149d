"""Gradients of a Pareto front: rates of exchange between objectives, and their elasticities in the variables."""

from typing import Any

import numpy as np

from sweeps.ask.names import UDUNITS
from sweeps.studies.optimization.goals import unit_of
from sweeps.studies.optimization.optimum import Optimum


def trade_offs(found: Optimum) -> np.ndarray:
    """d objective_j / d objective_k along the front, of figures as users read them, shape [n, objectives, objectives].

    At a point of the front the slopes of the logarithms of the objectives balance with weights w, so that

        d ln f_j / d ln f_k = -w_k / w_j

    where all other objectives stay; the sign turns where one of the two is to be maximised. NaN where w_j is 0, as at
    an end of the front, where nothing more of f_k improves f_j.
    """
    signs = np.array([goal.sign for goal in found.problem.objectives])
    figures = signs * found.objectives
    weights = np.array([one.weights for one in found.balances])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = weights[:, np.newaxis, :] / weights[:, :, np.newaxis]
    rates = -ratio * figures[:, :, np.newaxis] / figures[:, np.newaxis, :] * signs[:, np.newaxis] * signs
    rates = np.where(np.isfinite(rates), rates, np.nan)
    rates[:, np.arange(len(signs)), np.arange(len(signs))] = 1.0
    return rates


def elasticities(found: Optimum) -> np.ndarray:
    """d ln objective / d ln variable at every design, shape [n, objectives, variables]; NaN of a choice."""
    problem = found.problem
    slopes = problem.value_and_grad(found.designs)
    made = slopes.objective_slopes * found.designs[:, np.newaxis] / slopes.objectives[:, :, np.newaxis]
    return np.where(problem.choice, np.nan, made)


def columns(found: Optimum) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both as variables of a dataset along `design`, and their labels."""
    problem = found.problem
    meaning = {"units": "1", "long_name": "elasticity of an objective in a variable: d ln y / d ln x"}
    made: dict[str, Any] = {"elasticity": (("design", "objective_name", "variable"), elasticities(found), meaning)}
    labels = {
        "objective_name": (("objective_name",), np.array(problem.objective_names, object)),
        "variable": (("variable",), np.array(problem.names, object)),
    }
    if len(problem.objectives) < 2:
        return made, labels
    rates = trade_offs(found)
    for j, one in enumerate(problem.objectives):
        for k, other in enumerate(problem.objectives):
            if j == k:
                continue
            units = [UDUNITS.get(unit_of(goal.name), unit_of(goal.name)) for goal in (one, other)]
            words = f"change of {one.text} per change of {other.text} along the front"
            attributes = {"units": f"({units[0]})/({units[1]})", "long_name": words}
            made[f"d_{_word(one.text)}_d_{_word(other.text)}"] = (("design",), rates[:, j, k], attributes)
    words = "share of the slopes that is not balanced: rates of exchange are exact where it is 0"
    residuals = np.array([one.residual for one in found.balances])
    made["optimality_residual"] = (("design",), residuals, {"units": "1", "long_name": words})
    return made, labels


def _word(name: str) -> str:
    return name.replace(".", "_")
