"""Values of scattered shapes on a grid over all of them: exact where one was measured, interpolated elsewhere."""

from collections.abc import Sequence

import numpy as np

MOST_NODES = 1 << 18
"""Nodes of a grid: positions go from the longest axis until there are no more. Ours: 1 MB in a program."""

SAME = 1e-4
"""Octaves below which two positions are one: rounding of products and quotients of whole numbers."""

ALL_AT_ONCE = 600
"""Points up to which radial functions of all of them are used; of more, means of the nearest."""

NEIGHBOURS = 8
"""Points that such a mean is of."""


NEARLY = 0.3
"""By what share the nearest points that are found may be farther than the nearest: a search for them takes a third as
long."""


def grid_axes(points: np.ndarray, most: int = MOST_NODES) -> list[np.ndarray]:
    """Positions of every axis of a grid over `points`, increasing: all there are, or fewer of a long axis.

    Args:
      points: octaves, shape [points, axes].
      most: nodes of the grid.
    """
    axes = []
    for column in points.T:
        values = np.unique(column)
        # Of positions that rounding alone tells apart the first stays.
        axes.append(values[np.concatenate([[True], np.diff(values) > SAME])])
    while np.prod([float(len(axis)) for axis in axes]) > most:
        longest = int(np.argmax([len(axis) for axis in axes]))
        inner = axes[longest]
        # The inner position whose neighbours are closest together is missed least.
        axes[longest] = np.delete(inner, 1 + int(np.argmin(inner[2:] - inner[:-2])))
    return axes


def gridded(points: np.ndarray, values: np.ndarray, axes: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Values and gaps on the grid of `axes`, in its shape.

    A node at a measured point has its value, the mean where there are several. Another one on a line of the grid
    between two of these is linear between them, the mean over such lines; those that remain are interpolated by radial
    functions of all points (`scipy.interpolate.RBFInterpolator`), or weighted by 1 / distance^(axes + 1) of the nearest
    points where these are many.

    Args:
      points: octaves, shape [points, axes].
      values: shape [points].
      axes: of the grid, octaves.

    Returns:
      Values, and the octaves to the nearest point, the largest of all axes: 0 at and between measured nodes.
    """
    points, values = _merged(points, values)
    shape = tuple(map(len, axes))
    index = [np.clip(_nearest_place(axis, column), 0, None) for axis, column in zip(axes, points.T, strict=True)]
    at = np.all(
        [np.abs(axis[i] - column) <= SAME for axis, i, column in zip(axes, index, points.T, strict=True)], axis=0
    )
    grid = np.full(shape, np.nan)
    grid[tuple(i[at] for i in index)] = values[at]
    grid = _between(grid, axes)
    gaps, missing = np.zeros(shape), np.isnan(grid)
    if missing.any():
        places = np.nonzero(missing)
        nodes = np.stack([axis[place] for axis, place in zip(axes, places, strict=True)], axis=1)
        grid[places], gaps[places] = _scattered(points, values, nodes)
    return grid, gaps


def _merged(points: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each point once, with the mean of its values."""
    rounded = np.round(points / SAME) * SAME
    _, first, place = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    place = place.ravel()
    return points[first], np.bincount(place, weights=values) / np.bincount(place)


def _nearest_place(axis: np.ndarray, positions: np.ndarray) -> np.ndarray:
    above = np.clip(np.searchsorted(axis, positions), 1, max(len(axis) - 1, 1))
    if len(axis) == 1:
        return np.zeros(len(positions), int)
    return np.where(positions - axis[above - 1] <= axis[above] - positions, above - 1, above)


def _between(grid: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
    """The grid with what lies on a line between two known nodes, linear between them."""
    total, count = np.zeros(grid.shape), np.zeros(grid.shape)
    for dimension, axis in enumerate(axes):
        lines = np.moveaxis(grid, dimension, -1).reshape(-1, len(axis))
        own = lines.copy()
        for line in np.flatnonzero(np.isnan(lines).any(axis=1) & ((~np.isnan(lines)).sum(axis=1) > 1)):
            known = ~np.isnan(lines[line])
            own[line] = np.interp(axis, axis[known], lines[line, known], left=np.nan, right=np.nan)
        moved = np.moveaxis(grid, dimension, -1).shape
        own = np.moveaxis(own.reshape(moved), -1, dimension)
        total += np.nan_to_num(own)
        count += ~np.isnan(own)
    return np.where(np.isnan(grid) & (count > 0), total / np.maximum(count, 1.0), grid)


def _scattered(points: np.ndarray, values: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values at `nodes` from all points, and octaves to the nearest of them."""
    from scipy.interpolate import RBFInterpolator
    from scipy.spatial import cKDTree

    octaves, which = cKDTree(points).query(nodes, k=min(NEIGHBOURS, len(points)), eps=NEARLY)
    octaves, which = octaves.reshape(len(nodes), -1), which.reshape(len(nodes), -1)
    gaps = np.full(len(nodes), np.inf)
    for neighbour in which.T:
        gaps = np.minimum(gaps, np.abs(points[neighbour] - nodes).max(axis=1))
    # Axes along which the points do not differ are no dimensions of them.
    differ = np.ptp(points, axis=0) > SAME
    if len(points) > ALL_AT_ONCE or len(points) < 3 or not differ.any():
        weights = np.maximum(octaves, SAME) ** -(1.0 + differ.sum())
        return np.sum(weights * values[which], axis=1) / np.sum(weights, axis=1), gaps
    # Nodes beyond the points along an axis have the value at the nearest position of the axis.
    inside = np.clip(nodes, points.min(axis=0), points.max(axis=0))[:, differ]
    function = RBFInterpolator(points[:, differ], values, kernel="linear", degree=0)
    # No farther from the model than any point is.
    return np.clip(function(inside), values.min(), values.max()), gaps
