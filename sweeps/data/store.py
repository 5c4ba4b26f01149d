"""Datasets on disk: netCDF files that appear under their final name only when they are whole."""

import math
import os
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

from hwspaces import document
from hwspaces.output import replacing
from jaxroof.version import VERSION
from sweeps.ask.names import VARIABLES, variable_attributes
from sweeps.data.dataset import dimensions
from sweeps.data.pieces import Output, Piece, blank

MOST_INFLATED = 1_100
"""Times its own size that a file's values may take: what zlib can do, and a little."""

UNSUSPICIOUS_BYTES = 1 << 28
"""B of values that are believed of a file of any size."""

MOST_VARIABLES = 2_000
"""Variables of a file."""

MOST_LABELS, MOST_TEXTS = 5 * 10**7, 10**6
"""Labels along an axis, and those of them that are names."""

LONGEST_TEXT = 2**20
"""Characters of an attribute of a variable."""

TEXT_BYTES = 64
"""B that an object takes for a short text."""


def saved(
    path: str | os.PathLike,
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
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.output`.
    """
    marked = dataset.assign_attrs({"jaxroof_version": VERSION, **dataset.attrs})
    with replacing(path, ("dataset",), inputs, force) as name:
        marked.to_netcdf(name, engine="netcdf4", encoding=encoding)


def written(
    path: str | os.PathLike, labels: xr.Dataset, outputs: Mapping[str, Output], pieces: Iterable[Piece]
) -> None:
    """Write a sweep chunk after chunk as its pieces are computed; memory holds one chunk, whatever the size.

    `xr.open_dataset` reads back what `dataset` and `fill` make in memory of the same pieces.

    Args:
      path: the file.
      labels: coordinates along every axis, and attributes.
      outputs: the variables.
      pieces: their values.
    """
    numeric = [name for name, label in labels.variables.items() if label.dtype.kind == "f"]
    whole = {name: {"_FillValue": None} for name in numeric}  # a coordinate has no missing values
    labels.to_netcdf(path, engine="netcdf4", encoding=whole)
    with netCDF4.Dataset(path, "a") as file:
        file.set_fill_off()  # every value is written; where a sweep has none, its blank
        beside = [str(name) for name in labels.coords if name not in labels.dims]
        for output in outputs.values():
            stored = _created(file, output, beside)
            if not output.complete:
                _blank(stored, output)
        for piece in pieces:
            file.variables[piece.name][piece.index] = piece.values


def opened(path: str | os.PathLike) -> xr.Dataset:
    """The dataset in a netCDF file or a folder of shards, lazily; ValueError in one line when there is none."""
    if pathlib.Path(path).is_dir():
        from sweeps.shards.read import open as opened_folder

        return opened_folder(path)
    size = document.require_file(path, sys.maxsize)
    try:
        with netCDF4.Dataset(path) as file:
            require_sound(file, size, path)
    except NotSound:
        raise
    except (OSError, ValueError, RuntimeError, UnicodeError, AttributeError) as error:
        raise ValueError(f"{path} is not a netCDF file: {' '.join(str(error).split())}") from None
    try:
        found = xr.open_dataset(path, engine="netcdf4")
    except Exception as error:  # whatever xarray makes of attributes that it cannot read
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    try:
        _require_labelled(found, path)
    except ValueError:
        found.close()
        raise
    return found


def _require_labelled(dataset: xr.Dataset, path: str | os.PathLike) -> None:
    """ValueError for a file in which a metric is no number, or that calls something by what is no text."""
    for name, array in dataset.variables.items():
        for label in ("units", "long_name"):
            words = array.attrs.get(label, "")
            if not isinstance(words, str):
                raise ValueError(f"{path}: {label} of {name} is {' '.join(str(words).split())}; it must be text")
        number = name == "point" or (name in VARIABLES and name not in dataset.coords)
        if number and array.dtype.kind not in "fiub":
            raise ValueError(f"{path}: {name} must be numbers; it is of type {array.dtype}")


class NotSound(ValueError):
    """A netCDF file of types that are not read, or that claims more than it can hold."""


def require_sound(file: netCDF4.Dataset, size: int, where: str | os.PathLike) -> None:
    """`NotSound` for a file that would fill the memory or that has what no dataset of ours has.

    Labels are read as soon as a file is opened: this is asked first.

    Args:
      file: opened, nothing of it read.
      size: B of it.
      where: its name, for messages.
    """
    if len(file.variables) > MOST_VARIABLES:
        raise NotSound(f"{where} has {len(file.variables):,} variables; at most {MOST_VARIABLES:,} are read")
    for name, each in file.variables.items():
        own = isinstance(each.datatype, netCDF4.VLType | netCDF4.CompoundType | netCDF4.EnumType)
        if own and each.dtype is not str:
            raise NotSound(f"{where}: {name} is of a type of its own, {each.datatype.name}; numbers and text are read")
        for label in each.ncattrs():
            words = each.getncattr(label)
            if isinstance(words, str) and len(words) > LONGEST_TEXT:
                raise NotSound(f"{where}: {label} of {name} has {len(words):,} characters; at most {LONGEST_TEXT:,}")
    claimed = sum(map(_claimed_bytes, file.variables.values()))
    if claimed > max(UNSUSPICIOUS_BYTES, MOST_INFLATED * size):
        raise NotSound(
            f"{where} has {size:,} bytes and claims {claimed:,} bytes of values, more than any packing allows: "
            "it is damaged, or made to fill the memory"
        )
    for name, each in file.variables.items():
        if name in each.dimensions and each.size > (MOST_TEXTS if _is_text(each) else MOST_LABELS):
            raise NotSound(f"{where}: {name} has {each.size:,} labels, more than are read")


def _is_text(variable: netCDF4.Variable) -> bool:
    return variable.dtype is str or variable.dtype.kind == "S"


def _claimed_bytes(variable: netCDF4.Variable) -> int:
    """B that the values of a variable would take in memory, as far as the file's header says.

    A text is an object of its own, and where none is written it is a copy of the one that stands for missing ones.
    """
    if variable.dtype is str:
        missing = variable.getncattr("_FillValue") if "_FillValue" in variable.ncattrs() else ""
        return math.prod(variable.shape) * (TEXT_BYTES + len(missing))
    return math.prod(variable.shape) * variable.dtype.itemsize


def _created(file: netCDF4.Dataset, output: Output, labels: list[str]) -> netCDF4.Variable:
    """One variable without values, encoded as xarray encodes it: booleans as bytes that remember what they are."""
    dims = dimensions(output)
    for dim, size in zip(dims, output.shape, strict=True):
        if dim not in file.dimensions:
            file.createDimension(dim, size)
    boolean = output.dtype.kind == "b"
    fill = np.nan if output.dtype.kind == "f" else None
    stored = file.createVariable(output.name, "i1" if boolean else output.dtype, dims, fill_value=fill)
    attributes = variable_attributes(output.name, output.dtype)
    if boolean:
        attributes["dtype"] = "bool"
    if labels:
        attributes["coordinates"] = " ".join(labels)
    stored.setncatts(attributes)
    return stored


def _blank(stored: netCDF4.Variable, output: Output) -> None:
    """Write the blank everywhere, some million values at a time."""
    rows = max(1, 4_000_000 // max(1, math.prod(output.shape[1:])))
    for low in range(0, output.shape[0] if output.shape else 1, rows):
        stored[low : low + rows if output.shape else None] = blank(output.dtype)
