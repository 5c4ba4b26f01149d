"""Feasible points of a sweep, and the best of them by one metric. Nothing is broadcast to the whole grid."""

import dataclasses
import math

import numpy as np
import xarray as xr

from sweeps.ask.names import VARIABLES, variable
from sweeps.data import labels

OWNING = "owning_usd_per_million_tokens"

KEY_METRICS = {
    "request": ("tokens_per_second_per_device", "tpot", "ttft", "usd_per_million_tokens", OWNING),
    "serve": ("tokens_per_second_per_device", "goodput", "ttft_p99", "tpot_p50", "usd_per_million_tokens"),
    "step": ("tokens_per_second_per_device", "step_time", "usd_per_million_tokens", OWNING),
}
"""Metrics that a reader asks for first, by job; the cost of owning where there is no price that varies."""

PAIRS = (
    ("tokens_per_second_per_request", "tokens_per_second_per_device"),
    ("tpot", "tokens_per_second_per_device"),
    ("ttft", "tpot"),
    ("step_time", "tokens_per_second_per_device"),
    ("step_time", "mfu"),
    ("tpot_p50", "tokens_per_second_per_device"),
)
"""Pairs of metrics worth trading: what a user sees against what an owner gets. The first that varies is the default."""


@dataclasses.dataclass(frozen=True)
class Best:
    """The best feasible point by one metric."""

    metric: str
    value: float
    position: dict[str, int]  # along every axis; along those that the metric does not depend on, the first feasible


def metrics(dataset: xr.Dataset) -> tuple[str, ...]:
    """Variables that are better higher or lower, over the axes only: what a best point can be asked of."""
    names = []
    for name, array in dataset.data_vars.items():
        # Ops of a breakdown are no deployments, so that none of them can be a best point.
        plain = not any(labels.is_op_dimension(str(dim)) for dim in array.dims)
        if name in VARIABLES and VARIABLES[name].higher_is_better is not None and plain:
            names.append(str(name))
    return tuple(names)


def key_metrics(dataset: xr.Dataset) -> tuple[str, ...]:
    """The metrics of most interest that the dataset has and that vary in it; else whatever does."""
    wanted = [name for name in KEY_METRICS.get(dataset.attrs.get("job", ""), ()) if name in dataset]
    found = [name for name in wanted or metrics(dataset) if dataset[name].dims]
    return tuple(name for name in found if name != OWNING or "usd_per_million_tokens" not in found)


def feasible(dataset: xr.Dataset) -> xr.DataArray:
    """True where a deployment can be and fits, over as few axes as that depends on; all true where nothing says so."""
    mask = xr.DataArray(True)
    # `feasible` is both conditions in one; a dataset without it may have either of them.
    for name in ("feasible",) if "feasible" in dataset else ("legal", "fits"):
        if name in dataset:
            mask = mask & dataset[name].astype(bool)
    return mask.drop_vars(mask.coords)


def feasible_points(dataset: xr.Dataset) -> tuple[int, int]:
    """(feasible points, all points)."""
    points = math.prod(size for dim, size in dataset.sizes.items() if not labels.is_op_dimension(str(dim)))
    mask = feasible(dataset)
    # The mask spans only the axes that it depends on: each of its points stands for equally many of the grid.
    return int(mask.sum()) * (points // mask.size), points


def masked(dataset: xr.Dataset, metric: str, over: tuple[str, ...] = ()) -> xr.DataArray:
    """`metric` over its axes and those of `over`; NaN where no point along all other axes is feasible."""
    array, mask = dataset[metric], feasible(dataset)
    array = array if array.dtype.kind == "f" else array.astype(float)  # only real numbers have a NaN
    extra = [dim for dim in over if dim not in array.dims]
    dims = (*array.dims, *extra)
    # A point along `dims` counts where any point along all other axes is feasible.
    inside = mask.any([dim for dim in mask.dims if dim not in dims])
    # Axes of size 1 stand for those that values or mask do not vary along: nothing is copied to the whole grid.
    values = array.values.reshape(array.shape + (1,) * len(extra))
    if not inside.values.all():
        sizes = [dataset.sizes[dim] if dim in inside.dims else 1 for dim in dims]
        order = [dim for dim in dims if dim in inside.dims]
        values = np.where(inside.transpose(*order).values.reshape(sizes), values, np.asarray(np.nan, values.dtype))
    return xr.DataArray(np.broadcast_to(values, [dataset.sizes[dim] for dim in dims]), dims=dims)


def best(dataset: xr.Dataset, metric: str) -> Best | None:
    """The best feasible point by `metric`; None when there is none."""
    array = masked(dataset, metric)
    index = best_index(array.values.reshape(-1), metric)
    if index < 0:
        return None
    where = dict(zip(array.dims, np.unravel_index(index, array.shape), strict=True))
    # Along axes that the metric does not depend on, the first feasible position.
    mask = feasible(dataset)
    rest = mask.isel({dim: where[dim] for dim in mask.dims if dim in where})
    first = dict(zip(rest.dims, np.unravel_index(int(rest.values.reshape(-1).argmax()), rest.shape), strict=True))
    place = {str(dim): int(where.get(dim, first.get(dim, 0))) for dim in dataset.dims}
    position = {dim: at for dim, at in place.items() if not labels.is_op_dimension(dim)}
    return Best(metric, float(array.values.reshape(-1)[index]), position)


def best_index(values: np.ndarray, metric: str) -> int:
    """Position of the best finite number of a flat array; -1 when there is none."""
    finite = np.isfinite(values)
    if not finite.any():
        return -1
    return int(np.nanargmax(values) if variable(metric).higher_is_better else np.nanargmin(values))


def coordinates(dataset: xr.Dataset, point: Best) -> dict[str, str]:
    """Coordinates of a point: axes that vary or are held at one value -> the value there, as text with its unit."""
    held = [str(name) for name, label in dataset.coords.items() if not label.dims]
    texts = {name: labels.text(dataset, name, dataset[name].values[()]) for name in held}
    for name in labels.axes(dataset):
        (dim,) = dataset[name].dims
        texts[name] = labels.text(dataset, name, dataset[name].values[point.position[str(dim)]])
    return texts
