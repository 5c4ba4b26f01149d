"""Datasets as the bytes of netCDF files, so that data on disk can be checked before it is read.

The netCDF library is not made for threads, and a file left open is closed by whichever thread happens to collect
garbage. So all that is opened here is closed here, one thread after the other.
"""

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import netCDF4
import numpy as np
import xarray as xr
from xarray.backends import NetCDF4DataStore

from hwspaces.files.unfinished import discarded, refusal
from sweeps.ask.names import variable
from sweeps.data.pieces import Output
from sweeps.data.sound import require_sound
from sweeps.data.store import ONE_BY_ONE


@dataclasses.dataclass(frozen=True)
class Side:
    """An axis by name and size."""

    name: str
    size: int


@dataclasses.dataclass(frozen=True)
class Outline:
    """Facts of a sweep that `sweeps.data.keep` and readers of shards need."""

    axes: tuple[Side, ...]
    outputs: Mapping[str, Output]
    keep: tuple[str, ...]
    job: str

    @property
    def points(self) -> int:
        """Points of the whole sweep."""
        return math.prod(axis.size for axis in self.axes)


def outline(header: Mapping[str, Any], where: Any) -> Outline:
    """The sweep that a manifest's header describes; ValueError of one line where it describes none."""
    try:
        axes = tuple(Side(str(name), int(size)) for name, size in header["axes"])
        outputs = {output.name: output for output in map(_output, header["outputs"])}
        # One word may name several parts, such as histogram,quantiles, as `KeptSpread` writes itself.
        keep = tuple(word for words in header["keep"] for word in str(words).split(","))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} is damaged: its header describes no sweep ({error})") from None
    # Shapes of variables have to follow from the axes: the header may be damaged or made by somebody else.
    sizes = {axis.name: axis.size for axis in axes}
    for output in outputs.values():
        sides = [sizes.get(dim) if dim != "op" else len(output.ops) for dim in output.dims]
        if list(output.shape) != sides:
            raise ValueError(f"{where} is damaged: {output.name} is of shape {output.shape} over {output.dims}")
    return Outline(axes, outputs, keep, str(header["spec"].get("job", "request")))


def _output(found: Mapping[str, Any]) -> Output:
    dtype = np.dtype(str(found["dtype"]))
    try:
        variable(str(found["name"]))
    except KeyError:
        raise ValueError(f"there is no variable {str(found['name'])[:40]!r}") from None
    if dtype.kind not in "fiub":
        raise ValueError(f"dtype = {found['dtype']!r}")
    return Output(
        name=str(found["name"]),
        dims=tuple(map(str, found["dims"])),
        shape=tuple(map(int, found["shape"])),
        dtype=dtype,
        ops=tuple(map(str, found["ops"])),
        complete=bool(found["complete"]),
    )


@dataclasses.dataclass(frozen=True)
class Stored:
    """Encoding of values on disk. Both settings give up speed for size; `digits` gives up precision too."""

    compression: int = 0  # level of zlib, 0 to 9; 0: none
    digits: int | None = None  # significant decimal digits that are kept of real numbers; None: all

    @classmethod
    def checked(cls, settings: Mapping[str, Any]) -> "Stored":
        """The settings, from a specification; ValueError of one line for what cannot be."""
        from sweeps.ask.spec import integer

        level = integer(settings.get("compression", 0), "output.compression", 0)
        if level > 9:
            raise ValueError(f"output.compression = {level} must be at most 9")
        digits = settings.get("digits")
        if digits is not None:
            digits = integer(digits, "output.digits", 1)
            if digits > 7:
                raise ValueError(f"output.digits = {digits} must be at most 7; leave it out to keep every digit")
        return cls(level, digits)


def write(path: pathlib.Path, dataset: xr.Dataset, stored: Stored) -> None:
    """Write a netCDF-4 file: the same bytes for the same dataset, whenever it is written.

    Raises:
      ValueError: one line, where the disk is full or the library fails for another reason.
    """
    labels = set(dataset.coords)
    encoding = {str(name): _encoding(array, stored, name in labels) for name, array in dataset.variables.items()}
    try:
        with ONE_BY_ONE:
            dataset.to_netcdf(path, engine="netcdf4", encoding=encoding)
    except (OSError, RuntimeError) as error:
        # The reason is asked of the file system before the unfinished file is removed.
        words = refusal(path.parent, error, path)
        discarded(path)
        raise ValueError(words) from None


@contextlib.contextmanager
def opened(content: bytes) -> Iterator[netCDF4.Dataset]:
    """The netCDF file with these bytes; ValueError where they are none."""
    with ONE_BY_ONE:
        try:
            # In memory, so that what was checked is what is read.
            file = netCDF4.Dataset("shard", memory=content)
        except OSError as error:
            raise ValueError(f"not a netCDF file: {' '.join(str(error).split())}") from None
        try:
            require_sound(file, len(content), "shard")
            # Values as they are stored: no scaling, no masks.
            file.set_auto_maskandscale(False)
            yield file
        finally:
            file.close()


def dataset(content: bytes) -> xr.Dataset:
    """The dataset in the bytes of a netCDF file, in memory."""
    with opened(content) as file:
        return xr.open_dataset(NetCDF4DataStore(file)).load()


def _encoding(array: xr.Variable, stored: Stored, label: bool) -> dict[str, Any]:
    if array.dtype.kind not in "fiub" or not array.ndim:
        return {}
    encoding: dict[str, Any] = {"_FillValue": None} if label and array.dtype.kind == "f" else {}
    if stored.compression:
        # Shuffling puts bytes of equal significance side by side, which zlib packs better.
        encoding |= {"zlib": True, "complevel": stored.compression, "shuffle": True}
    # Labels keep every digit: only values are rounded.
    if stored.digits is not None and array.dtype.kind == "f" and not label:
        encoding |= {"significant_digits": stored.digits, "quantize_mode": "GranularBitRound"}
    return encoding


def values(content: bytes, name: str) -> np.ndarray:
    """A variable in the bytes of a netCDF file, as it was before it was stored."""
    with opened(content) as file:
        stored = file.variables[name]
        array = stored[...]
        return array.astype(bool) if "dtype" in stored.ncattrs() and stored.getncattr("dtype") == "bool" else array
