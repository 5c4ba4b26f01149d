"""Commands of every kind that get a signal at a random moment, and what becomes of them and of their files."""

import collections
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

import xarray as xr

from tests.survival import ROOT, SPEC, checksums

SCRIPT = "import sys; from sweeps.cli import main; sys.exit(main())"
"""What the installed command runs."""

LIMIT = 2.0
"""s from a signal to the end of the process."""

HANG = 60.0
"""s after which a process is killed here."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

_CASE = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--efficiency", "derated")
_REQUEST = (*_CASE, "--isl", "512", "--osl", "64")
_COMPARE = ("--hardware", "H100-SXM,H200-SXM", "--devices", "1,2", "--batch", "1,8")
_SERVE = ("--rate", "4", "--requests", "50")
_TRAIN = ("--global-batch", "64", "--seq", "2048", "--search", "--devices", "16")

VERBS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "step": (("step", *_CASE, "--decode", "8", "--context", "1024"), None),
    "request": (("request", *_REQUEST, "--batch", "4"), None),
    "compare -o": (("compare", "--static", *_COMPARE, *_REQUEST[2:], "-o"), "compare.csv"),
    "sweep -o FILE": (("sweep", "spec.toml", "-o"), "sweep.nc"),
    "sweep -o FOLDER": (("sweep", "spec.toml", "--shard-points", "1", "-o"), "sweep"),
    "serve --plot": (("serve", *_REQUEST, *_SERVE, "--plot"), "serve.png"),
    "sensitivity --plot": (("sensitivity", *_REQUEST, "--plot"), "tornado.png"),
    "train --search": (("train", *_CASE, *_TRAIN), None),
}
"""Name -> words of the command, and what it writes, which is the last word."""

QUICK = ("step", "sweep -o FILE")
"""Commands of a test."""

OUTCOMES = (
    *("stopped", "finished", "not begun", "killed"),
    *("traceback", "late", "half a file", "left-over", "crash", "other"),
)
"""What may become of a command: the first four are as they should be."""


@dataclasses.dataclass(frozen=True)
class Stop:
    """A signal and what became of the command that got it."""

    verb: str
    number: int
    delay: float  # s from the start of the process
    outcome: str  # one of `OUTCOMES`
    seconds: float  # from the signal to the end
    said: str


def stops(folder: pathlib.Path, verbs: Iterable[str], times: int, seed: int) -> Iterable[Stop]:
    """Run commands in turns, each of which gets a signal between 10 ms and the time that it takes undisturbed."""
    rng = random.Random(seed)
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    undisturbed = {verb: _undisturbed(folder, verb) for verb in verbs}
    for i in range(times):
        verb = list(undisturbed)[i % len(undisturbed)]
        seconds, whole = undisturbed[verb]
        number = SIGNALS[rng.randrange(len(SIGNALS))]
        yield _stopped(folder, verb, number, rng.uniform(0.01, seconds), whole)


def table(found: Iterable[Stop]) -> str:
    """Outcomes by command, in Markdown, and the slowest end of a command that was stopped."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    slowest: dict[str, float] = collections.defaultdict(float)
    for stop in found:
        for name in (stop.verb, "all"):
            counts[name][stop.outcome] += 1
            if stop.outcome in ("stopped", "late"):
                slowest[name] = max(slowest[name], stop.seconds)
    lines = [f"| | {' | '.join(OUTCOMES)} | slowest end, s |", f"|---|{'---|' * (len(OUTCOMES) + 1)}"]
    for name, count in sorted(counts.items(), key=lambda item: item[0] == "all"):
        lines.append(f"| {name} | {' | '.join(str(count[o]) for o in OUTCOMES)} | {slowest[name]:.2f} |")
    return "\n".join(lines)


def _started(folder: pathlib.Path, verb: str) -> subprocess.Popen[str]:
    words, output = VERBS[verb]
    variables = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "JAX_PLATFORMS": "cpu"}
    place = () if output is None else (f"{output}/" if "." not in output else output,)
    with open(folder / "out", "w") as out:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *words, *place],
            cwd=folder,
            env=os.environ | variables,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )


def _undisturbed(folder: pathlib.Path, verb: str) -> tuple[float, Callable[[], bool]]:
    """s that a command takes whose programs are compiled, and whether the file that is there now is as it wrote it."""
    for _ in range(2):
        _removed(folder, verb)
        begun = time.perf_counter()
        running = _started(folder, verb)
        said = running.communicate(timeout=600)[1]
        assert running.returncode == 0, said
    seconds, output = time.perf_counter() - begun, VERBS[verb][1]
    wrote = None if output is None else _content(folder / output)
    return seconds, lambda: output is None or not (folder / output).exists() or _content(folder / output) == wrote


def _content(path: pathlib.Path) -> object:
    """What a file says, for comparisons; of a folder that is not finished, nothing is asked here."""
    if path.is_dir():
        from sweeps.data.shards.status import status

        found = status(path, check=True)
        return checksums(path) if found["shards_done"] == found["shards"] else None
    if path.suffix == ".nc":
        with xr.open_dataset(path) as dataset:
            return dataset.drop_attrs().to_dict()
    return path.read_bytes()


def _removed(folder: pathlib.Path, verb: str) -> None:
    """Take away what the last run of a command has left, and what others have left of their own."""
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name == VERBS[verb][1]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _stopped(folder: pathlib.Path, verb: str, number: int, delay: float, whole: Callable[[], bool]) -> Stop:
    output = VERBS[verb][1]
    if output is None or "." in output:  # folders continue
        _removed(folder, verb)
    running = _started(folder, verb)
    time.sleep(delay)
    early = running.poll() is not None
    begun = time.perf_counter()
    running.send_signal(number)
    try:
        said = running.communicate(timeout=HANG)[1]
    except subprocess.TimeoutExpired:
        running.kill()
        said = running.communicate()[1]
    seconds = time.perf_counter() - begun
    outcome = _outcome(running.returncode, number, early, seconds, said, VERBS[verb][0][0])
    if not _as_it_should_be(folder, output, whole):
        outcome = "half a file"
    elif outcome == "stopped" and _left_over(folder, output):
        outcome = "left-over"
    if output is not None and "." not in output and outcome == "finished":
        shutil.rmtree(folder / output)
    return Stop(verb, number, delay, outcome, seconds, said)


def _outcome(status: int, number: int, early: bool, seconds: float, said: str, verb: str) -> str:
    if status == 0:
        return "finished"
    if number == signal.SIGKILL and status == -number:
        return "killed"
    if status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL):
        return "crash"
    if seconds > LIMIT:
        return "late"
    if status == -number and "in _process" not in said:  # nobody had asked for the signal yet
        return "not begun"
    if "Traceback" in said:
        return "traceback"
    lines = [line for line in said.splitlines() if line.startswith("jaxroof")]
    name = signal.Signals(number).name
    if status == 128 + number and len(lines) == 1 and lines[0].startswith(f"jaxroof {verb}: stopped by {name}"):
        return "stopped"
    return "other"


def _as_it_should_be(folder: pathlib.Path, output: str | None, whole: Callable[[], bool]) -> bool:
    """True where what has the final name is whole; a folder, that may be continued, has nothing that is damaged."""
    if output is None or "." in output:
        return whole()
    from sweeps.data.shards.status import status

    if not (folder / output / "manifest.jsonl").exists():
        return True
    found = status(folder / output, check=True)
    return not found["missing_files"] and (found["shards_done"] < found["shards"] or whole())


def _left_over(folder: pathlib.Path, output: str | None) -> bool:
    """True where a file under a temporary name is still there."""
    hidden = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    if output is not None and "." not in output and (folder / output).is_dir():
        hidden += [path.name for path in (folder / output).iterdir() if path.name.startswith(".part-")]
    return bool(hidden)
