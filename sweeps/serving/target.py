"""Targets of a run: whether it keeps its limits, and the distance by which it misses them."""

from collections.abc import Mapping

import numpy as np

from hwspaces import formatted
from jaxroof.jobs.serve import PERCENTILES
from sweeps.run.simulated.classes import metrics_of_class
from sweeps.run.simulated.objective import LIMITS, Target, figure_text

Metrics = Mapping[str, np.ndarray]
"""Variable -> its value at every place, shape [places]."""


def kept(metrics: Metrics, target: Target) -> np.ndarray:
    """Whether the target is kept, shape [places]; by every class of requests where there are some."""
    if target.classes:
        each = [kept(metrics_of_class(metrics, i), of) for i, of in enumerate(target.classes.values())]
        return np.all(each, axis=0)
    found = good_share(metrics) >= target.share
    for name, limit in target.limits.items():
        found &= metrics[name] <= limit  # NaN where nothing was answered: not kept
    return found


def good_share(metrics: Metrics) -> np.ndarray:
    """Share of all requests that are good, shape [places]: refused, rejected and unfinished ones are not."""
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
