"""A sweep's metric over two of its axes, reduced over all others, and the choice behind each value."""

import dataclasses

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import masked

REDUCTIONS = ("best", "median")

MOST_POINTS = 20_000
"""Points of a sample that are drawn at most: more only hide one another."""


@dataclasses.dataclass(frozen=True)
class Plane:
    """A metric over the axes `y` and `x`; NaN where nothing is feasible."""

    metric: str
    x: str
    y: str | None  # None: over x alone, one row
    values: np.ndarray  # shape (len(y), len(x))
    others: tuple[str, ...]  # the axes that were reduced
    chosen: tuple[np.ndarray, ...] | None  # of a best one: position along each of them, each of shape (len(y), len(x))

    def variable(self, dataset: xr.Dataset, name: str) -> np.ndarray:
        """Another variable at the points that hold the best values, shape (len(y), len(x))."""
        rows, columns = np.indices(self.values.shape)
        where = {self.x: columns, self.y: rows, **dict(zip(self.others, self.chosen or (), strict=False))}
        array = dataset[name]
        return array.values[tuple(where.get(str(dim), np.zeros_like(rows)) for dim in array.dims)]  # type: ignore[misc]


def plane(dataset: xr.Dataset, metric: str, x: str, y: str | None, reduce: str = "best") -> Plane:
    """`metric` over `y` and `x`, its best feasible value or its median over the other axes that it depends on."""
    kept = [dim for dim in (y, x) if dim is not None]
    array = masked(dataset, metric, tuple(kept))
    others = tuple(str(dim) for dim in array.dims if dim not in kept)
    array = array.transpose(*kept, *others)
    shape = tuple(array.sizes[dim] for dim in kept) if y is not None else (1, array.sizes[x])
    flat = array.values.reshape(*shape, -1)
    finite = np.isfinite(flat)
    some = finite.any(axis=-1)
    if reduce == "median":
        values = np.full(shape, np.nan, flat.dtype)
        values[some] = np.nanmedian(flat[some], axis=-1)
        return Plane(metric, x, y, values, others, None)
    higher = variable(metric).higher_is_better
    worst = flat.dtype.type(-np.inf if higher else np.inf)
    filled = np.where(finite, flat, worst)
    index = filled.argmax(axis=-1) if higher else filled.argmin(axis=-1)
    found = np.take_along_axis(filled, index[..., None], axis=-1)[..., 0]
    values = np.where(some, found, np.asarray(np.nan, flat.dtype))
    sizes = tuple(array.sizes[dim] for dim in others)
    chosen = np.unravel_index(index, sizes) if sizes else ()
    return Plane(metric, x, y, values, others, tuple(chosen))


def influence(dataset: xr.Dataset, metric: str) -> dict[str, float]:
    """Variance of the mean of log `metric` along every axis, over the feasible points; the largest first."""
    array = masked(dataset, metric)
    finite = np.isfinite(array.values) & (array.values > 0)
    logs = np.log(np.where(finite, array.values, np.asarray(1.0, array.dtype)))
    found = {}
    pick = picked(logs.size)
    for name in labels.axes(dataset):
        (dim,) = dataset[name].dims
        if dim not in array.dims:
            found[name] = 0.0
        elif labels.is_sample(dataset):
            found[name] = _explained(_bins(dataset[name].values[pick]), logs[pick], finite[pick])
        else:
            rest = tuple(i for i, other in enumerate(array.dims) if other != dim)
            count = finite.sum(axis=rest)
            total = logs.sum(axis=rest, dtype=float)
            means = total[count > 0] / count[count > 0]
            found[name] = float(means.var()) if means.size else 0.0
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def two_axes(dataset: xr.Dataset, metric: str) -> list[str]:
    """Up to two axes to draw a map over, the more influential first; with four numbers or more if any are."""
    ranked = [name for name in influence(dataset, metric) if distinct(dataset[name].values).size > 1]
    numeric = [name for name in ranked if not labels.is_text(dataset[name])]
    fine = [name for name in numeric if distinct(dataset[name].values).size >= 4]
    return [*dict.fromkeys([*fine, *numeric, *ranked])][:2]


def map_axes(dataset: xr.Dataset, metric: str, x: str | None, y: str | None) -> tuple[str | None, str | None]:
    """Axes of a map: those given, else the most influential that are left; None where there are no more."""
    rest = [name for name in two_axes(dataset, metric) if name not in (x, y)]
    x = x or (rest.pop(0) if rest else None)
    return x, y or (rest.pop(0) if rest else None)


def line_axis(dataset: xr.Dataset, metric: str, x: str | None) -> str:
    """The axis given, else the most influential; ValueError of one line where there is none."""
    x = x or next(iter(two_axes(dataset, metric)), None)
    if x is None:
        raise ValueError("the file holds a single point: there is no axis to draw over")
    return x


def group_axis(dataset: xr.Dataset, taken: tuple[str, ...] = (), most: int = 8) -> str | None:
    """The axis to tell apart by colour: what is deployed if that varies, else the one with fewest values."""
    usual = ("tp", "hardware", "model", "weights", "kv", "efficiency", "batch")
    sizes = {name: distinct(dataset[name].values).size for name in labels.axes(dataset) if name not in taken}
    few = [name for name, size in sorted(sizes.items(), key=lambda item: item[1]) if 2 <= size <= most]
    return next((name for name in usual if name in few), few[0] if few else None)


def picked(size: int) -> np.ndarray:
    """Positions of the points of `size` that stand for all, every time the same: all of a few, else many, in order."""
    if size <= MOST_POINTS:
        return np.arange(size)
    return np.unique(np.random.default_rng(0).integers(0, size, MOST_POINTS))


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values among those that stand for all, sorted."""
    return np.unique(values[picked(values.size)])


def _bins(values: np.ndarray) -> np.ndarray:
    """Index of each draw's bin, of some equally full bins; of few distinct draws, the index of the draw."""
    n = min(32, max(4, values.size // 64))  # with few points to a bin, chance would look like influence
    kinds, codes = np.unique(values, return_inverse=True)
    return codes if kinds.size <= n else codes * n // kinds.size


def _explained(codes: np.ndarray, logs: np.ndarray, finite: np.ndarray) -> float:
    count = np.bincount(codes, finite)
    total = np.bincount(codes, np.where(finite, logs, 0.0))
    return float((total[count > 0] / count[count > 0]).var()) if finite.any() else 0.0
