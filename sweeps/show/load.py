"""Capacities of accelerators, and TTFT, TPOT and throughput against the load in requests per s."""

from typing import Any

import numpy as np
import xarray as xr

from hwspaces import formatted
from sweeps.ask.names import STATES
from sweeps.data import labels
from sweeps.show import style

MOST_CURVES = 8
"""Accelerators whose curves are drawn: the best, one colour each."""

MOST_BARS = 30

_ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}

PANELS = (("ttft", "TTFT"), ("tpot", "TPOT"), ("tokens_per_second_per_device", "output tokens/s per device"))


@style.styled
def load(dataset: xr.Dataset) -> Any:
    """A figure of `sweeps.serving.capacity.dataset`, or of a latency curve, whose accelerators are in their order.

    On the left the capacity per device of every accelerator, where there are any; on the right, over the load, the
    median and the 99th percentile of TTFT and TPOT, and throughput, of the first accelerators.
    """
    # A closed loop is over numbers of clients, an open one over requests/s.
    axis = "concurrency" if "concurrency" in dataset.dims else "rate"
    words = "clients" if axis == "concurrency" else "requests/s"
    name = "client_capacity" if axis == "concurrency" else "capacity"
    names = [str(one) for one in dataset["hardware"].values]
    title, details = _heading(dataset, name, names, words)
    source = f"{dataset.attrs.get('source', '')}; {dataset.attrs.get('requests', '')}"
    fig = style.figure(10.5 if name in dataset else 7.0, 7.6, title, details, source)
    if name in dataset:
        left, right = fig.subfigures(1, 2, width_ratios=(1.0, 1.45))
        _bars(left.add_subplot(), dataset, name, names, words)
    else:
        right = fig
    panels = right.subplots(3, 1, sharex=True)
    shown = [i for i in range(len(names)) if np.isfinite(dataset["ttft_p50"].values[i]).any()][:MOST_CURVES]
    for panel, (metric, label) in zip(panels, PANELS, strict=True):
        _curves(panel, dataset, axis, metric, label, shown)
    # Empty lines make the entries of the legend: a colour each, then a style for each percentile.
    for i, colour in zip(shown, style.SERIES_COLOURS, strict=False):
        panels[0].plot([], [], color=colour, lw=1.8, label=names[i])
    panels[0].plot([], [], color=style.QUIET, lw=1.8, label="median")
    panels[0].plot([], [], color=style.QUIET, lw=1.0, ls="--", label="99th percentile")
    panels[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, fontsize=8, borderaxespad=0.2)
    loads = dataset[axis].values.astype(float)
    panels[-1].set_xscale("log")
    style.scaled_ticks(panels[-1].xaxis, loads, "1", log=True)
    panels[-1].set_xlabel(f"{words} sent to each (all its devices together)")
    return fig


def _heading(dataset: xr.Dataset, name: str, names: list[str], words: str) -> tuple[str, str]:
    model = dataset.attrs.get("title", "").partition(":")[0]
    if name not in dataset:
        return f"{model}: latency and throughput as load rises", ""
    target = f"Target: {dataset.attrs['target']}."
    capacities = dataset[f"{name}_per_device"].values
    if not np.isfinite(capacities).any():
        return f"{model}: no accelerator keeps the target even at the lowest load", target
    # A capacity is only a bound where every load that was tried keeps the target.
    bounds = [one for one, state in zip(names, dataset["state"].values, strict=True) if STATES[int(state)] == "more"]
    if bounds:
        top = labels.number(float(dataset["concurrency" if name.startswith("client") else "rate"].values[-1]))
        return f"{model}: {_listed(bounds)} keep the target at every load tried, up to {top} {words}", target
    best = int(np.nanargmax(capacities))
    amount = labels.number(float(capacities[best]))
    return f"{model}: {names[best]} takes the most load per device, {amount} {words}", target


def _listed(names: list[str]) -> str:
    """Names in a title: all of few, the number of many."""
    return f"{len(names)} accelerators" if len(names) > 3 else " and ".join(names)


def _bars(axes: Any, dataset: xr.Dataset, name: str, names: list[str], words: str) -> None:
    """Capacity per device of every accelerator, best on top; grey where its curve is not drawn."""
    values = dataset[f"{name}_per_device"].values.astype(float)[:MOST_BARS]
    devices, states = dataset["devices"].values, dataset["state"].values
    places = np.arange(len(values))
    colours = [style.SERIES_COLOURS[i] if i < MOST_CURVES else style.CLOUD for i in places]
    axes.barh(places, np.nan_to_num(values), color=colours, height=0.7)
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    for i, value in zip(places, values, strict=True):
        more = "at least " if STATES[int(states[i])] == "more" else ""
        text = f"{more}{labels.number(value)}" if np.isfinite(value) else "keeps it at no load tried"
        axes.text((value if np.isfinite(value) else 0.0) + 0.015 * top, i, text, va="center", fontsize=8)
    axes.set_yticks(places, [f"{int(n)} x {one}" for n, one in zip(devices, names, strict=False)][: len(values)])
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(0.0, top * 1.18)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"capacity in {words} per device")
    if len(names) > MOST_BARS:
        axes.set_title(f"the best {MOST_BARS} of {len(names)}", fontsize=8.5)


def _curves(axes: Any, dataset: xr.Dataset, axis: str, metric: str, label: str, shown: list[int]) -> None:
    """One quantity over the load: the median, and dashed the 99th percentile, up to far above the limit."""
    loads = dataset[axis].values.astype(float)
    latency = metric in ("ttft", "tpot")
    drawn = []
    for i, colour in zip(shown, style.SERIES_COLOURS, strict=False):
        for name, look in ((f"{metric}_p50", "-"), (f"{metric}_p99", "--")) if latency else ((metric, "-"),):
            values = dataset[name].values[i].astype(float)
            axes.plot(loads, values, color=colour, ls=look, lw=1.8 if look == "-" else 1.0)
            drawn.append(values)
    values = np.concatenate(drawn) if drawn else np.ones(1)
    # Zero and infinity have no place on a logarithmic axis.
    values = values[np.isfinite(values) & (values > 0.0)]
    unit = "s" if latency else "1"
    axes.set_ylabel(style.quantity_label(label, unit, values) if values.size else label)
    axes.set_yscale("log" if latency else "linear")
    if values.size:
        # A factor at both ends of a logarithmic axis, zero and some room for a linear one.
        limits = (
            np.array([values.min() / 1.15, values.max() * 1.15]) if latency else np.array([0.0, values.max() * 1.05])
        )
        axes.set_ylim(*limits)
        style.scaled_ticks(axes.yaxis, limits, unit, log=latency)
    style.grid_behind(axes)
    # Limits of this latency among the attributes: limit_ttft, or limit_ttft_p99 for a percentile.
    for attribute, value in dataset.attrs.items():
        if latency and attribute.startswith(f"limit_{metric}"):
            axes.axhline(value, color=style.INK, lw=1.0, ls=":")
            of = attribute.removeprefix("limit_").partition("_")[2]
            words = f"limit {of + ' ' if of else ''}{formatted(value, 's')}"
            axes.annotate(
                words,
                (loads[0], value),
                (2, 2),
                textcoords="offset points",
                fontsize=7.5,
                color=style.INK,
                bbox=_ON_WHITE,
            )
