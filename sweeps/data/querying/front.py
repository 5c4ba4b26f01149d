"""The Pareto front of a dataset in two metrics: the feasible points that no other beats in both."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import feasible, metrics
from sweeps.data.conditions import Groups, conditions
from sweeps.data.keep.parse import unbeaten
from sweeps.data.keep.rows import lower_better
from sweeps.data.querying.run import points_of, rows_at


def front(dataset: xr.Dataset, x: str, y: str, per: str | Sequence[str] | None = None) -> xr.Dataset:
    """Points of the front along `row`, in the order of `x` from its best: all variables, and axes as coordinates.

    Args:
      dataset: of a sweep, a grid or a sample.
      x, y: metrics, each better high or low as its declaration says.
      per: axes that are conditions, of each of whose values there is a front: as of `sweeps.query`.

    Raises:
      ValueError: one line, for a name that there is not, or that is better neither high nor low.
    """
    for name in (x, y):
        labels.known(name, metrics(dataset), "metric that is better high or low,")
    names, shape = conditions(dataset, per), points_of(dataset)
    mask = feasible(dataset)
    # Axes that decide nothing are left at their first position, so that nothing is copied along them.
    deciding = {*dataset[x].dims, *dataset[y].dims, *mask.dims, *(dim for name in names for dim in dataset[name].dims)}
    axes = {dim: size if dim in deciding else 1 for dim, size in shape.items()}
    possible = _along(mask, axes)
    keys = [
        np.where(possible, lower_better(_along(dataset[name], axes), bool(variable(name).higher_is_better)), np.inf)
        for name in (x, y)
    ]
    first, second = (key.reshape(-1).astype(float) for key in keys)
    # Numbers of the points in the whole dataset, whose last axis is fastest.
    along = np.unravel_index(np.arange(first.size), list(axes.values())) if axes else ()
    numbers = np.ravel_multi_index(along, list(shape.values())) if axes else np.zeros(1, np.int64)
    groups = Groups.of(dataset, shape, names).numbers(numbers)
    chosen = []
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        chosen.append(numbers[own[unbeaten(first[own], second[own], numbers[own])]])
    return rows_at(dataset, np.concatenate(chosen), shape)


def _along(array: xr.DataArray, axes: dict[str, int]) -> np.ndarray:
    """Values over all of some axes, of size 1 where the axes have one position here."""
    order = [dim for dim in axes if dim in array.dims]
    values = array.transpose(*order).values
    values = values[tuple(slice(None) if dim in order else np.newaxis for dim in axes)]
    return np.broadcast_to(values, list(axes.values()))
