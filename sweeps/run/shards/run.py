"""A sweep into a folder: begun, interrupted, continued, finished; existing shards are checked and kept."""

import os
import pathlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jaxroof.numerics.arrays import jax
from sweeps.data.shards import folder, manifest
from sweeps.run.cores import cores
from sweeps.run.precision import precision
from sweeps.run.shards.work import FRAME, ShardWork

STOPPING_SECONDS = 0.5
"""s that an interrupted run waits for the call that is under way."""


class Watch:
    """Whoever wants to know how a run goes; this one does not."""

    def begun(self, work: ShardWork, kept: Mapping[int, manifest.Shard], damaged: Mapping[int, str]) -> None:
        """Before the first shard: which are on the disk, checked, and which have to be computed again, and why."""

    def points(self, points: int) -> None:
        """So many more points are computed."""

    def shard(self, shard: manifest.Shard) -> None:
        """A shard is on the disk."""

    def failed(self, number: int, why: str) -> None:
        """A shard's computation failed and will be tried again elsewhere."""


Executor = Callable[[ShardWork, Iterable[int], pathlib.Path, Watch], Iterator[manifest.Shard]]
"""Computes and writes shards, in whatever order, and says which are on the disk."""


def run(place: pathlib.Path, work: ShardWork, watch: Watch | None = None, executor: Executor | None = None) -> None:
    """Compute every shard of `work` that the folder `place` does not have.

    Raises:
      ValueError: one line: the folder belongs to another sweep, is being written by another process, or the system
        refuses to write. Shards that are finished stay.
    """
    watch = watch or Watch()
    # The check for foreign files comes before the lock, which would leave a file there.
    _no_others(place)
    with folder.locked(place):
        existing, damaged = _resumed(place, work)
        watch.begun(work, existing.shards, damaged)
        # Shards that are on the disk and undamaged are not computed again.
        missing = [number for number in range(len(work.boxes)) if number not in existing.shards]
        with precision(work.precision):
            for shard in (executor or local)(work, missing, place, watch):
                manifest.appended(place, existing.header, shard)
                watch.shard(shard)


def local(work: ShardWork, numbers: Iterable[int], place: pathlib.Path, watch: Watch) -> Iterator[manifest.Shard]:
    """Executor in this process: threads compute shards while the caller writes those that are done.

    Looking for what is kept is work for one core, so that a CPU computes a shard on each; the first of them compiles
    before the others begin.
    """
    # A queue of one: threads wait until their last result is taken, which bounds the files that are unfinished.
    ready: queue.Queue[tuple[int, pathlib.Path, float] | BaseException | None] = queue.Queue(maxsize=1)
    left, taking = iter(numbers), threading.Lock()  # numbers to be computed, taken by one thread at a time
    stopping, compiled = threading.Event(), threading.Event()

    def computed(points: int) -> None:
        # The first report of progress means that the program is compiled.
        compiled.set()
        if stopping.is_set():
            raise _Stopped
        watch.points(points)

    def compute() -> None:
        last: BaseException | None = None
        try:
            while not stopping.is_set():
                with taking:
                    number = next(left, None)
                if number is None:
                    break
                _put(ready, (number, *work.compute(place, number, computed)), stopping)
        except _Stopped:
            pass
        except BaseException as error:  # raised again by the thread that waits
            last = error
        # A thread that failed before it compiled must not leave the others waiting.
        compiled.set()
        _put(ready, last, stopping)

    def follow() -> None:
        compiled.wait()  # the first thread compiles for all
        compute()

    # Without `keep` a single thread suffices: the plan's own calls use all cores.
    several = cores() if work.keep and jax.default_backend() == "cpu" else 1
    threads = [threading.Thread(target=follow if i else compute, daemon=True) for i in range(several)]
    for thread in threads:
        thread.start()
    working = len(threads)  # a thread that is done puts None, one that failed its error
    try:
        while working:
            done = ready.get()
            if isinstance(done, BaseException):
                raise done
            if done is None:
                working -= 1
            else:
                yield work.finish(place, *done)
    finally:
        # Also where the caller stops early: threads end at their next report of progress.
        stopping.set()
        for thread in threads:
            thread.join(STOPPING_SECONDS)


class _Stopped(Exception):
    """Nobody waits for the result any more."""


def _put(ready: queue.Queue[Any], item: Any, stopping: threading.Event) -> None:
    # A short timeout, so that a thread notices when nobody takes results any more.
    while not stopping.is_set():
        try:
            ready.put(item, timeout=0.1)
            return
        except queue.Full:
            continue


def _resumed(place: pathlib.Path, work: ShardWork) -> tuple[manifest.Manifest, dict[int, str]]:
    """Shards of this sweep in the folder, every one checked, and those that are damaged."""
    header, damaged = work.header, {}
    # A new folder: labels first, then a manifest that refers to them.
    if not (place / manifest.NAME).exists():
        return manifest.begun(place, header | {"frame": work.write_frame(place)}), {}
    try:
        existing = manifest.read(place)
    except manifest.Damaged as error:
        existing = manifest.rebuilt(place, header, lambda: work.write_frame(place))
        # -1 stands for the manifest itself.
        damaged[-1] = str(error)
    # A header that differs in anything that results depend on belongs to another sweep.
    changed = manifest.differences(existing.header, header)
    if changed:
        more = f", and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise ValueError(f"{place} belongs to another sweep: {'; '.join(changed[:3])}{more}; give another folder")
    manifest.truncated(place, existing)
    _checked_frame(place, existing.header["frame"], work)
    # Every file is read again and compared with its checksum before it counts as done.
    intact = {}
    for shard in existing.shards.values():
        try:
            folder.checked(place / shard.file, shard.bytes, shard.sha256)
        except ValueError as error:
            damaged[shard.number] = str(error)
        else:
            intact[shard.number] = shard
    return manifest.Manifest(existing.header, intact, existing.length), damaged


def _no_others(place: pathlib.Path) -> None:
    """Refuse a folder that no sweep began, before anything in it is touched."""
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return  # not there yet, or whoever locks it says why it cannot be
    if manifest.NAME in names:
        return
    if any(name.startswith("shard-") for name in names):
        raise ValueError(f"{place} has shards and no {manifest.NAME} that says what they are; give another folder")
    # What an interrupted run leaves behind is no reason to refuse the folder.
    strange = [n for n in names if n not in (folder.LOCK, FRAME) and not folder.LEFTOVER.fullmatch(n)]
    if strange:
        raise ValueError(f"{place} has other files in it ({strange[0]}, ...); give an empty or a new folder")


def _checked_frame(place: pathlib.Path, frame: Mapping[str, Any], work: ShardWork) -> None:
    """Write the labels again where they are not as they were."""
    try:
        folder.checked(place / FRAME, frame["bytes"], frame["sha256"])
    except ValueError:
        # Labels that do not come out the same as the manifest says would not fit the shards.
        if work.write_frame(place) != frame:
            raise
