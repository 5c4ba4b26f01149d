"""Sensitivities at one point: elasticities of metrics, and second derivatives of pairs of knobs."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hwspaces.quantities.units import nearest
from jaxroof.jobs import JOBS, Job, Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import SHARPNESS, smoothing
from sweeps.run.answer import answer_of
from sweeps.run.points import in_dtype, scenario_at
from sweeps.studies.sensitivity.gradient import changes, metric_names
from sweeps.studies.sensitivity.knobs import Knob, knobs, without_elasticity

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
class Sensitivities:
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
        # NaN, of a metric that is not positive, counts as no elasticity.
        sizes = np.max([np.abs(np.nan_to_num(self.elasticities[name])) for name in metrics or self.metrics], axis=0)
        return np.argsort(-sizes, kind="stable")

    def top(self, count: int, metrics: Sequence[str] | None = None) -> tuple[Knob, ...]:
        """The `count` knobs with the largest elasticities, without those in which `metrics` are flat."""
        order = self.order(metrics)
        names = metrics or list(self.metrics)
        matter = np.any([np.abs(np.nan_to_num(self.elasticities[name])) >= FLAT for name in names], axis=0)
        # Flat knobs are left out after the cut, so that there may be fewer than `count`.
        return tuple(self.knobs[i] for i in order[:count] if matter[i])


def sensitivity_at(
    job: str,
    scenario: Scenario,
    metrics: Sequence[str] | None = None,
    wanted: Sequence[str] | None = None,
    exponent: float | None = None,
) -> Sensitivities:
    """Elasticities d ln y / d ln x at one scenario, in float64.

    Args:
      job: "step", "request" or "train".
      scenario: of Python numbers.
      metrics: any real-valued ones of the job; None: the most asked for.
      wanted: knobs, as `knobs` takes them.
      exponent: of smoothing; None: `jaxroof.numerics.smooth.SHARPNESS`.

    Raises:
      ValueError: one line, for a metric or knob that there is not.
    """
    turned = knobs(scenario, wanted)
    scenario = in_dtype(scenario, np.dtype(float))
    names = wanted_metrics(JOBS[job], scenario, metrics)
    with chosen(exponent), eager():
        values, by_metric = elasticities(JOBS[job], names, scenario, turned)
    answered = answer_of(scenario)
    return Sensitivities(
        job=job,
        knobs=turned,
        left_out=without_elasticity(scenario, wanted),
        metrics=values,
        elasticities=by_metric,
        bounds={step: answered.bound_shares(step) for step in answered.steps},
        smoothing=SHARPNESS if exponent is None else exponent,
    )


def elasticities(
    job: Job, names: Sequence[str], scenario: Scenario, turned: Sequence[Knob]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Metrics at a scenario of float64 numbers, and their elasticities in `turned` knobs, shapes (turned,).

    Raises:
      ValueError: one line, where there are no knobs to turn.
    """
    require_some(turned)
    with eager():
        derivatives = changes(job, tuple(names), tuple(knob.path for knob in turned))(scenario)
    metrics = {name: float(value) for name, (value, _) in derivatives.items()}
    return metrics, {
        # Elasticity = (dy / d ln x) / y.
        name: np.array(list(slopes.values()), float) / _positive(metrics[name])
        for name, (_, slopes) in derivatives.items()
    }


def _positive(value: float) -> float:
    return value if value > 0.0 else math.nan


def require_some(turned: Sequence[Knob]) -> None:
    """ValueError of one line where there are no knobs to turn."""
    if not turned:
        raise ValueError("none of the knobs has an elasticity here: they are 0, unknown or switches")


def chosen(exponent: float | None) -> Any:
    """The context of `jaxroof.numerics.smooth.smoothing` at `exponent`; its usual one for None."""
    return smoothing(SHARPNESS if exponent is None else exponent)


def curvatures(scenario: Scenario, point: Sensitivities, turned: Sequence[Knob], metric: str) -> np.ndarray:
    """Second derivatives of ln of `metric` in ln of `turned` knobs, shape (turned, turned), symmetric.

    Central differences of the exact gradient: their error is about STEP^2. NaN where
    the gradient jumps at this very point, as where tp meets the number of KV heads. Where `jaxroof.numerics.smooth`
    blurs a ridge the gradient is not that of any one function and the two orders of differentiation differ a little:
    the mean of both is returned.
    """
    if point.metrics[metric] <= 0.0:
        raise ValueError(f"{metric} = {point.metrics[metric]:g} has no logarithm: it is not positive")
    names, rows = tuple(point.metrics), []
    scenario = in_dtype(scenario, np.dtype(float))
    places = [point.knobs.index(knob) for knob in turned]
    here = point.elasticities[metric][places]
    with chosen(point.smoothing):
        for knob in turned:
            ends = []
            for step in (STEP, -STEP):
                moved = scenario_at(scenario, [{knob.path: np.float64(knob.value * math.exp(step))}])
                ends.append(elasticities(JOBS[point.job], names, moved, turned)[1][metric])
            # Second derivatives to either side, by a forward and a backward difference of the gradient.
            right, left = (ends[0] - here) / STEP, (here - ends[1]) / STEP
            # Where the gradient jumps, one of them is about the jump over STEP, and so they differ by much.
            jumps = np.abs(right - left) > JUMP * (1.0 + np.abs(right) + np.abs(left))
            rows.append(np.where(jumps, np.nan, 0.5 * (right + left)))
    matrix = np.array(rows)
    return 0.5 * (matrix + matrix.T)


def wanted_metrics(job: Job, scenario: Scenario, metrics: Sequence[str] | None) -> tuple[str, ...]:
    """The metrics to differentiate; ValueError, one line, for one that the job does not have or that is no number."""
    return known_metrics(job.name, metric_names(job, scenario), metrics)


def known_metrics(job: str, known: Sequence[str], metrics: Sequence[str] | None) -> tuple[str, ...]:
    """Those of `metrics`, or the most asked for, that are `known` of a job; ValueError as `wanted_metrics`."""
    if metrics is None:
        return tuple(name for name in HEADLINES[job] if name in known)
    for name in metrics:
        if name not in known:
            raise ValueError(f"a {job} has no real-valued metric {name} here{nearest(name, known)}")
    return tuple(dict.fromkeys(metrics))
