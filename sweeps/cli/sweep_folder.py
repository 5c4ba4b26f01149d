"""`jaxroof sweep -o FOLDER/`: shards that survive whatever happens, in this process or on many machines."""

import argparse
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from sweeps.cli.common import whole_number
from sweeps.cli.progress import Progress, rate_text

STOPPED = 130
"""Exit status after Ctrl-C or SIGTERM."""


def run(options: argparse.Namespace, source: Mapping[str, Any]) -> None:
    """Compute what the folder does not have yet, and say what was found."""
    from sweeps.cli.sweep import RATED_POINTS, print_asked, print_found, progress_kind
    from sweeps.cli.tables import size
    from sweeps.shards.api import executor
    from sweeps.shards.run import run as run_shards
    from sweeps.shards.work import Work

    place, kind = pathlib.Path(options.output), progress_kind(options.progress)
    points = _number("--shard-points", options.shard_points)
    execute = executor(options.scheduler, _number("--workers", options.workers))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        work = Work(source, points)
    except ValueError as error:
        raise ValueError(f"{options.spec}: {error}") from None
    print_asked(work.asked, work.plan)
    watch = _Watch(kind, place)
    try:
        run_shards(place, work, watch, execute)
    except KeyboardInterrupt:
        watch.stop("interrupted")
        _stopped(place, watch)
    except BaseException:
        watch.stop("failed")
        raise
    watch.stop("end")
    bar = watch.bar
    rate = f", {rate_text(bar.rate)} points/s computed and written" if bar.done >= RATED_POINTS else ""
    files = f"{watch.shards:,} shards of {len(work.boxes):,} in {bar.seconds:.1f} s{rate}, {size(bar.bytes)}"
    print_found(str(options.output), f"{files}; {work.plan.points:,} points" if bar.done else "complete already")


def _number(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    return int(whole_number(flag, text))


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _stopped(place: pathlib.Path, watch: "_Watch") -> None:
    """End now: every shard that is on the disk is whole, and whatever still computes is not waited for."""
    done = f"{watch.kept + watch.shards:,} of {watch.total:,} shards are there" if watch.total else "nothing is lost"
    print(f"jaxroof sweep: stopped; {done}, and the same command continues with {place}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if threading.active_count() > 1:
        os._exit(STOPPED)
    raise SystemExit(STOPPED)


class _Watch:
    """Shows how a run goes."""

    def __init__(self, kind: str, place: pathlib.Path):
        self.kind, self.place = kind, place
        self.bar: Any = None
        self.kept = self.shards = self.total = 0

    def begun(self, work: Any, kept: Mapping[int, Any], damaged: Mapping[int, str]) -> None:
        self.total, self.kept = len(work.boxes), len(kept)
        for why in damaged.values():
            print(f"note  {why}; it is computed again", file=sys.stderr)
        if kept:
            print(f"note  {self.kept:,} of {self.total:,} shards are there already, checked", file=sys.stderr)
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
