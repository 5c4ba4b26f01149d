"""The search for the best design: a grid, descent from its best points in every combination of choices, polishing."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sweeps.studies.optimization.cube import legal_combinations
from sweeps.studies.optimization.descent import KEPT, best_first, descended, scores, worst
from sweeps.studies.optimization.multipliers import Active, Balance, balance
from sweeps.studies.optimization.pareto import nondominated, spread_weights
from sweeps.studies.optimization.polish import polished, settled
from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.spec import Design, Effort, made, read

FEW_LEVELS = 3
"""A grid with fewer levels per variable says little: as many points are drawn instead."""

POLISHED = 4
"""Designs that are polished at most, each the best of its combination of choices."""

NEAR = 0.3
"""How much worse than the best, in logarithms, a design may be to be polished."""

FRONT = 48
"""Designs of a Pareto front that are polished."""


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


def optimize(
    source: str | os.PathLike | Mapping[str, Any] | Design,
    progress: Callable[[str, int, int], None] = lambda stage, done, all_of_it: None,
) -> Optimum:
    """Search for the design that a specification asks for.

    Args:
      source: as `sweeps.problem` takes it.
      progress: called with a stage's name, what is done of it, and all of it.

    Raises:
      ValueError: one line: what is wrong with the specification, or that no design keeps the constraints.
    """
    asked = source if isinstance(source, Design) else read(source)
    return searched(made(asked), asked.search, progress)


def searched(problem: Problem, search: Effort, progress: Callable[[str, int, int], None] = lambda *_: None) -> Optimum:
    """Search a problem: see `optimize`."""
    clock, several = _Clock(), len(problem.objectives) > 1

    # 1. A grid, or a sample, over all combinations of choices.
    designs, sampled = _grid(problem, legal_combinations(problem), search)
    progress("compile", 0, 1)
    problem.prepare(designs)
    progress("compile", 1, 1)
    clock.lap("compile")
    progress("grid", 0, len(designs))
    objectives, constraints = problem.evaluate(designs)
    progress("grid", len(designs), len(designs))
    clock.lap("grid")

    # 2. Descent from its best points in every combination.
    starts, weights = _starts(problem, designs, objectives, constraints, search)
    done = 0

    def stepped(steps: int) -> None:
        nonlocal done
        done += steps
        progress("descent", done, search.steps)

    ends, values, violations = descended(problem, starts, weights, search.steps, stepped)
    clock.lap("descent")

    # 3. Polishing of the best of each combination, or of designs along the front.
    best = _polished_designs(problem, ends, values, violations, weights, search, progress)
    clock.lap("polish")

    # 4. The best of these and of the grid, and the conditions of optimality there.
    kept = worst(constraints) <= KEPT
    grid_best = None
    if kept.any() and not several:
        grid_best = int(np.flatnonzero(kept)[np.argmin(objectives[kept, 0])])
        best = np.concatenate([best, designs[grid_best][np.newaxis]]) if not sampled else best
    best = _ordered(problem, best, several)
    found_objectives, found_constraints = problem.evaluate(best)
    if not (worst(found_constraints) <= KEPT).any():
        least = int(np.argmin(worst(found_constraints)))
        raise ValueError(
            f"no design keeps the constraints; the nearest misses: {_misses(problem, found_constraints[least])}"
        )
    balances = tuple(
        balance(problem, design, None if several else np.ones(1)) for design in best[: None if several else 1]
    )
    clock.lap("conditions")
    return Optimum(
        problem=problem,
        designs=best,
        objectives=found_objectives,
        constraints=found_constraints,
        balances=balances,
        grid_design=None if grid_best is None else designs[grid_best],
        grid_objectives=None if grid_best is None else objectives[grid_best],
        grid=(designs, objectives, constraints),
        sampled=sampled,
        seconds=clock.laps,
        evaluations=problem.evaluations,
        gradients=problem.gradients,
    )


def _polished_designs(
    problem: Problem,
    ends: np.ndarray,
    values: np.ndarray,
    violations: np.ndarray,
    weights: np.ndarray,
    search: Effort,
    progress: Callable[[str, int, int], None],
) -> np.ndarray:
    """Designs that are polished from the best ends of the descent, shape [designs, variables]."""
    several = len(problem.objectives) > 1
    if several:
        picks = _along_front(values, violations)
    else:
        picks = _best_of_combinations(problem, ends, values[:, 0], violations)
    points = []
    for i, pick in enumerate(picks):
        progress("polish", i, len(picks))
        point = polished(problem, ends[pick], weights[pick])
        points.append(point if several else settled(problem, point, weights[pick], search.seed))
    progress("polish", len(picks), len(picks))
    return np.array([point.design for point in points]).reshape(-1, len(problem.variables))


def _along_front(values: np.ndarray, violations: np.ndarray) -> np.ndarray:
    """Positions of up to `FRONT` designs that no other beats in all objectives, spread along the front."""
    order = nondominated(np.where((violations <= KEPT)[:, None], values, np.inf))
    return order[np.unique(np.linspace(0, len(order) - 1, FRONT).astype(int))] if len(order) else order


class _Clock:
    """Seconds of every stage."""

    def __init__(self):
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now


def _grid(problem: Problem, chosen: np.ndarray, search: Effort) -> tuple[np.ndarray, bool]:
    """Designs over all combinations: a grid of equal levels, or, where it has too few levels, a Sobol sample."""
    ranges = [v for v in problem.variables if not v.choice]
    per = max(search.grid // len(chosen), 1)
    levels = int(per ** (1.0 / len(ranges)) + 1e-9) if ranges else 1
    sampled = bool(ranges) and levels < FEW_LEVELS
    if sampled:
        from scipy.stats import qmc

        power = max(int(math.log2(per)), 2)
        shares = qmc.Sobol(len(ranges), rng=np.random.default_rng(search.seed)).random_base2(power)
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


def _starts(
    problem: Problem, designs: np.ndarray, objectives: np.ndarray, constraints: np.ndarray, search: Effort
) -> tuple[np.ndarray, np.ndarray]:
    """Starts of the descent, and the weights of the objectives there: the best of the grid, for every combination."""
    violations = np.maximum(worst(constraints), 0.0)
    groups = _combination_numbers(problem, designs)
    count = groups.max() + 1
    per = max(search.starts // count, 2)
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


def _combination_numbers(problem: Problem, designs: np.ndarray) -> np.ndarray:
    """A number for the combination of choices of every design."""
    if not problem.choices:
        return np.zeros(len(designs), int)
    return np.unique(designs[:, problem.choice], axis=0, return_inverse=True)[1].reshape(-1)


def _best_of_combinations(
    problem: Problem, designs: np.ndarray, objectives: np.ndarray, violations: np.ndarray
) -> np.ndarray:
    """The best design of each of the best combinations."""
    infeasible, logs = violations > KEPT, scores(objectives[:, np.newaxis], np.ones(1))
    order = best_first(logs, violations)
    groups = _combination_numbers(problem, designs)[order]
    order = order[np.sort(np.unique(groups, return_index=True)[1])][:POLISHED]
    rank = np.where(infeasible, violations, logs)[order]
    worth = (rank <= rank[0] + NEAR) & (infeasible[order] == infeasible[order[0]])
    return order[worth]


def _ordered(problem: Problem, designs: np.ndarray, several: bool) -> np.ndarray:
    """The designs from best to worst, or those of them that are on the front, along the first objective."""
    objectives, constraints = problem.evaluate(designs)
    violations = worst(constraints)
    infeasible = violations > KEPT
    if several and not infeasible.all():
        return designs[nondominated(np.where(infeasible[:, None], np.inf, objectives))]
    return designs[best_first(objectives[:, 0], violations)]


def _misses(problem: Problem, constraints: np.ndarray) -> str:
    """The constraints that a design does not keep, and by how much."""
    broken = [i for i in np.argsort(-constraints) if constraints[i] > KEPT]
    return ", ".join(f"{problem.constraint_names[i]} by {100 * math.expm1(constraints[i]):.3g} %" for i in broken)
