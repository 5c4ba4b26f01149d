"""Sweeps in processes of their own, of small chunks, that tests may stop, kill or starve."""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping

import xarray as xr

import sweeps
import sweeps.run.compilers
from sweeps.data.shards import manifest
from sweeps.data.shards.status import status
from sweeps.run.shards.run import run
from sweeps.run.shards.work import ShardWork

ROOT = pathlib.Path(__file__).parents[1]

CHUNK_BYTES = 1400
"""B of a call's buffers: a few points, so that there are dozens of shards."""

SPEC = """
job = "step"
hardware = "H100-SXM"
model = "Llama-3.1-8B"
efficiency = "derated"

[workload]
decode = [1, 2, 4, 8, 16, 32, 64, 128]
context = 2048

[deployment]
tp = 1

[axes]
"hardware.memory.hbm.bandwidth" = { from = "1 TB/s", to = "8 TB/s", n = 64, scale = "log" }

[output]
variables = ["step_time", "tokens_per_second_per_device", "bound", "feasible"]
"""
"""512 points of one structure."""

COMMAND = f"""
import os
import resource
import sys
import time

import sweeps.run.compilers
from sweeps.run.shards.work import ShardWork

sweeps.run.compilers.CHUNK_BYTES = {{"cpu": {CHUNK_BYTES}}}
pause = float(os.environ.get("TEST_PAUSE", "0"))


def slowly(*words, compute=ShardWork.compute):
    time.sleep(pause)
    return compute(*words)


if pause and ShardWork.compute.__name__ != "slowly":  # Dask may load a module twice
    ShardWork.compute = slowly
if __name__ == "__main__":
    from sweeps.cli import main

    if "TEST_LARGEST" in os.environ:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["TEST_LARGEST"]),) * 2)
    sys.exit(main())
"""
"""`jaxroof`, with small chunks, and slowly or with small files where variables say so. As a module that a Dask worker
loads first, the former alone."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """How a command ended."""

    status: int
    out: str
    err: str
    seconds: float


class Running:
    """A command that runs; what it says goes to files."""

    def __init__(self, words: list[str], environment: dict[str, str], path: pathlib.Path):
        self.path = path
        with open(f"{path}.out", "w") as out, open(f"{path}.err", "w") as err:
            self.process = subprocess.Popen(words, env=environment, stdout=out, stderr=err)

    @property
    def err(self) -> str:
        """What it has said on stderr."""
        return pathlib.Path(f"{self.path}.err").read_text(encoding="utf-8")

    def ended(self, seconds: float = 180.0) -> Finished:
        """How it ends; one that hangs is killed and fails the test."""
        begun = time.perf_counter()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        took = time.perf_counter() - begun
        return Finished(status, pathlib.Path(f"{self.path}.out").read_text(encoding="utf-8"), self.err, took)

    def stopped(self, number: int) -> Finished:
        """How it ends at a signal, and s that it takes."""
        self.process.send_signal(number)
        return self.ended()

    def until(self, event: str, count: int = 1, seconds: float = 120.0) -> None:
        """Wait for lines of `--progress json` about an event, or for the end."""
        begun = time.perf_counter()
        while self.err.count(f'"event": "{event}"') < count and self.process.poll() is None:
            assert time.perf_counter() - begun < seconds, self.err
            time.sleep(0.005)


@dataclasses.dataclass(frozen=True)
class Place:
    """A folder with a specification and a command, whose compiled programs are kept."""

    path: pathlib.Path

    @classmethod
    def made(cls, path: pathlib.Path, spec: str = SPEC) -> "Place":
        """Both files, in a folder that exists."""
        (path / "spec.toml").write_text(spec, encoding="utf-8")
        (path / "command.py").write_text(COMMAND, encoding="utf-8")
        return cls(path)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every process."""
        return os.environ | {
            "PYTHONPATH": str(ROOT),
            "JAX_COMPILATION_CACHE_DIR": str(self.path / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PLATFORMS": "cpu",
            "DASK_DISTRIBUTED__WORKER__PRELOAD": json.dumps([str(self.path / "command.py")]),
        }

    def begin(self, *words: object, **variables: str) -> Running:
        """A command that runs."""
        script = [sys.executable, str(self.path / "command.py"), *map(str, words)]
        return Running(script, self.environment | variables, self.path / f"said-{next(_serial)}")

    def call(self, *words: object, **variables: str) -> Finished:
        """A command that has ended."""
        return self.begin(*words, **variables).ended()

    def sweep(self, folder: pathlib.Path | str, *flags: str) -> list[object]:
        """The words of the sweep into a folder, in shards of a chunk."""
        return ["sweep", self.path / "spec.toml", "-o", f"{folder}/", "--shard-points", "1", *flags]


_serial = itertools.count()


def checksums(folder: pathlib.Path) -> dict[str, str]:
    """Of every file but the lock; of the manifest, what it says without how long shards took."""
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name not in (".lock", manifest.NAME)
    }
    read = manifest.read(folder)
    shards = sorted((dataclasses.replace(shard, seconds=0.0) for shard in read.shards.values()), key=lambda s: s.number)
    return found | {manifest.NAME: repr((read.header, shards))}


