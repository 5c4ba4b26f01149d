"""Sensitivities at one point: elasticities of metrics, range of first order, and substitutes among knobs."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hwspaces.units import nearest
from jaxroof.jobs import JOBS, Job, Scenario
from jaxroof.op import BOUNDS
from jaxroof.smooth import SHARPNESS, smoothing
from sweeps.ask.paths import leaf, leaf_paths, replaced
from sweeps.run.evaluate import at_base
from sweeps.run.precision import (
    precision,
)
from sweeps.run.ways import ONE_SLOPE
from sweeps.studies.elasticity.gradient import Factors, metric_names, slopes
from sweeps.studies.elasticity.knobs import ROOTS, Knob, knobs, without_elasticity

FACTORS = (0.9, 1.1)
"""What a knob is multiplied by to see how far first order carries."""

STEP = 1e-4
"""Of the logarithm, in differences of gradients: its error, STEP^2, is far below what a table shows."""

JUMP = 0.1
"""Relative difference of one-sided slopes of a gradient from which it jumps rather than bends."""

FLAT = 5e-4
"""Absolute elasticity below which a metric counts as flat in a knob: 0.005 % for a tenth more."""

HEADLINES = {
    "request": ("ttft", "tpot", "tokens_per_second_per_device", "joules_per_token", "usd_per_million_tokens"),
    "step": ("step_time", "tokens_per_second_per_device", "joules_per_token", "usd_per_million_tokens"),
    "train": ("iteration_time", "joules_per_billion_tokens", "usd_per_billion_tokens"),
    "serve": ("ttft_mean", "tpot_mean", "e2e_mean"),
}
"""Metrics that are shown where nobody says which, of those that there are."""


@dataclasses.dataclass(frozen=True)
class Point:
    """Elasticities of a job's metrics at one scenario."""

    job: str
    knobs: tuple[Knob, ...]
    left_out: dict[str, str]  # numbers without an elasticity -> why
    metrics: dict[str, float]  # SI units
    elasticities: dict[str, np.ndarray]  # by metric, shape (knobs,); NaN where the metric is not positive
    bounds: dict[str, dict[str, float]]  # step -> resource -> share of its time that it binds, largest first
    smoothing: float

    def order(self, metrics: Sequence[str] | None = None) -> np.ndarray:
        """Positions of knobs, the one with the largest elasticity of any of `metrics` first."""
        sizes = np.max([np.abs(np.nan_to_num(self.elasticities[name])) for name in metrics or self.metrics], axis=0)
        return np.argsort(-sizes, kind="stable")

    def top(self, count: int, metrics: Sequence[str] | None = None) -> tuple[Knob, ...]:
        """The `count` knobs with the largest elasticities, without those in which `metrics` are flat."""
        order = self.order(metrics)
        names = metrics or list(self.metrics)
        matter = np.any([np.abs(np.nan_to_num(self.elasticities[name])) >= FLAT for name in names], axis=0)
        return tuple(self.knobs[i] for i in order[:count] if matter[i])


@dataclasses.dataclass(frozen=True)
class Check:
    """Change of one metric with one knob: by first order, and by the model; relative."""

    knob: Knob
    predicted: tuple[float, ...]  # at every one of FACTORS: factor^elasticity - 1
    actual: tuple[float, ...]


def sensitivity_at(
    job: str,
    scenario: Scenario,
    metrics: Sequence[str] | None = None,
    wanted: Sequence[str] | None = None,
    exponent: float | None = None,
) -> Point:
    """Elasticities d ln y / d ln x at one scenario, in float64, from one compiled program.

    Args:
      job: "step", "request" or "train".
      scenario: of Python numbers.
      metrics: any real-valued ones of the job; None: the most asked for.
      wanted: knobs, as `knobs` takes them.
      exponent: of smoothing; None: `jaxroof.smooth.SHARPNESS`.

    Raises:
      ValueError: one line, for a metric or knob that there is not.
    """
    turned = knobs(scenario, wanted)
    if not turned:
        raise ValueError("none of the knobs has an elasticity here: they are 0, unknown or switches")
    with precision("float64"), chosen(exponent):
        names = wanted_metrics(JOBS[job], scenario, metrics)
        values, found, times = _elasticities(JOBS[job], names, scenario, turned, turned)
    return Point(
        job=job,
        knobs=turned,
        left_out=without_elasticity(scenario, wanted),
        metrics=values,
        elasticities=found,
        bounds={step: _shares(by_bound) for step, by_bound in times.items()},
        smoothing=SHARPNESS if exponent is None else exponent,
    )


def chosen(exponent: float | None) -> Any:
    """The context of `jaxroof.smooth.smoothing` at `exponent`; its usual one for None."""
    return smoothing(SHARPNESS if exponent is None else exponent)


