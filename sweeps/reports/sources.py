"""Results that a report is made of: saved files, datasets and records, and which kind each is."""

import dataclasses
import datetime
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import xarray as xr

from hwspaces.files import document
from hwspaces.performance.surface import read_surfaces
from sweeps.data.best import metrics
from sweeps.data.keep.rows import as_sample
from sweeps.data.opened import opened
from sweeps.data.shards import zarr_store
from sweeps.data.shards.read import is_folder
from sweeps.measure.surface_record import surface_record

LARGEST_JSON = 64 * 2**20
"""B of a record; that of a simulation of many classes has some MB."""

MOST_VALUES = 2_000_000
"""Values and keys of a record."""

ENDINGS = ".json, .nc, .zarr or a folder of a sweep"

KEYS: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(keys.split()), kind)
    for keys, kind in (
        ("question rows sorted_by", "comparison"),
        ("tried rows sorted_by", "comparison"),
        ("curve rows target", "capacity"),
        ("rows tried feasible devices", "layouts"),
        ("goal accelerators classes", "fleet"),
        ("knobs checks without_elasticity", "sensitivity"),
        ("layer architecture mapping", "layer"),
        ("network architecture layers", "network"),
        ("attributes best_split load", "split"),
        ("kind devices sizes", "collective"),
        ("errors rows unpredicted", "validation"),
        ("errors rows left_out", "validation"),
        ("errors groups left_out", "validation"),
        ("path groups left_out", "validation"),
        ("rows largest_error_of_fitted", "validation"),
    )
)
"""Keys that no record of another kind has together -> its kind."""

SCENARIOS = "Scenarios beside expected values"

LISTS = {
    SCENARIOS: frozenset(("id", "what", "expected", "found", "status")),
    "Scenarios": frozenset(("id", "title", "source")),
    "Accelerators of the catalogue": frozenset(("name", "vendor", "figures")),
    "Models of the catalogue": frozenset(("name", "architecture", "parameters")),
    "Design spaces": frozenset(("name", "base", "technologies")),
}
"""Title of what a verb prints as a list -> keys that its first entry has."""


@dataclasses.dataclass(frozen=True)
class Source:
    """One result."""

    name: str  # in messages and on the page
    content: Mapping[str, Any] | xr.Dataset
    written: str = ""  # when, where it is a file
    ours: bool = False  # an answer of this package, of whatever kind

    @property
    def kind(self) -> str:
        """Which kind of result it is, a key of `sweeps.reports.sections.MAKERS`.

        Raises:
          ValueError: one line, where it is no result of jaxroof.
        """
        content = self.content
        kind = _dataset_kind(content) if isinstance(content, xr.Dataset) else _record_kind(content)
        if kind is None and self.ours:
            return "dataset" if isinstance(content, xr.Dataset) else "record"
        if kind is None:
            raise ValueError(f"{self.name} is no result of jaxroof: it has neither its command nor the keys of one")
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
        name, found = type(result).__name__, record()
        data = getattr(result, "dataset", None) if _record_kind(found) is None else None
        # Optima and maps, whose records have no section of their own, have one as datasets.
        return [Source(name, data if isinstance(data, xr.Dataset) else found, ours=True)]
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
        data = opened(path)
        # Tables of measured kernels are groups of the file, which a dataset does not have.
        kernels = "jaxroof_surface_version" in data.attrs
        return Source(path, surface_record(read_surfaces(path)) if kernels else data, _written(place))
    if place.suffix.lower() != ".json":
        raise ValueError(f"{path} must be {ENDINGS}")
    value = document.json_value(path, LARGEST_JSON, MOST_VALUES)
    if title := _list_title(value):
        value = {"title": title, "rows": value}
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
    for known, kind in KEYS:
        if known <= keys:
            return kind
    if isinstance(record.get("routers"), Mapping):
        return "routers"
    if "function" in keys and isinstance(record.get("points"), list):
        return "points"
    if keys == {"title", "rows"} and (title := _list_title(record["rows"])):
        return "scenarios" if title == SCENARIOS else "record"
    # Every record that a verb prints states its command.
    ours = "jaxroof_version" in keys or str(record.get("command", "")).startswith("jaxroof ")
    if not isinstance(record.get("metrics"), Mapping):
        return "record" if ours else None
    metrics = set(record["metrics"])
    if "iteration_time" in metrics:
        return "training"
    if {"policy", "load"} <= keys or "ttft_p50" in metrics:
        return "served"
    return "ops" if isinstance(record.get("ops"), list) else "figures"


def _list_title(value: Any) -> str:
    """Title of what a verb prints as a list; "" of anything else."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return ""
    return next((title for title, keys in LISTS.items() if keys <= set(value[0])), "")


def _dataset_kind(dataset: xr.Dataset) -> str | None:
    if {"request", "iteration"} <= set(dataset.dims) and "ttft_p50" in dataset:
        return "run"
    if "capacity" in dataset and "state" in dataset:
        return "curve"
    if {"split", "load"} <= set(dataset.dims) and "best_split" in dataset:
        return "split file"
    if set(dataset.dims) == {"row"} and LISTS[SCENARIOS] <= set(map(str, dataset.variables)):
        return "scenarios file"
    if "knob_value" in dataset.variables and dataset["knob_value"].dims == ("knob",):
        # Maps have axes beside the numbers.
        return "sensitivity file" if set(dataset.dims) <= {"knob", "factor"} else "dataset"
    sample = as_sample(dataset)
    if sample is None:
        return "spread"
    if [name for name in metrics(sample) if sample[name].dims]:
        return "designs"
    return (
        "dataset" if "jaxroof_version" in dataset.attrs or "jaxroof" in str(dataset.attrs.get("source", "")) else None
    )
