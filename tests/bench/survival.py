"""Promises of folders of shards, tried many times: `python -m tests.bench.survival`.

Sweeps that are killed at random moments, files that are harmed at random, disks that are full, folders that vanish,
workers that die: each row is a promise, how often it was tried, and what became of it. After them, or with `--only
signals` alone, signals at random moments of other verbs.
"""

import argparse
import collections
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import sweeps
from sweeps.run.shards.run import run
from tests.stops import OUTCOMES, VERBS, stops, table
from tests.survival import (
    Place,
    checksums,
    harmed_and_repaired,
    killed,
    leftovers,
    scheduler_killed,
    small_work,
    worker_killed,
)


def kills(place: Place, whole: dict[str, str], times: int) -> str:
    """kill -9 at random moments, until so many have struck; then to the end, and the same again."""
    rng, struck, sweeps_ = random.Random(0), 0, 0
    while struck < times:
        folder = place.path / f"killed-{sweeps_}"
        for _ in range(min(5, times - struck)):
            killed(place, folder, rng)
            struck += 1
        found = place.call(*place.sweep(folder, "--progress", "quiet"))
        assert found.status == 0, found.err
        assert checksums(folder) == whole and not leftovers(folder)
        shutil.rmtree(folder)
        sweeps_ += 1
    return f"{sweeps_} sweeps, each file of the same checksum as undisturbed"


def signals(place: Place, whole: dict[str, str], times: int) -> str:
    """SIGTERM and Ctrl-C at random moments."""
    rng, folder, slowest = random.Random(1), place.path / "stopped", 0.0
    for i in range(times):
        running = place.begin(*place.sweep(folder, "--progress", "json"), TEST_PAUSE="0.05")
        running.until("begin")
        time.sleep(rng.uniform(0.0, 1.5))
        if running.process.poll() is None:
            found = running.stopped(signal.SIGTERM if i % 2 else signal.SIGINT)
            assert found.status in (0, 143 if i % 2 else 130), found.err
            slowest = max(slowest, found.seconds)
    found = place.call(*place.sweep(folder, "--progress", "quiet"))
    assert found.status == 0 and checksums(folder) == whole and slowest < 2.0
    return f"status 130 or 143 within {slowest:.1f} s, then continued to the same files"


def corruptions(place: Place, whole: dict[str, str], times: int) -> str:
    """Bits flipped, files cut, zeroed, deleted, lengthened, lines shuffled: read, merged, queried, continued."""
    rng, work, folder = random.Random(2), small_work(), place.path / "harmed"
    run(folder, work)
    truth, own = sweeps.open(folder).load(), checksums(folder)
    good = place.path / "good"
    shutil.copytree(folder, good)
    ends: collections.Counter[str] = collections.Counter()
    for _ in range(times):
        said = harmed_and_repaired(folder, work, truth, own, rng)
        ends[said.rpartition(": ")[2] if ": refused: " not in said else "refused in one line"] += 1
        shutil.rmtree(folder)
        shutil.copytree(good, folder)
    return ", ".join(f"{count} {how}" for how, count in ends.most_common())


def full_disk(place: Place, whole: dict[str, str], times: int) -> str:
    """A disk with room for some of the shards alone; then a larger one."""
    mount = place.path / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", mount], capture_output=True, text=True)
    if made.returncode:
        return f"not tried: no file system could be mounted ({made.stderr.strip()})"
    try:
        folder = mount / "sweep"
        found = place.call(*place.sweep(folder, "--progress", "quiet"))
        assert found.status == 2 and found.err.count("\n") == 1, found.err
        kept = len(list(folder.glob("shard-*")))
        subprocess.run(["mount", "-o", "remount,size=64m", mount], check=True)
        again = place.call(*place.sweep(folder, "--progress", "quiet"))
        assert again.status == 0 and checksums(folder) == whole
    finally:
        subprocess.run(["umount", mount], check=True)
    return f"status 2, {kept} shards stay; completed with more room: {found.err.strip()}"


def small_files(place: Place, whole: dict[str, str], times: int) -> str:
    """A system that lets files be written up to a size alone."""
    folder = place.path / "limited"
    found = place.call(*place.sweep(folder, "--progress", "quiet"), TEST_LARGEST="8000")
    assert found.status == 2 and found.err.count("\n") == 1, found.err
    again = place.call(*place.sweep(folder, "--progress", "quiet"))
    assert again.status == 0 and checksums(folder) == whole
    return f"status 2, then completed: {found.err.strip()}"


