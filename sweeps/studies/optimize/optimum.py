"""Result of a search: the best designs or a Pareto front, and what is known of them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.ask.names import UDUNITS
from sweeps.studies.optimize.confirmation import Active, Balance, Confirmation, Robustness
from sweeps.studies.optimize.descent import KEPT, worst
from sweeps.studies.optimize.ends import End
from sweeps.studies.optimize.goals import unit_of
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.whole import Gap


@dataclasses.dataclass(frozen=True)
class Optimum:
    """Result of a search: the best designs first; with several objectives, the Pareto front."""

    problem: Problem
    designs: np.ndarray  # [n, d]
    objectives: np.ndarray  # [n, objectives], to be made small
    constraints: np.ndarray  # [n, constraints]
    balances: tuple[Balance, ...]  # what holds the best design; of a front, every one
    ends: tuple[End, ...]  # variables of the best design at an end of what they may be; none of a front
    grid_design: np.ndarray | None  # the best feasible point of the grid, [d]
    grid_objectives: np.ndarray | None  # its objectives
    grid: tuple[np.ndarray, np.ndarray, np.ndarray]  # designs, objectives and constraints of the grid
    sampled: bool  # whether the grid is a sample
    gap: Gap | None  # of whole numbers; None where there are none, and of a front
    robustness: Robustness | None  # against the optimum of the first scenario alone; None of one scenario
    confirmations: tuple[Confirmation, ...]  # simulations of the served streams at the best design
    seconds: Mapping[str, float]  # of every stage, compilation included
    evaluations: int
    gradients: int

    @property
    def active(self) -> tuple[Active, ...]:
        """Active constraints and bounds of the best design; none of a front."""
        return () if len(self.problem.objectives) > 1 else self.balances[0].active

    @property
    def residual(self) -> float:
        """What is not balanced there, as a share of the slopes; 0 of a front."""
        return 0.0 if len(self.problem.objectives) > 1 else self.balances[0].residual

    @property
    def feasible(self) -> np.ndarray:
        """Designs that keep every constraint, bool, shape [n]."""
        return worst(self.constraints) <= KEPT


# Gradients of a Pareto front: rates of exchange between objectives, and their elasticities in the variables.


def trade_offs(optimum: Optimum) -> np.ndarray:
    """d objective_j / d objective_k along the front, of figures as users read them, shape [n, objectives, objectives].

    At a point of the front the slopes of the logarithms of the objectives balance with weights w, so that

        d ln f_j / d ln f_k = -w_k / w_j

    where all other objectives stay; the sign turns where one of the two is to be maximised. NaN where w_j is 0, as at
    an end of the front, where nothing more of f_k improves f_j.
    """
    # Objectives to be maximised are stored negated: the sign gives figures as users read them.
    signs = np.array([goal.sign for goal in optimum.problem.objectives])
    figures = signs * optimum.objectives
    weights = np.array([one.weights for one in optimum.balances])
    # Weights of 0 divide to infinity or NaN, which both become NaN below.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = weights[:, np.newaxis, :] / weights[:, :, np.newaxis]
    # Rate of exchange d f_j / d f_k = -(w_k / w_j) f_j / f_k, with the signs of both.
    rates = -ratio * figures[:, :, np.newaxis] / figures[:, np.newaxis, :] * signs[:, np.newaxis] * signs
    rates = np.where(np.isfinite(rates), rates, np.nan)
    # An objective changes by 1 per change of itself.
    rates[:, np.arange(len(signs)), np.arange(len(signs))] = 1.0
    return rates


def elasticities(optimum: Optimum) -> np.ndarray:
    """d ln objective / d ln variable at every design, shape [n, objectives, variables]; NaN of a choice."""
    problem = optimum.problem
    slopes = problem.value_and_grad(optimum.designs)
    # Elasticity d ln y / d ln x = (dy / dx) x / y.
    log_slopes = slopes.objective_slopes * optimum.designs[:, np.newaxis] / slopes.objectives[:, :, np.newaxis]
    return np.where(problem.choice, np.nan, log_slopes)


def columns(optimum: Optimum) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both as variables of a dataset along `design`, and their labels."""
    problem = optimum.problem
    meaning = {"units": "1", "long_name": "elasticity of an objective in a variable: d ln y / d ln x"}
    variables: dict[str, Any] = {
        "elasticity": (("design", "objective_name", "variable"), elasticities(optimum), meaning)
    }
    labels = {
        "objective_name": (("objective_name",), np.array(problem.objective_names, object)),
        "variable": (("variable",), np.array(problem.names, object)),
    }
    if len(problem.objectives) < 2:
        return variables, labels
    rates = trade_offs(optimum)
    for j, one in enumerate(problem.objectives):
        for k, other in enumerate(problem.objectives):
            if j == k:
                continue
            units = [UDUNITS.get(unit_of(goal.name), unit_of(goal.name)) for goal in (one, other)]
            words = f"change of {one.text} per change of {other.text} along the front"
            attributes = {"units": f"({units[0]})/({units[1]})", "long_name": words}
            variables[f"d_{_word(one.text)}_d_{_word(other.text)}"] = (("design",), rates[:, j, k], attributes)
    words = "share of the slopes that is not balanced: rates of exchange are exact where it is 0"
    residuals = np.array([one.residual for one in optimum.balances])
    variables["optimality_residual"] = (("design",), residuals, {"units": "1", "long_name": words})
    return variables, labels


def _word(name: str) -> str:
    return name.replace(".", "_")
