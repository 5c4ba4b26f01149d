"""Cost of whole numbers: branch and bound between the relaxed optimum and the best whole design."""

import dataclasses
import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np

from sweeps.studies.optimize.cube import legal_combinations
from sweeps.studies.optimize.descent import best_first, scores, worst
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.quadratic import Polished, refined
from sweeps.studies.optimize.variables import Variable

NODES = 64
"""Relaxed problems that are solved at most."""

CLOSED = 1e-6
"""How much better than the best whole design, in logarithms, a relaxed problem must be to be branched."""

ALL = 200_000
"""Designs that are all evaluated, where nothing but whole numbers and lists varies."""


@dataclasses.dataclass(frozen=True)
class Gap:
    """Cost of whole numbers, at most: the best whole design against the best one with numbers between them.

    It is an upper bound where the relaxed optimum is the global one. Descent does not prove that, so it is estimated;
    it is proved where every design was evaluated.
    """

    value: float  # whole objective over the relaxed one, less 1
    left: float  # the same against the best relaxed problem that branch and bound has not closed; 0: it closed all
    relaxed: float  # the relaxed objective, as users read it
    design: np.ndarray  # of the relaxed optimum, shape [d]
    nodes: int  # relaxed problems that were solved, or designs that were evaluated
    proved: bool

    @property
    def certainty(self) -> str:
        """Whether it is proved, in a word."""
        return "proved" if self.proved else "estimated"


def discrete(variable: Variable) -> bool:
    """Whether a variable takes whole numbers or those of a list, without being a choice that is tried one by one."""
    return not variable.choice and (variable.whole or variable.allowed is not None)


def enumerated(problem: Problem) -> Polished | None:
    """The best of all designs, proved; None where something varies continuously, or there are too many."""
    numbers = [variable for variable in problem.variables if not variable.choice]
    if not all(discrete(variable) for variable in numbers):
        return None
    # The values that each number may have; ranges that are too long have no entry.
    sides = [v.allowed if v.allowed is not None else np.arange(v.low, v.high + 1.0) for v in numbers if _few(v)]
    chosen = legal_combinations(problem)
    if len(sides) < len(numbers) or math.prod(map(len, sides)) * len(chosen) > ALL:
        return None
    # Without numbers there is one row, of no columns.
    columns = np.array(list(itertools.product(*sides)), float).reshape(-1, len(sides))
    designs = np.empty((len(chosen) * len(columns), len(problem.variables)))
    designs[:, problem.choice] = np.repeat(chosen, len(columns), axis=0)
    designs[:, ~problem.choice] = np.tile(columns, (len(chosen), 1))
    objectives, constraints = problem.evaluate(designs)
    logs, violations = scores(objectives, np.ones(1)), worst(constraints)
    best = int(best_first(logs, violations)[0])
    return Polished(designs[best], float(logs[best]), float(violations[best]), len(designs))


def branched(problem: Problem, whole: Polished, starts: Sequence[np.ndarray]) -> tuple[Polished, Gap | None]:
    """The best whole design, and what whole numbers cost: None where nothing has to be whole.

    A relaxed problem lets whole numbers, and lists that were relaxed, take any value between bounds. The one of
    smallest objective is split at a number that is not whole, until none is better than the best whole design.

    Args:
      whole: the best whole design that is known, which keeps the constraints.
      starts: designs, one for every combination of choices that is looked at, where relaxed problems begin.
    """
    parts = [i for i, variable in enumerate(problem.variables) if discrete(variable)]
    if not parts or not whole.feasible:
        return whole, None
    weights, free, count = np.ones(1), ~problem.choice, itertools.count()
    solved = 0
    heap: list[tuple[float, int, Polished, np.ndarray, np.ndarray]] = []

    def settle(point: Polished) -> None:
        """Take a point that is whole, up to rounding, where it is the best so far."""
        nonlocal whole
        # Round what the solver left near whole numbers, and let only the other variables move again.
        design = point.design.copy()
        for i in parts:
            design[i] = problem.variables[i].rounded(design[i : i + 1])[0]
        fixed = free.copy()
        fixed[parts] = False
        exact = refined(problem, design, weights, fixed)
        whole = exact if exact.better(whole) else whole

    def push(start: np.ndarray, low: np.ndarray, high: np.ndarray, least: float) -> None:
        nonlocal solved
        solved += 1
        point = refined(problem, start, weights, free, (low, high))
        # A tighter problem is never better than the one that it is part of; the counter orders equal bounds.
        if point.feasible:
            heapq.heappush(heap, (max(point.score, least), next(count), point, low, high))

    for start in (*starts, whole.design):
        push(start, problem.lower, problem.upper, -math.inf)
    if not heap:
        return whole, None
    relaxed = heap[0][2]
    # The problem with the smallest bound is next, while it may be better than the best whole design.
    while heap and heap[0][0] < whole.score - CLOSED and solved < NODES:
        bound, _, point, low, high = heapq.heappop(heap)
        apart = [(_apart(problem.variables[i], point.design[i]), i) for i in parts]
        # Branch at the number that is furthest from a value that it may have.
        far, i = max(apart)
        if far == 0.0:
            settle(point)
            continue
        # One part may go up to the value below, the other begins at the value above.
        below, above = problem.variables[i].neighbours(point.design[i])
        under, over = high.copy(), low.copy()
        under[i], over[i] = below, above
        push(point.design, low, under, bound)
        push(point.design, over, high, bound)
    # Problems that were not reached may be whole by chance.
    for _, _, point, _, _ in heap:
        if point.score < whole.score and not any(_apart(problem.variables[i], point.design[i]) for i in parts):
            settle(point)
    # The smallest bound that is still open limits what more work could gain.
    left = min([node[0] for node in heap], default=whole.score)
    # The whole design can be better, where the relaxed search ended in a local optimum.
    best = relaxed if relaxed.score < whole.score else whole
    goal = problem.objectives[0]
    return whole, Gap(
        value=math.expm1(whole.score - best.score),
        left=math.expm1(max(whole.score - left, 0.0)),
        relaxed=math.exp(goal.sign * best.score),
        design=best.design,
        nodes=solved,
        proved=False,
    )


def all_seen(problem: Problem, best: Polished) -> Gap:
    """The gap where every design was evaluated: none."""
    goal = problem.objectives[0]
    return Gap(0.0, 0.0, math.exp(goal.sign * best.score), best.design, best.seen, proved=True)


def _few(variable: Variable) -> bool:
    return variable.allowed is not None or variable.high - variable.low <= ALL


def _apart(variable: Variable, value: float) -> float:
    """How far a value is from one that a result may have, from 0 to 1/2 of the way between its neighbours."""
    near = variable.neighbours(value)
    if len(near) < 2:
        return 0.0
    below, above = near
    share = (value - below) / (above - below)
    # Not 0 between two values, however near one of them is: the caller has to branch.
    return max(min(share, 1.0 - share), 1e-12)
