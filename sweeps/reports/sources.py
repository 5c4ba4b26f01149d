"""Results that a report is made of: saved files, datasets and records, and which kind each is."""

import dataclasses
import datetime
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import xarray as xr

from hwspaces.files import document
from sweeps.data.best import metrics
from sweeps.data.keep.rows import as_sample
from sweeps.data.opened import opened
from sweeps.data.shards import zarr_store
from sweeps.data.shards.read import is_folder

LARGEST_JSON = 64 * 2**20
"""B of a record; that of a simulation of many classes has some MB."""

MOST_VALUES = 2_000_000
"""Values and keys of a record."""

ENDINGS = ".json, .nc, .zarr or a folder of a sweep"


@dataclasses.dataclass(frozen=True)
class Source:
    """One result."""

    name: str  # in messages and on the page
    content: Mapping[str, Any] | xr.Dataset
    written: str = ""  # when, where it is a file

    @property
    def kind(self) -> str:
        """Which kind of result it is, a key of `sweeps.reports.sections.MAKERS`.

        Raises:
          ValueError: one line, where it is none that a report shows.
        """
        content = self.content
        kind = _dataset_kind(content) if isinstance(content, xr.Dataset) else _record_kind(content)
        if kind is None:
            raise ValueError(
                f"{self.name} is no result that a report shows: those of compare, capacity, serve, step, request, "
                "train, price, disaggregate, colocate, sweep and optimize are"
            )
        return kind


def sources(result: Any) -> list[Source]:
    """The results that a caller gives: a path, a Dataset, a record, or what has a `record()` or `dataset`.

    Raises:
      ValueError: one line: no such file, a file that is none of ours, or an object that is no result.
    """
    if isinstance(result, str | os.PathLike):
        return [_opened(os.fspath(result))]
    if isinstance(result, xr.Dataset):
        return [Source(str(result.attrs.get("title", "dataset")), result)]
    if isinstance(result, Mapping):
        return [Source("record", result)]
    # Answers of this package say themselves what they are for programs.
    if callable(record := getattr(result, "record", None)):
        return [Source(type(result).__name__, record())]
    raise ValueError(
        f"{type(result).__name__} is no result: give a path, an xarray Dataset, or a record as --json prints it"
    )


def _opened(path: str) -> Source:
    place = pathlib.Path(path)
    if path.rstrip("/").lower().endswith(".zarr") and place.is_dir():
        return Source(path, _zarr(path), _written(place))
    if not place.exists():
        raise ValueError(f"{path} is not there: give a result, which is {ENDINGS}")
    if is_folder(path):
        return Source(path, opened(path), _written(place))
    if place.is_dir():
        raise ValueError(f"{path} is a folder without a sweep: give {ENDINGS}")
    if place.suffix.lower() == ".nc":
        return Source(path, opened(path), _written(place))
    if place.suffix.lower() != ".json":
        raise ValueError(f"{path} must be {ENDINGS}")
    value = document.json_value(path, LARGEST_JSON, MOST_VALUES)
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}, not the record of a result")
    return Source(path, value, _written(place))


def _zarr(path: str) -> xr.Dataset:
    zarr_store.require()
    try:
        return xr.open_zarr(path)
    except Exception as error:  # whatever the libraries below raise for what is no store
        raise ValueError(f"{path} is not a Zarr store: {' '.join(str(error).split())[:200]}") from None


def _written(place: pathlib.Path) -> str:
    """When a file was written, in local time; "" where it is none."""
    try:
        seconds = place.stat().st_mtime
    except OSError:
        return ""
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M %z")


def _record_kind(record: Mapping[str, Any]) -> str | None:
    """Kind of a record, by the keys that no other one has together."""
    keys = set(record)
    if {"question", "rows", "sorted_by"} <= keys or {"tried", "rows", "sorted_by"} <= keys:
        return "comparison"
    if {"curve", "rows", "target"} <= keys:
        return "capacity"
    if {"rows", "tried", "feasible", "devices"} <= keys:
        return "layouts"
    if isinstance(record.get("routers"), Mapping):
        return "routers"
    if "function" in keys and isinstance(record.get("points"), list):
        return "points"
    if not isinstance(record.get("metrics"), Mapping):
        return None
    metrics = set(record["metrics"])
    if "iteration_time" in metrics:
        return "training"
    if {"policy", "load"} <= keys or "ttft_p50" in metrics:
        return "served"
    return "ops" if isinstance(record.get("ops"), list) else "figures"


def _dataset_kind(dataset: xr.Dataset) -> str | None:
    if {"request", "iteration"} <= set(dataset.dims) and "ttft_p50" in dataset:
        return "run"
    if "capacity" in dataset and "state" in dataset:
        return "curve"
    sample = as_sample(dataset)
    if sample is None:
        return "spread"
    return "designs" if [name for name in metrics(sample) if sample[name].dims] else None
