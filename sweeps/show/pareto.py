"""Pareto fronts: the designs of a sweep that no other beats in two metrics at once."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import PAIRS, feasible
from sweeps.data.conditions import conditions, parts
from sweeps.data.keep.parse import unbeaten
from sweeps.show import plane, style
from sweeps.show.plane import distinct, group_axis, picked, source_note

FLAGS = ("feasible", "legal", "fits")

MOST_COLOURS = 8
"""Values of a condition that have a colour each; of more, another axis has colours."""

FEW = 100_000
"""Points from which on a front is first searched in a sample of them, which throws most of the others out."""


@style.styled
def pareto(dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> Any:
    """A figure of the feasible designs in two metrics, with the front of all of them, coloured by one axis."""
    x, y = chosen_pair(dataset, x, y)
    words = f"{labels.title(dataset, x)} against {labels.title(dataset, y)}"
    of = f" of {dataset.attrs['points']:,} designs" if "points" in dataset.attrs else " design"
    names = conditions(dataset)
    details = f"A front per {', '.join(labels.short(dataset, name) for name in names)}." if names else ""
    fig = style.figure(7.5, 5.2, f"What no other{of} beats: {words}", details, source=source_note(dataset))
    pareto_panel(fig.add_subplot(), dataset, x, y)
    return fig


def chosen_pair(dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[str, str]:
    """The two metrics to trade: those given, else of the usual pairs the first that varies."""
    # A sweep that kept a front states its two metrics, which come first.
    stored_pair = tuple(dataset.attrs["pareto"].split(":")) if "pareto" in dataset.attrs else ()
    for first, second in (stored_pair, *PAIRS) if stored_pair else PAIRS:
        here = first in dataset and second in dataset and dataset[first].dims and dataset[second].dims
        if here and x in (None, first) and y in (None, second):
            return first, second
    if x is None or y is None:
        raise ValueError("a Pareto front needs two metrics: give them as --x and --y")
    return x, y


def pareto_panel(axes: Any, dataset: xr.Dataset, x: str, y: str) -> None:
    """Draw all feasible designs faintly, by group, and the front of all of them, over two metrics."""
    names = conditions(dataset)
    # Points of different conditions are told apart first.
    group = next((name for name in names if distinct(dataset[name].values).size <= MOST_COLOURS), group_axis(dataset))
    dims = tuple(dict.fromkeys((*dataset[x].dims, *dataset[y].dims)))
    # A group that the metrics do not depend on has no colours to tell apart.
    if group is not None and dataset[group].dims[0] not in (*dims, *feasible(dataset).dims):
        group = None
    wanted = [name for name in dict.fromkeys((x, y, *FLAGS, *plane.extrapolations(dataset))) if name in dataset]
    dataset = dataset[wanted].load()  # picking groups from the file would read it point by point
    # A front for every value of the conditions, of groups of one colour each.
    fronts = [own for _, part in parts(dataset, names) if (own := _Front.of(part, group, x, y)).clouds]
    clouds = [cloud for own in fronts for cloud in own.clouds]
    if not clouds:
        axes.text(0.5, 0.5, "nothing is feasible", transform=axes.transAxes, ha="center")
        axes.set_axis_off()
        return
    there = {name for name, *_ in clouds}
    order = [name for name, _ in _groups(dataset, group) if name in there]
    colours = dict(zip(order, style.SERIES_COLOURS if group is not None else (style.QUIET,), strict=False))
    for name, across, up in clouds:
        size, alpha = (14, 0.4) if across.size < 1000 else (3, 0.25)
        axes.scatter(across, up, s=size, lw=0, color=colours[name], alpha=alpha, rasterized=True, zorder=1)
    for own in fronts:
        axes.plot(own.across, own.up, color=style.INK, lw=1.2, zorder=3)
        marker = {"ms": 5, "mec": "white", "mew": 0.5} if own.across.size <= 60 else {"ms": 3, "mew": 0}
        for name in dict.fromkeys(own.names):
            here = own.names == name
            axes.plot(own.across[here], own.up[here], "o", **marker, color=colours[name], zorder=4)
            # Hollow markers: designs outside of the evidence of their constants.
            out = here & own.far
            look = {"ms": marker["ms"], "mfc": "white", "mec": colours[name], "mew": 1.0}
            axes.plot(own.across[out], own.up[out], "o", **look, zorder=5)
    for name, colour in colours.items():
        axes.plot([], [], "o", ms=5, mew=0, color=colour, label=name)
    for side, name, i in (("x", x, 1), ("y", y, 2)):
        numbers = np.concatenate([cloud[i] for cloud in clouds])
        style.quantity_axis(axes, side, labels.title(dataset, name), labels.unit(dataset, name), numbers)
    # An arrow to the corner in which both metrics are better.
    arrows = {(True, True): "\u2197", (True, False): "\u2198", (False, True): "\u2196", (False, False): "\u2199"}
    corner = variable(x).higher_is_better is not False, variable(y).higher_is_better is not False
    hollow = f"hollow: {plane.BEYOND_WORDS}   " if any(own.far.any() for own in fronts) else ""
    axes.set_title(f"{hollow}better {arrows[corner]}", loc="right", fontweight="normal", fontsize=9, color=style.QUIET)
    if group is not None:
        axes.legend(loc="best", title=labels.short(dataset, group), title_fontsize=8.5)


@dataclasses.dataclass(frozen=True)
class _Front:
    """Designs of one value of the conditions: clouds of them by group, and the front of all, along the first metric."""

    clouds: list[tuple[str, np.ndarray, np.ndarray]]  # name of the group, and both metrics of some of its designs
    across: np.ndarray
    up: np.ndarray
    far: np.ndarray  # bool: beyond the evidence
    names: np.ndarray  # of the groups

    @classmethod
    def of(cls, dataset: xr.Dataset, group: str | None, x: str, y: str) -> "_Front":
        """The clouds and the front of a dataset."""
        clouds, fronts = [], []
        for name, part in _groups(dataset, group):
            first, second, far = _pairs(part, x, y)
            # A cloud shows some of the points, while its front is searched in all of them.
            if first.size:
                pick = picked(first.size)
                best = front(_lower_better(x, first), _lower_better(y, second))
                clouds.append((name, first[pick], second[pick]))
                fronts.append((first[best], second[best], far[best], np.full(best.size, name, object)))
        if not fronts:
            return cls([], *(np.zeros(0),) * 4)
        # Fronts of the groups together: the front of all is among them.
        across, up, far, names = (np.concatenate([points[i] for points in fronts]) for i in range(4))
        best = front(_lower_better(x, across), _lower_better(y, up))
        return cls(clouds, across[best], up[best], far[best], names[best])


def front(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Positions of the points that no other beats, both numbers being better lower; in the order of `a`.

    Of points that are equal in both, the first stands for all.
    """
    alive = np.arange(a.size)
    if a.size > FEW:
        # A front of some points removes every point that one of them beats.
        some = picked(a.size)
        some = some[unbeaten(a[some], b[some], some)]
        # For every point the sampled one that is next to it from below in the first number.
        left = np.searchsorted(a[some], a, side="right") - 1
        alive = alive[(left < 0) | (b <= b[some][np.maximum(left, 0)])]
    return alive[unbeaten(a[alive], b[alive], alive)]