def leftovers(folder: pathlib.Path) -> list[str]:
    """Names of files that are not whole."""
    return [path.name for path in folder.glob(".part-*")]


def killed(place: Place, folder: pathlib.Path, rng: random.Random, startup: float = 5.0) -> None:
    """Begin or continue a sweep, and kill it at a random moment: one in four while it starts, else among its shards."""
    running = place.begin(*place.sweep(folder, "--progress", "json"))
    if rng.random() < 0.25:
        time.sleep(rng.uniform(0.0, startup))
    else:
        running.until("begin")
        if rng.random() < 0.5:
            running.until("shard", rng.randrange(1, 32))
        else:
            time.sleep(rng.uniform(0.0, 2.0))  # while it compiles, too
    running.stopped(signal.SIGKILL)


def children(parent: int) -> list[int]:
    """Processes of workers that a process has started."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_text()
            own = int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent
        except OSError:
            continue
        if own and "spawn_main" in words:
            found.append(int(path.name))
    return found


def worker_killed(place: Place, folder: pathlib.Path, number: int) -> Finished:
    """How a sweep on two workers of its own ends, one of which gets a signal among its shards."""
    flags = ("--progress", "json", "--scheduler", "dask", "--workers", "2")
    running = place.begin(*place.sweep(folder, *flags), TEST_PAUSE="0.1")
    running.until("shard", 3)
    workers = children(running.process.pid)
    assert len(workers) == 2, running.err
    os.kill(workers[0], number)
    return running.ended()


def scheduler_killed(place: Place, folder: pathlib.Path) -> Finished:
    """How a sweep ends whose scheduler is killed among its shards, and started again with another worker."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    started: list[Running] = []

    def start(name: str, *words: object) -> Running:
        script = [sys.executable, "-m", f"distributed.cli.dask_{name}", *map(str, words), "--no-dashboard"]
        started.append(
            Running(script, place.environment | {"TEST_PAUSE": "0.1"}, place.path / f"{name}-{len(started)}")
        )
        return started[-1]

    try:
        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", port)
        start("worker", address, "--nthreads", 1, "--no-nanny")
        running = place.begin(*place.sweep(folder, "--progress", "json", "--scheduler", address))
        started.append(running)
        running.until("shard", 3)
        scheduler.process.kill()
        scheduler.process.wait()
        start("scheduler", "--host", "127.0.0.1", "--port", port)
        start("worker", address, "--nthreads", 1, "--no-nanny")
        return running.ended()
    finally:
        for one in started:
            one.process.kill()
            one.process.wait()


