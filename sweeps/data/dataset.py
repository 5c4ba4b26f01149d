"""The labelled dataset of a sweep: dimensions, coordinates and variables from its axes, values filled in by pieces."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.axes import Axis
from sweeps.ask.names import UDUNITS, variable_attributes
from sweeps.data.pieces import Output, Piece, blank, crossed

OP_DIMENSIONS = {
    "prefill_op": "ops of the prefill step",
    "decode_op": "ops of the decode step",
    "op": "ops of the step",
}


def dataset(axes: tuple[Axis, ...], outputs: Mapping[str, Output], attributes: Mapping[str, Any]) -> xr.Dataset:
    """An empty dataset with every dimension, coordinate, variable and attribute in place; `fill` adds the values.

    Numbers that no structure of the sweep has an answer for stay NaN, flags stay -1.
    """
    return xr.Dataset(blanks(outputs), coordinates(axes, outputs), dict(attributes))


def blanks(outputs: Mapping[str, Output]) -> dict[str, tuple]:
    """Variables without values yet, as xarray takes them: (dimensions, values, attributes) by name."""
    return {
        name: (
            dimensions(output),
            np.full(output.shape, blank(output.dtype), output.dtype),
            variable_attributes(name, output.dtype),
        )
        for name, output in outputs.items()
    }


def coordinates(axes: tuple[Axis, ...], outputs: Mapping[str, Output]) -> dict[str, tuple]:
    """Labels along every dimension, as xarray takes them: (dimension, values, attributes) by name."""
    labels: dict[str, tuple] = {}
    for axis in axes:
        for label in axis.coordinates:
            unit = UDUNITS.get(label.unit, label.unit)
            labels[label.name] = (axis.name, label.values, {"units": unit, "long_name": label.long_name})
    for output in outputs.values():
        if output.ops:
            dim = dimensions(output)[-1]
            labels[dim] = (dim, np.array(output.ops, object), {"units": "1", "long_name": OP_DIMENSIONS[dim]})
    return labels


def dimensions(output: Output) -> tuple[str, ...]:
    """Dimensions of a variable. A breakdown's last one says whose ops it holds: `op`, `prefill_op`, `decode_op`."""
    return tuple(output.name.rpartition("_")[0] if dim == "op" else dim for dim in output.dims)


def fill(target: xr.Dataset, pieces: Iterable[Piece]) -> xr.Dataset:
    """Put every piece where it belongs, in place."""
    for piece in pieces:
        target[piece.name].values[crossed(piece.index)] = piece.values
    return target
