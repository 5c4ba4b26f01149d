"""A sweep into a folder in one call: shards that are written as they are finished, and continued where they ended."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import xarray as xr

from hwspaces.files import output
from hwspaces.quantities.units import plain_arguments
from sweeps.ask.spec import content
from sweeps.data.shards.read import open as opened
from sweeps.run.shards.run import Watch, local, run
from sweeps.run.shards.work import Work


@plain_arguments
def sweep_to_folder(
    place: str | os.PathLike,
    source: str | os.PathLike | Mapping[str, Any],
    *,
    shard_points: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    watch: Watch | None = None,
) -> xr.Dataset:
    """Evaluate a specification into a folder of netCDF shards with a manifest, of any size in bounded memory.

    Called again after an interruption, it checks what is there and computes what is missing: the folder ends the
    same, bit by bit.

    Args:
      place: the folder; made where there is none.
      source: as `sweeps.sweep` takes it. `output.keep` keeps less than every point; `output.compression` and
        `output.digits` make files smaller.
      shard_points: about how many points a shard has; by default 64 MB of values.
      scheduler: None: this process, on all of JAX's devices. "dask": Dask workers that are started here. Else the
        address of a Dask scheduler, whose workers see the folder under the same name.
      workers: processes that "dask" starts; by default one per core.
      watch: is told how it goes.

    Returns:
      What `sweeps.open` reads from the folder.

    Raises:
      ValueError: one line: a wrong specification, a folder of another sweep or that another process writes into, a disk
        that is full. What is finished stays.
    """
    output.require([output.Wanted(os.fspath(place), (), folder="shards")], output.named(source))
    given = content(pathlib.Path(source)) if isinstance(source, str | os.PathLike) else dict(source)
    work = Work(given, shard_points)
    run(pathlib.Path(place), work, watch, executor(scheduler, workers))
    return opened(place)


def executor(scheduler: str | None, workers: int | None) -> Any:
    """Executor of shards; ValueError of one line for workers without a scheduler, or where Dask is missing."""
    if scheduler is None:
        if workers is not None:
            raise ValueError(f"workers = {workers} are started by scheduler = dask alone")
        return local
    from sweeps.run.shards.cluster import cluster

    return cluster(scheduler, workers)