def vanished(place: Place, whole: dict[str, str], times: int) -> str:
    """The folder is deleted while the sweep runs."""
    folder = place.path / "gone"
    running = place.begin(*place.sweep(folder, "--progress", "json"), TEST_PAUSE="0.05")
    running.until("shard", 3)
    shutil.rmtree(folder)
    found = running.ended()
    last = [line for line in found.err.splitlines() if not line.startswith("{")]
    assert found.status == 2 and len(last) == 1 and not folder.exists(), found.err
    return f"status 2: {last[0]}"


def a_file(place: Place, whole: dict[str, str], times: int) -> str:
    """Where the folder should be, there is a file."""
    path = place.path / "file"
    path.write_text("mine")
    found = place.call(*place.sweep(path))
    assert found.status == 2 and found.err.count("\n") == 1 and path.read_text() == "mine", found.err
    return f"status 2: {found.err.strip()}"


def dead_worker(place: Place, whole: dict[str, str], times: int) -> str:
    """One of two Dask workers is killed among its shards."""
    folder = place.path / "dask"
    found = worker_killed(place, folder, signal.SIGKILL)
    assert found.status == 0, found.err
    assert checksums(folder) == whole and not leftovers(folder)
    return f"complete in {found.seconds:.0f} s, the same files"


def lost_scheduler(place: Place, whole: dict[str, str], times: int) -> str:
    """The scheduler is killed among the shards, and another one listens at its address."""
    folder = place.path / "scheduler"
    found = scheduler_killed(place, folder)
    assert found.status == 0, found.err
    assert checksums(folder) == whole and not leftovers(folder)
    return f"complete {found.seconds:.0f} s later, the same files"


PROMISES: dict[str, tuple[Callable[[Place, dict[str, str], int], str], int]] = {
    "kill -9": (kills, 50),
    "SIGTERM and Ctrl-C": (signals, 20),
    "corruptions": (corruptions, 100),
    "full disk": (full_disk, 1),
    "largest file": (small_files, 1),
    "vanished folder": (vanished, 1),
    "a file in its place": (a_file, 1),
    "killed worker": (dead_worker, 1),
    "killed scheduler": (lost_scheduler, 1),
}
"""Promise -> how it is tried, and how often."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.survival", description=__doc__)
    names = (*PROMISES, "signals")
    parser.add_argument("--only", metavar="PROMISE", choices=names, help=", ".join(names))
    parser.add_argument("--share", type=float, default=1.0, help="of the times that each is tried")
    parser.add_argument("--signals", type=int, default=200, metavar="N", help="at random moments of any verb")
    parser.add_argument("--seed", type=int, default=0, help="of those moments")
    options = parser.parse_args()
    if options.only != "signals":
        _promises(options)
    if options.only in (None, "signals"):
        _signals(options)


def _promises(options: argparse.Namespace) -> None:
    print("| promise | times | result | s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        place = Place.made(pathlib.Path(folder))
        found = place.call(*place.sweep(place.path / "whole", "--progress", "quiet"))
        assert found.status == 0, found.err
        whole = checksums(place.path / "whole")
        for name, (tried, times) in PROMISES.items():
            if options.only in (None, name):
                begun, count = time.perf_counter(), max(1, round(times * options.share))
                try:
                    said = tried(place, whole, count)
                except AssertionError as error:
                    said = f"BROKEN: {error}"
                said = said.replace(folder, "...")
                print(f"| {name} | {count} | {said} | {time.perf_counter() - begun:.0f} |", flush=True)


def _signals(options: argparse.Namespace) -> None:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for stop in stops(pathlib.Path(folder), VERBS, options.signals, options.seed):
            found.append(stop)
            if len(found) % 20 == 0:
                print(f"\n{table(found)}", file=sys.stderr, flush=True)
            if stop.outcome not in OUTCOMES[:4]:
                name = signal.Signals(stop.number).name
                when = f"{name} after {stop.delay:.2f} s of {stop.verb}"
                print(f"{stop.outcome}: {when}: {stop.said[-2000:]}", flush=True)
    print(f"\n{options.signals} signals at random moments, seed {options.seed}\n\n{table(found)}", flush=True)


if __name__ == "__main__":
    main()
