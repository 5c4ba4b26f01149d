"""Served models in pictures: predicted against measured latencies, errors over concurrency, and a calibration."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import hwspaces
from sweeps.measure.validate.serving.scores import BANDS, HIT, ServingPrediction, band, score
from sweeps.serving.calibration.fit import Calibration
from sweeps.show import style

METRICS = {"ttft": "TTFT", "tpot": "TPOT"}
CALIBRATED = {"ttft": "TTFT", "e2e": "E2E latency"}


@style.styled
def predicted_against_measured(predictions: Sequence[ServingPrediction]) -> Any:
    """A panel per latency: predicted against measured, a colour per engine; suspect rows as grey crosses.

    Raises:
      ValueError: without predictions.
    """
    fig = _figure(
        predictions,
        3.9,
        "TTFT and TPOT under load: predicted against measured",
        "Lines: right, and 20 % off. Beside each name: median and mean absolute error of the rows that nothing speaks "
        "against; grey crosses are the others.",
    )
    for axes, (metric, name) in zip(fig.subplots(1, 2), METRICS.items(), strict=True):
        measured, predicted = _measured(predictions, metric), _predicted(predictions, metric)
        style.equal_axes(axes, np.concatenate([measured, predicted]), ("measured", "predicted"), HIT, 1.3)
        for colour, engine, rows in _engines(predictions):
            here = [one for one in rows if one.point.suspect is None]
            if here:
                text = f"{hwspaces.engine(engine).title}: {_error_text(here, metric)}"
                places = (_measured(here, metric), _predicted(here, metric))
                axes.scatter(*places, s=9, lw=0, alpha=0.55, color=colour, label=text)
            apart = [one for one in rows if one.point.suspect is not None]
            places = (_measured(apart, metric), _predicted(apart, metric))
            axes.scatter(*places, s=11, marker="x", lw=0.6, color=style.CLOUD, zorder=1)
        axes.set_title(name)
        axes.legend(loc="upper left", handletextpad=0.1)
    return fig


@style.styled
def errors_by_concurrency(predictions: Sequence[ServingPrediction]) -> Any:
    """A panel per latency: predicted over measured time by concurrency band and engine; median and 90 % range.

    Suspect rows are left out.

    Raises:
      ValueError: without a row that nothing speaks against.
    """
    trusted = [one for one in predictions if one.point.suspect is None]
    fig = _figure(
        trusted,
        3.2,
        "TTFT and TPOT under load: error by concurrency",
        "Predicted over measured time: dot, the median; line, the range of 90 % of rows.",
    )
    bands = [name for _, name in BANDS]
    for axes, (metric, name) in zip(fig.subplots(1, 2), METRICS.items(), strict=True):
        axes.axhspan(1.0 - HIT, 1.0 + HIT, color=style.INFEASIBLE, lw=0, zorder=0)
        axes.axhline(1.0, color=style.QUIET, lw=0.8, zorder=1)
        engines = list(_engines(trusted))
        for place, (colour, engine, rows) in enumerate(engines):
            # Ratios of predicted to measured by band; a band may have none.
            groups = [[one.ratio(metric) for one in rows if band(one.point) == at] for at in bands]
            filled = [i for i, group in enumerate(groups) if group]
            # Engines stand side by side within a band.
            at = np.array(filled) + 0.18 * (place - 0.5 * (len(engines) - 1))
            quantiles = style.spread_of(groups[i] for i in filled)
            low, middle, high = np.clip(quantiles, 1.0 / style.LARGEST_RATIO, style.LARGEST_RATIO)
            axes.vlines(at, low, high, color=colour, lw=1.6, alpha=0.45)
            axes.plot(at, middle, "o", ms=4.5, color=colour, label=hwspaces.engine(engine).title)
        axes.set_title(name)
        style.ratio_axis(axes)
        axes.set_xticks(range(len(bands)), bands)
        axes.set_xlabel("Concurrent requests")
        axes.legend(loc="upper left", ncols=3, handletextpad=0.1)
    return fig


@style.styled
def calibration(calibration: Calibration) -> Any:
    """A figure with a panel per latency; a dot per request: grey before, blue and orange (held out) after."""
    before, after = (calibration.errors["validation"][when].error for when in ("before", "after"))
    fig = style.figure(
        9.6,
        4.1,
        f"Calibration takes the error of held-out requests from {before:.1%} to {after:.1%}",
        "Simulated against measured time, a dot per request. Lines: equal, and 20 % off. Beside each name: mean "
        "absolute error.",
        f"{calibration.run.name}: {len(calibration.run.stream):,} requests, "
        f"{int(calibration.run.held_out.sum()):,} of them held out",
    )
    for axes, (metric, name) in zip(fig.subplots(1, 2), CALIBRATED.items(), strict=True):
        _times(axes, calibration, metric)
        axes.set_title(name)
    return fig


def _figure(predictions: Sequence[ServingPrediction], height: float, title: str, details: str) -> Any:
    if not predictions:
        raise ValueError("there are no served points to draw")
    models = len({one.point.model_name for one in predictions})
    devices = ", ".join(sorted({one.point.gpu for one in predictions}))
    source = f"{len(predictions):,} measured rows of {models} models on {devices}"
    return style.figure(9.6, height, title, details, source)


def _engines(predictions: Sequence[ServingPrediction]) -> list[tuple[str, str, list[ServingPrediction]]]:
    """Colour, name and rows of every engine."""
    # Every engine keeps its colour, whichever of them a picture shows.
    rows = {name: [one for one in predictions if one.point.engine == name] for name in hwspaces.engine_names()}
    return [(style.SERIES_COLOURS[i], name, own) for i, (name, own) in enumerate(rows.items()) if own]


def _measured(predictions: Sequence[ServingPrediction], metric: str) -> np.ndarray:
    return np.array([getattr(one.point, metric) for one in predictions])


def _predicted(predictions: Sequence[ServingPrediction], metric: str) -> np.ndarray:
    return np.array([one.time(metric) for one in predictions])


def _error_text(predictions: Sequence[ServingPrediction], metric: str) -> str:
    errors = score(predictions, metric)
    return f"{errors.median:.0%}, {errors.mape:.0%}"


def _times(axes: Any, calibration: Calibration, metric: str) -> None:
    measured, held = calibration.run.latencies[metric], calibration.run.held_out
    times = {when: calibration.simulated[when][metric] for when in ("before", "after")}
    # Requests that have the latency in the measurement and in both simulations.
    known = np.isfinite(measured) & np.isfinite(times["before"]) & np.isfinite(times["after"])
    every = np.concatenate([measured[known], times["before"][known], times["after"][known]])
    style.equal_axes(axes, every, ("measured", "simulated"), HIT, 1.2)
    # Requests that were fitted to and those that were held out, apart after the calibration.
    series = (
        ("before", "before", known, style.CLOUD),
        ("training, after", "after", known & ~held, style.SERIES_COLOURS[0]),
        ("held out, after", "after", known & held, style.SERIES_COLOURS[1]),
    )
    for label, when, part, colour in series:
        error = np.mean(np.abs(times[when][part] / measured[part] - 1.0))
        places = (measured[part], times[when][part])
        axes.scatter(*places, s=9, lw=0, alpha=0.6, color=colour, label=f"{label}: {error:.1%}", rasterized=True)
    axes.legend(loc="upper left", handletextpad=0.1, markerscale=1.8)
