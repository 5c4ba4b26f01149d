"""Pictures of a sample: its points over two drawn numbers, coloured by a metric or the resource that binds."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import masked
from sweeps.show import style
from sweeps.show.subset import distinct, picked


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
    colors, log = style.matplotlib().colors, high / low > 5
    norm = colors.LogNorm(low, high) if log else colors.Normalize(low, high)
    colours = {"c": values[inside], "norm": norm, "cmap": "viridis" if higher else "viridis_r"}
    dots = axes.scatter(across[inside], up[inside], s=9, lw=0, rasterized=True, **colours)
    best = np.nanargmax(np.where(finite, values, np.nan)) if higher else np.nanargmin(np.where(finite, values, np.nan))
    axes.plot(across[best], up[best], "*", ms=15, mfc="white", mec=style.INK, mew=1.0, zorder=5, clip_on=False)
    unit = labels.unit(dataset, metric)
    bar = made.colorbar(dots, ax=axes, pad=0.02, fraction=0.06, aspect=28)
    bar.set_label(style.quantity_label(labels.title(dataset, metric), unit, values[finite]))
    style.scaled_ticks(bar.ax.yaxis, np.array([low, high]), unit, log)
    bar.outline.set_visible(False)


def scatter_bound(axes: Any, dataset: xr.Dataset, metric: str, bound: str, x: str, y: str) -> None:
    """Draw feasible points over two columns, coloured by what binds them."""
    finite = np.isfinite(masked(dataset, metric).broadcast_like(dataset["point"]).values)
    codes = dataset[bound].broadcast_like(dataset["point"]).values.astype(int)
    pick = picked(finite.size)
    pick = pick[finite[pick]]
    across, up = _column(axes, dataset, x, "x"), _column(axes, dataset, y, "y")
    flags = variable(bound).flags
    shares = {code: (codes[finite] == code).mean() for code in np.unique(codes[finite]) if code >= 0}
    for code, share in sorted(shares.items(), key=lambda item: -item[1]):
        here = pick[codes[pick] == code]
        name = f"{flags[code]} ({100 * share:.0f} %)"
        colour = style.BOUND_COLOURS[flags[code]]
        axes.scatter(across[here], up[here], s=9, lw=0, color=colour, label=name, rasterized=True)
    if shares:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, markerscale=2.2, handletextpad=0.1)


def scatter_series(axes: Any, dataset: xr.Dataset, metric: str, x: str, group: str | None) -> None:
    """Draw `metric` of the feasible points along the column `x`, coloured by `group` if that has few values."""
    values = masked(dataset, metric).broadcast_like(dataset["point"]).values.astype(float)
    pick = picked(values.size)
    pick = pick[np.isfinite(values[pick]) & (values[pick] > 0)]
    across, unit = _column(axes, dataset, x, "x"), labels.unit(dataset, metric)
    kinds = distinct(dataset[group].values) if group is not None else np.array([])
    if 0 < kinds.size <= len(style.SERIES_COLOURS):
        for kind, colour in zip(kinds, style.SERIES_COLOURS, strict=False):
            here = pick[dataset[group].values[pick] == kind]
            name = labels.text(dataset, group, kind)
            axes.scatter(across[here], values[here], s=7, lw=0, alpha=0.5, color=colour, label=name, rasterized=True)
        legend = axes.legend(title=labels.short(dataset, group), title_fontsize=8.5, markerscale=2.5)
        for handle in legend.legend_handles:
            handle.set_alpha(1.0)
    else:
        axes.scatter(across[pick], values[pick], s=7, lw=0, alpha=0.5, color=style.SERIES_COLOURS[0], rasterized=True)
    axes.set_ylabel(style.quantity_label(labels.title(dataset, metric), unit, values[pick]))
    log = bool(pick.size and values[pick].max() / values[pick].min() > 5)
    axes.set_yscale("log" if log else "linear")
    style.scaled_ticks(axes.yaxis, values[pick], unit, log)


def _column(axes: Any, dataset: xr.Dataset, name: str, side: str) -> np.ndarray:
    """Numbers to plot a column at; names are spread a little around their places. Scales and labels the axis."""
    column, axis = dataset[name], getattr(axes, f"{side}axis")
    words, unit = labels.title(dataset, name), labels.unit(dataset, name)
    kinds = distinct(column.values)
    if labels.is_text(column) or kinds.size <= 8:
        kinds, codes = np.unique(column.values, return_inverse=True)
        texts = [labels.text(dataset, name, value) for value in kinds]
        getattr(axes, f"set_{side}label")(words[:1].upper() + words[1:])
        axis.set_ticks(np.arange(kinds.size), texts)
        return codes + np.random.default_rng(1).uniform(-0.3, 0.3, codes.size)
    values = column.values.astype(float)
    log = bool((values > 0).all() and values.max() / values.min() > 5)
    getattr(axes, f"set_{side}label")(style.quantity_label(words, unit, values))
    getattr(axes, f"set_{side}scale")("log" if log else "linear")
    style.scaled_ticks(axis, values, unit, log)
    return values
