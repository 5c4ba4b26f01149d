"""A folder of shards as one lazy Dataset; every part is checked against the manifest before it is read."""

import functools
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from sweeps.ask.names import variable_attributes
from sweeps.data.conditions import NONE, Groups, conditions
from sweeps.data.keep import keepers
from sweeps.data.keep.rows import COMPUTED
from sweeps.data.pieces import Output, blank, crossed
from sweeps.data.shards import encode, folder, manifest
from sweeps.data.shards.encode import Outline, outline
from sweeps.data.store import dimensions

KEPT_FILES = 4
"""Shards that stay in memory after they are read."""


def open(place: str | os.PathLike[str], partial: bool = False) -> xr.Dataset:
    """The sweep in a folder of shards.

    Of a sweep that kept everything, values are read when they are asked for, a shard at a time, and every shard is
    checked against its checksum before it is used. Of one that kept less, what is kept of all shards together.

    Args:
      place: the folder.
      partial: accept a sweep that is not finished; points that are missing are blank: NaN, False or -1.

    Returns:
      A Dataset as `sweeps.sweep` returns it, or the rows, counts and quantiles that were kept.

    Raises:
      ValueError: one line: no such sweep, one that is not finished, a file that is missing or damaged.
    """
    place = pathlib.Path(place)
    record = manifest.read(place)
    if not (record.complete or partial):
        raise ValueError(
            f"{place} is not finished: {len(record.shards):,} of {record.header['shards']:,} shards; the command that "
            "began it continues it, and partial=True reads what there is"
        )
    known = outline(record.header, place / manifest.NAME)
    labels = frame(place, record)
    # Parts that were kept are merged now; values of a full sweep are read when they are indexed.
    if known.keep:
        return _kept(place, record, known, labels)
    files = _Files(place, tuple(shard for _, shard in sorted(record.shards.items())), known)
    variables = {}
    for output in known.outputs.values():
        values = indexing.LazilyIndexedArray(_Sharded(files, output))
        variables[output.name] = (dimensions(output), values, variable_attributes(output.name, output.dtype))
    return xr.Dataset(variables, labels.coords, labels.attrs)


class Backend(BackendEntrypoint):
    """Lets `xarray.open_dataset` open a folder of shards."""

    description = "Folders of shards that jaxroof writes"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "partial")

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None, partial: bool = False) -> xr.Dataset:
        """As `sweeps.open`."""
        dataset = open(filename_or_obj, partial)
        return dataset.drop_vars([drop_variables] if isinstance(drop_variables, str) else drop_variables or [])

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """True for a folder with a manifest."""
        return isinstance(filename_or_obj, str | os.PathLike) and is_folder(filename_or_obj)


def is_folder(place: str | os.PathLike[str]) -> bool:
    """True for a folder of shards."""
    return (pathlib.Path(place) / manifest.NAME).is_file()


def frame(place: pathlib.Path, found: manifest.Manifest) -> xr.Dataset:
    """Labels along every axis, and how the sweep was made."""
    told, where = found.header["frame"], place / manifest.NAME
    labels = encode.dataset(folder.checked(place / told["file"], told["bytes"], told["sha256"]))
    for name, size in found.header["axes"]:
        if labels.sizes.get(name, size) != size:
            raise ValueError(f"{where} is damaged: axis {name} has {size:,} points and {labels.sizes[name]:,} labels")
    return labels


def whole(place: pathlib.Path, shard: manifest.Shard, known: Outline) -> bytes:
    """The content of a shard; ValueError in one line where it is not as it was written, or not as described."""
    content = folder.checked(place / shard.file, shard.bytes, shard.sha256)
    with encode.opened(content) as file:
        for name in shard.names:
            output = known.outputs.get(name)
            # Parts that were kept are of any length.
            if output is None or known.keep:
                continue
            sizes = dict(zip((axis.name for axis in known.axes), map(len, shard.positions), strict=True))
            expected = tuple(sizes.get(dim, len(output.ops)) for dim in output.dims)
            there = file.variables[name].shape if name in file.variables else None
            if there != expected:
                raise ValueError(f"{place / shard.file} is damaged: {name} is of shape {there} in place of {expected}")
    return content


class _Files:
    """Shards that were read lately, each checked when it is read."""

    def __init__(self, place: pathlib.Path, shards: tuple[manifest.Shard, ...], known: Outline):
        self.place, self.shards, self.known = place, shards, known
        self.lock = threading.RLock()  # of what is kept
        self._whole = functools.lru_cache(KEPT_FILES)(functools.partial(whole, place, known=known))

    def values(self, shard: manifest.Shard, name: str) -> np.ndarray:
        """A variable of a shard."""
        return encode.values(self._whole(shard), name)

    # Locks and caches cannot be pickled: another process begins with its own.
    def __reduce__(self) -> tuple[Any, ...]:
        return _Files, (self.place, self.shards, self.known)


