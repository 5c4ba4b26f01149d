"""Largest load of one service that keeps a target, simulated at one load after the other."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from jaxroof.batch import STATUSES, Served
from sweeps.run.simulated.objective import Target
from sweeps.serving.target import keeps_up, stopped

STEP, WIDEST = 1.05, 16.0
"""By how much the load moves from the first simulation to the second where one end of the bracket is not known; in its
logarithm twice as much with every further one; the power of it at most."""

MOST = 16
"""Simulations at most."""


class Bracket(NamedTuple):
    """Ends of the search, in requests/s."""

    low: float  # the largest load that kept the target; 0: none did
    high: float  # the smallest above it that did not; infinite: none
    best: Mapping[str, float]  # metrics at `low`; where there is none, at `high`
    missed: str  # what `high` misses, in words; "" where nothing does
    simulations: int


def waited_of_pools(
    served: Served, load: float, most: float, output: np.ndarray, metrics: Mapping[str, float]
) -> float:
    """Mean time in s that requests of two pools wait, or would in a run that lasts as its arrivals.

    Args:
      load: requests/s.
      most: sequences that all replicas may decode at once.
      output: tokens of the requests' answers.
      metrics: of the run; requests of one token have no TPOT.
    """
    step = float(np.nan_to_num(metrics.get("tpot_p95", 0.0)))
    grown = _outgrown_mean(load, most, float(np.mean(output)) - 1.0, step, len(output))
    return max(_waited_mean(served), grown)


def _waited_mean(served: Served) -> float:
    """Mean time in s that requests of two pools wait: for the first step, and for a replica to decode them.

    The second is what the time from there to the first token has beyond the shortest such time of the run.
    """
    done = np.asarray(served.status) == STATUSES.index("finished")
    if not done.any():
        return math.nan
    arrival, begun, first = (np.asarray(times)[done] for times in (served.arrival, served.admitted, served.first_token))
    own = first - begun
    return float(np.mean(begun - arrival) + np.mean(own) - np.min(own))


def _outgrown_mean(load: float, most: float, steps: float, step: float, requests: int) -> float:
    """Mean time in s that requests would wait for a place among `most` sequences, in a run that lasts as its arrivals.

    Sequences of `steps` decode steps end at most / (steps step) per s. Where more come, the queue grows all the time:
    by the end of a short run it may not have begun, as not yet as many run as may.

    Args:
      load: requests/s.
      most: sequences that all replicas may decode at once.
      step: s of a step when they are full, about: TPOT of its slow requests.
    """
    excess = max(1.0 - most / (steps * step * load), 0.0) if steps * step > 0.0 else 0.0
    return 0.5 * excess * requests / load


def bracket(
    at: Callable[[float], Mapping[str, float]], first: float, target: Target, tolerance: float, most: int = MOST
) -> Bracket:
    """The largest load, to `tolerance`.

    Args:
      at: metrics at a load in requests/s, `jaxroof.jobs.serve.serving_metrics`.
      first: load of the first simulation.
      tolerance: how far apart both ends are in the end, relative.
      most: simulations at most.
    """
    low, high, found = 0.0, math.inf, dict[float, Mapping[str, float]]()
    load, without_end = first, 0
    while len(found) < most and not (low > 0.0 and high <= low * (1.0 + tolerance)):
        found[load] = at(load)
        columns = {name: np.array([value]) for name, value in found[load].items()}
        if keeps_up(columns, load, target)[0]:
            low = load
        else:
            high = load
        if low > 0.0 and math.isfinite(high):
            load = math.sqrt(low * high)
            continue
        # One end is missing: the load moves away from the other one, faster every time.
        step = STEP ** min(2.0**without_end, WIDEST)
        load, without_end = (low * step if low > 0.0 else high / step), without_end + 1
    best = found[low if low > 0.0 else high]
    missed = stopped(found[high], high, target) if math.isfinite(high) else ""
    return Bracket(low, high, best, missed, len(found))
