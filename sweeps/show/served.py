"""Picture of a served comparison: its best rows as bars with their certainty, and the latency that throughput costs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.show import style
from sweeps.studies.compare.comparison import Comparison
from sweeps.studies.compare.ranking import RATE
from sweeps.studies.compare.rows import Row

MOST = 30
"""Bars that can be told apart on one page."""

DIAMETER = 11.0
"""Distance of two points of the right picture, in points, below which one covers the other's number."""


@style.styled
def ranking(comparison: Comparison, rows: Sequence[Row]) -> Any:
    """A figure of `rows`, best first: bars of the metric they are sorted by; beside them TPOT against throughput.

    Raises:
      ValueError: when there is no row to draw.
    """
    rows = rows[:MOST]
    if not rows:
        raise ValueError("nothing serves the requests within the limits: there is nothing to draw")
    best, question = rows[0], comparison.question_of(rows[0])
    better = "higher" if variable(comparison.metric).higher_is_better else "lower"
    many = f"{best.replicas} replicas of " if comparison.rate is not None else ""
    title = f"{many}{best.devices} x {best.hardware} ({best.layout}) is best for {question.model.name}"
    # Ranks of rows whose constants are inside of their evidence.
    measured = [i for i, row in enumerate(rows, 1) if not comparison.trust(row).extrapolated]
    if measured[:1] != [1]:
        title += ", extrapolated"
    load = "the largest load" if comparison.rate is None else f"{labels.number(comparison.rate)} requests/s"
    details = f"{_words(comparison.metric)} at {load} within {question.target.text}; {better} is better.\n"
    best_known = f" (the first inside: {measured[0]})" if measured and measured[0] > 1 else ""
    details += f"Lines: where 90 % of true values lie. Pale: beyond the evidence{best_known}. "
    details += "s: simulated, e: estimated from the steady state."
    source = f"engine {question.engine}, weights {question.model.precision}, efficiency {question.efficiency.name}"
    fig = style.figure(12.0, 1.2 + 0.26 * max(len(rows), 10), title, details, source)
    left, right = fig.subplots(1, 2, width_ratios=(1.3, 1.0))
    names = list(dict.fromkeys(row.hardware for row in rows))
    colours = {name: style.SERIES_COLOURS[i % len(style.SERIES_COLOURS)] for i, name in enumerate(names)}
    _bars(left, comparison, rows, colours)
    _trade(right, rows, colours)
    return fig


def _bars(axes: Any, comparison: Comparison, rows: Sequence[Row], colours: dict[str, str]) -> None:
    """One bar per row with its value and its interval; the rows' names stand at the axis."""
    metric = comparison.metric
    unit, values = variable(metric).unit, np.array([row.metrics[metric] for row in rows])
    places = np.arange(len(rows))
    judged = [comparison.trust(row) for row in rows]
    # Both ends of the interval at 90 %, shape [rows, 2].
    ends = np.array([one.interval(value) for one, value in zip(judged, values, strict=True)])
    for place, row, one in zip(places, rows, judged, strict=True):
        axes.barh(
            place, values[place], height=0.72, color=colours[row.hardware], alpha=0.45 if one.extrapolated else 1.0
        )
    axes.hlines(places, ends[:, 0], ends[:, 1], color=style.INK, lw=1.0, alpha=0.6)
    for place, value, end in zip(places, values, ends[:, 1], strict=True):
        axes.text(end, place, f" {labels.amount(float(value), unit)}", va="center", fontsize=8, color=style.INK)
    several = [f"{row.replicas} x " if comparison.rate is not None and row.replicas > 1 else "" for row in rows]
    axes.set_yticks(
        places,
        [
            f"{i}.  {many}{row.devices} x {row.hardware}, {row.layout}  {'s' if row.simulated else 'e'}"
            for i, (row, many) in enumerate(zip(rows, several, strict=True), 1)
        ],
    )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, ends.max() * 1.16)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)
    style.quantity_axis(axes, "x", _words(metric), unit, np.append(ends, 0.0), False)


def _trade(axes: Any, rows: Sequence[Row], colours: dict[str, str]) -> None:
    """Throughput per device over mean TPOT, every row by its rank; of points on each other the best has its number."""
    across, up = (np.array([row.metrics[name] for row in rows]) for name in ("tpot_mean", RATE))
    for rank, (row, x, y) in enumerate(zip(rows, across, up, strict=True), 1):
        axes.scatter(x, y, s=150, color=colours[row.hardware], edgecolor="white", lw=1.0, zorder=3.0 - rank / 100.0)
    for side, values, metric in (("x", across, "tpot_mean"), ("y", up, RATE)):
        style.quantity_axis(axes, side, _words(metric), variable(metric).unit, values)
    axes.set_title("better \u2196", loc="right", fontweight="normal", fontsize=9, color=style.QUIET)
    axes.margins(0.1)
    axes.figure.draw_without_rendering()
    # Places in points, to tell which markers overlap on the page.
    places = axes.transData.transform(np.column_stack([across, up])) * 72.0 / axes.figure.dpi  # points
    for rank, place in enumerate(places, 1):
        # A number is left out where a better row's marker lies over this one.
        if all(np.hypot(*(place - other)) > DIAMETER for other in places[: rank - 1]):
            words = {"ha": "center", "va": "center", "fontsize": 7, "color": "white", "fontweight": "bold"}
            axes.text(across[rank - 1], up[rank - 1], str(rank), zorder=4.0, **words)


def _words(metric: str) -> str:
    words = variable(metric).long_name.partition(":")[0]
    return words[:1].upper() + words[1:]
