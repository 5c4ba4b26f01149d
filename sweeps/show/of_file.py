"""Pictures of a sweep's file: of a kind, over axes and of a metric by their names; its best device's floor plan."""

import importlib
import pathlib
from collections.abc import Sequence
from typing import Any

import xarray as xr

from sweeps.data import labels
from sweeps.data.best import best
from sweeps.data.conditions import NONE, conditions
from sweeps.data.keep.rows import as_sample
from sweeps.data.opened import opened
from sweeps.data.shards.manifest import read
from sweeps.data.shards.read import is_folder
from sweeps.run.device_at import device_at
from sweeps.show.floorplan import floorplan
from sweeps.show.overview import default_metric, metric_name, selected
from sweeps.show.plane import REDUCTIONS, best_sentence, group_axis, held, line_axis, map_axes

MODULES = {"lines": "scatter"}
"""Kind -> the module of its function, where it has another name."""

KINDS = ("overview", "heatmap", "lines", "pareto", "breakdown", "spread", "speculation", "splits", "routers")
"""Kinds of pictures of a dataset."""

WHOLE = ("speculation", "splits", "routers")
"""Kinds that draw all of a file, and choose nothing in it."""


def usual_kind(file: str | None) -> str:
    """The kind of picture that a sweep is drawn as where nobody says which: what it kept, where that is little."""
    if file is None or not is_folder(file):
        return "overview"
    # What the sweep kept of its points, as its manifest states it.
    keep_words = " ".join(map(str, read(pathlib.Path(file)).header["keep"]))
    return "pareto" if "pareto" in keep_words else "overview" if "top" in keep_words or not keep_words else "spread"


def is_sweep(file: str | None) -> bool:
    """Whether a name is that of a sweep's file or folder."""
    return file is not None and (file.endswith(".nc") or is_folder(file))


def picture(
    file: str,
    kind: str,
    x: str | None = None,
    y: str | None = None,
    metric: str | None = None,
    at: Sequence[str] | None = None,
    reduce: str | None = None,
    per: str | None = None,
) -> Any:
    """A figure of a sweep's file.

    Args:
      file: of a sweep, or its folder.
      kind: overview, heatmap, lines, pareto, breakdown, spread, speculation, splits or routers; the overview of a file
        of several routers is the last one.
      x, y: axes; of a Pareto front, metrics.
      metric: what is drawn, and by what a design is best; None: the first of what readers ask for.
      at: "AXIS=VALUE": only there.
      reduce: one of `REDUCTIONS`, over the other axes; None: the best.
      per: axes that are conditions, with commas: fronts are per value of each, and what shows no axis of them is drawn
        at the first value. None: the model and the numbers of its traffic; "none": every axis is a freedom.

    Raises:
      ValueError: one line, for a name that the file does not have, or a file without what is drawn.
    """
    with opened(file) as stored:
        return drawn(stored, kind, x, y, metric, at, reduce, per, file)


def drawn(
    stored: xr.Dataset,
    kind: str = "overview",
    x: str | None = None,
    y: str | None = None,
    metric: str | None = None,
    at: Sequence[str] | None = None,
    reduce: str | None = None,
    per: str | None = None,
    name: str = "the dataset",
) -> Any:
    """A figure of a sweep's dataset; arguments as of `picture`, and the dataset's name in errors."""
    how, places = labels.known(reduce or "best", REDUCTIONS, "reduction"), list(at or ())
    kind = "routers" if kind == "overview" and "prompt_share" in stored else kind
    drawing = getattr(importlib.import_module(f"sweeps.show.{MODULES.get(kind, kind)}"), kind)
    if kind == "spread":
        return drawing(stored)
    if kind in WHOLE:
        return drawing(selected(stored, places))
    # A sweep that kept some points is drawn as a sample of them.
    points = as_sample(stored)
    if points is None:
        raise ValueError(f"{name} kept counts of points, not points: --kind spread draws them")
    dataset = _asked(selected(points, places), per)
    if kind == "pareto":
        # Names of metrics for a front, of axes for every other picture.
        return drawing(dataset, *(name and metric_name(dataset, name) for name in (x, y)))
    axes = [name and labels.known(name, labels.axes(dataset), "axis") for name in (x, y)]
    if axes[0] and axes[0] == axes[1]:
        raise ValueError(f"--x and --y are both {axes[0]}")
    by = _metric(dataset, metric)
    if how == "best":
        dataset = held(dataset, _shown(dataset, kind, by, axes[0], axes[1]))
    if kind == "breakdown":
        return drawing(dataset, axes[0], by, how)
    return drawing(dataset, by, *axes) if kind == "overview" else drawing(dataset, by, *axes, how)


def _asked(dataset: xr.Dataset, per: str | None) -> xr.Dataset:
    """The dataset with the conditions that are asked for as those of its own."""
    return dataset if per is None else dataset.assign_attrs(per=", ".join(conditions(dataset, per)) or NONE)


def _shown(dataset: xr.Dataset, kind: str, metric: str, x: str | None, y: str | None) -> tuple[str | None, ...]:
    """Axes that a picture has."""
    if kind in ("overview", "heatmap"):
        return map_axes(dataset, metric, x, y)
    x = line_axis(dataset, metric, x)
    return (x,) if kind == "breakdown" else (x, y or group_axis(dataset, taken=(x,)))


def best_floorplan(file: str, metric: str | None = None, at: Sequence[str] = (), per: str | None = None) -> Any:
    """The floor plan of the device of a sweep's or an optimisation's best design; arguments as of `picture`."""
    with opened(file) as stored:
        points = as_sample(stored)
        if points is None:
            raise ValueError(f"{file} kept counts of points, not points: it has no best design")
        dataset = selected(points, list(at))
        if "design" in dataset.dims:  # an optimisation's, the best first
            varied = [str(name) for name, label in dataset.coords.items() if label.dims == ("design",)]
            values = (labels.text(dataset, name, dataset[name].values[0]) for name in varied)
            pairs = zip(varied, values, strict=True)
            where = ", ".join(f"{labels.short(dataset, name)} {text}" for name, text in pairs)
            return floorplan(*device_at(dataset, {"design": 0}), f"Best design, {dataset.attrs['title']}: {where}.")
        dataset = held(_asked(dataset, per), ())
        by = _metric(dataset, metric)
        point = best(dataset, by)
        if point is None:
            raise ValueError(f"{file}: no design is feasible")
        title, where = best_sentence(dataset, by)
        return floorplan(*device_at(dataset, point.position), f"{title}. {where}")


def _metric(dataset: xr.Dataset, name: str | None) -> str:
    return metric_name(dataset, name) if name else default_metric(dataset)