def _groups(dataset: xr.Dataset, group: str | None) -> list[tuple[str, xr.Dataset]]:
    if group is None:
        return [("", dataset)]
    values, (dim,) = dataset[group].values, dataset[group].dims
    places = {value: np.flatnonzero(values == value) for value in distinct(values)}
    return [(labels.text(dataset, group, value), dataset.isel({dim: at})) for value, at in places.items()]


def _pairs(dataset: xr.Dataset, x: str, y: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both metrics at every feasible point of the axes that either depends on, and whether it is extrapolated; flat."""
    # Coordinates are dropped, as they would be compared and broadcast with the values.
    arrays = xr.broadcast(dataset[x].drop_vars(dataset[x].coords), dataset[y].drop_vars(dataset[y].coords))
    mask = feasible(dataset)
    keep, far = (_spread(one, arrays[0]) for one in (mask, plane.beyond(dataset)))
    first, second = arrays[0].values, arrays[1].transpose(*arrays[0].dims).values
    # Infeasible points may hold infinities or be missing.
    keep = keep & np.isfinite(first) & np.isfinite(second)
    return first[keep], second[keep], far[keep]


def _spread(mask: xr.DataArray, like: xr.DataArray) -> np.ndarray:
    """Whether `mask` holds anywhere over the axes that `like` does not have, in its shape."""
    mask = mask.any([dim for dim in mask.dims if dim not in like.dims])
    return mask.drop_vars(mask.coords).broadcast_like(like).transpose(*like.dims).values


def _lower_better(name: str, values: np.ndarray) -> np.ndarray:
    return -values if variable(name).higher_is_better else values
