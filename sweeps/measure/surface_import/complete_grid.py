"""Complete rectilinear grids from rows: missing points, repeated points, and the largest part without holes."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from hwspaces.performance.surface import SurfaceTable
from sweeps.measure.surface_import.kernel_rows import KernelRows

SCATTERED = 0.5
"""Below that share of pairs (n, k) that were measured, a benchmark's products are a list, not a grid."""


@dataclasses.dataclass
class Dropped:
    """Numbers of rows that were left out, by reason."""

    duplicates: int = 0
    impossible: int = 0
    holes: int = 0


def tables(rows: KernelRows, drop: bool, holes: str, dropped: Dropped, name: str) -> Iterator[SurfaceTable]:
    """The tables that `rows` make: one grid; of products with scattered weights, one of every weight matrix.

    Args:
      rows: of one kind and one set of labels.
      drop: leave out shapes that are there twice and count them, rather than refuse them.
      holes: what happens to shapes that are missing: refuse; drop positions until the grid is complete; keep them
        missing.
      dropped: is added to.
      name: of the table.

    Raises:
      ValueError: one line that names file and row: a shape is there twice, or the grid has holes.
    """
    rows = without_duplicates(rows, drop, dropped)
    parts = _by_matrix(rows) if rows.kind == "linear" and _scattered(rows) else {name: rows}
    for own, part in ((own if own == name else f"{name}_{own}", part) for own, part in parts.items()):
        axes, seconds = grid(part)
        missing = np.isnan(seconds)
        if missing.any() and holes == "refuse":
            first = np.unravel_index(int(np.argmax(missing)), missing.shape)
            where = zip(first, axes.items(), strict=True)
            place = ", ".join(f"{axis} {values[i]:g}" for i, (axis, values) in where)
            raise ValueError(
                f"{part.file}: rows {part.lines[0]} to {part.lines[-1]}: {own} has holes: "
                f"{int(missing.sum())} of {missing.size} shapes are missing, the first {place}; "
                "--drop keeps a complete part, --keep-holes all"
            )
        if holes == "drop":
            axes, seconds = complete(axes, seconds)
            dropped.holes += int((~missing).sum()) - seconds.size
        yield SurfaceTable(own, part.kind, part.precision, axes, seconds, part.labels)


def without_duplicates(rows: KernelRows, drop: bool, dropped: Dropped) -> KernelRows:
    """The first of rows with one shape; ValueError names the second where nothing may be dropped."""
    shapes = np.stack(list(rows.axes.values()), axis=1)
    _, first, place = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[place.ravel()] != np.arange(len(rows)))
    if len(again) and not drop:
        earlier = rows.lines[first[place.ravel()[again[0]]]]
        raise ValueError(f"{rows.place(again[0])}: the shape is there already in row {earlier}; --drop keeps the first")
    dropped.duplicates += len(again)
    return rows.chosen(np.sort(first))


def grid(rows: KernelRows) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Positions of every axis, and times over all of them, not a number where there is none."""
    axes, index = {}, []
    for name, values in rows.axes.items():
        axes[name], own = np.unique(values, return_inverse=True)
        index.append(own.ravel())
    seconds = np.full(tuple(map(len, axes.values())), np.nan)
    seconds[tuple(index)] = rows.seconds
    return axes, seconds


def complete(axes: dict[str, np.ndarray], seconds: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A part of the grid without holes: positions go, one after the other, that have most holes for what they hold."""
    axes = dict(axes)
    while np.isnan(seconds).any():
        holes, best = np.isnan(seconds), (0.0, 0, 0)
        for dimension in range(seconds.ndim):
            others = tuple(i for i in range(seconds.ndim) if i != dimension)
            missing = holes.sum(axis=others)
            held = (~holes).sum(axis=others)
            share = missing / np.maximum(held, 0.5)
            best = max(best, (float(share.max()), dimension, int(share.argmax())))
        _, dimension, position = best
        seconds = np.delete(seconds, position, axis=dimension)
        name = list(axes)[dimension]
        axes[name] = np.delete(axes[name], position)
    return axes, seconds


def _scattered(rows: KernelRows) -> bool:
    """Whether the weight matrices of products are a list rather than a grid."""
    n, k = rows.axes["n"], rows.axes["k"]
    pairs = len(np.unique(np.stack([n, k], axis=1), axis=0))
    return pairs < SCATTERED * len(np.unique(n)) * len(np.unique(k))


def _by_matrix(rows: KernelRows) -> dict[str, KernelRows]:
    pairs = np.stack([rows.axes["n"], rows.axes["k"]], axis=1)
    unique, place = np.unique(pairs, axis=0, return_inverse=True)
    return {f"{n:g}x{k:g}": rows.chosen(place.ravel() == i) for i, (n, k) in enumerate(unique)}
