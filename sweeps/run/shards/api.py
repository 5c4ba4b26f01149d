"""A sweep into a folder in one call: shards that are written as they are finished, and continued where they ended."""

import dataclasses
import functools
import json
import os
import pathlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import xarray as xr

from hwspaces.files import output
from hwspaces.files.extras import installing
from hwspaces.quantities.units import plain_arguments
from jaxroof.numerics.arrays import jax_setting
from sweeps.ask.spec import content
from sweeps.data.shards import manifest
from sweeps.data.shards.read import open as opened
from sweeps.run.cores import VARIABLE, cores, share
from sweeps.run.precision import precision
from sweeps.run.shards.run import Executor, Watch, local, run
from sweeps.run.shards.work import ShardWork, hardware_kind

FAILURES = 10
"""Workers, of those started here, that may die over one shard before it is taken for the shard's fault."""

MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""Environment of workers that are started here: Dask's own has memory given back to the system at every chance, so that
each of our chunks would be paged in anew, at half the speed."""

LOOPBACK = "127.0.0.1"
"""Where a scheduler and workers that are started here listen: no other machine reaches them."""

QUIET = {
    "host": LOOPBACK,
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"},
}
"""No dashboard. Dask opens a port for pages all the same; `PAGES` leaves it without any."""

PAGES: dict[str, list[Any]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}

PATIENCE_SECONDS = 60.0
"""s in which a scheduler that cannot be reached any more, or that has no workers, has to get better."""


def cluster(scheduler: str, workers: int | None) -> Executor:
    """Executor of shards on Dask workers.

    Args:
      scheduler: "dask" for workers that are started here, or the address of a scheduler.
      workers: how many are started; None: one per core.

    Raises:
      ValueError: one line: Dask is not installed, or workers are asked for that a scheduler elsewhere has already.
    """
    # Dask is an optional dependency.
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ValueError(f"scheduler = {scheduler} needs Dask: {installing('dask')}") from None
    if scheduler != "dask" and "://" not in scheduler:
        raise ValueError(f"scheduler = {scheduler} must be dask or an address, such as tcp://HOST:8786")
    if scheduler != "dask" and workers is not None:
        raise ValueError(f"workers = {workers} are started by scheduler = dask alone; {scheduler} has its own")

    def executed(
        work: ShardWork, numbers: Iterable[int], place: pathlib.Path, watch: Watch
    ) -> Iterator[manifest.Shard]:
        yield from _executed(scheduler, workers, work, list(numbers), place, watch)

    return executed


def _executed(
    scheduler: str, workers: int | None, work: ShardWork, numbers: list[int], place: pathlib.Path, watch: Watch
) -> Iterator[manifest.Shard]:
    """Every shard as it is finished. Where the scheduler is lost, what is left begins again with the next one."""
    left = dict.fromkeys(numbers)
    # Patience counts from the last shard that was finished, not from the start.
    met, since = False, time.monotonic()
    while left:
        try:
            with _client(scheduler, workers) as client:
                met = True
                for shard in _from_client(client, work, list(left), place, watch):
                    del left[shard.number]
                    since = time.monotonic()
                    yield shard
        except _Lost as error:
            # A scheduler that never answered is an error at once; one that did may be restarting.
            if not met or time.monotonic() - since > PATIENCE_SECONDS:
                raise ValueError(f"the scheduler {scheduler} cannot be reached: {error}") from None
            # No single shard has failed, hence the number -1.
            watch.failed(-1, str(error))
            time.sleep(1.0)


class _Lost(Exception):
    """The scheduler does not answer."""


def _client(scheduler: str, workers: int | None) -> Any:
    """A connection to a scheduler, with workers of its own where none is named; closes all that it opens."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": FAILURES,
        "distributed.worker.profile.enabled": False,
        **PAGES,
    }
    if scheduler == "dask":
        # One thread per worker, because compiled code runs on threads of its own.
        count = workers or cores()
        # Workers read what this process has compiled.
        if jax_setting("jax_compilation_cache_dir") is not None:
            os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", jax_setting("jax_compilation_cache_dir"))
            os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        # Workers share the machine's cores: compiled code of each would else have a thread on all of them.
        limited = {"distributed.nanny.pre-spawn-environ": MALLOC | {VARIABLE: str(share(count))}}
        with dask.config.set(settings | limited):
            # 50 is the level of critical logs; memory_limit = 0 is Dask's way to say no limit.
            local_cluster = LocalCluster(
                n_workers=count, threads_per_worker=1, silence_logs=50, memory_limit=0, **QUIET
            )
        return _closing(Client(local_cluster), local_cluster)
    try:
        return Client(scheduler, timeout=5.0)
    except (OSError, ValueError) as error:
        raise _Lost(" ".join(str(error).split())) from None


def _closing(client: Any, made: Any) -> Any:
    import contextlib

    @contextlib.contextmanager
    def both() -> Iterator[Any]:
        # Contexts end in reverse order: first the client, then the cluster that it talks to.
        with made, client:
            yield client

    return both()