class _Sharded(BackendArray):
    """One variable over all shards."""

    def __init__(self, files: _Files, output: Output):
        self.files, self.output = files, output
        self.shape, self.dtype = output.shape, output.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        # One index for every axis, as `oindex` takes them; xarray turns other kinds into these.
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[int | slice | np.ndarray, ...]) -> np.ndarray:
        # Single positions become arrays of one, whose axis is dropped at the end.
        wanted = [np.atleast_1d(np.arange(size)[part]) for size, part in zip(self.shape, key, strict=True)]
        values = np.full([len(positions) for positions in wanted], blank(self.dtype), self.dtype)
        with self.files.lock:
            for shard in self.files.shards:
                if self.output.name in shard.names:
                    self._copy(shard, wanted, values)
        # Positions given as integers lose their axis, as in NumPy.
        single = tuple(0 if isinstance(part, int | np.integer) else slice(None) for part in key)
        return values[single]

    def _copy(self, shard: manifest.Shard, wanted: list[np.ndarray], found: np.ndarray) -> None:
        """Put what a shard has of the wanted positions in their place."""
        into, out = [], []
        sides = dict(zip((axis.name for axis in self.files.known.axes), shard.positions, strict=True))
        for dim, positions in zip(self.output.dims, wanted, strict=True):
            if dim not in sides:  # ops: every shard has all of them
                into.append(np.arange(len(positions)))
                out.append(positions)
                continue
            # Positions of a shard rise, so that each wanted one is looked up by bisection.
            places = np.minimum(np.searchsorted(sides[dim], positions), len(sides[dim]) - 1)
            here = np.flatnonzero(sides[dim][places] == positions)
            if not here.size:
                return
            into.append(here)
            out.append(places[here])
        values = self.files.values(shard, self.output.name)
        # All that is wanted is all of one shard: a plain copy.
        if values.shape == tuple(map(len, out)) == found.shape:
            found[...] = values
        else:
            found[crossed(into)] = values[crossed(out)]


def _kept(place: pathlib.Path, found: manifest.Manifest, known: Outline, labels: xr.Dataset) -> xr.Dataset:
    """Kept points or counts of all shards together, with the labels of the points."""
    merged = xr.Dataset(attrs=labels.attrs)
    computed: dict[int, int] = {}
    # What nobody recorded was kept of all points together.
    sizes = {axis.name: axis.size for axis in known.axes}
    groups = Groups.of(labels, sizes, conditions(labels, None if "per" in labels.attrs else NONE))
    for keeper in keepers(known.keep, known, known.job, groups):
        combined = keeper.merged(_parts(place, found, computed))
        if keeper.kind in ("top", "pareto"):
            combined = _labelled(combined, keeper.kind, keeper.dim, known, labels)
        merged = merged.merge(combined)
    # The metrics of a front are recorded beside its points.
    pairs = [word.partition("=")[2] for word in known.keep if word.startswith("pareto")]
    pareto = {"pareto": pairs[0]} if pairs else {}
    pruned = {COMPUTED: sum(computed.values())} if computed else {}
    return merged.assign_attrs(labels.attrs | pareto | {"points": known.points} | pruned)


def _parts(place: pathlib.Path, found: manifest.Manifest, computed: dict[int, int]) -> Iterator[xr.Dataset]:
    """What every shard kept; of those of a pruned sweep also how many points were computed, by number."""
    for number, shard in sorted(found.shards.items()):
        part = encode.dataset(folder.checked(place / shard.file, shard.bytes, shard.sha256))
        if COMPUTED in part.attrs:
            computed[number] = int(part.attrs[COMPUTED])
        yield part


def _labelled(rows: xr.Dataset, kind: str, dim: str, known: Outline, labels: xr.Dataset) -> xr.Dataset:
    """Rows with what was varied, at their points, as coordinates."""
    numbers = rows[f"{kind}_number"].values
    # Numbers count points in the order of the sweep, the last axis fastest.
    places = np.unravel_index(numbers, [axis.size for axis in known.axes]) if known.axes else ()
    along = {axis.name: place for axis, place in zip(known.axes, places, strict=True)}
    for name, label in labels.coords.items():
        if len(label.dims) == 1 and label.dims[0] in along:
            values = label.values[along[label.dims[0]]]
            rows = rows.assign_coords({f"{kind}_{name}": (dim, values, label.attrs)})
    return rows
