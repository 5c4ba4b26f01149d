"""Picture of a comparison: its best rows as bars, and the latency that throughput costs them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.run.evidence import extrapolated
from sweeps.show import style
from sweeps.studies.compare.ranking import RATE
from sweeps.studies.compare.static import StaticCandidate, StaticComparison

MOST = 40
"""Bars that can be told apart on one page."""


@style.styled
def ranking(comparison: StaticComparison, rows: Sequence[StaticCandidate]) -> Any:
    """A figure of `rows`, best first: bars of the metric they are sorted by; beside them TPOT against throughput.

    Raises:
      ValueError: when there is no row to draw.
    """
    rows = rows[:MOST]
    if not rows:
        raise ValueError("nothing is feasible: there is nothing to draw")
    best, words = rows[0], labels.words(comparison.metric)
    better = "higher" if variable(comparison.metric).higher_is_better else "lower"
    title = f"{best.devices} x {best.hardware} ({best.layout}) is best for {comparison.model.name}"
    work = comparison.dataset.attrs.get("title", "").partition(" of ")[0]
    details = f"{words[:1].upper()}{words[1:]} at every row's best batch, {better} is better."
    if any(extrapolated(row.metrics) for row in rows):
        details += " Pale: beyond the evidence of the constants."
    source = f"{comparison.points:,} points of a {work}, weights {comparison.model.precision}, "
    source += f"KV cache {comparison.kv}, efficiency {comparison.efficiency}; {comparison.dataset.attrs['source']}"
    fig = style.figure(11.0, 1.2 + 0.24 * max(len(rows), 10), title, details, source)
    left, right = fig.subplots(1, 2, width_ratios=(1.25, 1.0))
    names = list(dict.fromkeys(row.hardware for row in rows))
    colours = {name: style.SERIES_COLOURS[i % len(style.SERIES_COLOURS)] for i, name in enumerate(names)}
    _bars(left, rows, comparison.metric, colours)
    _trade(right, rows, colours)
    return fig


def _bars(axes: Any, rows: Sequence[StaticCandidate], metric: str, colours: dict[str, str]) -> None:
    """One bar per row with its value; the rows' names stand at the axis."""
    unit, values = variable(metric).unit, np.array([row.metrics[metric] for row in rows])
    places = np.arange(len(rows))
    bars = axes.barh(places, values, height=0.72, color=[colours[row.hardware] for row in rows])
    # Pale bars rest on constants outside of their evidence.
    for bar, row in zip(bars, rows, strict=True):
        bar.set_alpha(0.45 if extrapolated(row.metrics) else 1.0)
    for place, value in zip(places, values, strict=True):
        axes.text(value, place, f" {labels.amount(float(value), unit)}", va="center", fontsize=8, color=style.INK)
    axes.set_yticks(
        places, [f"{i}.  {r.devices} x {r.hardware}, {r.layout}, batch {r.batch}" for i, r in enumerate(rows, 1)]
    )
    # The first row at the top: the axis runs downwards.
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, values.max() * 1.16)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)
    style.quantity_axis(axes, "x", _words(metric), unit, np.append(values, 0.0), False)


def _trade(axes: Any, rows: Sequence[StaticCandidate], colours: dict[str, str]) -> None:
    """Throughput per device over TPOT, every row by its rank."""
    across, up = (np.array([row.metrics[name] for row in rows]) for name in ("tpot", RATE))
    axes.scatter(across, up, s=150, color=[colours[row.hardware] for row in rows], alpha=0.9, lw=0)
    for rank, (x, y) in enumerate(zip(across, up, strict=True), 1):
        axes.text(x, y, str(rank), ha="center", va="center", fontsize=7, color="white", fontweight="bold")
    for side, values, metric in (("x", across, "tpot"), ("y", up, RATE)):
        style.quantity_axis(axes, side, _words(metric), variable(metric).unit, values)
    # Low TPOT and high throughput are both good: the arrow points to the upper left.
    axes.set_title("better \u2196", loc="right", fontweight="normal", fontsize=9, color=style.QUIET)
    axes.margins(0.1)


def _words(metric: str) -> str:
    return variable(metric).long_name.partition(":")[0]
