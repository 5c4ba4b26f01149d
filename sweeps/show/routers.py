"""One load with several routers: where prompt tokens came from, beside the times to first token, a row for each."""

import json
from typing import Any

import numpy as np
import xarray as xr

from sweeps.data.labels import number
from sweeps.show import style

SOURCES = {
    "hbm": ("HBM", "#0072b2"),
    "host": ("host memory", "#56b4e9"),
    "ssd": ("SSD", "#009e73"),
    "remote": ("remote store", "#cc79a7"),
    "again": ("computed again", "#d55e00"),
    "new": ("new, computed", style.CLOUD),
}
"""Sources of prompt tokens: name and colour."""

DARK = ("hbm", "ssd", "again")
"""Sources whose colour is dark enough for white letters."""

WIDE, NARROW = 0.07, 0.03
"""Shares from which a part has room for its number with the unit, and for the number alone."""


@style.styled
def routers(data: xr.Dataset) -> Any:
    """A figure of a dataset that `sweeps.serve` returned for several routers.

    On the left, where the prompt tokens came from; on the right, TTFT from its median to its 99th percentile. Routers
    stand below one another, the one with the least TTFT at p99 first.

    Raises:
      ValueError: for another dataset, or one in which no request finished.
    """
    if "prompt_share" not in data or "router" not in data.dims:
        raise ValueError("a picture of routers is of a dataset that jaxroof serve --router A,B wrote")
    if not (data.finished.values > 0.0).all():
        raise ValueError("with one of the routers no request finished, so there is nothing to draw")
    data = data.isel(router=np.argsort(data.ttft_p99.values, kind="stable"))
    count = data.sizes["router"]
    fig = style.figure(11.0, 1.5 + 0.46 * count, _title(data), _details(data), _source(data))
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=(1.15, 1.0))
    _shares(left, data)
    _times(right, data)
    left.set_yticks(np.arange(count), [str(name) for name in data.router.values], fontsize=10)
    left.set_ylim(count - 0.45, -0.55)
    for axes in (left, right):
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return fig


def _title(data: xr.Dataset) -> str:
    first, last = data.isel(router=0), data.isel(router=-1)
    times = [_seconds(one.ttft_p99) for one in (first, last)]
    again = float(last.prompt_share.sel(source="again"))
    more = f", which computes {100.0 * again:.0f} % of the prompts again" if again >= 0.01 else ""
    return f"TTFT at p99: {times[0]} with {first.router.item()}, {times[1]} with {last.router.item()}{more}"


def _details(data: xr.Dataset) -> str:
    tiers = json.loads(data.attrs["spec"]).get("tiers")
    parts = [f"{data.attrs['model']} on {number(float(data.devices[0]))} x {data.attrs['hardware']}"]
    parts.append(f"{data.sizes['replica_number']} replicas behind a router{f', cache tiers {tiers}' if tiers else ''}")
    return f"{', '.join(parts)}.\n{data.attrs['load']}."


def _source(data: xr.Dataset) -> str:
    return f"engine {data.attrs['engine']}, efficiency {data.attrs['efficiency']}; {data.attrs['stream']}"


def _shares(axes: Any, data: xr.Dataset) -> None:
    """Bars of 100 % each, with the number of every part that is wide enough."""
    axes.set_title("Where prompt tokens came from", pad=24)
    places, start = np.arange(data.sizes["router"]), np.zeros(data.sizes["router"])
    for name in data.source.values.tolist():
        words, colour = SOURCES[name]
        shares = data.prompt_share.sel(source=name).values
        axes.barh(places, shares, 0.66, start, color=colour, label=words, edgecolor="white", lw=0.8)
        for place, share, begin in zip(places, shares, start, strict=True):
            if share >= NARROW:
                text = f"{100.0 * share:.0f}{' %' if share >= WIDE else ''}"
                ink = "white" if name in DARK else style.INK
                axes.text(begin + share / 2.0, place, text, ha="center", va="center", fontsize=9, color=ink)
        start = start + shares
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 0.985), ncols=6, borderpad=0.0, handlelength=0.9, columnspacing=1.2
    )
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks(np.linspace(0.0, 1.0, 5), [f"{share} %" for share in (0, 25, 50, 75, 100)])
    axes.set_xlabel("Share of the prompt tokens of finished requests")


def _times(axes: Any, data: xr.Dataset) -> None:
    """A line from p50 to p99 of TTFT for every router, with both times written beside it."""
    axes.set_title("Time to first token, median to 99th percentile", pad=24)
    middle, high = data.ttft_p50.values, data.ttft_p99.values
    ends = np.array([middle.min() / 3.0, high.max() * 2.6])
    colour = style.SERIES_COLOURS[6]
    for time, words in ((middle[0], "p50"), (high[0], "p99")):
        above = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
        axes.annotate(words, (time, 0), fontsize=9, color=style.QUIET, **above)
    for place, low, far in zip(np.arange(len(middle)), middle, high, strict=True):
        axes.plot([low, far], [place, place], color=style.CLOUD, lw=5, solid_capstyle="round", zorder=1)
        axes.scatter([low], [place], s=52, color="white", edgecolor=colour, lw=1.6, zorder=2)
        axes.scatter([far], [place], s=52, color=colour, zorder=2)
        for time, side, words in ((low, -9, "right"), (far, 9, "left")):
            place_of = {"xytext": (side, 0), "textcoords": "offset points", "va": "center", "ha": words}
            axes.annotate(_seconds(time), (time, place), fontsize=9.5, **place_of)
    style.quantity_axis(axes, "x", "TTFT, logarithmic", "s", ends, True, ends)
    style.grid_behind(axes, "x")


def _seconds(time: Any) -> str:
    """A time in s, as its axis has it: "0.183 s", "38.6 s"."""
    return f"{number(float(time), 3)} s"
