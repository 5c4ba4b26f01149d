"""Largest load of a few deployments by simulation: every deployment at several loads at once, closer each time.

The loads of a deployment do not depend on those beside it, so its result is that of a search of this deployment alone.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import Service
from sweeps.run.precision import precision
from sweeps.run.simulated.classes import padded_objective
from sweeps.run.simulated.grid import outcomes
from sweeps.run.simulated.objective import Target
from sweeps.serving.target import keeps_up, stopped
from sweeps.studies.compare.simulated import Candidate, Simulated
from workloads.streams.stream import padded

FIRST = 0.05
"""How far the loads of the first round are below and above the estimated one, relative."""

LOADS = 4
"""Loads of a deployment in every later round."""

WIDER, WIDEST = 1.1, 8.0
"""By how much the bracket of a deployment moves where its end is not among the loads of a round: so much for every
load, and twice as much, in its logarithm, as in the round before; the power of it at most."""

TOLERANCE = 0.01
"""How far apart, relative, the largest load that keeps the target and the smallest that does not are in the end."""

ROUNDS = 8
"""Rounds at most."""

WIDTH = 8
"""Simulations of one call at most, in every round as many, so that they share a program."""


@dataclasses.dataclass(eq=False)
class _Search:
    """What is known of one deployment so far."""

    low: float = 0.0  # requests/s, the largest that kept the target
    high: float = math.inf  # the smallest above it that did not
    best: Mapping[str, float] | None = None  # figures at `low`
    failed: dict[float, Mapping[str, float]] = dataclasses.field(default_factory=dict)  # by load
    without_end: int = 0  # rounds in which one end of the bracket was not among the loads

    def add(self, load: float, good: bool, figures: Mapping[str, float]) -> None:
        """A load that was simulated."""
        if not good:
            self.failed[load] = figures
        elif load > self.low:
            self.low, self.best = load, figures
        # Where a larger load kept the target though a smaller one did not, the smaller one was bad luck.
        self.high = min((failed for failed in self.failed if failed > self.low), default=math.inf)

    @property
    def known(self) -> bool:
        """Whether the largest load is known well enough."""
        return self.low > 0.0 and self.high <= self.low * (1.0 + TOLERANCE)

    def next(self) -> list[float]:
        """Loads of the next round: beyond an end that is not known, else parts of the bracket, even in their ratio."""
        if self.low > 0.0 and math.isfinite(self.high):
            # Inside the bracket, without its ends, which have been simulated.
            return [float(load) for load in np.geomspace(self.low, self.high, LOADS + 2)[1:-1]]
        # One end is missing: steps double in their logarithm from round to round, up to a largest one.
        step = WIDER ** min(2.0**self.without_end, WIDEST)
        self.without_end += 1
        if not math.isfinite(self.high):
            return [self.low * step**number for number in range(1, LOADS + 1)]
        return [self.high / step**number for number in range(1, LOADS + 1)]

    def result(self, target: Target) -> Simulated:
        """What is known in the end."""
        worst = self.failed.get(self.high)
        return Simulated(self.low, self.high, self.best or worst or {}, stopped(worst, self.high, target))


def largest_loads(
    candidates: Sequence[Candidate],
    target: Target,
    worth: Callable[[np.ndarray, np.ndarray], np.ndarray],
    progress: Callable[[int], None] = lambda simulations: None,
    share: Callable[[float], float] | None = None,
) -> tuple[list[Simulated], int]:
    """The largest load of every candidate, and the number of simulations.

    Args:
      worth: from the loads that are known to be kept, and those known to fail, whether each candidate can still be the
        best; others are not followed further once one load of theirs is kept. Shape [candidates] each.
      progress: called with the number of simulations that are done.
      share: from the largest load to the one that a replica is sent, which is simulated last; None: the largest.
    """
    searches = [_Search() for _ in candidates]
    # Traffic, policies and limits once for every candidate; its loads only change the times of arrivals.
    works = _works(candidates, target)
    loads = [[one.load * (1.0 - FIRST), one.load * (1.0 + FIRST)] for one in candidates]
    # Programs are compiled for all candidates, so that later rounds with fewer of them reuse the programs.
    every = [_point(one, work, one.load) for one, work in zip(candidates, works, strict=True) for _ in range(LOADS)]
    # Powers of two up to WIDTH: few different programs.
    width = min(WIDTH, 2 ** math.ceil(math.log2(LOADS * len(candidates))))
    simulations = 0
    # The simulation of the scheduler needs JAX's 64-bit mode.
    with precision("float64"):
        for _ in range(ROUNDS):
            pairs = [(i, load) for i, tried in enumerate(loads) for load in tried]
            if not pairs:
                break
            pairs.sort(key=lambda pair: len(candidates[pair[0]].offered.stream))  # a call takes as long as its longest
            points = [_point(candidates[i], works[i], load) for i, load in pairs]
            metrics = outcomes(points, progress, width, every)
            simulations += len(pairs)
            fine = keeps_up(metrics, np.array([load for _, load in pairs]), target)
            for row, (i, load) in enumerate(pairs):
                searches[i].add(load, bool(fine[row]), {name: float(values[row]) for name, values in metrics.items()})
            low, high = (np.array([getattr(one, end) for one in searches]) for end in ("low", "high"))
            # A candidate without any load that is kept is followed whatever it is worth, for its result.
            follow = worth(low, high) | (low <= 0.0)
            loads = [one.next() if more and not one.known else [] for one, more in zip(searches, follow, strict=True)]
        results = [one.result(target) for one in searches]
        serving = [i for i, one in enumerate(results) if one.load > 0.0 and share is not None]
        # With a rate, figures are those at the load that a replica gets, not at its largest.
        if share is not None and serving:
            parts = [share(results[i].load) for i in serving]
            points = [_point(candidates[i], works[i], load) for i, load in zip(serving, parts, strict=True)]
            metrics = outcomes(points, progress, width, every)
            simulations += len(points)
            for row, (i, load) in enumerate(zip(serving, parts, strict=True)):
                figures = {name: float(values[row]) for name, values in metrics.items()}
                results[i] = dataclasses.replace(results[i], metrics=figures, share=load)
    return results, simulations


def _works(candidates: Sequence[Candidate], target: Target) -> list[Service]:
    """What every candidate is sent, filled up with absent requests to one number; one object of the same requests."""
    # One length for all traffic, so that all candidates are of one structure.
    most = max(len(one.offered.stream) for one in candidates)
    services: dict[int, Service] = {}
    for one in candidates:
        if id(one.offered) not in services:
            objective = padded_objective(one.offered.objective(target.objective), most)
            services[id(one.offered)] = Service(
                traffic=padded(one.offered.traffic, most), policy=one.policy, objective=objective
            )
    return [dataclasses.replace(services[id(one.offered)], policy=one.policy) for one in candidates]


def _point(candidate: Candidate, work: Service, load: float) -> Scenario:
    """A candidate at a load."""
    # Arrivals at another rate: the same requests, their times stretched by the ratio of the rates.
    traffic = dataclasses.replace(work.traffic, arrival=work.traffic.arrival * (candidate.rate / load))
    return dataclasses.replace(candidate.scenario, workload=dataclasses.replace(work, traffic=traffic))
