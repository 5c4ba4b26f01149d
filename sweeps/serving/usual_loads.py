"""Loads of a search where the user gives none, and requests enough for a queue to build up at the largest of them."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from jaxroof.jobs.serve import Objective
from sweeps.run.simulated.objective import Target
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.fleet import Fleet, fleet
from sweeps.serving.target import kept

POINTS = 12
"""Loads of the curve that brackets start from."""

BELOW, ABOVE = 1 / 20, 2.0
"""The curve's ends: shares of the throughput with all requests there at once, of the slowest engine and the fastest."""

LONGER = 4
"""By how much more requests are drawn where those that there are do not show a limit."""

MOST_DRAWN = 16_000
"""Requests that are drawn at most where the user does not say how many."""


def usual_rates(
    asked: ServeSpec,
    hardware: str | Iterable[str],
    tp: int | Iterable[int] | None,
    node: int | None,
    target: Target,
) -> tuple:
    """Engines and rates of the curve, such that the largest is more than any of them can take.

    An engine that keeps the target at the largest rate is not slow: the stream has ended before its queue was long.
    Where the user leaves the number of requests open, `LONGER` times as many are drawn until none keeps it.

    Returns:
      The fleet under its requests, rates in requests per s, metrics at the largest of them, and how often more requests
      were drawn.
    """
    free, times = _free(asked), 0
    while True:
        engines = fleet(asked, hardware, tp, node)
        rates = _rates(engines, target.objective)
        top = engines.outcomes([rates[-1]] * len(engines.places), target.objective)
        more = LONGER * len(engines.requests.stream)
        if not kept(top, target).any() or not free or more > MOST_DRAWN:
            return engines, rates, top, times
        asked, times = dataclasses.replace(asked, requests=more), times + 1


def usual_clients(engines: Fleet) -> np.ndarray:
    """Clients of the curve: from 1 to as many as run at once."""
    most = min(float(engines.policy.max_sequences), len(engines.requests.stream))
    return np.unique(np.geomspace(1.0, max(most, 1.0), POINTS).round())


def keeps_all_at_once(engines: Fleet, target: Target) -> np.ndarray:
    """Whether the target is kept even when every request is there from the start, shape [places]: no rate misses it."""
    return kept(engines.outcomes([1e6 * engines.rate] * len(engines.places), target.objective), target)


def _free(asked: ServeSpec) -> bool:
    """Whether the user leaves open how many requests there are."""
    stages = str(asked.arrivals).strip().lower().startswith("stages")
    return asked.trace is None and asked.requests is None and asked.duration is None and not stages


def _rates(engines: Fleet, objective: Objective) -> np.ndarray:
    """Rates around the throughputs of the engines, of three digits."""
    at_once = engines.outcomes([1e6 * engines.rate] * len(engines.places), objective)
    found = at_once["requests_per_second"]
    ends = BELOW * np.nanmin(found), ABOVE * np.nanmax(found)
    return np.array([float(f"{rate:.3g}") for rate in np.geomspace(*ends, POINTS)])
