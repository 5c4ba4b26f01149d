"""Sensitivities as labelled datasets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import KNOB_COORDINATES, variable_attributes
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.point import Sensitivities
from sweeps.studies.elasticity.turns import FACTORS, Turn


def knob_coordinates(knobs: Sequence[Knob]) -> dict[str, tuple]:
    """Labels along `knob`, as xarray takes them. Values are SI numbers, each in a unit of its own."""
    columns = {
        "knob": np.array([knob.path for knob in knobs], object),
        "knob_value": np.array([knob.value for knob in knobs]),
        "knob_unit": np.array([knob.unit for knob in knobs], object),
        "knob_is_count": np.array([knob.count for knob in knobs], np.int8),
    }
    return {name: _label("knob", column, name) for name, column in columns.items()}


def _label(dim: str | tuple[str, ...], values: np.ndarray, name: str) -> tuple:
    return dim, values, {"units": "1", "long_name": KNOB_COORDINATES[name]}


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
    found: dict[str, tuple] = {}
    coordinates = knob_coordinates(point.knobs)

    def add(name: str, dims: tuple[str, ...], values: np.ndarray | np.float64) -> None:
        found[name] = (dims, values, variable_attributes(name, np.dtype("float64")))

    for name, value in point.metrics.items():
        add(name, (), np.float64(value))
        add(f"elasticity_of_{name}", ("knob",), point.elasticities[name])
    places = {knob.path: i for i, knob in enumerate(point.knobs)}
    for name, rows in (checked or {}).items():
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
    return xr.Dataset(found, coordinates, record)
