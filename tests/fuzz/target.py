"""One loader under test: its valid inputs, how it reads one, and what it must not do."""

import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.documents import Json
from tests.fuzz.mutate import deep_text, mutated, scrambled

SECONDS = 10.0
"""What one input may take."""

ROOT = str(pathlib.Path(__file__).parents[2])


class Unclear(Exception):
    """A message that is not one line."""


class Hang(BaseException):
    """An input took longer than it may."""


@dataclasses.dataclass(frozen=True)
class Target:
    """A loader. `load` takes the bytes of an input; it returns, or raises ValueError."""

    name: str
    load: Callable[[bytes], Any]
    seeds: Callable[[], list[bytes]]
    form: Any = Json
    words: tuple[str, ...] = ()  # keys and words that inputs may have


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a loader did wrong."""

    place: str  # type of the exception and the line of the project that it came through
    text: str
    data: bytes


def finding(target: Target, data: bytes) -> Finding | None:
    """What is wrong with how `target` reads `data`; None where it answers with a value or one clear ValueError."""
    try:
        with limited(SECONDS):
            try:
                target.load(data)
            except ValueError as error:
                text = str(error)
                if not text.strip() or "\n" in text:
                    raise Unclear(text[:300]) from error
    except (Exception, Hang) as error:
        cause = error.__cause__ if isinstance(error, Unclear) else error
        return Finding(f"{type(error).__name__} {_place(cause)}", f"{error}"[:300], data)
    return None


def varied(target: Target, data: bytes, rng: random.Random) -> bytes:
    """Another input, made of `data`."""
    kind = rng.random()
    if kind < 0.01:
        return deep_text(rng)
    if kind < 0.85:
        with contextlib.suppress(Exception):  # what is no document any more is changed as bytes
            return target.form.text(mutated(target.form.parsed(data), rng, target.words))
    return scrambled(data, rng)


def in_file(name: str, read: Callable[[str], Any], beside: dict[str, bytes] | None = None) -> Callable[[bytes], Any]:
    """A loader of bytes from one that reads a file of that name; `beside` are files in the same folder."""
    state: dict[str, str] = {}

    def load(data: bytes) -> Any:
        if "folder" not in state:
            base = "/dev/shm" if os.path.isdir("/dev/shm") else None
            state["keep"] = tempfile.TemporaryDirectory(dir=base)
            state["folder"] = state["keep"].name
            for other, content in (beside or {}).items():
                pathlib.Path(state["folder"], other).write_bytes(content)
            pathlib.Path(state["folder"], name).parent.mkdir(parents=True, exist_ok=True)
        path = os.path.join(state["folder"], name)
        with open(path, "wb") as file:
            file.write(data)
        return read(path)

    return load


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """`Hang` in a block that takes longer."""

    def late(*_):
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(ROOT)]
    own = [frame for frame in frames if "/tests/fuzz/" not in frame.filename] or frames
    if not own:
        return "?"
    return f"{own[-1].filename.removeprefix(ROOT + '/')}:{own[-1].lineno}"