def _from_client(
    client: Any, work: ShardWork, numbers: list[int], place: pathlib.Path, watch: Watch
) -> Iterator[manifest.Shard]:
    """Shards from one connection; `_Lost` where it ends."""
    from distributed import as_completed
    from distributed.comm.core import CommClosedError

    task = AskedFolder.of(work, place)
    _all_fit(client, task)
    # Dask must not take a shard for another one's result by its arguments, hence `pure=False`.
    futures = client.map(functools.partial(computed, task), numbers, pure=False, batch_size=256)
    try:
        for future, result in as_completed(futures, with_results=True, raise_errors=False):
            if future.status != "finished":
                _raise(future, result)
            shard = manifest.Shard(**result)
            watch.points(shard.points)
            # The scheduler would keep the result of every shard in memory otherwise.
            future.release()
            yield shard
    except (CommClosedError, TimeoutError) as error:
        raise _Lost(" ".join(str(error).split()) or "the connection is closed") from None


def _raise(future: Any, result: Any) -> None:
    """Raise the error of a shard that is not finished."""
    if future.status in ("cancelled", "lost"):
        raise _Lost(f"a shard was {future.status}")
    # Dask hands over exception information as a tuple, or keeps it in the future.
    error = result[1] if isinstance(result, tuple) else future.exception()
    raise ValueError(f"a worker failed: {type(error).__name__}: {' '.join(str(error).split())}")


@dataclasses.dataclass(frozen=True)
class AskedFolder:
    """A worker's task."""

    source: str  # the specification as JSON
    shard_points: int
    kind: str  # of machine that results have to come from
    place: str  # the folder, under its name on every machine

    @classmethod
    def of(cls, work: ShardWork, place: pathlib.Path) -> "AskedFolder":
        """The task to compute shards of `work` into a folder."""
        # The absolute path, since a worker may have been started in another folder.
        return cls(json.dumps(dict(work.spec.source)), work.shard_points, hardware_kind(), str(place.resolve()))


def _all_fit(client: Any, asked: AskedFolder) -> None:
    """Refuse workers that cannot help, before they are asked to; wait for the first where there is none yet."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError:
        raise ValueError(f"the scheduler has had no workers for {PATIENCE_SECONDS:.0f} s") from None
    # `client.run` calls the function on every worker and returns results by address.
    for address, words in client.run(unfit, asked).items():
        if words is not None:
            raise ValueError(f"worker {address}: {words}")


def unfit(asked: AskedFolder) -> str | None:
    """Why this worker cannot compute shards of a sweep; None where it can."""
    # Other instructions or another accelerator may round differently, and shards of a sweep have to agree.
    if hardware_kind() != asked.kind:
        return f"this is {hardware_kind()}, the sweep was begun on {asked.kind}; bits would differ"
    if not (pathlib.Path(asked.place) / manifest.NAME).is_file():
        return f"{asked.place} is not here; workers need the folder under the same name"
    return None


def computed(asked: AskedFolder, number: int) -> dict[str, Any]:
    """One shard, computed and written by a worker, which plans a sweep once.

    Raises:
      ValueError: one line: the worker is not fit, its software or its files are others, or it cannot write.
      RuntimeError: one line: anything else, without what it came from, which may be too deep for Dask to send.
    """
    try:
        return _computed(asked, number)
    except ValueError:
        # Its text is one line for the user already.
        raise
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {' '.join(str(error).split())}") from None


def _computed(asked: AskedFolder, number: int) -> dict[str, Any]:
    words = unfit(asked)
    if words is not None:
        raise ValueError(words)
    place = pathlib.Path(asked.place)
    with _ONE_BY_ONE:
        begun, work = time.perf_counter(), _work(asked)
        with precision(work.precision):
            unfinished, _ = work.compute(place, number)
    # The checksum and the final name need no lock: other threads may compute meanwhile.
    return vars(work.finish(place, number, unfinished, time.perf_counter() - begun))


_ONE_BY_ONE = threading.Lock()
"""Of a worker's threads: compiled code has threads of its own, and the netCDF library is not made for several."""


@functools.lru_cache(maxsize=1)
def _work(asked: AskedFolder) -> ShardWork:
    """The sweep, if it is here what it is where it was begun: same software, same catalogue, same files."""
    work = ShardWork(json.loads(asked.source), asked.shard_points)
    # The manifest was written where the sweep was begun; its header has all that results depend on.
    changed = manifest.differences(manifest.read(pathlib.Path(asked.place)).header, work.header)
    if changed:
        raise ValueError(f"here it is another sweep: {'; '.join(changed[:3])}")
    return work


@plain_arguments
def sweep_to_folder(
    place: str | os.PathLike[str],
    source: str | os.PathLike[str] | Mapping[str, Any],
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
    # Wrong places and missing packages are reported before anything is computed.
    output.require([output.Wanted(os.fspath(place), (), folder="shards")], output.named(source))
    given = content(pathlib.Path(source)) if isinstance(source, str | os.PathLike) else dict(source)
    work = ShardWork(given, shard_points)
    run(pathlib.Path(place), work, watch, executor(scheduler, workers))
    return opened(place)


def executor(scheduler: str | None, workers: int | None) -> Any:
    """Executor of shards; ValueError of one line for workers without a scheduler, or where Dask is missing."""
    if scheduler is None:
        if workers is not None:
            raise ValueError(f"workers = {workers} are started by scheduler = dask alone")
        return local

    return cluster(scheduler, workers)
