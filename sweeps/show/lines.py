"""Lines: a metric along one axis of a sweep, one line per value of another."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.data import labels
from sweeps.show import style
from sweeps.show.plane import group_axis, line_axis, plane
from sweeps.show.positions import positions
from sweeps.show.scatter import scatter_series
from sweeps.show.wording import heading, source_note

MOST_LINES = 8
"""Lines that are drawn at most; of more positions, evenly spread ones."""


@style.styled
def lines(dataset: xr.Dataset, metric: str, x: str | None = None, y: str | None = None, reduce: str = "best") -> Any:
    """A figure of `metric` along the axis `x`, one line per value of the axis `y`.

    Args:
      dataset: of a sweep. A sample is drawn point by point.
      metric: name of a number.
      x: axis; by default the one that the metric depends on most.
      y: axis whose values are told apart by colour; by default one with few values, if any.
      reduce: over all other axes, "best" feasible or "median".
    """
    x = line_axis(dataset, metric, x)
    y = y or group_axis(dataset, taken=(x,))
    title, details = heading(dataset, metric, (x, y), reduce)
    made = style.figure(7.5, 4.8, title, details, source_note(dataset))
    axes = made.add_subplot()
    if labels.is_sample(dataset):
        scatter_series(axes, dataset, metric, x, y)
    else:
        line_panel(axes, dataset, metric, x, y, reduce)
    return made


def line_panel(axes: Any, dataset: xr.Dataset, metric: str, x: str, y: str | None, reduce: str = "best") -> None:
    """Draw the lines, with gaps where nothing is feasible."""
    drawn = plane(dataset, metric, x, y, reduce)
    across, values = positions(dataset, x), drawn.values.astype(float)
    for row, colour in zip(style.evenly(len(values), MOST_LINES), style.SERIES_COLOURS, strict=False):
        name = None if y is None else labels.text(dataset, y, dataset[y].values[row])
        marker = "o" if len(across.at) <= 40 else None
        axes.plot(across.at, values[row], marker=marker, ms=4, lw=1.7, color=colour, label=name, clip_on=False)
    across.applied(axes, "x")
    finite = values[np.isfinite(values) & (values > 0)]
    unit = labels.unit(dataset, metric)
    words = labels.title(dataset, metric)
    axes.set_ylabel(style.quantity_label(words, unit, values))
    if finite.size:
        low, high = finite.min(), finite.max()
        log = bool(high / low > 8)
        limits = (low / 1.1, high * 1.1) if log else (0.0, high * 1.05)
        style.quantity_axis(axes, "y", words, unit, values, log, limits)
    style.grid_behind(axes)
    if y is not None:
        axes.legend(title=labels.short(dataset, y), title_fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
