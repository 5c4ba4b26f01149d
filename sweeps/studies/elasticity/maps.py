"""Elasticities at every point of a grid or sample: where a knob matters, and where something else takes over."""

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxroof.jobs import Job, Scenario
from sweeps.ask.axes import Axis, Segment, blocks
from sweeps.ask.names import variable_attributes
from sweeps.ask.paths import leaf_paths
from sweeps.data.dataset import (
    coordinates,
)
from sweeps.run.point import scenario_at
from sweeps.run.tiles import compiled
from sweeps.studies.elasticity.gradient import QUICK, at_factors, metric_names, slopes
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.labelled import knob_coordinates

CHUNK = 16384
"""Points of one call: their buffers stay in a cache of some MB per op."""

MANY = 4 * CHUNK
"""Points from which all knobs at once are worth their compilation, which takes longer than one direction's."""

DIRECTIONS = 4
"""Knobs per metric from which all at once cost less than one after the other."""


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
    one = scenario_at(base, jax.tree.map(lambda column: column[0] if np.ndim(column) else column, settings))
    known = set(leaf_paths(one))
    here = [path for path in paths if path in known]
    there = set(metric_names(job, one))
    wanted = tuple(name for name in names if name in there)

    many = points >= MANY and len(here) > DIRECTIONS * len(wanted) and jax.default_backend() == "cpu"
    computed = (_backward if many else _along)(job, base, settings, here, wanted)
    size = min(CHUNK, points)
    metrics = {name: np.empty(points) for name in wanted}
    found = {name: [np.full(points, np.nan) for _ in paths] for name in wanted}

    def chunk(low: int) -> int:
        start, high = min(low, points - size), min(low + size, points)  # the last chunk is as long as the others
        own = slice(low - start, high - start)
        for name, (column, changes) in computed(_part(settings, slice(start, start + size))).items():
            metrics[name][low:high] = column[own]
            for path, change in changes.items():
                slope = np.where(column > 0.0, change, np.nan) / np.where(column > 0.0, column, 1.0)
                found[name][paths.index(path)][low:high] = slope[own]
        return high - low

    starts = range(0, points, size)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if many else 1) as pool:
        for done in pool.map(chunk, starts):
            progress(done)
    return metrics, found


Columns = Callable[[Any], dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]]
"""From a chunk's settings to every metric y and dy / d ln x by the path of x."""


def _along(job: Job, base: Scenario, settings: Any, here: list[str], wanted: tuple[str, ...]) -> Columns:
    """One direction after the other: what compiles fast."""

    def slopes_at(settings, direction):
        values, found, _ = slopes(job, wanted)(scenario_at(base, settings), direction)
        return values, found

    varies = jax.tree.map(lambda column: 0 if np.ndim(column) else None, settings)
    lanes = bool(jax.tree.leaves(varies))
    program = jax.jit(jax.vmap(slopes_at, in_axes=(varies, None)) if lanes else slopes_at, compiler_options=QUICK)

    def computed(part: Any) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
        found: dict[str, tuple[np.ndarray, dict[str, np.ndarray]]] = {}
        for path in here or [""]:  # values come with any direction
            direction = {other: np.float64(other == path) for other in here}
            values, changes = jax.device_get(program(part, direction))
            for name, column in values.items():
                found.setdefault(name, (column, {}))
                if here:
                    found[name][1][path] = changes[name]
        return found

    return computed


def _backward(job: Job, base: Scenario, settings: Any, here: list[str], wanted: tuple[str, ...]) -> Columns:
    """All directions at once, a metric after the other, in tiles that stay in the cache: what runs fast."""
    leaves, structure = jax.tree.flatten(settings)
    varies = [bool(np.ndim(leaf)) for leaf in leaves]

    def slopes_at(own: list[jax.Array]):
        ours = iter(own)
        filled = [next(ours) if known else leaf for known, leaf in zip(varies, leaves, strict=True)]
        scenario = scenario_at(base, jax.tree.unflatten(structure, filled))

        def metrics(factors):
            return at_factors(job, scenario, factors, wanted)

        values, backwards = jax.vjp(metrics, dict.fromkeys(here, jnp.ones(())))
        units = {name: {other: jnp.full((), float(other == name)) for other in values} for name in values}
        return {name: (values[name], backwards(units[name])[0]) for name in values}

    def columns_of(part: Any) -> list[np.ndarray]:
        return [leaf for known, leaf in zip(varies, jax.tree.leaves(part), strict=True) if known]

    program = compiled(slopes_at, columns_of(_part(settings, slice(0, CHUNK))))

    def computed(part: Any) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
        return jax.device_get(program(columns_of(part)))

    return computed


def _part(settings: Any, where: slice) -> Any:
    return jax.tree.map(lambda column: column[where] if np.ndim(column) else column, settings)


def at_the_middle(base: Scenario, axes: tuple[Axis, ...]) -> Scenario:
    """The scenario at the middle position of every axis, of those of the first structure; of Python numbers."""
    first = next(iter(blocks(axes)), ())
    settings = [jax.tree.map(lambda column: float(np.ravel(column)[np.size(column) // 2]), s.settings) for s in first]
    return scenario_at(base, settings)