def checks(scenario: Scenario, point: Point, turned: Sequence[Knob]) -> dict[str, tuple[Check, ...]]:
    """For every metric, the changes that first order predicts for `turned` knobs beside those that the model makes.

    Knobs that come in whole pieces are left out.
    """
    turned = [knob for knob in turned if not knob.whole]
    if not turned:
        return dict.fromkeys(point.metrics, ())
    job, names = JOBS[point.job], tuple(point.metrics)
    with precision("float64"), chosen(point.smoothing):  # the gradient's own program: its values need no other
        still = _still(scenario, point.knobs)
        moved = [[replaced(scenario, knob.path, knob.value * factor) for factor in FACTORS] for knob in turned]
        moved = [[_along(job, names, there, still)[0] for there in row] for row in moved]  # type: ignore[arg-type]
    places = {knob.path: i for i, knob in enumerate(point.knobs)}
    result = {}
    for name, value in point.metrics.items():
        actual = np.array([[float(there[name]) for there in row] for row in moved]) / value - 1.0
        slopes = [float(point.elasticities[name][places[knob.path]]) for knob in turned]
        predicted = [tuple(factor**slope - 1.0 for factor in FACTORS) for slope in slopes]
        result[name] = tuple(map(Check, turned, predicted, map(tuple, actual.tolist())))
    return result


def curvatures(scenario: Scenario, point: Point, turned: Sequence[Knob], metric: str) -> np.ndarray:
    """Second derivatives of ln of `metric` in ln of `turned` knobs, shape (turned, turned), symmetric.

    Central differences of the exact gradient, which needs no further program: their error is about STEP^2. NaN where
    the gradient jumps at this very point, as where tp meets the number of KV heads. Where `jaxroof.smooth` blurs a
    ridge the gradient is not that of any one function and the two orders of differentiation differ a little: the mean
    of both is returned.
    """
    if point.metrics[metric] <= 0.0:
        raise ValueError(f"{metric} = {point.metrics[metric]:g} has no logarithm: it is not positive")
    job, names, rows = JOBS[point.job], tuple(point.metrics), []
    places = [point.knobs.index(knob) for knob in turned]
    here = point.elasticities[metric][places]
    with precision("float64"), chosen(point.smoothing):
        for knob in turned:
            ends = []
            for step in (STEP, -STEP):
                moved = replaced(scenario, knob.path, knob.value * math.exp(step))
                ends.append(_elasticities(job, names, moved, turned, point.knobs)[1][metric])
            right, left = (ends[0] - here) / STEP, (here - ends[1]) / STEP
            jumps = np.abs(right - left) > JUMP * (1.0 + np.abs(right) + np.abs(left))
            rows.append(np.where(jumps, np.nan, 0.5 * (right + left)))
    found = np.array(rows)
    return 0.5 * (found + found.T)


def wanted_metrics(job: Job, scenario: Scenario, metrics: Sequence[str] | None) -> tuple[str, ...]:
    """The metrics to differentiate; ValueError, one line, for one that the job does not have or that is no number."""
    known = metric_names(job, scenario)
    if metrics is None:
        return tuple(name for name in HEADLINES[job.name] if name in known)
    for name in metrics:
        if name not in known:
            raise ValueError(f"a {job.name} has no real-valued metric {name} here{nearest(name, known)}")
    return tuple(dict.fromkeys(metrics))


def _along(job: Job, names: tuple[str, ...], scenario: Scenario, direction: Factors) -> tuple:
    """Metrics y, dy for d ln x of the direction's numbers, and every step's time by bound, at one scenario."""
    return at_base(slopes(job, names), scenario, ONE_SLOPE, (direction,))


def _still(scenario: Scenario, known: Sequence[Knob]) -> dict[str, np.float64]:
    """No direction: 0 for every number of `ROOTS`, or of every part where a knob is beyond them.

    Few sets of numbers, so that one program serves for whichever knobs.
    """
    usual = all(knob.path.partition(".")[0] in ROOTS for knob in known)
    return {
        path: np.float64(0.0)
        for path in leaf_paths(scenario)
        if (not usual or path.partition(".")[0] in ROOTS) and not getattr(leaf(scenario, path), "ndim", 0)
    }


def _elasticities(
    job: Job, names: tuple[str, ...], scenario: Scenario, turned: Sequence[Knob], known: Sequence[Knob]
) -> tuple[dict[str, float], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Metrics, their elasticities in `turned` knobs, shapes (turned,), and every step's time by bound.

    `known` knobs, of which `turned` are some, choose the program.
    """
    still = _still(scenario, known)
    rows = [_along(job, names, scenario, still | {knob.path: np.float64(1.0)}) for knob in turned]  # type: ignore[arg-type]
    values, _, times = rows[0]
    found = {
        name: np.array([float(row[name]) for _, row, _ in rows])
        / (value if (value := float(values[name])) > 0.0 else np.nan)
        for name in names
    }
    return {name: float(values[name]) for name in names}, found, times


def _shares(times: np.ndarray) -> dict[str, float]:
    """Share of a step's time by what binds it, largest first, without what binds nothing."""
    shares = np.asarray(times) / np.sum(times)
    order = np.argsort(-shares, kind="stable")
    return {BOUNDS[i]: float(shares[i]) for i in order if shares[i] > 0.0}
