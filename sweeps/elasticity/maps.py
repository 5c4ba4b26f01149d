"""Elasticities at every point of a grid or sample: where a knob matters, and where something else takes over."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from sweeps.axes import Axis, Segment, blocks
from sweeps.dataset import coordinates, variable_attributes
from sweeps.elasticity.gradient import QUICK, metric_names, slopes
from sweeps.elasticity.knobs import Knob
from sweeps.elasticity.labelled import knob_coordinates
from sweeps.jobs import Job, Scenario
from sweeps.paths import leaf_paths
from sweeps.point import scenario_at

CHUNK = 16384
"""Points of one call: their buffers stay in a cache of some MB per op."""


def maps(
    job: Job,
    base: Scenario,
    axes: tuple[Axis, ...],
    knobs: Sequence[Knob],
    names: Sequence[str],
    attributes: dict[str, Any],
    progress: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """Elasticities of metrics `names` in `knobs` at every point of `axes`, and the metrics themselves.

    In the precision that JAX is in. A point whose structure lacks a knob or a metric has NaN there, and so has one
    whose metric is not positive. A knob may be one of the axes.

    Returns:
      Variables `elasticity_of_<metric>` with dimensions (knob, axes ...), and the metrics with those of the axes.
    """
    dims, shape = tuple(axis.name for axis in axes), tuple(axis.size for axis in axes)
    values = {name: np.full(shape, np.nan) for name in names}
    found = {name: np.full((len(knobs), *shape), np.nan) for name in names}
    for combination in blocks(axes):
        index = np.ix_(*(segment.positions for segment in combination))
        sizes = tuple(len(segment.positions) for segment in combination)
        metrics, elasticities = _block(job, base, combination, [knob.path for knob in knobs], names, progress)
        for name in metrics:
            values[name][index] = metrics[name].reshape(sizes)
            for i, column in enumerate(elasticities[name]):
                found[name][i][index] = column.reshape(sizes)
    variables = {name: (dims, column, variable_attributes(name, column.dtype)) for name, column in values.items()}
    for name, column in found.items():
        label = f"elasticity_of_{name}"
        variables[label] = (("knob", *dims), column, variable_attributes(label, column.dtype))
    labels = coordinates(axes, {}) | knob_coordinates(knobs)
    return xr.Dataset(variables, labels, attributes)


def _block(
    job: Job,
    base: Scenario,
    combination: tuple[Segment, ...],
    paths: list[str],
    names: Sequence[str],
    progress: Callable[[int], None],
) -> tuple[dict[str, np.ndarray], dict[str, list[np.ndarray]]]:
    """Metrics and elasticities at every point of a block, flat, the last axis fastest."""
    shape = [len(segment.positions) for segment in combination]
    places = np.indices(shape).reshape(len(shape), -1)
    points = int(np.prod(shape))
    settings = [
        jax.tree.map(lambda column, i=i: np.asarray(column, float)[places[i]] if np.ndim(column) else column, s)
        for i, s in enumerate(segment.settings for segment in combination)
    ]
    varies = jax.tree.map(lambda column: 0 if np.ndim(column) else None, settings)
    one = scenario_at(base, jax.tree.map(lambda column: column[0] if np.ndim(column) else column, settings))
    known = set(leaf_paths(one))
    here = [path for path in paths if path in known]
    there = set(metric_names(job, one))
    wanted = tuple(name for name in names if name in there)

    def slopes_at(settings, direction):
        values, found, _ = slopes(job, wanted)(scenario_at(base, settings), direction)
        return values, found

    lanes = bool(jax.tree.leaves(varies))
    along = jax.jit(jax.vmap(slopes_at, in_axes=(varies, None)) if lanes else slopes_at, compiler_options=QUICK)
    size = min(CHUNK, points)
    metrics = {name: np.empty(points) for name in wanted}
    found = {name: [np.full(points, np.nan) for _ in paths] for name in wanted}
    for low in range(0, points, size):
        low = min(low, points - size)  # the last chunk is as long as the others
        part = _part(settings, slice(low, low + size))
        for path in here or [""]:  # values come with any direction
            direction = {other: np.float64(other == path) for other in here}
            values, along_path = jax.device_get(along(part, direction))
            for name, column in values.items():
                metrics[name][low : low + size] = column
                if here:
                    slope = np.where(column > 0.0, along_path[name], np.nan) / np.where(column > 0.0, column, 1.0)
                    found[name][paths.index(path)][low : low + size] = slope
        progress(size)
    return metrics, found


def _part(settings: Any, where: slice) -> Any:
    return jax.tree.map(lambda column: column[where] if np.ndim(column) else column, settings)


def at_the_middle(base: Scenario, axes: tuple[Axis, ...]) -> Scenario:
    """The scenario at the middle position of every axis, of those of the first structure; of Python numbers."""
    first = next(iter(blocks(axes)), ())
    settings = [jax.tree.map(lambda column: float(np.ravel(column)[np.size(column) // 2]), s.settings) for s in first]
    return scenario_at(base, settings)
