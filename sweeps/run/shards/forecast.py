"""Forecast of a sweep before it begins: points, bytes, files, hours and money, by a sample of its shards."""

import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sweeps.data.shards import manifest
from sweeps.run.cores import cores
from sweeps.run.precision import precision
from sweeps.run.shards.api import executor
from sweeps.run.shards.run import Watch
from sweeps.run.shards.work import FRAME, ShardWork

SHARD_SECONDS = 2.0
"""s that a shard of the sample may take: of slow sweeps it is smaller than the sweep's own."""

SAMPLED = 3
"""Shards of the sample per process, spread over the sweep."""


@dataclasses.dataclass(frozen=True)
class Forecast:
    """A sweep that has not begun. What is estimated is measured on a sample of it, on this machine."""

    title: str
    points: int
    axes: Mapping[str, int]  # points along each
    variables: tuple[str, ...]
    keep: tuple[str, ...]  # less than every point
    shards: int  # files; 1 where the sweep is one file
    shard_points: int  # of a file, about
    raw_bytes: float  # B of every value, as a netCDF file without compression has them
    bytes: float  # B on the disk: estimated
    sample_points: int
    sample_bytes: int
    processes: int  # on each machine
    points_per_second: float  # of a machine, with writing and without the start
    machines: int  # such as this one
    machine_hours: float
    hours: float  # machine_hours / machines: shards do not depend on each other
    usd_per_machine_hour: float | None  # as given
    usd: float | None  # None where no price is given


def forecast(
    source: Mapping[str, Any],
    *,
    shard_points: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    machines: int = 1,
    usd_per_machine_hour: float | None = None,
    one_file: bool = False,
    compiling: Callable[[int, int], None] = lambda number, total: None,
) -> Forecast:
    """What a sweep will take. Shards of a sample are written into a temporary folder, which is removed.

    The grid is never made: of 10^11 points a few million are computed.

    Args:
      source: the specification as a dictionary.
      shard_points: as `sweep_to_folder` takes it.
      scheduler: None, this process; or "dask", workers that are started here.
      workers: how many.
      machines: that share the shards, each as fast as this one.
      usd_per_machine_hour: the price of one.
      one_file: the sweep is written into one netCDF file, without compression.
      compiling: called before each program is compiled with its number, from 1, and the number of programs.

    Raises:
      ValueError: one line: a wrong specification, or a scheduler whose machines are not this one.
    """
    if scheduler not in (None, "dask"):
        raise ValueError(f"scheduler = {scheduler}: rates are measured on this machine; leave it out, or give dask")
    execute = executor(scheduler, workers)
    processes = (workers or cores()) if scheduler else 1
    work = ShardWork(source, shard_points, compiling)
    raw = sum(float(np.prod(output.shape)) * output.dtype.itemsize for output in work.plan.outputs.values())
    with precision(work.precision):
        small = _smaller(work, _seconds_per_point(work))
        measured, written, rate = _sampled(small, execute, processes)
    # Kept rows and counts of a shard are about as many everywhere; other values pack by the same share everywhere.
    values = sum(shard.points for shard in measured) * raw / max(work.plan.points, 1)
    size = written / len(measured) * len(work.boxes) if work.keep else min(raw, raw * written / max(values, 1.0))
    hours = work.plan.points / rate / 3600
    return Forecast(
        title=str(work.asked.attributes["title"]),
        points=work.plan.points,
        axes={axis.name: axis.size for axis in work.plan.axes},
        variables=tuple(work.plan.outputs),
        keep=tuple(map(str, work.keep)),
        shards=1 if one_file else len(work.boxes),
        shard_points=work.plan.points if one_file else max(box.points for box in work.boxes),
        raw_bytes=raw,
        bytes=raw if one_file else size,
        sample_points=sum(shard.points for shard in measured),
        sample_bytes=written,
        processes=processes,
        points_per_second=rate,
        machines=machines,
        machine_hours=hours,
        hours=hours / machines,
        usd_per_machine_hour=usd_per_machine_hour,
        usd=None if usd_per_machine_hour is None else hours * usd_per_machine_hour,
    )


def _seconds_per_point(work: ShardWork) -> float:
    """s per point of the smallest part of the sweep that is computed by itself, which is computed twice."""
    first = next(work.plan.boxes())
    for _ in range(2):  # the first call pages its buffers in
        begun = time.perf_counter()
        for _piece in work.plan.pieces(boxes=[first]):
            pass
        seconds = time.perf_counter() - begun
        if seconds > SHARD_SECONDS:
            break
    return seconds / first.points


def _smaller(work: ShardWork, seconds_per_point: float) -> ShardWork:
    """The sweep in shards that a sample has time for."""
    if max(box.points for box in work.boxes) * seconds_per_point <= 2 * SHARD_SECONDS:
        return work
    return ShardWork(work.spec.source, max(1, int(SHARD_SECONDS / seconds_per_point)))


def _sampled(work: ShardWork, execute: Any, processes: int) -> tuple[list[manifest.Shard], int, float]:
    """Shards spread over the sweep, the bytes of their files, and points per second of all processes."""
    # In this process several threads may take a shard each, so that each of them has as many.
    wanted = SAMPLED * (processes if processes > 1 else cores() if work.keep else 1)
    numbers = np.unique(np.linspace(0, len(work.boxes) - 1, wanted).round().astype(int)).tolist()
    with tempfile.TemporaryDirectory(prefix="jaxroof-plan-") as name:
        place = pathlib.Path(name)
        manifest.begun(place, work.header | {"frame": work.write_frame(place)})
        begun = time.perf_counter()
        shards = list(execute(work, numbers, place, Watch()))
        seconds = time.perf_counter() - begun
        frame = (place / FRAME).stat().st_size
    points = sum(shard.points for shard in shards)
    written = sum(shard.bytes for shard in shards)
    if execute.__name__ != "local":
        # A worker's first shard has its start in it: what is left says how fast workers are.
        steady = sorted(shards, key=lambda shard: shard.seconds / shard.points)[: max(1, len(shards) - processes)]
        rate = processes * sum(shard.points for shard in steady) / sum(shard.seconds for shard in steady)
    else:
        rate = points / seconds
    return shards, written + (frame if len(work.boxes) == 1 else 0), rate
