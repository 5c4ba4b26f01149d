"""The best design from few evaluations: linear models in logarithms, one for every combination of choices."""

import dataclasses
from collections.abc import Callable

import numpy as np

from sweeps.studies.optimize.cube import CubeGoals, Shares, legal_choices
from sweeps.studies.optimize.descent import worst
from sweeps.studies.optimize.problem import Problem

STARTS = 0.25, 0.75
"""Shares between which the first place is drawn. Ours."""

CUTS = 40
"""Designs, the latest ones, whose tangents make the model of a combination. Ours."""

FIRST, RADIUS = 0.25, 0.5
"""How far the first step of a walk may go in every share, and any. Ours."""

GROWTH, SHRINK = 1.5, 0.5
"""Factors of the radius after steps that kept what the model promised, and after those that did not. Ours."""

LITTLE = 2e-4
"""A walk has ended where the model promises less, in logarithms. Ours."""

SMALLEST = 2e-3
"""A walk whose steps may only be shorter than this has ended. Ours."""

PENALTY = 10.0
"""Weight of the largest violation against the objective, both in logarithms: more than a multiplier is worth. Ours."""

MARGIN, LARGEST = 1e-3, 0.05
"""By how much, in logarithms, a model keeps a constraint at least and at most. It is raised by what a step misses the
constraint by, if that is no more than the largest, and falls again by FADE when all are kept: a whole number of memory
stacks is more than its tangent says. Ours."""

FADE = 0.5
"""Share of a margin that stays after a step that kept every constraint. Ours."""

ENOUGH, POOR = 0.5, 0.1
"""Shares of the promised gain above which the radius grows, and below which it shrinks. Ours."""


@dataclasses.dataclass(frozen=True)
class Trail:
    """Every design that was tried, in order; each is one that a result may have."""

    designs: np.ndarray  # [n, d]
    objectives: np.ndarray  # [n], to be made small
    constraints: np.ndarray  # [n, constraints]

    @property
    def values(self) -> np.ndarray:
        """Objectives, infinite where a constraint is not kept, shape [n]."""
        return np.where(worst(self.constraints) <= 0.0, self.objectives, np.inf)

    @property
    def best(self) -> np.ndarray:
        """The best design that keeps the constraints, or that which misses least, shape [d]."""
        values, misses = self.values, worst(self.constraints)
        return self.designs[np.argmin(values) if np.isfinite(values).any() else np.argmin(misses)]


def frugal(problem: Problem, budget: int, seed: int = 0, progress: Callable[[int], None] = lambda done: None) -> Trail:
    """Search with at most `budget` evaluations, each with its gradient.

    In logarithms of numbers, times and energies are close to convex and piecewise straight, so that all gradients seen
    together are a model of a combination of choices from below. Every step goes where the model of some combination
    promises most within a radius, rounds what must be whole, and corrects the model. Combinations compete by what they
    promise, so that poor ones cost one or two evaluations. Walks that have ended start anew elsewhere.

    Args:
      budget: evaluations; every combination of choices costs at least one.
      seed: of the places where walks start.
      progress: called with the evaluations done after each.

    Raises:
      ValueError: one line: the problem has several objectives.

    Source: ours, after the cutting planes of Kelley (J. SIAM 8(4), 1960) within a trust region.
    """
    rng = np.random.default_rng(seed)
    trail = _Recorder(budget, progress)
    walks = [_FrugalWalk(Shares(problem, choice), trail) for choice in legal_choices(problem)]
    low, high = STARTS
    # Every combination is tried at the same shares first, so that their values can be compared.
    start = rng.uniform(low, high, len(walks[0].shares.columns))
    for walk in walks[:budget]:
        walk.begin(start)
    while trail.left:
        walk = min(walks, key=lambda one: one.promise)
        if walk.ended:
            walk.begin(rng.random(len(start)))
        else:
            walk.step()
    return trail.trail()


