"""Sensitivities as labelled datasets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.jobs import Job, Scenario
from jaxroof.numerics.arrays import jax
from jaxroof.version import VERSION
from sweeps.ask.axes import Axis, blocks, leaf_paths
from sweeps.ask.names import KNOB_COORDINATES, variable_attributes
from sweeps.data.store import coordinates
from sweeps.run.evaluate import evaluate
from sweeps.run.points import Points, points_of, scenario_at
from sweeps.run.ways import slopes as slopes_way
from sweeps.studies.sensitivity.gradient import all_slopes, changes, metric_names
from sweeps.studies.sensitivity.knobs import Knob
from sweeps.studies.sensitivity.point import Sensitivities
from sweeps.studies.sensitivity.turns import FACTORS, Turn


def knob_coordinates(knobs: Sequence[Knob]) -> dict[str, tuple[Any, ...]]:
    """Labels along `knob`, as xarray takes them. Values are SI numbers, each in a unit of its own."""
    columns = {
        "knob": np.array([knob.path for knob in knobs], object),
        "knob_value": np.array([knob.value for knob in knobs]),
        "knob_unit": np.array([knob.unit for knob in knobs], object),
        "knob_is_count": np.array([knob.count for knob in knobs], np.int8),
    }
    return {name: _label("knob", column, name) for name, column in columns.items()}


def _label(dim: str | tuple[str, ...], values: np.ndarray, name: str) -> tuple[Any, ...]:
    return dim, values, {"units": "1", "long_name": KNOB_COORDINATES[name]}


def point_dataset(
    point: Sensitivities,
    heading: str,
    checked: Mapping[str, Sequence[Turn]],
    curvatures: Mapping[str, tuple[Sequence[Knob], np.ndarray]],
) -> xr.Dataset:
    """As `labelled`, with attributes that say what the point is: its heading, in lines."""
    title, source = heading.replace("\n", "; "), f"jaxroof {VERSION}"
    attributes = {"Conventions": "CF-1.11", "title": title, "source": source, "job": point.job}
    return labelled(point, attributes, checked, curvatures)


def labelled(
    point: Sensitivities,
    attributes: Mapping[str, Any],
    checked: Mapping[str, Sequence[Turn]] | None = None,
    curvatures: Mapping[str, tuple[Sequence[Knob], np.ndarray]] | None = None,
) -> xr.Dataset:
    """A point as a Dataset: metrics, their elasticities by knob, and what was checked or derived twice.

    Args:
      attributes: of the dataset.
      checked: by metric, changes as the gradient predicts them and as they are; NaN at knobs that were not turned.
      curvatures: by metric, knobs and the second derivatives in them.
    """
    variables: dict[str, tuple[Any, ...]] = {}
    coordinates = knob_coordinates(point.knobs)

    def add(name: str, dims: tuple[str, ...], values: np.ndarray | np.float64) -> None:
        variables[name] = (dims, values, variable_attributes(name, np.dtype("float64")))

    for name, value in point.metrics.items():
        add(name, (), np.float64(value))
        add(f"elasticity_of_{name}", ("knob",), point.elasticities[name])
    # Rows of all tables are in the order of the point's knobs.
    places = {knob.path: i for i, knob in enumerate(point.knobs)}
    for name, rows in (checked or {}).items():
        # Predicted change, real change and value of the knob, each [knobs, factors]; NaN where none was turned.
        tables = np.full((3, len(point.knobs), len(FACTORS)), np.nan)
        agree = np.full(len(point.knobs), np.nan)
        for row in rows:
            tables[:, places[row.knob.path]] = row.predicted, row.actual, row.values
            agree[places[row.knob.path]] = row.agrees
        add(f"predicted_change_of_{name}", ("knob", "factor"), tables[0])
        add(f"change_of_{name}", ("knob", "factor"), tables[1])
        add(f"agreement_of_{name}", ("knob",), agree)
        coordinates["factor"] = _label("factor", np.array(FACTORS), "factor")
        coordinates["knob_turned_to"] = _label(("knob", "factor"), tables[2], "knob_turned_to")
    for name, (knobs, values) in (curvatures or {}).items():
        # Second derivatives are known for some of the knobs: the rest of the square stays NaN.
        square = np.full((len(point.knobs),) * 2, np.nan)
        where = [places[knob.path] for knob in knobs]
        square[np.ix_(where, where)] = values
        add(f"curvature_of_{name}", ("knob", "other_knob"), square)
        coordinates["other_knob"] = _label("other_knob", coordinates["knob"][1], "other_knob")
    bounds = {
        f"{step}_bounds": ", ".join(f"{name} {share:.4f}" for name, share in shares.items())
        for step, shares in point.bounds.items()
    }
    left_out = ", ".join(f"{path} ({why})" for path, why in point.left_out.items())
    record = {**attributes, "smoothing": point.smoothing, "without_elasticity": left_out, **bounds}
    return xr.Dataset(variables, coordinates, record)


# Elasticities at every point of a grid or sample: where a knob matters, and where something else takes over.


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
    elasticities = {name: np.full((len(knobs), *shape), np.nan) for name in names}
    for part in points_of(axes):
        for name, (column, slopes) in _metrics_and_changes(job, base, part, knobs, names, progress).items():
            # `ravel` gives a view of a contiguous array, so that the assignment fills the array itself.
            values[name].ravel()[part.index] = column
            for i, knob in enumerate(knobs):
                if knob.path in slopes:
                    # Elasticity = (dy / d ln x) / y; the second `where` avoids a division that the first one discards.
                    slope = np.where(column > 0.0, slopes[knob.path], np.nan) / np.where(column > 0.0, column, 1.0)
                    elasticities[name][i].ravel()[part.index] = slope
    variables = {name: (dims, column, variable_attributes(name, column.dtype)) for name, column in values.items()}
    for name, column in elasticities.items():
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
    # The first point tells which leaves and metrics the structure has.
    settings = jax.tree.map(lambda column: column[0] if np.ndim(column) else column, part.settings)
    one = scenario_at(base, settings)
    known, there = set(leaf_paths(one)), set(metric_names(job, one))
    here = tuple(knob.path for knob in knobs if knob.path in known)
    wanted = tuple(name for name in names if name in there)
    way = slopes_way(len(part.index), len(here), len(wanted))
    # Loops of machine code take reverse mode, else NumPy takes forward mode on dual numbers.
    if way.loops:
        ((_, derivatives),) = evaluate(all_slopes(job, wanted, here), base, [part], way, progress=progress)
        return derivatives
    ((_, derivatives),) = evaluate(changes(job, wanted, here), base, [part], way, progress=progress)
    return derivatives


def at_the_middle(base: Scenario, axes: tuple[Axis, ...]) -> Scenario:
    """The scenario at the middle position of every axis, of those of the first structure; of Python numbers."""
    first = next(iter(blocks(axes)), ())
    settings = [jax.tree.map(lambda column: float(np.ravel(column)[np.size(column) // 2]), s.settings) for s in first]
    return scenario_at(base, settings)
