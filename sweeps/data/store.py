"""Datasets on disk: netCDF files that appear under their final name only when they are whole."""

import math
import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

import sweeps.data.accessor  # noqa: F401  # whoever has a dataset of ours can ask it
from hwspaces.files.output import replacing
from jaxroof.version import VERSION
from sweeps.ask.axes import Axis
from sweeps.ask.names import UDUNITS, variable_attributes
from sweeps.data.pieces import Output, Piece, blank, crossed

WAITING = 2
"""Pieces that wait to be written, at most: of computed ones no more are in memory than these and those of a call."""

ONE_BY_ONE = threading.RLock()
"""For calls of the netCDF library, which is not made for threads."""

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


def blanks(outputs: Mapping[str, Output]) -> dict[str, tuple[Any, ...]]:
    """Variables without values yet, as xarray takes them: (dimensions, values, attributes) by name."""
    return {
        name: (
            dimensions(output),
            np.full(output.shape, blank(output.dtype), output.dtype),
            variable_attributes(name, output.dtype),
        )
        for name, output in outputs.items()
    }


def coordinates(axes: tuple[Axis, ...], outputs: Mapping[str, Output]) -> dict[str, tuple[Any, ...]]:
    """Labels along every dimension, as xarray takes them: (dimension, values, attributes) by name."""
    labels: dict[str, tuple[Any, ...]] = {}
    for axis in axes:
        for label in axis.coordinates:
            unit = UDUNITS.get(label.unit, label.unit)
            labels[label.name] = (axis.name, label.values, {"units": unit, "long_name": label.long_name})
    for output in outputs.values():
        if output.ops:
            # The last dimension of a breakdown is that of its ops.
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


def saved(
    path: str | os.PathLike[str],
    dataset: xr.Dataset,
    force: bool = False,
    inputs: Iterable[str] = (),
    encoding: Mapping[str, Any] | None = None,
) -> None:
    """Write a dataset that is in memory, with the version of jaxroof among its attributes.

    Args:
      path: the file; it ends in .nc.
      dataset: what is written.
      force: replace a file that jaxroof did not write.
      inputs: files that are not replaced: those that the dataset is made from.
      encoding: as `Dataset.to_netcdf` takes it.

    Raises:
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.files.output`.
    """
    marked = dataset.assign_attrs({"jaxroof_version": VERSION, **dataset.attrs})
    with replacing(path, ("dataset",), inputs, force) as name:
        marked.to_netcdf(name, engine="netcdf4", encoding=encoding)


def written(
    path: str | os.PathLike[str], labels: xr.Dataset, outputs: Mapping[str, Output], pieces: Iterable[Piece]
) -> None:
    """Write a sweep chunk after chunk while the next pieces are computed; memory holds a few, whatever the size.

    `xr.open_dataset` reads back what `dataset` and `fill` make in memory of the same pieces.

    Args:
      path: the file.
      labels: coordinates along every axis, and attributes.
      outputs: the variables.
      pieces: their values.
    """
    # Labels and attributes first, by xarray; the variables are then added to the file by the netCDF library.
    numeric = [name for name, label in labels.variables.items() if label.dtype.kind == "f"]
    encoding = {name: {"_FillValue": None} for name in numeric}  # a coordinate has no missing values
    labels.to_netcdf(path, engine="netcdf4", encoding=encoding)
    with netCDF4.Dataset(path, "a") as file:
        file.set_fill_off()  # every value is written; where a sweep has none, its blank
        beside = [str(name) for name in labels.coords if name not in labels.dims]
        for output in outputs.values():
            stored = _created(file, output, beside)
            # Variables that no structure leaves open are overwritten in full by their pieces.
            if not output.complete:
                _blank(stored, output)
        _written_beside(pieces, lambda piece: _stored(file, piece))


def _stored(file: netCDF4.Dataset, piece: Piece) -> None:
    with ONE_BY_ONE:
        file.variables[piece.name][piece.index] = piece.values


def _written_beside(pieces: Iterable[Piece], write: Callable[[Piece], None]) -> None:
    """Write pieces in a thread, while this one computes the next ones; at most `WAITING` wait to be written."""
    waiting: queue.Queue[Piece | None] = queue.Queue(maxsize=WAITING)
    failed: list[BaseException] = []

    def work() -> None:
        while (piece := waiting.get()) is not None:
            # After a failure pieces are taken and dropped, so that nobody waits for room.
            if not failed:
                try:
                    write(piece)
                except BaseException as error:  # raised again by the thread that computes
                    failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        for piece in pieces:
            if failed:
                break
            waiting.put(piece)
    finally:
        waiting.put(None)
        thread.join()
    if failed:
        raise failed[0]


def _created(file: netCDF4.Dataset, output: Output, labels: list[str]) -> "netCDF4.Variable[Any]":
    """One variable without values, encoded as xarray encodes it: booleans as bytes that remember what they are."""
    dims = dimensions(output)
    for dim, size in zip(dims, output.shape, strict=True):
        if dim not in file.dimensions:
            file.createDimension(dim, size)
    # netCDF has no booleans: bytes, with the attribute by which xarray restores them.
    boolean = output.dtype.kind == "b"
    fill = np.nan if output.dtype.kind == "f" else None
    stored = file.createVariable(output.name, "i1" if boolean else output.dtype, dims, fill_value=fill)
    attributes = variable_attributes(output.name, output.dtype)
    if boolean:
        attributes["dtype"] = "bool"
    # CF conventions, section 5: variables list the coordinates that are not dimensions.
    if labels:
        attributes["coordinates"] = " ".join(labels)
    stored.setncatts(attributes)
    return stored


def _blank(stored: "netCDF4.Variable[Any]", output: Output) -> None:
    """Write the blank everywhere, some million values at a time."""
    # As many rows along the first axis as make 4 million values.
    rows = max(1, 4_000_000 // max(1, math.prod(output.shape[1:])))
    for low in range(0, output.shape[0] if output.shape else 1, rows):
        stored[low : low + rows if output.shape else None] = blank(output.dtype)
