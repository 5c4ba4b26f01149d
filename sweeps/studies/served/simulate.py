"""Largest load of a few places by simulation: every place at several loads at once, closer each time."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import Service
from jaxroof.policy import Policy
from jaxroof.traffic import Traffic
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import outcomes
from sweeps.run.simulated.objective import Target
from sweeps.serving.target import kept, missed_text
from sweeps.studies.served.simulated import Simulated

FIRST = (0.956, 1.044)
"""Loads of the first round over the estimated one: two rounds more part what is between them to the tolerance."""

WIDER = 1.09
"""By how much the bracket of a place moves where its end is not among the loads of a round; likewise."""

TOLERANCE = 0.01
"""How far apart, relative, the largest load that keeps the target and the smallest that does not are in the end."""

ROUNDS = 8
"""Rounds at most."""

USUAL = 3
"""Simulations of a candidate, about; by their number programs are optimised or not."""

WIDTH = 16
"""Simulations of one call, in every round the same, so that they share a program."""


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A place that is simulated."""

    scenario: Scenario  # without a workload
    policy: Policy
    load: float  # requests/s that it is estimated to take


def largest_loads(
    candidates: Sequence[Candidate],
    traffic: Traffic,
    rate: float,
    target: Target,
    worth: Callable[[np.ndarray, np.ndarray], np.ndarray],
    progress: Callable[[int], None] = lambda simulations: None,
) -> tuple[list[Simulated], int]:
    """The largest load of every candidate, and the number of simulations.

    Args:
      traffic: requests, at `rate` requests/s.
      worth: from the loads that are known to be kept, and those known to fail, whether each candidate can still be the
        best; others are not followed further. Shape [candidates] each.
      progress: called with the number of simulations that are done.
    """
    number = len(candidates)
    low, high = np.zeros(number), np.full(number, np.inf)
    guess = np.array([candidate.load for candidate in candidates])
    best: list[Mapping[str, float] | None] = [None] * number
    worst: list[Mapping[str, float] | None] = [None] * number
    simulations = 0
    loads = [list(load * np.array(FIRST)) for load in guess]
    every = [_point(one, traffic, rate, one.load, target) for one in candidates for _ in range(USUAL)]
    with precision("float64"):
        for _ in range(ROUNDS):
            pairs = [(i, load) for i, tried in enumerate(loads) for load in tried]
            if not pairs:
                break
            points = [_point(candidates[i], traffic, rate, load, target) for i, load in pairs]
            found = outcomes(points, progress, WIDTH, every)
            simulations += len(pairs)
            fine = kept(found, target)
            for (i, load), keeps, place in zip(pairs, fine, range(len(pairs)), strict=True):
                figures = {name: float(values[place]) for name, values in found.items()}
                if keeps and load > low[i]:
                    low[i], best[i] = load, figures
                if not keeps and load < high[i]:
                    high[i], worst[i] = load, figures
            # Where a larger load kept the target though a smaller one did not, the smaller one was bad luck.
            high = np.where(high <= low, np.inf, high)
            follow = worth(low, high)
            loads = [_next(low[i], high[i]) if follow[i] else [] for i in range(number)]
    made = []
    for i in range(number):
        figures = best[i] or worst[i] or {}
        made.append(
            Simulated(float(low[i]), float(high[i]), figures, missed_text(worst[i], target) if worst[i] else "")
        )
    return made, simulations


def _next(low: float, high: float) -> list[float]:
    """Loads of the next round: beyond the ends where one is not known, else two that part the bracket in three."""
    if not np.isfinite(high):
        return [low * WIDER, low * WIDER**3]
    if low == 0.0:
        return [high / WIDER**3, high / WIDER]
    if high <= low * (1.0 + TOLERANCE):
        return []
    ratio = high / low
    return [low * ratio ** (1.0 / 3.0), low * ratio ** (2.0 / 3.0)]


def _point(candidate: Candidate, traffic: Traffic, rate: float, load: float, target: Target) -> Scenario:
    stretched = dataclasses.replace(traffic, arrival=traffic.arrival * (rate / load))
    work = Service(traffic=stretched, policy=candidate.policy, objective=target.objective)
    return dataclasses.replace(candidate.scenario, workload=work)