class _FrugalWalk:
    """The search in one combination of choices: what was seen there, where it stands, and how far it dares to go."""

    def __init__(self, shares: Shares, recorder: "_Recorder"):
        self.shares, self._recorder = shares, recorder
        self._seen: list[tuple[np.ndarray, CubeGoals]] = []
        self.promise = np.inf

    @property
    def ended(self) -> bool:
        """Whether the next step would be too short to matter."""
        return self._radius < SMALLEST

    def begin(self, shares: np.ndarray) -> None:
        """Start anew at `shares`, shape [k]; what was seen is kept."""
        self._radius, self._margins = FIRST, np.full(len(self.shares.problem.kept), MARGIN)
        self._stand(*self._tried(self._rounded(shares)))
        self._aim()

    def step(self) -> None:
        """Try what the model promises most for, and stand there if it is better."""
        place, goals = self._tried(self._target)
        promised, gained = self._merit - self.promise, self._merit - _merit(goals)
        # A good model may go further in the next step, a poor one less far.
        if gained > ENOUGH * promised:
            self._radius = min(GROWTH * self._radius, RADIUS)
        elif gained < POOR * promised:
            self._radius *= SHRINK
        # Margins learn from what was missed, whether the step is taken or not.
        self._correct(goals)
        if gained > 0.0:
            self._stand(place, goals)
        self._aim()

    def _correct(self, goals: CubeGoals) -> None:
        """Raise the margins of constraints that were missed by little; lower all where none was."""
        missed = np.maximum(goals.constraints, 0.0)
        if not missed.any():
            # No constraint was missed: go closer to the limits again.
            self._margins = np.maximum(FADE * self._margins, MARGIN)
        elif missed.max() <= LARGEST:
            self._margins = np.minimum(self._margins + missed, LARGEST)

    def _stand(self, place: np.ndarray, goals: CubeGoals) -> None:
        self._place, self._goals, self._merit = place, goals, _merit(goals)

    def _aim(self) -> None:
        """Set the next target and what the model promises there; shorten steps that lead to a place seen before."""
        while not self.ended:
            target, self.promise = self._best_of_model()
            self._target = self._rounded(target)
            if self._merit - self.promise < LITTLE:
                break
            # A design that was seen teaches the model nothing new.
            if not any(np.array_equal(self._target, place) for place, _ in self._seen):
                return
            self._radius *= SHRINK
        self._radius, self.promise = 0.0, self._merit

    def _tried(self, place: np.ndarray) -> tuple[np.ndarray, CubeGoals]:
        goals = self.shares.goals(place)
        self._recorder.keep(self._allowed(self.shares.designs(place)), goals)
        self._seen.append((place, goals))
        return place, goals

    def _rounded(self, shares: np.ndarray) -> np.ndarray:
        """Shares of the nearest design that a result may have."""
        design = self._allowed(self.shares.designs(shares))
        nearest = np.clip(shares, 0.0, 1.0)
        for j, i in enumerate(self.shares.columns):
            variable = self.shares.problem.variables[i]
            if variable.whole or variable.allowed is not None:
                nearest[j] = variable.shares(design[i : i + 1])[0]
        return nearest

    def _allowed(self, design: np.ndarray) -> np.ndarray:
        """The nearest design that a result may have, shape [d]."""
        for i in self.shares.columns:
            design[i] = self.shares.problem.variables[i].rounded(design[i : i + 1])[0]
        return design

    def _best_of_model(self) -> tuple[np.ndarray, float]:
        """Minimum of the model's merit within the radius: its place and its value; a linear program.

        Of x, t and s, t + PENALTY s is made small: t is above every tangent of the objective, s above every tangent of
        every constraint. A tangent that lies above what is known where the walk stands is lowered to it.
        """
        from scipy.optimize import linprog

        rows, limits = [], []
        for place, goals in self._seen[-CUTS:]:
            values = np.concatenate([[goals.score], goals.constraints])
            slopes = np.concatenate([goals.slopes[np.newaxis], goals.constraint_slopes])
            here = np.concatenate([[self._goals.score], self._goals.constraints])
            # Where a function is not convex, a tangent can lie above it: it is lowered to the known value.
            values = values - np.maximum(values + slopes @ (self._place - place) - here, 0.0)
            bound = np.zeros((len(values), 2))
            # In columns t and s: slopes @ x - t <= slopes @ place - values for the objective, with s for constraints.
            bound[0, 0], bound[1:, 1] = -1.0, -1.0
            rows.append(np.concatenate([slopes, bound], axis=1))
            limits.append(slopes @ place - values - np.concatenate([[0.0], self._margins]))
        low, high = np.maximum(self._place - self._radius, 0.0), np.minimum(self._place + self._radius, 1.0)
        solution = linprog(
            np.concatenate([np.zeros(len(low)), [1.0, PENALTY]]),
            A_ub=np.concatenate(rows),
            b_ub=np.concatenate(limits),
            # Logarithm t of the objective may have any sign; violation s is not negative.
            bounds=[*zip(low, high, strict=True), (None, None), (0.0, None)],
            method="highs",
        )
        # A solver that fails promises nothing.
        if solution.status != 0:
            return self._place, self._merit
        # Largest tangent of the objective and of each constraint at the solution, from which margins are taken again.
        values = (
            (np.concatenate(rows)[:, :-2] @ solution.x[:-2] - np.concatenate(limits)).reshape(len(rows), -1).max(axis=0)
        )
        missed = max(float(np.max(values[1:] - self._margins, initial=0.0)), 0.0)
        return solution.x[:-2], float(values[0]) + PENALTY * missed


def _merit(goals: CubeGoals) -> float:
    return goals.score + PENALTY * max(float(np.max(goals.constraints, initial=0.0)), 0.0)


class _Recorder:
    """Keeps what was tried, in order."""

    def __init__(self, budget: int, progress: Callable[[int], None]):
        self._budget, self._progress = budget, progress
        self._found: list[tuple[np.ndarray, CubeGoals]] = []

    @property
    def left(self) -> int:
        """Evaluations that may still be made."""
        return self._budget - len(self._found)

    def keep(self, design: np.ndarray, goals: CubeGoals) -> None:
        self._found.append((design, goals))
        self._progress(len(self._found))

    def trail(self) -> Trail:
        designs, goals = zip(*self._found, strict=True)
        return Trail(
            np.array(designs), np.array([g.objective for g in goals]), np.array([g.constraints for g in goals])
        )
