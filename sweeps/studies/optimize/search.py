"""The search for the best design: a grid, descent from its best points in every combination of choices, polishing."""

import math
import time
from collections.abc import Callable

import numpy as np

from sweeps.studies.optimize.confirmation import balance, confirmations, robustness
from sweeps.studies.optimize.cube import legal_combinations
from sweeps.studies.optimize.descent import KEPT, best_first, descended, optax, scores, worst
from sweeps.studies.optimize.ends import at_ends
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.quadratic import Polished, polished, refined, settled
from sweeps.studies.optimize.spec import Effort
from sweeps.studies.optimize.starts import combination_numbers, grid, nondominated, starts
from sweeps.studies.optimize.whole import Gap, all_seen, branched, discrete, enumerated

NONE_KEPT = "no design keeps the constraints"
"""Beginning of the error of a search that finds none."""

POLISHED = 4
"""Designs that are polished at most, each the best of its combination of choices."""

NEAR = 0.3
"""How much worse than the best, in logarithms, a design may be to be polished."""

FRONT = 48
"""Designs of a Pareto front that are polished."""


def searched(
    problem: Problem,
    search: Effort,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    confirm: bool = True,
) -> Optimum:
    """Search a problem for the best design, or for a front.

    Args:
      problem, search: what is asked, and how much is tried.
      progress: called with a stage's name, what is done of it, and all of it.
      confirm: whether served streams are simulated at the best design.
    """
    clock, several = _Clock(), len(problem.objectives) > 1
    optax()  # where it lacks, before anything that takes long

    # 1. A grid, or a sample, over all combinations of choices.
    designs, sampled = grid(problem, legal_combinations(problem), search)
    # Programs are compiled before the grid, so that their time is known apart.
    progress("compile", 0, 1)
    problem.prepare(designs)
    progress("compile", 1, 1)
    clock.lap("compile")
    progress("grid", 0, len(designs))
    objectives, constraints = problem.evaluate(designs)
    progress("grid", len(designs), len(designs))
    clock.lap("grid")
    feasible = worst(constraints) <= KEPT
    grid_best = None
    if feasible.any() and not several:
        grid_best = int(np.flatnonzero(feasible)[np.argmin(objectives[feasible, 0])])
    # What the grid says is shown while the descent goes on from there.
    seen = "" if grid_best is None else f"{abs(objectives[grid_best, 0]):.4g} of the grid, "

    # 2. Descent from its best points in every combination.
    begins, weights = starts(problem, designs, objectives, constraints, search)
    done = 0

    def stepped(steps: int) -> None:
        nonlocal done
        done += steps
        progress(f"{seen}descent", done, search.steps)

    ends, values, violations = descended(problem, begins, weights, search.steps, stepped)
    clock.lap("descent")

    # 3. Polishing of the best of each combination, or of designs along the front; whole numbers.
    best, gap = _polished_designs(problem, ends, values, violations, weights, search, progress)
    clock.lap("polish")

    # 4. The best of these and of the grid, the conditions of optimality there, and what scenarios cost.
    # The best point of the grid, or of its sample, competes with the polished designs.
    if grid_best is not None:
        best = np.concatenate([best, _seen(problem, designs[grid_best], best, search)[np.newaxis]])
    best = _ordered(problem, best, several)
    found_objectives, found_constraints = problem.evaluate(best)
    if not (worst(found_constraints) <= KEPT).any():
        least = int(np.argmin(worst(found_constraints)))
        raise ValueError(f"{NONE_KEPT}; the nearest misses: {_misses(problem, found_constraints[least])}")
    # On a front every design has weights of its own, which `balance` determines.
    weighed = (None, best) if several else (np.ones(1), best[:1])
    balances = tuple(balance(problem, design, weighed[0]) for design in weighed[1])
    # The price of robustness needs the optimum of the first scenario alone, from a search of its own.
    nominal = None
    if len(problem.members) > 1 and not several:
        nominal = robustness(problem, best[0], searched(problem.nominal(), search, progress, False).designs[0])
    clock.lap("conditions")
    confirmed = confirmations(problem, best[0]) if confirm and not several else ()
    clock.lap("simulation")
    return Optimum(
        problem=problem,
        designs=best,
        objectives=found_objectives,
        constraints=found_constraints,
        balances=balances,
        ends=() if several else at_ends(problem, best[0], balances[0]),
        grid_design=None if grid_best is None else designs[grid_best],
        grid_objectives=None if grid_best is None else objectives[grid_best],
        grid=(designs, objectives, constraints),
        sampled=sampled,
        gap=gap,
        robustness=nominal,
        confirmations=confirmed,
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
) -> tuple[np.ndarray, Gap | None]:
    """Designs that are polished from the best ends of the descent, shape [designs, variables]; what whole ones cost."""
    several = len(problem.objectives) > 1
    if several:
        picks = _along_front(values, violations)
    else:
        picks = _best_of_combinations(problem, ends, values[:, 0], violations)
    points = []
    for i, pick in enumerate(picks):
        progress("polish", i, len(picks))
        point = polished(problem, ends[pick], weights[pick])
        # With one objective, neighbours around each point are searched as well.
        points.append(point if several else settled(problem, point, weights[pick], search.seed))
    progress("polish", len(picks), len(picks))
    gap = None
    # Whole numbers: all designs where they are few enough, else branch and bound from the best point.
    if points and not several:
        everything = enumerated(problem)
        if everything is not None:
            points.append(everything)
            gap = all_seen(problem, everything)
        else:
            first = _first(points)
            improved, gap = branched(problem, first, [ends[pick] for pick in picks])
            points = [improved if one is first else one for one in points]
    return np.array([point.design for point in points]).reshape(-1, len(problem.variables)), gap


