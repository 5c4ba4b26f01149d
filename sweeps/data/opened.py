"""Datasets opened from netCDF files and folders of shards, lazily, after checks of their content."""

import os
import pathlib
import sys

import netCDF4
import xarray as xr

from hwspaces.files import document
from sweeps.ask.names import VARIABLES
from sweeps.data.shards.read import open as opened_folder
from sweeps.data.sound import NotSound, require_sound


def opened(path: str | os.PathLike[str]) -> xr.Dataset:
    """The dataset in a netCDF file or a folder of shards, lazily; ValueError in one line when there is none."""
    if pathlib.Path(path).is_dir():
        return opened_folder(path)
    size = document.require_file(path, sys.maxsize)
    try:
        # Types and sizes are checked by the netCDF library alone, before xarray reads labels into memory.
        with netCDF4.Dataset(path) as file:
            require_sound(file, size, path)
    except NotSound:
        # Its message says already what is wrong, unlike the errors below.
        raise
    except (OSError, ValueError, RuntimeError, UnicodeError, AttributeError) as error:
        raise ValueError(f"{path} is not a netCDF file: {' '.join(str(error).split())}") from None
    try:
        dataset = xr.open_dataset(path, engine="netcdf4")
    except Exception as error:  # whatever xarray makes of attributes that it cannot read
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    try:
        _require_labelled(dataset, path)
    except ValueError:
        # A file that is refused must not stay open.
        dataset.close()
        raise
    return dataset


def _require_labelled(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """ValueError for a file in which a metric is no number, or that calls something by what is no text."""
    for name, array in dataset.variables.items():
        for label in ("units", "long_name"):
            words = array.attrs.get(label, "")
            if not isinstance(words, str):
                raise ValueError(f"{path}: {label} of {name} is {' '.join(str(words).split())}; it must be text")
        number = name == "point" or (name in VARIABLES and name not in dataset.coords)
        if number and array.dtype.kind not in "fiub":
            raise ValueError(f"{path}: {name} must be numbers; it is of type {array.dtype}")