def corrupted(folder: pathlib.Path, rng: random.Random) -> str:
    """Harm one file of a folder in one way; says which and how."""
    path = rng.choice([path for path in sorted(folder.iterdir()) if path.name != ".lock"])
    if rng.random() < 0.4:
        path = folder / rng.choice([manifest.NAME, manifest.NAME, "frame.nc", ".lock"])
    if not path.exists():
        return f"{path.name}: gone already"
    content = bytearray(path.read_bytes())
    kind = rng.choice(["flip", "flip", "cut", "zero", "delete", "append", "lines"])
    at = rng.randrange(max(len(content), 1))
    if kind == "delete":
        path.unlink()
        return f"{path.name}: deleted"
    if kind == "flip" and content:
        content[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[at:]
    elif kind == "zero":
        end = min(len(content), at + rng.choice([1, 16, 512, 4096]))
        content[at:end] = bytes(end - at)
    elif kind == "append":
        content += rng.randbytes(rng.randrange(1, 400)) + rng.choice([b"", b"\n"])
    else:
        lines = bytes(content).split(b"\n")
        rng.shuffle(lines)
        content = bytearray(b"\n".join(lines))
    path.write_bytes(content)
    return f"{path.name}: {kind} at {at}"


def small_work(changes: Mapping[str, object] | None = None) -> ShardWork:
    """The sweep of `SPEC` in chunks of a few points, in this process."""
    before = sweeps.run.compilers.CHUNK_BYTES
    sweeps.run.compilers.CHUNK_BYTES = {"cpu": CHUNK_BYTES}
    try:
        return ShardWork({**tomllib.loads(SPEC), **(changes or {})}, 1)
    finally:
        sweeps.run.compilers.CHUNK_BYTES = before


def harmed_and_repaired(
    folder: pathlib.Path, work: ShardWork, truth: xr.Dataset, whole: dict[str, str], rng: random.Random
) -> str:
    """Harm a finished folder once to thrice, use it in every way, and continue it; says what was done and came of it.

    Raises:
      AssertionError: where it was read as something else than the truth, a refusal was not a line that names a file in
        it, or continuing it ended otherwise than in the same files or in a line and the same files as before.
    """
    done = "; ".join(corrupted(folder, rng) for _ in range(rng.choice([1, 1, 2, 3])))
    noticed = []
    for read in (_loaded, _merged, _queried):
        try:
            found = read(folder)
        except ValueError as error:
            one_line(str(error), folder, done)
            noticed.append(str(error))
        else:
            expected = truth if read is not _queried else _queried(truth)
            xr.testing.assert_identical(found, expected)
    try:
        checked = status(folder, check=True)
        wrong = checked["missing_files"]
        if noticed:
            assert wrong or checked["shards_done"] < checked["shards"], (done, noticed)
        for words in wrong:
            one_line(words, folder, done)
    except ValueError as error:
        one_line(str(error), folder, done)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
    try:
        run(folder, work)
    except ValueError as error:
        one_line(str(error), folder, done)
        after = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
        assert after == before, done
        return f"{done}: refused: {error}"
    assert checksums(folder) == whole, done
    return f"{done}: {'repaired' if noticed else 'harmless'}"


def one_line(words: str, folder: pathlib.Path, done: str) -> None:
    """What is said of a folder is a line that names it."""
    assert str(folder) in words and "\n" not in words, (done, words)


def _loaded(folder: pathlib.Path) -> xr.Dataset:
    return sweeps.open(folder).load()


def _merged(folder: pathlib.Path) -> xr.Dataset:
    path = folder.with_suffix(".nc")
    try:
        sweeps.merge(folder, path)
    except ValueError:
        assert not path.exists()
        raise
    with xr.open_dataset(path) as found:
        found.load()
    path.unlink()
    return found


def _queried(source: pathlib.Path | xr.Dataset) -> xr.Dataset:
    dataset = sweeps.open(source) if isinstance(source, pathlib.Path) else source
    return sweeps.query(dataset, "step_time < 6 ms and feasible", "step_time", 500).rows.drop_attrs()
