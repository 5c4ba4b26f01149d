"""A folder of shards as one netCDF file."""

import os
import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hwspaces.files import output
from sweeps.data import store
from sweeps.data.pieces import Output, Piece, as_slice
from sweeps.data.shards import encode, folder, manifest
from sweeps.data.shards.encode import outline
from sweeps.data.shards.read import frame
from sweeps.data.shards.read import open as opened


def merge(
    place: str | os.PathLike[str],
    path: str | os.PathLike[str],
    progress: Callable[[int], None] = lambda points: None,
    *,
    force: bool = False,
) -> None:
    """Write the finished sweep in a folder into one file, a shard at a time; the file appears when it is whole.

    Args:
      place: the folder.
      path: the file.
      progress: called with the points that each shard adds.
      force: replace a file that jaxroof did not write.

    Raises:
      ValueError: one line: no such sweep, one that is not finished, a shard that is damaged, a file that must not or
        cannot be written.
    """
    place = pathlib.Path(place)
    inputs = (str(place),)
    # A file that must not be written is refused before the shards are read.
    output.require([output.Wanted(os.fspath(path), ("dataset",))], inputs, force)
    dataset, record = opened(place), manifest.read(place)
    known = outline(record.header, place / manifest.NAME)
    # Parts that were kept are small enough to be in memory at once.
    if known.keep:
        store.saved(path, dataset, force, inputs)
        progress(known.points)
        return
    with output.replacing(path, ("dataset",), inputs, force) as name:
        store.written(name, frame(place, record), known.outputs, _pieces(place, record, known.outputs, progress))


def _pieces(
    place: pathlib.Path,
    found: manifest.Manifest,
    outputs: Mapping[str, Output],
    progress: Callable[[int], None],
) -> Iterator[Piece]:
    """Every variable of every shard."""
    axes = [name for name, _ in found.header["axes"]]
    for _, shard in sorted(found.shards.items()):
        sides = dict(zip(axes, shard.positions, strict=True))
        content = folder.checked(place / shard.file, shard.bytes, shard.sha256)
        for name in shard.names:
            output = outputs[name]
            # Positions along the sweep's axes; of a breakdown, all of its ops.
            parts = [sides.get(dim, np.arange(len(output.ops))) for dim in output.dims]
            yield Piece(name, tuple(as_slice(part) for part in parts), encode.values(content, name))
        progress(shard.points)