def _seen(problem: Problem, design: np.ndarray, others: np.ndarray, search: Effort) -> np.ndarray:
    """A design of the grid, shape [d]; where it is better than all others, the best one around it, whole as it is."""
    both = np.concatenate([design[np.newaxis], others])
    objectives, constraints = problem.evaluate(both)
    logs, violations = scores(objectives, np.ones(1)), worst(constraints)
    if best_first(logs, violations)[0] != 0:
        return design
    moving = np.array([not (variable.choice or discrete(variable)) for variable in problem.variables])
    return settled(problem, refined(problem, design, np.ones(1), moving), np.ones(1), search.seed).design


def _first(points: list[Polished]) -> Polished:
    """The best of several."""
    best = points[0]
    for point in points[1:]:
        best = point if point.better(best) else best
    return best


def _along_front(values: np.ndarray, violations: np.ndarray) -> np.ndarray:
    """Positions of up to `FRONT` designs that no other beats in all objectives, spread along the front."""
    order = nondominated(np.where((violations <= KEPT)[:, None], values, np.inf))
    return order[np.unique(np.linspace(0, len(order) - 1, FRONT).astype(int))] if len(order) else order


class _Clock:
    """Seconds of every stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now


def _best_of_combinations(
    problem: Problem, designs: np.ndarray, objectives: np.ndarray, violations: np.ndarray
) -> np.ndarray:
    """The best design of each of the best combinations."""
    infeasible, logs = violations > KEPT, scores(objectives[:, np.newaxis], np.ones(1))
    order = best_first(logs, violations)
    groups = combination_numbers(problem, designs)[order]
    # The first design of every combination in the order of all, which is its best one.
    order = order[np.sort(np.unique(groups, return_index=True)[1])][:POLISHED]
    rank = np.where(infeasible, violations, logs)[order]
    # Infeasible combinations are polished only where none is feasible.
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
    # From a logarithm to a share of the limit, in percent.
    return ", ".join(f"{problem.constraint_names[i]} by {100 * math.expm1(constraints[i]):.3g} %" for i in broken)
