"""Elasticities of a metric along the axes of a dataset: its own gradients, or slopes between neighbouring points."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable_attributes
from sweeps.data import labels
from sweeps.data.best import masked, metrics

PREFIX = "elasticity_of_"
"""How the names of elasticities begin."""


def slopes(dataset: xr.Dataset, metric: str) -> xr.Dataset:
    """d ln y / d ln x of a metric y in every number x that the dataset has along an axis.

    Gradients of the model where the dataset holds them. Else, in a grid, slopes between neighbouring points in
    logarithms, one-sided at the ends (`numpy.gradient`); in a sample, the one slope of each number that fits all
    feasible points best (least squares of ln y).

    Args:
      dataset: a grid, a sample, or what `sweeps.sensitivity` has.
      metric: a positive number at feasible points.

    Returns:
      `elasticity_of_<metric>` along `knob`, the names of the numbers, and of a grid over its axes; NaN where a point or
      its neighbour is infeasible.

    Raises:
      ValueError: one line, for a metric that there is not, or no axis of at least two positive numbers.
    """
    name = f"{PREFIX}{metric}"
    if name in dataset:
        return dataset[[name]]
    labels.known(metric, metrics(dataset), "metric that is better high or low,")
    numbers = [axis for axis in labels.axes(dataset) if _is_scale(dataset[axis])]
    if not labels.is_sample(dataset):  # along other axes the metric does not change
        numbers = [axis for axis in numbers if axis in dataset[metric].dims]
    if not numbers:
        raise ValueError(f"{metric} depends on no axis of two positive numbers or more")
    values = masked(dataset, metric)
    values = values.where(values > 0.0)
    found = _fitted if labels.is_sample(dataset) else _between
    array = found(dataset, values.copy(data=np.log(values.values)), numbers)
    attributes = variable_attributes(name, array.dtype)
    attributes["long_name"] += ", between points of the dataset"
    labelled = array.assign_coords(knob=("knob", np.array(numbers, object), {"units": "1", "long_name": "axis"}))
    coordinates = {dim: dataset[dim] for dim in array.dims if dim in dataset.coords}
    found_slopes = labelled.assign_attrs(attributes).assign_coords(coordinates).to_dataset(name=name)
    return found_slopes.assign_attrs(dataset.attrs)


def _is_scale(axis: xr.DataArray) -> bool:
    """Whether an axis has logarithms: at least two different numbers, all positive."""
    if labels.is_text(axis) or axis.dtype.kind == "b":
        return False
    return bool((axis.values > 0).all()) and np.unique(axis.values).size > 1


def _between(dataset: xr.Dataset, logs: xr.DataArray, numbers: list[str]) -> xr.DataArray:
    """Slopes between neighbours of a grid, over `knob` and the axes of the metric."""
    parts = []
    for axis in numbers:
        # In rising order, and once each; then back in the order of the dataset.
        scale, first, back = np.unique(dataset[axis].values.astype(float), return_index=True, return_inverse=True)
        rising = logs.isel({axis: first}).assign_coords({axis: np.log(scale)})
        parts.append(rising.differentiate(axis).drop_vars(axis).isel({axis: back.reshape(-1)}))
    return xr.concat(parts, dim="knob")


def _fitted(dataset: xr.Dataset, logs: xr.DataArray, numbers: list[str]) -> xr.DataArray:
    """Slopes of a plane through the points of a sample, over `knob`."""
    known = np.isfinite(logs.values)
    columns = np.stack([np.log(dataset[name].values[known].astype(float)) for name in numbers], axis=1)
    design: Any = np.column_stack([columns, np.ones(len(columns))])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError(f"{design.shape[0]} feasible points are too few to tell {', '.join(numbers)} apart")
    return xr.DataArray(np.linalg.lstsq(design, logs.values[known], rcond=None)[0][:-1], dims="knob")
