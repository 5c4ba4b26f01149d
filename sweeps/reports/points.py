"""Feasible points of a sweep in two metrics: their fronts, exactly, and an even sample of the others."""

import dataclasses

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import feasible
from sweeps.show.pareto import front

FRONT = 2000
"""Designs of fronts that are listed at most."""

SAMPLE = 800
"""Designs beside the fronts that can be selected: an even sample, the same every time."""

MOST = 200_000_000
"""Points up to which arrays of all of them fit in the memory of a workstation."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Feasible points of a dataset over the axes that two metrics depend on, flat."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    at: np.ndarray  # position of each feasible point in the flattened axes
    x: np.ndarray
    y: np.ndarray


def feasible_in(dataset: xr.Dataset, x: str, y: str) -> Points:
    """The points of a dataset that can be, and have both metrics.

    Raises:
      ValueError: one line, for more points than `MOST`.
    """
    plain = {name: dataset[name].drop_vars(dataset[name].coords) for name in (x, y)}
    first, second = xr.broadcast(plain[x], plain[y])
    if first.size > MOST:
        raise ValueError(f'it has {first.size:,} points, more than {MOST:,}: sweep it with keep = ["pareto=..."]')
    second = second.transpose(*first.dims)
    mask = feasible(dataset)
    # A point counts where any point along the axes is feasible that neither metric depends on.
    mask = mask.any([dim for dim in mask.dims if dim not in first.dims])
    keep = np.broadcast_to(mask.broadcast_like(first).transpose(*first.dims).values, first.shape).reshape(-1)
    across, up = first.values.reshape(-1), second.values.reshape(-1)
    # Infeasible points may hold infinities or be missing.
    at = np.flatnonzero(keep & np.isfinite(across) & np.isfinite(up))
    return Points(tuple(map(str, first.dims)), first.shape, at, across[at], up[at])


def at_points(array: xr.DataArray, points: Points, chosen: np.ndarray) -> np.ndarray:
    """Values of a variable or coordinate at some of the points; along other axes, at their first position."""
    where = dict(zip(points.dims, np.unravel_index(points.at[chosen], points.shape), strict=True))
    index = tuple(where.get(str(dim), np.zeros(len(chosen), int)) for dim in array.dims)
    # One-dimensional picks: all dimensions are indexed together, as NumPy does.
    return np.asarray(array.values[index]) if array.dims else np.full(len(chosen), array.values[()])


def fronts(dataset: xr.Dataset, points: Points, groups: tuple[str, ...], x: str, y: str) -> dict[str, np.ndarray]:
    """Places of the designs that no other beats, exactly, by the value of the conditions."""
    signs = [-1.0 if variable(name).higher_is_better else 1.0 for name in (x, y)]
    across, up = signs[0] * points.x, signs[1] * points.y
    there = [name for name in groups if dataset[name].dims and str(dataset[name].dims[0]) in points.dims]
    if not there:
        return {"": front(across, up)}
    every = np.arange(points.at.size)
    columns = [at_points(dataset[name], points, every) for name in there]
    kinds, codes = np.unique(
        np.stack([np.unique(one, return_inverse=True)[1] for one in columns]), axis=1, return_inverse=True
    )
    found: dict[str, np.ndarray] = {}
    for code in range(kinds.shape[1]):
        places = np.flatnonzero(codes.reshape(-1) == code)
        texts = [
            f"{labels.short(dataset, name)} {labels.text(dataset, name, one[places[0]])}"
            for name, one in zip(there, columns, strict=True)
        ]
        best = places[front(across[places], up[places])]
        if sum(map(len, found.values())) + len(best) > FRONT:
            break
        found[", ".join(texts)] = best
    return found


def sample(points: Points, found: dict[str, np.ndarray]) -> np.ndarray:
    """Places of an even sample of the points that are on no front, the same every time."""
    on = np.concatenate([*found.values(), np.zeros(0, int)])
    rest = points.at.size - on.size
    if rest <= SAMPLE:
        return np.setdiff1d(np.arange(points.at.size), on)
    picks = np.unique(np.random.default_rng(0).integers(0, points.at.size, SAMPLE))
    return np.setdiff1d(picks, on)
