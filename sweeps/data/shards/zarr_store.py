"""A sweep as a Zarr store, local or in an object store: arrays that regions are written into, and which of them are.

Beside the variables the store has a group `progress`: what is asked, and an array with a number per region, the hash of
its values, written after them. A region without a hash, or whose values have another one, is not there.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from hwspaces.files.extras import installing
from sweeps.ask.names import variable_attributes
from sweeps.data.pieces import Box, Output, as_slice, blank
from sweeps.data.shards import manifest
from sweeps.data.store import dimensions

PROGRESS = "progress"
"""Name of the group that says which regions are written."""

UNFINISHED = "unfinished"
"""Attribute of a store whose regions are not all there."""


def require() -> Any:
    """The Zarr library; ValueError of one line where it is missing."""
    # Zarr is an optional dependency.
    try:
        import fsspec  # noqa: F401
        import zarr
    except ImportError:
        raise ValueError(f"Zarr stores need zarr and fsspec: {installing('zarr')}") from None
    return zarr


class ZarrSweep:
    """A sweep's store, opened to be written.

    Args:
      place: a folder that ends in .zarr, or a URL of fsspec, such as s3://BUCKET/NAME.zarr.
      header: what is asked, as a manifest has it.
      outputs: the variables.
      labels: coordinates along every axis, and attributes.
      boxes: the regions.

    Raises:
      ValueError: one line: a store of another sweep or of somebody else, or one that cannot be reached.
    """

    def __init__(
        self,
        place: str,
        header: Mapping[str, Any],
        outputs: Mapping[str, Output],
        labels: xr.Dataset,
        boxes: Sequence[Box],
    ):
        self.place, self.outputs, self.boxes = place, outputs, boxes
        self._zarr, self._axes = require(), [name for name, _ in header["axes"]]
        try:
            self._store = self._opened()
            self._root = self._resumed(dict(header)) or self._begun(dict(header), labels)
        except ImportError as error:
            raise ValueError(f"{place}: {' '.join(str(error).split())}") from None
        except OSError as error:
            raise ValueError(f"{place} cannot be written: {' '.join(str(error).split())}") from None
        self._done = self._root[f"{PROGRESS}/done"]

    def _opened(self) -> Any:
        storage = self._zarr.storage
        return storage.FsspecStore.from_url(self.place) if "://" in self.place else storage.LocalStore(self.place)

    def _resumed(self, header: dict[str, Any]) -> Any:
        """The root of a store that this sweep began; None where there is none."""
        try:
            root = self._zarr.open_group(self._store, mode="r+", use_consolidated=False)
        except FileNotFoundError:
            return None
        if PROGRESS not in root:
            # Attributes come first and progress last: a store between them was begun, and nothing is in it.
            if UNFINISHED in root.attrs:
                return None
            raise ValueError(f"{self.place} is there already, and no sweep of jaxroof: give another name")
        before = json.loads(str(root[PROGRESS].attrs["header"]))
        if changed := manifest.differences(before, json.loads(json.dumps(header))):
            raise ValueError(f"{self.place} belongs to another sweep: {'; '.join(changed[:3])}; give another name")
        return root

    def _begun(self, header: dict[str, Any], labels: xr.Dataset) -> Any:
        """A new store without values."""
        unfinished = {UNFINISHED: "the command that began it continues it"}
        root = self._zarr.create_group(self._store, overwrite=True, attributes=unfinished)
        labels = labels.assign_attrs(labels.attrs | unfinished)
        labels.to_zarr(self._store, mode="a", zarr_format=3, consolidated=False)
        # A chunk is what the first region has of a variable: most regions are whole chunks then.
        lengths = dict(zip(self._axes, map(len, self.boxes[0].positions), strict=True))
        for name, output in self.outputs.items():
            root.create_array(
                name,
                shape=output.shape,
                chunks=tuple(lengths.get(dim, size) for dim, size in zip(output.dims, output.shape, strict=True)),
                dtype=output.dtype,
                fill_value=blank(output.dtype),
                dimension_names=dimensions(output),
                attributes=_plain(variable_attributes(name, output.dtype)),
            )
        # A chunk per region, so that writing one number never reads another.
        progress = root.create_group(PROGRESS, attributes={"header": json.dumps(header)})
        progress.create_array("done", shape=(len(self.boxes),), chunks=(1,), dtype="uint64", fill_value=0)
        self._consolidated()
        return self._zarr.open_group(self._store, mode="r+", use_consolidated=False)

    def _consolidated(self) -> None:
        """Copy all metadata into one object, which makes opening fast."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
            self._zarr.consolidate_metadata(self._store)

    def kept(self) -> tuple[dict[int, int], dict[int, str]]:
        """B of every region that is there, read again and compared with its hash; and why others are damaged."""
        intact, damaged = {}, {}
        for number in np.flatnonzero(self._done[:]).tolist():
            try:
                values = {name: self._root[name].get_orthogonal_selection(at) for name, at in self._places(number)}
                if _hash(values) == int(self._done[number]):
                    intact[number] = sum(array.nbytes for array in values.values())
                    continue
                damaged[number] = f"region {number} of {self.place} is not what was written"
            except (OSError, ValueError, RuntimeError, KeyError) as error:
                damaged[number] = f"region {number} of {self.place} cannot be read ({' '.join(str(error).split())})"
        return intact, damaged

    def write(self, number: int, dataset: xr.Dataset) -> int:
        """Write the values of a region, then that it is there; returns their bytes.

        Raises:
          ValueError: one line: what the store says.
        """
        values = {name: np.asarray(dataset[name].values) for name, _ in self._places(number)}
        try:
            # A region that is written again is not there until it is.
            self._done[number] = 0
            for name, place in self._places(number):
                self._root[name].set_orthogonal_selection(place, values[name])
            self._done[number] = _hash(values)
        except OSError as error:
            raise ValueError(f"{self.place} cannot be written: {' '.join(str(error).split())}") from None
        return sum(array.nbytes for array in values.values())

    def finish(self) -> None:
        """Say that every region is there."""
        if UNFINISHED in self._root.attrs:
            del self._root.attrs[UNFINISHED]
            self._consolidated()

    def _places(self, number: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Variables of a region, and where their values belong."""
        box = self.boxes[number]
        along = dict(zip(self._axes, box.positions, strict=True))
        for name, output in self.outputs.items():
            if name in box.names:
                sides = [along.get(dim, np.arange(size)) for dim, size in zip(output.dims, output.shape, strict=True)]
                yield name, tuple(as_slice(side) for side in sides)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as JSON takes them: arrays as lists."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in attributes.items()}


def _hash(values: Mapping[str, np.ndarray]) -> int:
    """64 bits that tell values from others, and are never 0."""
    digest = hashlib.sha256()
    for name, array in values.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(digest.digest()[:8], "big") or 1
