"""Results that are made to hang or to fill the memory: netCDF files and folders of shards, read by every verb."""

import contextlib
import hashlib
import io
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import netCDF4
import numpy as np

from tests.fuzz.datasets import _HEADER, RECIPE, made
from tests.hostile.case import Case


def cases() -> Iterator[Case]:
    """Every file with every verb that reads results, and surfaces of measured kernels."""
    for name, write in DATASETS.items():
        for verb in ("query", "plot"):
            refused = verb == "query" and name not in MAY_BE_READ
            yield Case(f"{verb}: {name}", verb, "own.nc", _netcdf(write), _called(verb), refused)
        yield Case(f"surface: {name}", "surface", "own.nc", _netcdf(write), _surface, refused=True)
    for name, header in HEADERS.items():
        for verb in ("status", "status --check", "query", "merge"):
            yield Case(f"{verb}: {name}", verb, "sweep", _folder(header), _called(verb), refused=True)


def _called(verb: str) -> Callable[[str], None]:
    """The command on a file; ValueError with what it says where it refuses."""

    def read(path: str) -> None:
        from sweeps.cli import main

        words = [*verb.split(), path]
        words += {"plot": ["-o", f"{path}.png"], "merge": ["-o", f"{path}.nc"]}.get(verb, [])
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            status = main(words)
        if status == 2:
            raise ValueError(said.getvalue().strip())
        if status != 0:
            raise AssertionError(f"exit status {status}: {said.getvalue()[-300:]}")

    return read


def _surface(path: str) -> None:
    from hwspaces.performance.surface import read_surfaces

    read_surfaces(path)


def _netcdf(write: Callable[[netCDF4.Dataset], Any]) -> Callable[[pathlib.Path], None]:
    def make(path: pathlib.Path) -> None:
        with netCDF4.Dataset(path, "w") as file:
            write(file)

    return make


def _axis(file: netCDF4.Dataset, name: str, kind: Any, size: int, values: Any = None, **settings: Any) -> Any:
    file.createDimension(name, size)
    variable = file.createVariable(name, kind, (name,), **settings)
    if values is not None:
        variable[:] = values
    return variable


def _vlen(file: netCDF4.Dataset) -> None:
    _axis(file, "tpot", file.createVLType(np.float64, "row"), 3)[0] = np.ones(3)


def _sides(file: netCDF4.Dataset) -> None:
    for i in range(4):
        _axis(file, f"side{i}", "f8", 20_000, np.arange(20_000))


def _attributes(file: netCDF4.Dataset) -> None:
    _axis(file, "batch", "f8", 3, [1, 2, 3]).long_name = "x" * 5_000_000


def _matrix(file: netCDF4.Dataset) -> None:
    _axis(file, "batch", "f8", 100_000, np.arange(100_000))
    _axis(file, "isl", "f8", 100_000, np.arange(100_000))
    file.createVariable("tpot", "f4", ("batch", "isl"), zlib=True, chunksizes=(1000, 1000))


def _units(file: netCDF4.Dataset) -> None:
    _axis(file, "batch", "f8", 3, [1, 2, 1e300]).units = "days since 0001-01-01"


def _scaled(file: netCDF4.Dataset) -> None:
    _axis(file, "batch", "i2", 3, [1, 2, 3]).scale_factor = "x"


DATASETS: dict[str, Callable[[netCDF4.Dataset], Any]] = {
    "rows of any length": _vlen,
    "a type of named values": lambda f: _axis(f, "tpot", f.createEnumType(np.uint8, "e", {"a": 0, "b": 1}), 3),
    "a type of pairs": lambda f: _axis(f, "x", f.createCompoundType(np.dtype([("a", "f4"), ("b", "f8")]), "c"), 3),
    "texts for times": lambda f: _axis(f, "tpot", str, 3),
    "four axes of 20,000": _sides,
    "a table of 10^10 values": _matrix,
    "10^12 labels": lambda f: _axis(f, "batch", "f8", 10**12),
    "120 million labels of zlib": lambda f: _axis(f, "batch", "f8", 120_000_000, zlib=True, chunksizes=(10**6,)),
    "a million names of 100 kB": lambda f: _axis(f, "hardware", str, 10**6, fill_value="x" * 100_000),
    "3,000 variables": lambda f: [f.createVariable(f"v{i}", "f4", ()) for i in range(3_000)],
    "a name of 5 MB": _attributes,
    "a calendar": _units,
    "a scale in words": _scaled,
    "2^40 points without labels": lambda f: f.createDimension("batch", 2**40),
    "nothing": lambda f: None,
}

MAY_BE_READ = ("nothing", "texts for times", "2^40 points without labels")


def _folder(change: dict[str, Any]) -> Callable[[pathlib.Path], None]:
    """A folder whose manifest is written as it should be, but for a part of what it says."""

    def make(path: pathlib.Path) -> None:
        from sweeps.data.shards.manifest import _line

        path.mkdir()
        made(RECIPE).to_netcdf(path / "frame.nc", engine="netcdf4")
        made(RECIPE).to_netcdf(path.parent / "outside.nc", engine="netcdf4")
        content = (path / "frame.nc").read_bytes()
        frame = {"file": "frame.nc", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        header = {key: value for key, value in _HEADER.items() if key != "lines"} | {"shards": 1, "frame": frame}
        header |= {key: value for key, value in change.items() if key != "frame"}
        header["frame"] = frame | change.get("frame", {})
        (path / "manifest.jsonl").write_bytes(_line(header) + json.dumps("no shard").encode() + b"\n")

    return make


HEADERS: dict[str, dict[str, Any]] = {
    "a file outside of the folder": {"frame": {"file": "../outside.nc"}},
    "a path from the root": {"frame": {"file": "/etc/passwd"}},
    "the folder itself": {"frame": {"file": ".."}},
    "a frame without bytes": {"frame": {"bytes": 0}},
    "10^15 points": {"axes": [["hardware", 10**15]], "points": 10**15, "shards": 0},
    "10^30 points of many axes": {"axes": [[f"a{i}", 10**10] for i in range(3)], "points": 10**30, "shards": 1},
    "points that its axes have not": {"points": 10**15},
    "no shards": {"shards": 0},
    "more shards than points": {"shards": 10**9},
    "an output of another shape": {"outputs": [{**_HEADER["outputs"][0], "shape": [2, 10**12]}]},
    "an output without a meaning": {"outputs": [{**_HEADER["outputs"][0], "name": "nonsense"}]},
    "a keeper that there is not": {"keep": ["everything"]},
}
