"""Random designs: one axis of points that are drawn from all others, the same for the same seed."""

import dataclasses
from typing import Any

import numpy as np

from sweeps.ask.axes import Axis, Choice, Coordinate
from sweeps.ask.quantities import along_range
from sweeps.ask.spec import Range, Spec, range_values


def sampled(axes: tuple[Axis, ...], spec: Spec) -> Axis:
    """One axis of `points` draws from all the given ones: ranges by their scale, lists and names with equal chance."""
    shares = _draws(len(axes), spec)
    columns: dict[str, Any] = {}
    labels = []
    for axis, share in zip(axes, shares.T, strict=True):
        label = axis.coordinates[0]
        pick = np.minimum((share * axis.size).astype(int), axis.size - 1)
        interval = next((spec.axes[path] for path in axis.columns if isinstance(spec.axes.get(path), Range)), None)
        for path, column in axis.columns.items():
            if isinstance(column, Choice):
                columns[path] = Choice(column.items, column.index[pick])
            elif interval is not None:
                columns[path] = along_range(path, range_values(interval, column[0], column[-1], share))  # type: ignore[arg-type]
            else:
                columns[path] = column[pick]
        values = next(iter(columns[path] for path in axis.columns)) if interval is not None else label.values[pick]
        labels.append(dataclasses.replace(label, values=values))
    point = Coordinate("point", np.arange(spec.points), "1", "sample point")
    return Axis("point", spec.points, columns, (point, *labels))


def _draws(dimensions: int, spec: Spec) -> np.ndarray:
    """Points in the unit cube, shape (points, dimensions), the same for the same seed."""
    if spec.method == "random":
        return np.random.default_rng(spec.seed).random((spec.points, dimensions))
    from scipy.stats import qmc  # half a second to import, and only samples need it

    if spec.method == "latin_hypercube":
        return qmc.LatinHypercube(dimensions, rng=np.random.default_rng(spec.seed)).random(spec.points)
    sampler = qmc.Sobol(dimensions, rng=np.random.default_rng(spec.seed))
    return sampler.random_base2(int(np.ceil(np.log2(spec.points))))[: spec.points]
