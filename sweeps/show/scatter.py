"""Pictures of a sample: its points over two drawn numbers, coloured by a metric or the resource that binds."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import masked
from sweeps.show import style
from sweeps.show.plane import distinct, group_axis, heading, line_axis, picked, plane, positions, source_note


def scatter_metric(made: Any, axes: Any, dataset: xr.Dataset, metric: str, x: str, y: str) -> None:
    """Draw feasible points over the columns `x` and `y`, coloured by `metric`, the best on top; others in grey."""
    values = masked(dataset, metric).broadcast_like(dataset["point"]).values.astype(float)
    pick = picked(values.size)
    across, up = _column(axes, dataset, x, "x"), _column(axes, dataset, y, "y")
    finite = np.isfinite(values) & (values > 0)
    out = pick[~finite[pick]]
    axes.scatter(across[out], up[out], s=7, marker="x", lw=0.5, color=style.CLOUD, rasterized=True)
    if not finite.any():
        return
    higher = variable(metric).higher_is_better is not False
    inside = pick[finite[pick]]
    inside = inside[np.argsort(values[inside] if higher else -values[inside], kind="stable")]
    low, high = float(values[finite].min()), float(values[finite].max())
    colours = style.colour_scale(low, high, higher)
    dots = axes.scatter(across[inside], up[inside], s=9, lw=0, c=values[inside], rasterized=True, **colours)
    # The star marks the best of all points, whether drawn or not.
    best = np.nanargmax(np.where(finite, values, np.nan)) if higher else np.nanargmin(np.where(finite, values, np.nan))
    axes.plot(across[best], up[best], "*", ms=15, mfc="white", mec=style.INK, mew=1.0, zorder=5, clip_on=False)
    words, unit = labels.title(dataset, metric), labels.unit(dataset, metric)
    style.colour_bar(made, dots, axes, words, unit, values[finite])


def scatter_bound(axes: Any, dataset: xr.Dataset, metric: str, bound: str, x: str, y: str) -> None:
    """Draw feasible points over two columns, coloured by what binds them."""
    finite = np.isfinite(masked(dataset, metric).broadcast_like(dataset["point"]).values)
    codes = dataset[bound].broadcast_like(dataset["point"]).values.astype(int)
    pick = picked(finite.size)
    pick = pick[finite[pick]]
    across, up = _column(axes, dataset, x, "x"), _column(axes, dataset, y, "y")
    texts = bounds(bound, codes[finite])
    for code, text in texts.items():
        here, colour = pick[codes[pick] == code], style.BOUND_COLOURS[variable(bound).flags[code]]
        axes.scatter(across[here], up[here], s=9, lw=0, color=colour, label=text, rasterized=True)
    if texts:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, markerscale=2.2, handletextpad=0.1)


def bounds(bound: str, codes: np.ndarray) -> dict[int, str]:
    """Code of every resource that binds somewhere -> its name and share: "hbm (61 %)"; the most frequent first."""
    # A negative code stands for no bound.
    shares = {int(code): (codes == code).mean() for code in np.unique(codes) if code >= 0}
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return {code: f"{variable(bound).flags[code]} ({100 * share:.0f} %)" for code, share in ordered}


def scatter_series(axes: Any, dataset: xr.Dataset, metric: str, x: str, group: str | None) -> None:
    """Draw `metric` of the feasible points along the column `x`, coloured by `group` if that has few values."""
    values = masked(dataset, metric).broadcast_like(dataset["point"]).values.astype(float)
    pick = picked(values.size)
    pick = pick[np.isfinite(values[pick]) & (values[pick] > 0)]
    across = _column(axes, dataset, x, "x")
    kinds = distinct(dataset[group].values) if group is not None else np.array([])
    # A colour for each value, as long as there are enough of them.
    if group is not None and 0 < kinds.size <= len(style.SERIES_COLOURS):
        for kind, colour in zip(kinds, style.SERIES_COLOURS, strict=False):
            here = pick[dataset[group].values[pick] == kind]
            name = labels.text(dataset, group, kind)
            axes.scatter(across[here], values[here], s=7, lw=0, alpha=0.5, color=colour, label=name, rasterized=True)
        legend = axes.legend(title=labels.short(dataset, group), title_fontsize=8.5, markerscale=2.5)
        for handle in legend.legend_handles:
            # Entries of the legend are opaque, unlike the points.
            handle.set_alpha(1.0)
    else:
        axes.scatter(across[pick], values[pick], s=7, lw=0, alpha=0.5, color=style.SERIES_COLOURS[0], rasterized=True)
    words, unit = labels.title(dataset, metric), labels.unit(dataset, metric)
    style.quantity_axis(axes, "y", words, unit, values[pick])


def _column(axes: Any, dataset: xr.Dataset, name: str, side: str) -> np.ndarray:
    """Numbers to plot a column at; names are spread a little around their places. Scales and labels the axis."""
    column, words = dataset[name], labels.title(dataset, name)
    kinds = distinct(column.values)
    # Names and numbers with few values are drawn at counted places.
    if labels.is_text(column) or kinds.size <= 8:
        kinds, codes = np.unique(column.values, return_inverse=True)
        texts = [labels.text(dataset, name, value) for value in kinds]
        getattr(axes, f"set_{side}label")(style.quantity_label(words, "", codes))
        getattr(axes, f"set_{side}ticks")(np.arange(kinds.size), texts)
        # Points of one value are spread by up to 0.3 of a place, always in the same way.
        return codes + np.random.default_rng(1).uniform(-0.3, 0.3, codes.size)
    values = column.values.astype(float)
    style.quantity_axis(axes, side, words, labels.unit(dataset, name), values)
    return values


# Lines: a metric along one axis of a sweep, one line per value of another.


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
    fig = style.figure(7.5, 4.8, title, details, source_note(dataset))
    axes = fig.add_subplot()
    if labels.is_sample(dataset):
        scatter_series(axes, dataset, metric, x, y)
    else:
        line_panel(axes, dataset, metric, x, y, reduce)
    return fig


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
        # A range above a factor of eight needs a logarithmic axis.
        log = bool(high / low > 8)
        limits = (low / 1.1, high * 1.1) if log else (0.0, high * 1.05)
        style.quantity_axis(axes, "y", words, unit, values, log, limits)
    style.grid_behind(axes)
    if y is not None:
        axes.legend(title=labels.short(dataset, y), title_fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
