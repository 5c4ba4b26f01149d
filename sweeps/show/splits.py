"""The best split between prefill and decode over the load: its devices, and the latencies of each split."""

from typing import Any

import numpy as np
import xarray as xr

from hwspaces import formatted
from sweeps.show import style

MOST_LINES = 8
"""Splits that are drawn at most: those that are best at some load, then evenly spread ones."""


@style.styled
def splits(dataset: xr.Dataset) -> Any:
    """A figure of `sweeps.studies.splits.splits`.

    On the left the share of the devices that prefill in the best split, over the load; on the right TTFT and TPOT of
    the splits over the load, as far as they keep up, with their limits.
    """
    if "best_split" not in dataset:
        raise ValueError("a picture of splits is of a file that `jaxroof disaggregate --devices N -o FILE.nc` wrote")
    loads, best = dataset["load"].values, dataset["best_split"].values
    names, prefill = dataset["split"].values, dataset["prefill_devices"].values
    share = prefill / (prefill + dataset["decode_devices"].values)
    title, details = _heading(dataset)
    source = f"jaxroof, efficiency {dataset.attrs['efficiency']}; mean latencies, random arrivals"
    fig = style.figure(10.0, 5.0, title, details, source)
    left, right = fig.subfigures(1, 2, width_ratios=(1.0, 1.25))
    axes = left.add_subplot()
    # A negative index: no split keeps up with this load.
    known = best >= 0
    shown = np.where(known, share[np.maximum(best, 0)], np.nan)
    axes.plot(loads, shown, drawstyle="steps-mid", lw=1.8, color=style.CLOUD)
    drawn = _drawn(best, len(names))
    colours = dict(zip(drawn, style.SERIES_COLOURS, strict=False))
    # Splits that are best at some load, from low loads to high ones.
    for split in dict.fromkeys(best[known].tolist()):
        at = np.flatnonzero(best == split)
        colour = colours.get(split, style.QUIET)  # no line of it is drawn
        axes.plot(loads[at], shown[at], "o", ms=5, color=colour)
        # The name stands at the middle of the loads at which this split is best.
        middle = at[len(at) // 2]
        axes.annotate(
            str(names[split]),
            (loads[middle], shown[middle]),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=colour,
            fontweight="bold",
        )
    if not known.all():
        axes.axvspan(loads[~known][0], loads[-1], color=style.INFEASIBLE, lw=0)
        axes.text(loads[~known][0], 0.02, " no split", fontsize=8, color=style.QUIET)
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("share of the devices that prefill")
    axes.set_title("best split, prefill:decode replicas")
    panels = right.subplots(2, 1, sharex=True)
    for panel, metric, label in zip(panels, ("ttft", "tpot"), ("TTFT", "TPOT"), strict=True):
        _latency(panel, dataset, metric, label, colours)
    panels[1].legend(title="prefill:decode", loc="center left", bbox_to_anchor=(1.0, 0.6))
    for bottom in (axes, panels[-1]):
        bottom.set_xlabel("requests/s, all devices together")
        bottom.set_xlim(0.0, loads[-1] * 1.02)
    return fig


def _drawn(best: np.ndarray, count: int) -> list[int]:
    """Splits to draw, in their order."""
    # Splits that are best anywhere, thinned evenly if there are too many.
    best_splits = np.array(list(dict.fromkeys(best[best >= 0].tolist())), int)
    chosen = best_splits[
        np.unique(np.linspace(0, max(len(best_splits) - 1, 0), MOST_LINES).round().astype(int)[: len(best_splits)])
    ]
    chosen = chosen.tolist()
    for split in style.evenly(count, MOST_LINES).tolist():
        if len(chosen) < MOST_LINES and split not in chosen:
            chosen.append(split)
    return sorted(chosen)


def _latency(axes: Any, dataset: xr.Dataset, metric: str, label: str, colours: dict[int, str]) -> None:
    loads = dataset["load"].values
    # From full use on, queues grow without bound and latencies have no mean.
    values = np.where(dataset["split_use"].values < 1.0, dataset[metric].values, np.nan)
    for split, colour in colours.items():
        axes.plot(loads, values[split], color=colour, lw=1.5, label=str(dataset["split"].values[split]))
    limit = dataset.attrs.get(f"limit_{metric}")
    finite = values[list(colours)]
    finite = finite[np.isfinite(finite)]
    high = float(finite.max()) if finite.size else 1.0
    if limit is not None:
        axes.axhline(limit, color=style.INK, lw=1.0, ls=":")
        axes.annotate(f"limit {formatted(limit, 's')}", (0.0, limit), (2, 2), textcoords="offset points", fontsize=7.5)
        # The axis ends at twice the limit: latencies close to full use would flatten the rest.
        high = min(high, 2.0 * limit)
    limits = np.array([0.0, max(high, limit or 0.0) * 1.08])
    style.quantity_axis(axes, "y", label, "s", limits, False, limits)
    style.grid_behind(axes)


def _heading(dataset: xr.Dataset) -> tuple[str, str]:
    best, loads = dataset["best_split"].values, dataset["load"].values
    details = f"{dataset.attrs['requests']}, {dataset.attrs['replicas']}"
    if dataset.attrs["target"]:
        details += f"; {dataset.attrs['target']}"
    if not (best >= 0).any():
        return f"{dataset.attrs['title']}: none keeps up", details
    last = int(np.flatnonzero(best >= 0)[-1])
    name = dataset["split"].values[best[last]]
    return f"{dataset.attrs['title']}: up to {loads[last]:.3g} requests/s, then as {name}", details
