"""Errors of predicted serving latencies by model, device, engine and concurrency, and common labels of the worst."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from jaxroof.numerics.struct import given
from sweeps.measure.validate.relative_errors import errors, grouped
from sweeps.measure.validate.serving.serving_points import ServingPoint

METRICS = ("ttft", "tpot", "throughput")

BANDS = ((4.0, "to 4"), (16.0, "5-16"), (64.0, "17-64"), (256.0, "65-256"), (float("inf"), "above 256"))
"""Largest concurrency of a band, and its name."""

HIT = 0.2
"""Relative error up to which a prediction counts as hit."""

WORST = 0.1
"""Share of the points that is listed as the worst."""

MANY = 10
"""Points that are listed one by one."""


@dataclasses.dataclass(frozen=True)
class ServingPrediction:
    """A point and what was predicted for it."""

    point: ServingPoint
    ttft: float  # s, mean
    tpot: float  # s, mean
    answered: int | None = None  # requests, where a simulation counted them
    median_ttft: float | None = None  # s, without what first requests wait for; None: not simulated
    median_tpot: float | None = None  # s
    rate: float | None = None  # output tokens/s of the whole run, all replicas

    def time(self, metric: str) -> float:
        """TTFT or TPOT in s as the file has it: the mean over requests, or the median."""
        if self.point.medians:
            return given(getattr(self, f"median_{metric}"), f"median {metric}")
        return getattr(self, metric)

    def ratio(self, metric: str) -> float:
        """Predicted over measured."""
        point = self.point
        if metric != "throughput":
            return self.time(metric) / getattr(point, metric)
        if point.throughput is not None:
            return given(self.rate, "simulated tokens/s") / point.throughput
        # Files without throughput: both sides follow from the two latencies by one formula.
        return throughput(point, self.ttft, self.tpot) / throughput(point, point.ttft, point.tpot)


@dataclasses.dataclass(frozen=True)
class Score:
    """Errors of one metric over points, predicted / measured - 1."""

    n: int
    median: float  # of the absolute
    mape: float  # mean of the absolute
    signed: float  # median
    hits: float  # share within `HIT`


@dataclasses.dataclass(frozen=True)
class Worst:
    """The points with the largest absolute errors of one metric, and what they have in common."""

    metric: str
    from_error: float  # smallest absolute error among them
    predictions: tuple[ServingPrediction, ...]  # largest error first
    shares: dict[str, dict[str, tuple[int, int]]]  # key -> value -> (of the worst, of all)


def throughput(point: ServingPoint, ttft: float, tpot: float) -> float:
    """Output tokens per s: clients * osl / (ttft + (osl - 1) tpot), at nominal osl."""
    return point.concurrency * point.osl / (ttft + (point.osl - 1.0) * tpot)


def band(point: ServingPoint) -> str:
    """The concurrency band of a point."""
    return next(name for most, name in BANDS if point.concurrency <= most)


KEYS: dict[str, Callable[[ServingPoint], str]] = {
    "model": lambda point: point.model_name,
    "GPU": lambda point: point.gpu,
    "engine": lambda point: point.engine,
    "release": lambda point: point.launch.engine,
    "concurrency": band,
    "suite": lambda point: point.family,
}
"""Column of the tables -> its value for a point."""


def score(predictions: Sequence[ServingPrediction], metric: str) -> Score:
    """Errors of one metric; ValueError without points."""
    if not predictions:
        raise ValueError(f"no points to score {metric} on")
    # Ratios against 1 have the same relative errors as predictions against measurements, of any metric.
    ratios = np.asarray([one.ratio(metric) for one in predictions])
    summary = errors(ratios, np.ones_like(ratios))
    hits = float(np.mean(np.abs(ratios - 1.0) <= HIT))
    return Score(n=len(ratios), median=summary.median, mape=summary.mape, signed=summary.signed, hits=hits)


def scores(predictions: Sequence[ServingPrediction]) -> dict[str, dict[str, dict[str, Score]]]:
    """Key -> value -> metric -> score; `points` has all and trusted ones, the other keys the trusted ones alone.

    Trusted: nothing speaks against the row's labels (`ServingPoint.suspect`).
    """
    trusted = [one for one in predictions if one.point.suspect is None]
    table = {"points": {"all": _all(predictions)}}
    if not trusted:
        return table
    table["points"]["trusted"] = _all(trusted)
    for key, value in KEYS.items():
        groups = grouped(trusted, lambda one: value(one.point))  # noqa: B023
        # Bands stand in order of their size, other values by name.
        names = [name for _, name in BANDS] if key == "concurrency" else sorted(groups)
        table[key] = {name: _all(groups[name]) for name in names if name in groups}
    return table


def worst(predictions: Sequence[ServingPrediction], metric: str) -> Worst:
    """The worst tenth of the trusted points by one metric, with the share of every key's values in it and in all."""
    trusted = [one for one in predictions if one.point.suspect is None]
    if not trusted:
        raise ValueError(f"no trusted points to rank by {metric}")
    # Rows whose labels are suspect would fill the list with errors of the labels.
    ranked = sorted(trusted, key=lambda one: -abs(one.ratio(metric) - 1.0))
    chosen = ranked[: max(round(WORST * len(ranked)), 1)]
    shares = {}
    for key, value in KEYS.items():
        # A value that is as common among all points says nothing about the worst: both counts are told.
        every, here = (Counter(value(one.point) for one in group) for group in (trusted, chosen))
        shares[key] = {name: (count, every[name]) for name, count in here.most_common()}
    return Worst(metric, abs(chosen[-1].ratio(metric) - 1.0), tuple(chosen), shares)


def _all(predictions: Sequence[ServingPrediction]) -> dict[str, Score]:
    return {metric: score(predictions, metric) for metric in METRICS}


def worst_lines(worst: Worst) -> list[str]:
    """The worst points as lines of text: what they have in common, then the first ones."""
    lines = [f"worst {len(worst.predictions)} by {worst.metric}: off by {100 * worst.from_error:.0f} % and more"]
    for key, values in worst.shares.items():
        lines.append(f"  {key}: " + ", ".join(f"{name} {here} of {every}" for name, (here, every) in values.items()))
    for one in worst.predictions[:MANY]:
        point, error = one.point, one.ratio(worst.metric) - 1.0
        lines.append(
            f"  {100 * error:+.0f} % row {point.row}: {point.model_name} {point.gpu} {point.engine} "
            f"{point.isl:g}/{point.osl:g} x {point.concurrency:g}, tp {point.deployment.tp:g}"
        )
    return lines
