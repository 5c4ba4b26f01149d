"""A sweep into a Zarr store in one call: regions that are written as they are computed, and continued after a loss."""

import concurrent.futures
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import xarray as xr

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.spec import content
from sweeps.data.shards import manifest
from sweeps.data.shards.zarr_store import ZarrSweep, require
from sweeps.data.store import coordinates
from sweeps.run.precision import precision
from sweeps.run.shards.run import Watch
from sweeps.run.shards.work import ShardWork

FOLDERS_ALONE = ("keep", "compression", "digits")
"""Settings of output that only folders of netCDF files have."""


@plain_arguments
def sweep_to_zarr(
    place: str | os.PathLike[str],
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    shard_points: int | None = None,
    watch: Watch | None = None,
) -> None:
    """Evaluate a specification into a Zarr store, which `xarray.open_zarr` opens; of any size in bounded memory.

    Called again after an interruption, it checks what is there and computes what is missing: the store ends the same.
    One process at a time writes into a store; nothing keeps a second one from it.

    Args:
      place: a folder NAME.zarr, or a URL of fsspec, such as s3://BUCKET/NAME.zarr.
      source: as `sweeps.sweep` takes it.
      shard_points: about how many points a region has; by default 64 MB of values.
      watch: is told how it goes.

    Raises:
      ValueError: one line: a wrong specification, a package that is missing, a store of another sweep or of somebody
        else, or one that cannot be written.
    """
    require()
    given = content(pathlib.Path(source)) if isinstance(source, str | os.PathLike) else dict(source)
    write(os.fspath(place), ShardWork(given, shard_points), watch)


def write(place: str, work: ShardWork, watch: Watch | None = None) -> None:
    """Compute every region of `work` that the store does not have, the next while one is written.

    Raises:
      ValueError: one line, as of `sweep_to_zarr`.
    """
    watch = watch or Watch()
    for key in FOLDERS_ALONE:
        if key in work.spec.output:
            raise ValueError(f"output.{key} is for folders of netCDF files, and {place} is a Zarr store")
    labels = xr.Dataset(coords=coordinates(work.plan.axes, work.plan.outputs), attrs=work.attributes)
    store = ZarrSweep(place, work.header, work.plan.outputs, labels, work.boxes)
    kept, damaged = store.kept()
    watch.begun(work, {number: _shard(work, number, size, 0.0) for number, size in kept.items()}, damaged)
    missing = [number for number in range(len(work.boxes)) if number not in kept]

    def computed(number: int) -> tuple[xr.Dataset, float]:
        begun = time.perf_counter()
        return work.dataset(number, watch.points), time.perf_counter() - begun

    with precision(work.precision), concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = [pool.submit(computed, number) for number in missing[:1]]
        for i, number in enumerate(missing):
            dataset, seconds = following.pop().result()
            following += [pool.submit(computed, later) for later in missing[i + 1 : i + 2]]
            watch.shard(_shard(work, number, store.write(number, dataset), seconds))
    store.finish()


def _shard(work: ShardWork, number: int, size: int, seconds: float) -> manifest.Shard:
    """A region as a shard of no file."""
    return manifest.Shard(number, "", size, "", work.boxes[number].points, seconds, (), ())
