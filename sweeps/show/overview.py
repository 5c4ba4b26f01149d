"""The default picture of a sweep: its good designs, the resources that bind them, and their trade-offs."""

from typing import Any

import numpy as np
import xarray as xr

from hwspaces import quantity
from hwspaces.quantities.units import nearest
from sweeps.data import labels
from sweeps.data.best import key_metrics, metrics
from sweeps.show import style
from sweeps.show.heatmap import bound_map, metric_map
from sweeps.show.pareto import chosen_pair, pareto_panel
from sweeps.show.plane import heading, map_axes, plane, source_note
from sweeps.show.scatter import line_panel, scatter_bound, scatter_metric, scatter_series

BOUNDS = {"ttft": "prefill_bound", "step_time": "bound"}
"""Which variable says what binds, by metric; decode for the others of a request."""


@style.styled
def overview(dataset: xr.Dataset, metric: str | None = None, x: str | None = None, y: str | None = None) -> Any:
    """A figure of up to three panels: a metric over its two most influential axes, what binds there, a Pareto front.

    Args:
      dataset: of a sweep.
      metric: what is good; by default the first of what readers ask for.
      x, y: axes of the maps.
    """
    metric = metric or default_metric(dataset)
    x, y = map_axes(dataset, metric, x, y)
    if x is None:
        raise ValueError("the file holds a single point: there is nothing to draw over")
    # The bound of the step that decides the metric, else that of any step there is.
    names = (BOUNDS.get(metric), "decode_bound", "bound", "prefill_bound")
    bound = next((name for name in names if name in dataset), None) if y is not None else None
    pair = _pair(dataset)
    panels = 1 + (bound is not None) + (pair is not None)
    title, details = heading(dataset, metric, (x, y), "best")
    details = details.replace("At every place", "In maps, at every place")
    fig = style.figure(0.6 + 4.9 * panels, 4.6, title, details, source_note(dataset))
    axes = iter(fig.subplots(1, panels, squeeze=False)[0])
    first, second = next(axes), next(axes) if bound is not None else None
    if y is None:
        panel = scatter_series if labels.is_sample(dataset) else line_panel
        panel(first, dataset, metric, x, None)
    elif labels.is_sample(dataset):
        scatter_metric(fig, first, dataset, metric, x, y)
        if bound is not None:
            scatter_bound(second, dataset, metric, bound, x, y)
    else:
        # One reduction over the other axes serves both maps.
        drawn = plane(dataset, metric, x, y)
        metric_map(fig, first, dataset, drawn)
        if bound is not None:
            bound_map(second, dataset, drawn, bound)
    first.set_title("Best design at each place")
    if bound is not None and second is not None:
        step = bound.removesuffix("bound").strip("_")
        second.set_title(f"Resource that binds {step} there" if step else "Binding resource there")
    if pair is not None:
        third = next(axes)
        pareto_panel(third, dataset, *pair)
        third.set_title("Trade-off of both metrics")
    return fig


def default_metric(dataset: xr.Dataset) -> str:
    """The metric of most interest; ValueError when nothing in the dataset is better higher or lower."""
    names = key_metrics(dataset)
    if not names:
        raise ValueError("no variable of the file is better higher or lower, or none varies: name one with --metric")
    return names[0]


def _pair(dataset: xr.Dataset) -> tuple[str, str] | None:
    try:
        return chosen_pair(dataset)
    except ValueError:
        return None


# The part of a sweep that a picture is of: some axes held at one value, and the metric by name.


def selected(dataset: xr.Dataset, places: list[str]) -> xr.Dataset:
    """`dataset` at each `AXIS=VALUE` of `places`: the value on the axis that is nearest, on its scale.

    Of a sample, only the points with that name or number.

    Raises:
      ValueError: one line, for an unknown axis or name, a wrong unit, an axis given twice, a value beyond the axis,
        or a number between those that were drawn.
    """
    held: set[str] = set()
    for place in places:
        name, equals, text = (part.strip() for part in place.partition("="))
        if not (name and equals and text):
            raise ValueError(f"--at {place!r} must be AXIS=VALUE, such as tp=8")
        if name in held:
            raise ValueError(f"--at {name} is given twice")
        labels.known(name, labels.axes(dataset), "axis")
        held.add(name)
        # A sample has several coordinates over one dimension of points.
        (dim,) = dataset[name].dims
        dataset = dataset.isel({dim: _places(dataset, name, text)})
    return dataset


def metric_name(dataset: xr.Dataset, name: str) -> str:
    """`name` when it is a number that can be better or worse; else ValueError with the nearest ones."""
    return labels.known(name, metrics(dataset), "metric")


def _places(dataset: xr.Dataset, name: str, text: str) -> int | np.ndarray:
    """Position of a value on an axis; of a sample, those of all points that have it."""
    values, sample = dataset[name].values, labels.is_sample(dataset)
    if labels.is_text(dataset[name]):
        known = list(dict.fromkeys(map(str, values)))
        if text not in known:
            # Names must match exactly; numbers take the nearest place.
            raise ValueError(f"--at {name}={text} is not on the axis{nearest(text, known)}")
        return np.flatnonzero(values == text) if sample else [str(value) for value in values].index(text)
    value = quantity(text, labels.unit(dataset, name), f"--at {name}")
    # In a sample all points with this number count, up to rounding.
    if sample:
        matches = np.flatnonzero(np.isclose(values, value, rtol=1e-6))
        if not matches.size:
            raise ValueError(f"--at {name}={text}: no point of the sample has this value")
        return matches
    # On an axis the value may lie between its positions, but not beyond its ends.
    low, high = float(values.min()), float(values.max())
    if not low * (1 - 1e-6) <= value <= high * (1 + 1e-6):
        shown = [labels.text(dataset, name, end) for end in (low, high)]
        raise ValueError(f"--at {name}={text} is beyond the axis, which runs from {shown[0]} to {shown[1]}")
    # The nearest position by ratio where all values are positive, else by difference.
    return int(np.abs(np.log(values / value) if low > 0 else values - value).argmin())
