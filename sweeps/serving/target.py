"""Targets of a run: whether it keeps its limits, and the distance by which it misses them."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.jobs.serve import GROWS, PERCENTILES, Objective
from jaxroof.numerics.struct import given
from sweeps.run.simulated.classes import metrics_of_class
from sweeps.run.simulated.objective import LIMITS, Target, figure_text
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.fleet import Fleet, fleet

Metrics = Mapping[str, np.ndarray]
"""Variable -> its value at every deployment, shape [deployments]."""


def keeps(metrics: Metrics, target: Target) -> np.ndarray:
    """Whether the target is kept, shape [deployments]; by every class of requests where there are some."""
    if target.classes:
        each = [keeps(metrics_of_class(metrics, i), of) for i, of in enumerate(target.classes.values())]
        return np.all(each, axis=0)
    good = good_share(metrics) >= target.share
    for name, limit in target.limits.items():
        good &= metrics[name] <= limit  # NaN where nothing was answered: not kept
    return good


def good_share(metrics: Metrics) -> np.ndarray:
    """Share of all requests that are good, shape [deployments]: refused, rejected and unfinished ones are not."""
    # Room for rounding: a share that is met exactly may be computed just below it.
    return metrics["good_share"] * (1.0 + 1e-12)


def missed_text(metrics: Mapping[str, float], target: Target) -> str:
    """Limits that a run misses, and by how much; "" where it keeps the target."""
    if target.classes:
        texts = {
            name: missed_text(metrics_of_class(metrics, i), of) for i, (name, of) in enumerate(target.classes.items())
        }
        return "; ".join(f"{name}: {text}" for name, text in texts.items() if text)
    parts = []
    share = good_share_of(metrics)
    if not share >= target.share:
        parts.append(f"{100 * share:.1f} % of the requests are good, of {100 * target.share:g} %")
        # The smallest reported percentile at or above the share shows which latency is too long.
        percent = next((p for p in PERCENTILES if p >= 100 * target.share - 1e-9), PERCENTILES[-1])
        for name in LIMITS:
            limit, value = getattr(target.objective, name), metrics[f"{name}_p{percent}"]
            if value > limit:
                parts.append(f"{figure_text(f'{name}_p{percent}')} {formatted(value, 's')} of {formatted(limit, 's')}")
        for name, words in (("refused", "too long for the cache"), ("rejected", "turned away"), ("unfinished", "left")):
            if metrics[name]:
                parts.append(f"{metrics[name]:,.0f} {words}")
    for name, limit in target.limits.items():
        if not metrics[name] <= limit:
            parts.append(f"{figure_text(name)} {formatted(metrics[name], 's')} of {formatted(limit, 's')}")
    return ", ".join(parts)


def good_share_of(metrics: Mapping[str, float]) -> float:
    """Share of all requests of one run that are good."""
    return float(good_share({name: np.asarray(value) for name, value in metrics.items()}))


def keeps_up(metrics: Metrics, load: np.ndarray | float, target: Target) -> np.ndarray:
    """Whether a load is good: the target is kept and no queue grows. Shape [deployments]."""
    return keeps(metrics, target) & (waiting(metrics, load) <= GROWS)


def waiting(metrics: Metrics, load: np.ndarray | float) -> np.ndarray:
    """Requests that wait on average for longer than two steps, as a share of all. Shape [deployments]."""
    # s of a decode step, about: TPOT.
    step = np.nan_to_num(metrics["tpot_mean"], posinf=0.0)  # NaN: of requests of one token
    # Of two pools, who waits for a replica that decodes waits too.
    waits = metrics.get("waited_mean", metrics["queueing_mean"])
    longer = np.maximum(np.nan_to_num(waits) - 2.0 * step, 0.0)
    return longer * load / np.maximum(metrics["finished"], 1.0)


def stopped(worst: Mapping[str, float] | None, load: float, target: Target) -> str:
    """What a load misses, in words; "" where none failed."""
    if worst is None:
        return ""
    grows = float(waiting({name: np.asarray(value) for name, value in worst.items()}, load)) > GROWS
    number = f"{worst.get('waited_mean', worst['queueing_mean']) * load:,.0f}"
    return missed_text(worst, target) or (f"a growing queue, of {number} requests on average" if grows else "")


# Loads of a search where the user gives none, and requests enough for a queue to build up at the largest of them.


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
) -> tuple[Any, ...]:
    """Engines and rates of the curve, such that the largest is more than any of them can take.

    An engine that keeps the target at the largest rate is not slow: the stream has ended before its queue was long.
    Where the user leaves the number of requests open, `LONGER` times as many are drawn until none keeps it.

    Returns:
      The fleet under its requests, rates in requests per s, metrics at the largest of them, and how often more requests
      were drawn.
    """
    open_number, times = free(asked), 0
    while True:
        engines = fleet(asked, hardware, tp, node)
        rates = _rates(engines, target.objective)
        top = engines.outcomes([rates[-1]] * len(engines.places), target.objective)
        # More requests are drawn while some engine keeps the target at the top rate and the user left their number
        # open.
        more = LONGER * len(engines.requests.stream)
        if not keeps(top, target).any() or not open_number or more > MOST_DRAWN:
            return engines, rates, top, times
        asked, times = dataclasses.replace(asked, requests=more), times + 1


def usual_clients(engines: Fleet) -> np.ndarray:
    """Clients of the curve: from 1 to as many as run at once."""
    most = min(float(engines.policy.max_sequences), len(engines.requests.stream))
    # Equal ratios, as whole clients, each once.
    return np.unique(np.geomspace(1.0, max(most, 1.0), POINTS).round())


def keeps_all_at_once(engines: Fleet, target: Target) -> np.ndarray:
    """Whether no rate misses the target, as it is kept even with every request there at once, shape [deployments]."""
    return keeps(_at_once(engines, target.objective), target)


def _at_once(engines: Fleet, objective: Objective) -> Metrics:
    """Metrics where every request is there from the start."""
    # At a million times their rate all requests arrive practically at once.
    return engines.outcomes([1e6 * given(engines.rate, "rate: the loop is closed")] * len(engines.places), objective)


def free(asked: ServeSpec) -> bool:
    """Whether the user leaves open how many requests there are."""
    # Stages have durations, which say how many requests there are.
    stages = str(asked.arrivals).strip().lower().startswith("stages")
    return asked.trace is None and asked.requests is None and asked.duration is None and not stages


def _rates(engines: Fleet, objective: Objective) -> np.ndarray:
    """Rates around the throughputs of the engines, of three digits."""
    throughputs = _at_once(engines, objective)["requests_per_second"]
    ends = BELOW * np.nanmin(throughputs), ABOVE * np.nanmax(throughputs)
    return np.array([float(f"{rate:.3g}") for rate in np.geomspace(*ends, POINTS)])
