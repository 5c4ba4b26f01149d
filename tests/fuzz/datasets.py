"""Loaders of results: netCDF files, folders of shards, and what plots and queries make of them."""

import functools
import hashlib
import json
import os
import pathlib
import tempfile
from typing import Any

import numpy as np

from tests.fuzz.documents import Json, Raw
from tests.fuzz.target import Target, in_file


def targets() -> list[Target]:
    """What reads results."""
    return [
        Target("netcdf", in_file("own.nc", _opened), _files, Raw),
        Target("dataset", _dataset, lambda: [json.dumps(RECIPE).encode(), json.dumps(SAMPLE).encode()], Json, WORDS),
        Target("typed", _typed, lambda: [json.dumps(TYPED).encode()], Json, (*WORDS, *KINDS)),
        Target("drawn", _drawn, lambda: [json.dumps(RECIPE).encode(), json.dumps(SAMPLE).encode()], Json, WORDS),
        Target("manifest", in_file("manifest.jsonl", _manifest, {"frame.nc": _files()[0]}), _manifests, Raw),
        Target("header", _header, lambda: [json.dumps(_header_of()).encode()], Json, ("axes", "outputs", "keep")),
    ]


KINDS = ("vlen", "enum", "compound", "text", "f8", "i2")

TYPED: dict[str, Any] = {
    "batch": {"kind": "f8", "size": 3, "fill": None, "attrs": {"units": "1"}},
    "hardware": {"kind": "text", "size": 2, "fill": "A", "attrs": {"units": "1"}},
    "tpot": {"kind": "vlen", "size": 3, "fill": None, "attrs": {"long_name": "x"}},
    "ttft": {"kind": "i2", "size": 3, "fill": 7, "attrs": {"scale_factor": 0.5, "add_offset": 1}},
}
"""Variables of one dimension each, as the netCDF library makes them."""

WORDS = ("batch", "tpot", "hardware", "point", "op", "dims", "values", "units", "long_name", "job", "mode", "spec")

RECIPE: dict[str, Any] = {
    "attrs": {"job": "request", "mode": "grid", "title": "t", "spec": "{}", "jaxroof_version": "1"},
    "variables": {
        "batch": {
            "dims": ["batch"],
            "values": [1.0, 4.0, 16.0],
            "attrs": {"units": "1", "long_name": "workload.batch"},
        },
        "hardware": {"dims": ["hardware"], "values": ["H100-SXM", "B200"], "attrs": {"long_name": "accelerator"}},
        "tpot": {"dims": ["hardware", "batch"], "values": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "attrs": {"units": "s"}},
        "tokens_per_second_per_device": {"dims": ["hardware", "batch"], "values": [1, 2, 3, 4, 5, 6], "attrs": {}},
        "tokens_per_second_per_request": {"dims": ["hardware", "batch"], "values": [1, 2, 3, 4, 5, 6], "attrs": {}},
        "feasible": {"dims": ["hardware", "batch"], "values": [True, True, False, True, True, True], "attrs": {}},
    },
    "coords": ["batch", "hardware"],
    "where": "tpot < 0.35 and feasible",
    "sort": "tpot",
}
SAMPLE: dict[str, Any] = {
    "attrs": {"job": "request", "mode": "sample"},
    "variables": {
        "point": {"dims": ["point"], "values": [0, 1, 2, 3], "attrs": {"units": "1"}},
        "batch": {"dims": ["point"], "values": [1.0, 2.0, 3.0, 4.0], "attrs": {"units": "1"}},
        "tpot": {"dims": ["point"], "values": [0.1, 0.2, 0.3, 0.4], "attrs": {"units": "s", "long_name": "time"}},
        "feasible": {"dims": ["point"], "values": [True, True, False, True], "attrs": {}},
    },
    "coords": ["point", "batch"],
    "where": "batch >= 2",
    "sort": "batch",
}


def made(recipe: Any) -> Any:
    """The dataset that a recipe describes; ValueError where it describes none."""
    import xarray as xr

    try:
        variables = {}
        for name, told in recipe["variables"].items():
            values = np.array(told["values"])
            if values.dtype.kind == "O":
                raise ValueError("no array")
            sizes = [len(recipe["variables"][dim]["values"]) for dim in told["dims"]]
            attrs = {key: value for key, value in told["attrs"].items() if isinstance(value, str | int | float)}
            variables[name] = (told["dims"], values.reshape(sizes), attrs)
        attrs = {key: value for key, value in recipe["attrs"].items() if isinstance(value, str | int | float)}
        coords = [name for name in recipe["coords"] if name in variables]
        return xr.Dataset(variables, attrs=attrs).set_coords(coords)
    except Exception as error:  # what is no dataset at all is no input
        raise ValueError(f"no dataset: {type(error).__name__}") from None


def _saved(data: bytes) -> tuple[str, Any]:
    try:
        recipe = json.loads(data)
    except RecursionError:
        raise ValueError("no recipe") from None
    dataset = made(recipe)
    path = os.path.join(_folder(), "made.nc")
    try:
        dataset.to_netcdf(path, engine="netcdf4")
    except Exception as error:  # nor is what cannot be stored
        raise ValueError(f"no file: {type(error).__name__}") from None
    return path, recipe


