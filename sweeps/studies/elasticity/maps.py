"""Elasticities at every point of a grid or sample: where a knob matters, and where something else takes over."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxroof.jobs import Job, Scenario
from sweeps.ask.axes import Axis, blocks
from sweeps.ask.names import variable_attributes
from sweeps.ask.paths import leaf_paths
from sweeps.data.dataset import coordinates
from sweeps.run.evaluate import evaluate
from sweeps.run.point import scenario_at
from sweeps.run.points import Points, points_of
from sweeps.run.ways import slopes as slopes_way
from sweeps.studies.elasticity.gradient import all_slopes, changes, metric_names
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.labelled import knob_coordinates


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
    for part in points_of(axes):
        for name, (column, slopes) in _metrics_and_changes(job, base, part, knobs, names, progress).items():
            values[name].ravel()[part.index] = column
            for i, knob in enumerate(knobs):
                if knob.path in slopes:
                    slope = np.where(column > 0.0, slopes[knob.path], np.nan) / np.where(column > 0.0, column, 1.0)
                    found[name][i].ravel()[part.index] = slope
    variables = {name: (dims, column, variable_attributes(name, column.dtype)) for name, column in values.items()}
    for name, column in found.items():
        label = f"elasticity_of_{name}"
        variables[label] = (("knob", *dims), column, variable_attributes(label, column.dtype))
    labels = coordinates(axes, {}) | knob_coordinates(knobs)
    return xr.Dataset(variables, labels, attributes)


def _metrics_and_changes(
    job: Job,
    base: Scenario,
    part: Points,
    knobs: Sequence[Knob],
    names: Sequence[str],
    progress: Callable[[int], None],
) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """By metric that points of one structure have, y and dy for d ln x by the path of x."""
    settings = jax.tree.map(lambda column: column[0] if np.ndim(column) else column, part.settings)
    one = scenario_at(base, settings)
    known, there = set(leaf_paths(one)), set(metric_names(job, one))
    here = tuple(knob.path for knob in knobs if knob.path in known)
    wanted = tuple(name for name in names if name in there)
    way = slopes_way(len(part.index), len(here), len(wanted))
    if way.loops:
        ((_, found),) = evaluate(all_slopes(job, wanted, here), base, [part], way, progress=progress)
        return found
    ((_, found),) = evaluate(changes(job, wanted, here), base, [part], way, progress=progress)
    return found


def at_the_middle(base: Scenario, axes: tuple[Axis, ...]) -> Scenario:
    """The scenario at the middle position of every axis, of those of the first structure; of Python numbers."""
    first = next(iter(blocks(axes)), ())
    settings = [jax.tree.map(lambda column: float(np.ravel(column)[np.size(column) // 2]), s.settings) for s in first]
    return scenario_at(base, settings)
