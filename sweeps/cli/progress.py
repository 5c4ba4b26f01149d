"""Progress of a long run on stderr: a bar on a terminal, now and then a line elsewhere, or JSON for programs."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from sweeps.ask.text import rate_text

KINDS = ("auto", "json", "quiet")

LINE_SECONDS, JSON_SECONDS = 10.0, 1.0
"""s between lines of words, where there is no bar, and between those of JSON."""


class Line:
    """What a run does, in words: beside a bar on a terminal, now and then by themselves elsewhere. On stderr.

    Args:
      text: until the first words come.
      elsewhere: print lines where there is no terminal.
      remaining: show the time that is left, which follows from what is done.
    """

    def __init__(self, text: str = "", elsewhere: bool = True, remaining: bool = True):
        self.elsewhere, self.said, self.bar = elsewhere, time.perf_counter(), None
        # A bar needs a terminal; the drawing library is imported only there.
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            from sweeps.answers.screen import console

            columns = [BarColumn(), TextColumn("{task.description}"), *([TimeRemainingColumn()] if remaining else [])]
            self.bar = Progress(*columns, console=console(error=True), transient=True)
            self.task = self.bar.add_task(text, total=None)
            self.bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def show(self, text: str, done: float = 0.0, total: float | None = None) -> None:
        """Say `text`, when `done` of `total` are done; the last line is not said, as the answer follows."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=total, description=text)
        elif self.elsewhere and time.perf_counter() - self.said > LINE_SECONDS and done != total:
            self.said = time.perf_counter()
            print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


class Simulations(Line):
    """How many simulations are done, of about how many."""

    def __init__(self) -> None:
        super().__init__(remaining=False)
        self.done = 0
        self.expected = 0

    def begun(self, number: int) -> Callable[[int], None]:
        """About so many begin, with a compilation; what is called with those that are done."""
        from sweeps.run.compile_cache import compilation_cache

        compilation_cache()
        self.show("compiling the simulation")
        self.expected = self.done + number
        # The first simulation compiles, for which there is no progress to show.
        return self.add

    def add(self, simulations: int) -> None:
        """So many more are done."""
        self.done += simulations
        # The number is an estimate, and may be exceeded.
        self.show(f"{self.done} simulations" + (f", of about {self.expected}" if self.done < self.expected else ""))


class Compiling:
    """Says which of how many programs is compiled, before the first point is computed."""

    def __init__(self, kind: str = "auto"):
        self._kind = kind
        self._line: Line | None = None

    def __call__(self, number: int, total: int) -> None:
        """Program `number`, from 1, is compiled."""
        if self._kind == "auto":
            self._line = self._line or Line(remaining=False)
            self._line.show(f"compiling {number} of {total}", number - 1, total)

    def stop(self) -> None:
        """Take the bar away."""
        if self._line is not None:
            self._line.stop()


class Progress:
    """Points done, rate and time left; bytes written and failures, where there are any.

    Args:
      points: of the whole run.
      kept: of them, those that were there before.
      kind: "auto", a bar on a terminal and lines elsewhere; "json", one object per line; "quiet".
    """

    def __init__(self, points: int, kept: int = 0, kind: str = "auto"):
        self.points, self.kept, self.kind, self.done = points, kept, kind, 0
        self.bytes, self.failures = 0, 0
        self.start = self.said = time.perf_counter()
        self._line = Line() if kind == "auto" else None
        # Chunks may finish in several threads.
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """s since the first chunk was asked for."""
        return max(time.perf_counter() - self.start, 1e-9)

    @property
    def rate(self) -> float:
        """Points per second of this run."""
        return self.done / self.seconds

    def add(self, points: int) -> None:
        """Count `points` more that are done."""
        with self._lock:
            self.done += points
            self._show()

    def wrote(self, size: int) -> None:
        """Count bytes that are on the disk."""
        self.bytes += size

    def failed(self) -> None:
        """Count a part that has to be computed again."""
        self.failures += 1
        self.say("failure")

    def stop(self, event: str = "end") -> None:
        """Take the bar away; in JSON, a last line that says how it ended."""
        if self._line is not None:
            self._line.stop()
        self.say(event)

    def say(self, event: str) -> None:
        """In JSON, a line about what happens."""
        if self.kind == "json":
            sys.stderr.write(self.line(event))
            sys.stderr.flush()

    def line(self, event: str) -> str:
        """That line; elsewhere nothing."""
        return f"{json.dumps(self._state(event))}\n" if self.kind == "json" else ""

    def _show(self) -> None:
        if self._line is not None:
            # Points of an earlier run count as done, but not for the rate.
            done, rate = self.kept + self.done, f"{rate_text(self.rate)}/s{self._beside()}"
            left = (self.points - done) / max(self.rate, 1e-9)
            ending = f"{left:,.0f} s left" if self._line.bar is None else "ETA"
            self._line.show(f"{done:,} of {self.points:,} points, {rate}, {ending}", done, self.points)
        elif self.kind == "json" and time.perf_counter() - self.said > JSON_SECONDS:
            self.said = time.perf_counter()
            self.say("progress")

    def _beside(self) -> str:
        from sweeps.answers.tables import size

        written = f", {size(self.bytes)} written" if self.bytes else ""
        failed = f", {self.failures} parts failed and are done again" if self.failures else ""
        return f"{written}{failed}"

    def _state(self, event: str) -> dict[str, Any]:
        done = self.kept + self.done
        # Without a point of this run there is no rate to extrapolate by.
        left = (self.points - done) / self.rate if self.done else None
        return {
            "event": event,
            "points_done": done,
            "points": self.points,
            "points_per_second": round(self.rate, 3),
            "seconds": round(self.seconds, 3),
            "seconds_left": None if left is None else round(left, 3),
            "bytes_written": self.bytes,
            "failures": self.failures,
        }


@contextlib.contextmanager
def progress(kind: str = "auto") -> Iterator[Callable[[int], Progress]]:
    """A function that begins the `Progress` of a number of points, once they are known; for `with`."""
    # A list, so that the inner function can hand the bar to the cleanup below.
    bars: list[Progress] = []

    def begun(points: int) -> Progress:
        bars.append(Progress(points, kind=kind))
        return bars[0]

    # Every bar is taken away, also after an error.
    try:
        yield begun
    finally:
        for bar in bars:
            bar.stop()


def progress_kind(kind: str | None) -> str:
    """The value of `--progress`; ValueError of one line where it is none."""
    from hwspaces.quantities.units import nearest

    if kind is not None and kind not in KINDS:
        raise ValueError(f"--progress {kind} is not known{nearest(kind, KINDS)}")
    return kind or "auto"
