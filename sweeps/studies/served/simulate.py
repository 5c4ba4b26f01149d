"""Largest load of a few places by simulation: every place at several loads at once, closer each time."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import GROWS, Objective, Service
from jaxroof.traffic import Traffic
from jaxroof.tree import structure
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import outcomes
from sweeps.run.simulated.load import Load
from sweeps.run.simulated.objective import Target
from sweeps.serving.target import kept, missed_text
from sweeps.studies.served.simulated import Candidate, Simulated

FIRST = 0.05
"""How far the loads of the first round are below and above the estimated one, relative."""

WIDER = 1.1
"""By how much the bracket of a place moves where its end is not among the loads of a round."""

TOLERANCE = 0.01
"""How far apart, relative, the largest load that keeps the target and the smallest that does not are in the end."""

ROUNDS = 8
"""Rounds at most."""

USUAL = 3
"""Simulations of a candidate, about; by their number programs are optimised or not."""

LEAST = 2
"""Loads of a candidate in a round at least; as many more as calls of a program have room for."""

WIDTH = 8
"""Simulations of one call, in every round the same, so that they share a program."""


def largest_loads(
    candidates: Sequence[Candidate],
    requests: Load,
    rate: float,
    target: Target,
    worth: Callable[[np.ndarray, np.ndarray], np.ndarray],
    progress: Callable[[int], None] = lambda simulations: None,
) -> tuple[list[Simulated], int]:
    """The largest load of every candidate, and the number of simulations.

    Args:
      requests: at `rate` requests/s.
      worth: from the loads that are known to be kept, and those known to fail, whether each candidate can still be the
        best; others are not followed further. Shape [candidates] each.
      progress: called with the number of simulations that are done.
    """
    number, traffic, objective = len(candidates), requests.traffic, requests.objective(target.objective)
    low, high = np.zeros(number), np.full(number, np.inf)
    guess = np.array([candidate.load for candidate in candidates])
    best: list[Mapping[str, float] | None] = [None] * number
    failed: list[dict[float, Mapping[str, float]]] = [{} for _ in range(number)]  # by load
    simulations = 0
    kinds = [structure((one.scenario.hardware, one.scenario.deployment)) for one in candidates]
    numbers = _numbers(kinds, np.ones(number, bool))
    loads = [list(load * np.geomspace(1.0 - FIRST, 1.0 + FIRST, n)) for load, n in zip(guess, numbers, strict=True)]
    times = [
        USUAL * max(1, math.ceil(WIDTH / kinds.count(kind))) for kind in kinds
    ]  # whole calls, however few there are
    every = [
        _point(one, traffic, rate, one.load, objective)
        for one, n in zip(candidates, times, strict=True)
        for _ in range(n)
    ]
    with precision("float64"):
        for _ in range(ROUNDS):
            pairs = [(i, load) for i, tried in enumerate(loads) for load in tried]
            if not pairs:
                break
            points = [_point(candidates[i], traffic, rate, load, objective) for i, load in pairs]
            found = outcomes(points, progress, WIDTH, every)
            simulations += len(pairs)
            fine = kept(found, target) & (waiting(found, np.array([load for _, load in pairs])) <= GROWS)
            for (i, load), keeps, place in zip(pairs, fine, range(len(pairs)), strict=True):
                figures = {name: float(values[place]) for name, values in found.items()}
                if keeps and load > low[i]:
                    low[i], best[i] = load, figures
                if not keeps:
                    failed[i][load] = figures
            # Where a larger load kept the target though a smaller one did not, the smaller one was bad luck.
            high = np.array([min((load for load in failed[i] if load > low[i]), default=np.inf) for i in range(number)])
            follow = worth(low, high) & ~(high <= low * (1.0 + TOLERANCE))
            numbers = _numbers(kinds, follow)
            loads = [_next(low[i], high[i], numbers[i]) if follow[i] else [] for i in range(number)]
    made = []
    for i in range(number):
        worst = failed[i].get(high[i])
        figures = best[i] or worst or {}
        made.append(Simulated(float(low[i]), float(high[i]), figures, _stopped(worst, float(high[i]), target)))
    return made, simulations


def waiting(found: Mapping[str, np.ndarray], load: np.ndarray | float) -> np.ndarray:
    """Requests that wait on average for longer than two steps, as a share of all. Shape [places]."""
    step = np.nan_to_num(found["tpot_mean"], posinf=0.0)  # NaN: of requests of one token
    longer = np.maximum(np.nan_to_num(found["queueing_mean"]) - 2.0 * step, 0.0)
    return longer * load / np.maximum(found["finished"], 1.0)


def _stopped(worst: Mapping[str, float] | None, load: float, target: Target) -> str:
    """What a load misses, in words; "" where none failed."""
    if worst is None:
        return ""
    grows = float(waiting({name: np.asarray(value) for name, value in worst.items()}, load)) > GROWS
    number = f"{worst['queueing_mean'] * load:,.0f}"
    return missed_text(worst, target) or (f"a growing queue, of {number} requests on average" if grows else "")


def _numbers(kinds: Sequence[object], follow: np.ndarray) -> list[int]:
    """Loads of every candidate in the next round: those of one structure fill whole calls of their program."""
    found = []
    for kind in kinds:
        many = sum(bool(follows) for one, follows in zip(kinds, follow, strict=True) if one == kind)
        calls = math.ceil(LEAST * many / WIDTH)
        found.append(max(calls * WIDTH // max(many, 1), LEAST))
    return found


def _next(low: float, high: float, number: int) -> list[float]:
    """Loads of the next round: beyond an end that is not known, else parts of the bracket, evenly in their ratio."""
    if not np.isfinite(high):
        return [low * WIDER ** (step + 1) for step in range(number)]
    if low == 0.0:
        return [high / WIDER ** (step + 1) for step in range(number)]
    return [float(load) for load in np.geomspace(low, high, number + 2)[1:-1]]


def _point(candidate: Candidate, traffic: Traffic, rate: float, load: float, objective: Objective) -> Scenario:
    stretched = dataclasses.replace(traffic, arrival=traffic.arrival * (rate / load))
    work = Service(traffic=stretched, policy=candidate.policy, objective=objective)
    return dataclasses.replace(candidate.scenario, workload=work)
