"""`jaxroof sweep -o FOLDER/` or STORE.zarr: shards that survive interruption, in this process or on many machines."""

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.sweep import print_asked, print_found, speed_text
from sweeps.ask.text import escaped
from sweeps.cli import stopping
from sweeps.cli.common import given, whole_settings
from sweeps.cli.progress import Compiling, Progress, progress_kind
from sweeps.run.compile_cache import compilation_cache


def run(options: argparse.Namespace, source: Callable[[argparse.Namespace], Mapping[str, Any]]) -> None:
    """Compute what the folder or store does not have yet, and print the result.

    Args:
      options: parsed flags.
      source: the specification that they describe.
    """
    # The clock starts before the imports, whose time is part of the run.
    start = time.perf_counter()
    watch = _Watch(progress_kind(options.progress), options.output)
    # Set early: a signal during the imports says that the folder can be continued.
    stopping.say(watch.stopped)
    from hwspaces.files.output import names_store
    from sweeps.answers.tables import size
    from sweeps.run.shards.api import executor
    from sweeps.run.shards.run import run as run_shards
    from sweeps.run.shards.work import ShardWork

    specification, to_store = source(options), names_store(options.output)
    if to_store:
        from sweeps.data.shards import zarr_store

        if for_folders := given(options, ("keep", "compression", "digits", "scheduler", "workers")):
            raise ValueError(f"{for_folders[0]} is for folders, and -o {options.output} is a Zarr store")
        zarr_store.require()
    counts = {name: int(n) for name, n in whole_settings(options, ("shard_points", "workers")).items()}
    compiling = Compiling(progress_kind(options.progress))
    execute = executor(options.scheduler, counts.get("workers"))
    try:
        work = ShardWork(specification, counts.get("shard_points"), compiling)
    except ValueError as error:
        raise ValueError(f"{options.spec}: {error}") from None
    finally:
        compiling.stop()
    if work.plan.compiled:
        compilation_cache()
    print_asked(work.asked, work.plan)
    try:
        # A failure leaves the shards that are done: the event says so to programs.
        if to_store:
            from sweeps.run.shards.to_zarr import write

            write(options.output, work, watch)  # type: ignore[arg-type]
        else:
            run_shards(pathlib.Path(options.output), work, watch, execute)  # type: ignore[arg-type]
    except (ValueError, OSError):
        watch.stop("failed")
        raise
    watch.stop("end")
    # Points of this run alone, without shards that were there before.
    bar = watch.bar
    speed = speed_text(bar.done, time.perf_counter() - start)
    files = f"{watch.shards:,} shards of {len(work.boxes):,} in {speed}, {size(bar.bytes)}"
    said = f"{files}; {work.plan.points:,} points" if bar.done else "complete already"
    if to_store:
        say(f"{options.output}: {said}\n\n`xarray.open_zarr({options.output!r})` opens it.")
    else:
        print_found(options.output, said)


class _Watch:
    """Shows how a run goes."""

    def __init__(self, kind: str, place: str):
        self.kind, self.place = kind, place
        self.bar: Any = None
        self.kept = self.shards = self.total = 0

    def begun(self, work: Any, kept: Mapping[int, Any], damaged: Mapping[int, str]) -> None:
        self.total, self.kept = len(work.boxes), len(kept)
        # Damaged shards are computed again; a negative number stands for a file that is no shard.
        for number, why in damaged.items():
            self._note(f"{why}; {'it is computed again' if number >= 0 else 'it is made again'}")
        if kept:
            self._note(f"{self.kept:,} of {self.total:,} shards are there already, checked")
        # Points in shards that are kept count as done from the start.
        self.bar = Progress(work.plan.points, sum(shard.points for shard in kept.values()), self.kind)
        self.bar.say("begin")

    def points(self, points: int) -> None:
        self.bar.add(points)

    def shard(self, shard: Any) -> None:
        self.shards += 1
        self.bar.wrote(shard.bytes)
        self.bar.say("shard")

    def failed(self, number: int, why: str) -> None:
        self.bar.failed()

    def stop(self, event: str) -> None:
        if self.bar is not None:
            self.bar.stop(event)

    def stopped(self, title: str, name: str) -> str:
        """Message when it is stopped: every shard that is on the disk is whole. In JSON, an event first."""
        # Before the manifest is read the number of shards is not known.
        there = f"{self.kept + self.shards:,} of {self.total:,} shards are there" if self.total else "nothing is lost"
        event = "" if self.bar is None else self.bar.line("interrupted")
        place = escaped(self.place, breaks=True)
        return f"{event}{title}: stopped by {name}; {there}, and the same command continues with {place}"

    def _note(self, words: str) -> None:
        if self.kind == "json":
            print(json.dumps({"event": "note", "text": words}), file=sys.stderr, flush=True)
        elif self.kind != "quiet":
            print(f"note  {escaped(words, breaks=True)}", file=sys.stderr)
