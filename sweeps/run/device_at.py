"""Device of one point of a sweep's or an optimisation's file, made again from the specification that the file has."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

import hwspaces
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import mapped
from sweeps.ask.axes import Axis, Choice
from sweeps.ask.question import unsampled
from sweeps.ask.spec import KEYS, spec
from sweeps.run.points import scenario_at

ROUNDING = 1e-6
"""Relative distance up to which a coordinate is the value of its axis: files may hold float32."""


def device_at(dataset: xr.Dataset, point: Mapping[str, int]) -> tuple[hwspaces.HardwareEntry, Hardware]:
    """The accelerator that a point starts from, and the device there, which obeys its laws.

    Args:
      dataset: a sweep's, or an optimisation's.
      point: position along every dimension that coordinates have.

    Raises:
      ValueError: one line, where the file says nothing of its specification.
    """
    if "spec" not in dataset.attrs:
        raise ValueError("the file has no specification to make its devices from: it is not of a sweep")
    source = {key: value for key, value in json.loads(dataset.attrs["spec"]).items() if key in KEYS}
    if "mode" not in dataset.attrs:  # an optimisation, whose ranges are bounds
        source["mode"] = "sample"
    # Axes of a sample are kept as ranges: the file's own coordinates say where the point is.
    base, axes, _ = unsampled(spec(source))
    values = {}
    # Coordinates that depend on other dimensions than the point names cannot be read there.
    for name, label in dataset.coords.items():
        if set(label.dims) <= point.keys():
            values[str(name)] = label.isel({dim: point[dim] for dim in label.dims}).values[()]
    settings = [_setting(axis, values[axis.coordinates[0].name]) for axis in axes if axis.coordinates[0].name in values]
    with eager():
        device = mapped(float, scenario_at(base.scenario, settings).hardware)
    # The file may sweep over accelerators; else the base of its specification is the device.
    entry = hwspaces.hardware(str(values["hardware"])) if "hardware" in values else base.hardware
    return entry, device


def _setting(axis: Axis, value: Any) -> dict[str, Any]:
    """What an axis sets where its first coordinate is `value`, which may be between those of its positions."""
    known = axis.coordinates[0].values
    if np.issubdtype(np.asarray(known).dtype, np.number):
        place = np.flatnonzero(np.isclose(np.asarray(known, float), float(value), rtol=ROUNDING, atol=0.0))
    else:
        place = np.flatnonzero(np.asarray(known) == value)
    if place.size:
        i = int(place[0])
        return {
            path: column.items[column.index[i]] if isinstance(column, Choice) else column[i]
            for path, column in axis.columns.items()
        }
    # A number between positions, as an optimiser finds: the axis sets all of its paths to that.
    return {path: float(value) for path in axis.columns}
