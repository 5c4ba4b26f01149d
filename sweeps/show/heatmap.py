"""Heat maps: a metric, or the resource that binds, over two axes of a sweep."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.show import style
from sweeps.show.plane import (
    BEYOND_WORDS,
    Plane,
    Positions,
    beyond_handle,
    beyond_there,
    heading,
    map_axes,
    mark_beyond,
    plane,
    positions,
    source_note,
)
from sweeps.show.scatter import bounds, scatter_metric

WRITTEN_ROWS = WRITTEN_COLUMNS = 8
"""Size up to which a map has its numbers written in its cells."""


@style.styled
def heatmap(dataset: xr.Dataset, metric: str, x: str | None = None, y: str | None = None, reduce: str = "best") -> Any:
    """A figure of `metric` over the axes `x` and `y`, its best feasible value or its median over all others.

    Args:
      dataset: of a sweep. A sample is drawn point by point.
      metric: name of a number.
      x, y: axes; by default those that the metric depends on most.
      reduce: "best" or "median".
    """
    x, y = map_axes(dataset, metric, x, y)
    if x is None or y is None:
        raise ValueError("a heat map needs two axes, and the file has fewer; use --kind lines")
    title, details = heading(dataset, metric, (x, y), reduce)
    fig = style.figure(8.0, 5.2, title, details, source_note(dataset))
    axes = fig.add_subplot()
    if labels.is_sample(dataset):
        scatter_metric(fig, axes, dataset, metric, x, y)
    else:
        metric_map(fig, axes, dataset, plane(dataset, metric, x, y, reduce))
    return fig


def metric_map(made: Any, axes: Any, dataset: xr.Dataset, drawn: Plane) -> None:
    """Draw a plane's values as colours, with contours or numbers; its best place is marked, infeasible ones hatched."""
    across, up = positions(dataset, drawn.x), positions(dataset, drawn.up)
    values = drawn.values.astype(float)
    # Values of zero and below have no place on a logarithmic scale of colours.
    finite = values[np.isfinite(values) & (values > 0)]
    # A metric without a direction is drawn as if higher were better.
    higher = variable(drawn.metric).higher_is_better is not False
    _infeasible(axes, across.edges, up.edges, values)
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        low, high = (low, high) if high > low else (low * 0.99, high * 1.01)
        colours, shown = style.colour_scale(low, high, higher), np.ma.masked_invalid(values)
        mesh = axes.pcolormesh(across.edges, up.edges, shown, rasterized=True, **colours)
        words, unit = labels.title(dataset, drawn.metric), labels.unit(dataset, drawn.metric)
        style.colour_bar(made, mesh, axes, words, unit, finite)
        _numbers(axes, dataset, drawn, across, up, values, mesh.norm)
        there = beyond_there(dataset, drawn)
        mark_beyond(axes, across.edges, up.edges, there)
        if there.any():
            axes.set_title(f"dots: {BEYOND_WORDS}", loc="right", fontweight="normal", fontsize=8, color=style.QUIET)
        # The best place over the map, for the star.
        row, column = np.unravel_index(np.nanargmax(values) if higher else np.nanargmin(values), values.shape)
        if not _is_small(values):
            axes.plot(across.at[column], up.at[row], "*", ms=15, mfc="white", mec=style.INK, zorder=5, clip_on=False)
    else:
        axes.text(0.5, 0.5, "nothing is feasible", transform=axes.transAxes, ha="center")
    across.applied(axes, "x")
    up.applied(axes, "y")


def bound_map(axes: Any, dataset: xr.Dataset, drawn: Plane, bound: str) -> None:
    """Draw which resource binds at the best point of every place of a plane; the legend names only what occurs."""
    across, up = positions(dataset, drawn.x), positions(dataset, drawn.up)
    codes = drawn.variable(dataset, bound).astype(int)
    feasible = np.isfinite(drawn.values)
    _infeasible(axes, across.edges, up.edges, drawn.values)
    flags = variable(bound).flags
    palette = style.matplotlib().colors.ListedColormap([style.BOUND_COLOURS[flag] for flag in flags])
    # Cells without a feasible point are hatched behind; a negative code stands for no bound.
    shown = np.ma.masked_where(~feasible | (codes < 0), codes)
    axes.pcolormesh(across.edges, up.edges, shown, cmap=palette, vmin=-0.5, vmax=len(flags) - 0.5, rasterized=True)
    patch = style.matplotlib().patches.Patch
    texts = bounds(bound, codes[feasible])
    handles = [patch(color=style.BOUND_COLOURS[flags[code]], label=text) for code, text in texts.items()]
    if not feasible.all():
        handles.append(patch(facecolor=style.INFEASIBLE, edgecolor=style.QUIET, hatch="////", label="infeasible"))
    there = beyond_there(dataset, drawn)
    if there.any():
        mark_beyond(axes, across.edges, up.edges, there)
        handles.append(beyond_handle())
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3}
    axes.legend(handles=handles, handlelength=1.2, columnspacing=1.2, **below)
    across.applied(axes, "x")
    up.applied(axes, "y")


def _infeasible(axes: Any, across: np.ndarray, up: np.ndarray, values: np.ndarray) -> None:
    """Grey hatching behind the map, which shows where it has no value."""
    axes.margins(0)
    if np.isfinite(values).all():
        return
    axes.fill_between(
        [across[0], across[-1]], up[0], up[-1], facecolor=style.INFEASIBLE, edgecolor=style.QUIET, hatch="////", lw=0
    )


def _numbers(
    axes: Any, dataset: xr.Dataset, drawn: Plane, across: Positions, up: Positions, values: np.ndarray, norm: Any
) -> None:
    """The values themselves: in the cells of a small map, at contour lines of a large one."""
    unit = labels.unit(dataset, drawn.metric)
    if _is_small(values):
        higher = variable(drawn.metric).higher_is_better is not False
        best = np.nanmax(values) if higher else np.nanmin(values)
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                # The scale of colours is dark at one end, which depends on the metric's direction.
                colour = "white" if (norm(value) < 0.5) == higher else style.INK
                said = ("\u2605 " if value == best else "") + labels.amount(float(value), unit)
                axes.text(across.at[column], up.at[row], said, ha="center", va="center", color=colour, fontsize=8)
        return
    # Contours need three positions along both axes.
    if min(values.shape) < 3:
        return
    low, high = norm.vmin, norm.vmax
    # An almost flat map has no round numbers between its extremes.
    if high / low < 1.02:
        return
    # Levels are round in the unit that is shown, not in SI units.
    scale = style.prefix(np.array([low, high]), unit)[1]
    levels = style.round_numbers(low / scale, high / scale, high / low > 5) * scale
    levels = levels[(levels > low) & (levels < high)]
    if len(levels):
        lines = axes.contour(across.at, up.at, np.ma.masked_invalid(values), levels, colors="white", linewidths=0.9)
        said = axes.clabel(lines, fmt=lambda level: labels.amount(level, unit), fontsize=8)
        for text in said:
            # A dark outline keeps white numbers readable on bright colours.
            effects = style.matplotlib().patheffects
            text.set_path_effects([effects.withStroke(linewidth=2, foreground="#00000066")])


def _is_small(values: np.ndarray) -> bool:
    return values.shape[0] <= WRITTEN_ROWS and values.shape[1] <= WRITTEN_COLUMNS