def _dataset(data: bytes) -> None:
    path, recipe = _saved(data)
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened
    from sweeps.data.querying import query

    where, sort = (recipe.get(key) if isinstance(recipe.get(key), str) else None for key in ("where", "sort"))
    with opened(path) as whole:
        found = as_sample(whole)
        if found is not None:
            query(found, where, sort, 5, None)


def _typed(data: bytes) -> None:
    """Queries of files with types, missing values and attributes that no file of ours has."""
    import netCDF4

    try:
        recipe = json.loads(data)
    except RecursionError:
        raise ValueError("no recipe") from None
    path = os.path.join(_folder(), "typed.nc")
    try:
        with netCDF4.Dataset(path, "w") as file:
            for name, told in recipe.items():
                file.createDimension(name, min(int(told["size"]), 10**13))
                made = file.createVariable(name, _kind(file, told["kind"], name), (name,), fill_value=told["fill"])
                plain = {key: value for key, value in told["attrs"].items() if isinstance(value, str | int | float)}
                made.setncatts(plain)
                if made.size < 100 and told["kind"] in ("f8", "i2"):
                    made[:] = np.arange(made.size)
    except Exception as error:  # what the library does not make is no file
        raise ValueError(f"no file: {type(error).__name__}") from None
    _opened(path)


def _kind(file: Any, kind: str, name: str) -> Any:
    if kind == "vlen":
        return file.createVLType(np.float64, f"{name}_type")
    if kind == "enum":
        return file.createEnumType(np.uint8, f"{name}_type", {"a": 0, "b": 1})
    if kind == "compound":
        return file.createCompoundType(np.dtype([("a", "f4"), ("b", "f8")]), f"{name}_type")
    return str if kind == "text" else kind


def _drawn(data: bytes) -> None:
    """As `jaxroof plot` and `jaxroof query` do."""
    import contextlib
    import io

    from sweeps.cli import main

    path, _ = _saved(data)
    kind = ("overview", "heatmap", "lines", "pareto", "breakdown")[hashlib.sha256(data).digest()[0] % 5]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main(["plot", path, "--kind", kind, "-o", path.replace(".nc", ".png")])
        status |= main(["query", path, "--where", "feasible"])
    if status not in (0, 2):
        raise AssertionError(f"exit status {status}: {said.getvalue()[-300:]}")


def _opened(path: str) -> None:
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened
    from sweeps.data.querying import query

    with opened(path) as whole:
        found = as_sample(whole)
        if found is not None:
            query(found, "tpot < 1", "tpot", 5, None)


def _manifest(path: str) -> None:
    import sweeps

    sweeps.open(pathlib.Path(path).parent, partial=True)


def _header(data: bytes) -> None:
    """A manifest whose checksums are right, whatever it says."""
    import sweeps
    from sweeps.data.shards.manifest import _line

    try:
        found = json.loads(data)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("no header")
    lines = [found, *(found.pop("lines", None) or [])] if isinstance(found.get("lines"), list | None) else [found]
    folder = pathlib.Path(_folder(), "shards")
    folder.mkdir(exist_ok=True)
    (folder / "manifest.jsonl").write_bytes(b"".join(_line(line) for line in lines))
    (folder / "frame.nc").write_bytes(_files()[0])
    dataset = sweeps.open(folder, partial=True)
    if all(size < 10_000 for size in dataset.sizes.values()):
        dataset.load()


@functools.cache
def _folder() -> str:
    return tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


@functools.cache
def _files() -> list[bytes]:
    found = []
    for recipe in (RECIPE, SAMPLE):
        made(recipe).to_netcdf(path := pathlib.Path(_folder(), "seed.nc"), engine="netcdf4")
        found.append(path.read_bytes())
    return found


def _manifests() -> list[bytes]:
    from sweeps.data.shards.manifest import _line

    return [_line({**_header_of(), "lines": None}) + _line(_LINE)]


def _header_of() -> dict[str, Any]:
    content = _files()[0]
    frame = {"file": "frame.nc", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return {**_HEADER, "frame": frame}


_LINE = {
    "number": 0,
    "file": "shard-0000000.nc",
    "bytes": 10,
    "sha256": "00",
    "points": 6,
    "seconds": 0.1,
    "names": ["tpot"],
    "runs": [[[0, 2]], [[0, 3]]],
}
_HEADER: dict[str, Any] = {
    "format": "jaxroof shards 1",
    "question_sha256": "0",
    "spec": {"job": "request"},
    "keep": [],
    "stored": {},
    "software": {"jaxroof": "1", "jax": "1"},
    "hardware": "cpu",
    "shards": 1,
    "points": 6,
    "shard_points": 6,
    "axes": [["hardware", 2], ["batch", 3]],
    "outputs": [
        {
            "name": "tpot",
            "dims": ["hardware", "batch"],
            "shape": [2, 3],
            "dtype": "float32",
            "ops": [],
            "complete": True,
        }
    ],
    "frame": {"file": "frame.nc", "bytes": 0, "sha256": ""},
    "lines": [_LINE],
}
