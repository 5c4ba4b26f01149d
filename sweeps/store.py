"""Datasets on disk: netCDF files that appear under their final name only when they are whole."""

import contextlib
import math
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping

import netCDF4
import numpy as np
import xarray as xr

from sweeps import unfinished
from sweeps.dataset import VARIABLES, dimensions, variable_attributes
from sweeps.engine import Output, Piece, blank

MOST_INFLATED = 1_100
"""Times its own size that a file's values may take: what zlib can do, and a little."""

UNSUSPICIOUS_BYTES = 1 << 30
"""B of values that are believed of a file of any size."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[str]:
    """A temporary name beside `path` that takes its place when the block ends well, and vanishes when it does not.

    Raises:
      ValueError: when the folder does not exist or cannot be written to.
    """
    target = pathlib.Path(path)
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise ValueError(f"{target}: there is no folder {target.parent}")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error.strerror}") from None
    unfinished.register(name)
    os.close(handle)
    try:
        yield name
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
        unfinished.forget(name, finished=target)
    finally:
        unfinished.forget(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


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
    if not pathlib.Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    try:
        with netCDF4.Dataset(path) as file:
            claimed = claimed_bytes(file)
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is not a netCDF file: {' '.join(str(error).split())}") from None
    require_believable(claimed, pathlib.Path(path).stat().st_size, path)
    try:
        found = xr.open_dataset(path, engine="netcdf4")
    except (OSError, ValueError) as error:
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


def claimed_bytes(file: netCDF4.Dataset) -> int:
    """B that the values of a file would take in memory, as far as its header says."""
    return sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in file.variables.values())


def require_believable(claimed: int, size: int, where: str | os.PathLike) -> None:
    """ValueError for a file of `size` bytes whose values would take more than it can hold, however well it is packed.

    Labels are read as soon as a file is opened: this is asked first.
    """
    if claimed > max(UNSUSPICIOUS_BYTES, MOST_INFLATED * size):
        raise ValueError(
            f"{where} has {size:,} bytes and claims {claimed:,} bytes of values, more than any packing allows: "
            "it is damaged, or made to fill the memory"
        )


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
