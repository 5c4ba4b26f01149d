"""Result of a search: the best designs or a Pareto front, and what is known of them."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from sweeps.studies.optimization.confirmation import Confirmation
from sweeps.studies.optimization.descent import KEPT, worst
from sweeps.studies.optimization.multipliers import Active, Balance
from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.robust import Robustness
from sweeps.studies.optimization.whole import Gap


@dataclasses.dataclass(frozen=True)
class Optimum:
    """Result of a search: the best designs first; with several objectives, the Pareto front."""

    problem: Problem
    designs: np.ndarray  # [n, d]
    objectives: np.ndarray  # [n, objectives], to be made small
    constraints: np.ndarray  # [n, constraints]
    balances: tuple[Balance, ...]  # what holds the best design; of a front, every one
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
