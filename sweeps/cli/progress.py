"""Progress of a long run on stderr: a bar on a terminal, now and then a line elsewhere, or JSON for programs."""

import json
import sys
import threading
import time
from typing import Any

KINDS = ("auto", "json", "quiet")

LINE_SECONDS = {"auto": 10.0, "json": 1.0}
"""s between lines where there is no bar."""


class Progress:
    """Points done, rate and time left; bytes written and failures, where there are any.

    Args:
      points: of the whole run.
      kept: of them, those that were there before.
      kind: "auto", a bar on a terminal and lines elsewhere; "json", one object per line; "quiet".
    """

    def __init__(self, points: int, kept: int = 0, kind: str = "auto"):
        self.points, self.kept, self.kind, self.done = points, kept, kind, 0
        self.bytes, self.failures, self.workers = 0, 0, 0
        self.start = self.said = time.perf_counter()
        self.bar: Any = None  # a Progress of rich, which is imported when a bar is shown
        self._lock = threading.Lock()
        if kind == "auto" and sys.stderr.isatty():
            self._begin_bar()

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
        if self.bar is not None:
            self.bar.stop()
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
        if self.bar is not None:
            done, left = self.kept + self.done, f"{rate_text(self.rate)}/s{self._beside()}"
            self.bar.update(self.task, completed=done, done=f"{done:,}", rate=left)
        elif self.kind != "quiet" and time.perf_counter() - self.said > LINE_SECONDS[self.kind]:
            self.said = time.perf_counter()
            if self.kind == "json":
                self.say("progress")
            else:
                done, left = self.kept + self.done, (self.points - self.kept - self.done) / max(self.rate, 1e-9)
                rate = f"{rate_text(self.rate)}/s{self._beside()}"
                print(f"{done:,} of {self.points:,} points, {rate}, {left:,.0f} s left", file=sys.stderr, flush=True)

    def _beside(self) -> str:
        from sweeps.cli.tables import size

        written = f", {size(self.bytes)} written" if self.bytes else ""
        failed = f", {self.failures} parts failed and are done again" if self.failures else ""
        return f"{written}{failed}"

    def _state(self, event: str) -> dict[str, Any]:
        done = self.kept + self.done
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

    def _begin_bar(self) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        from sweeps.cli.tables import console

        count = TextColumn("{task.fields[done]} of {task.fields[points]} points, {task.fields[rate]}, ETA")
        self.bar = Bar(BarColumn(), count, TimeRemainingColumn(), console=console(error=True), transient=True)
        total = f"{self.points:,}"
        self.task = self.bar.add_task("", total=self.points, completed=self.kept, done="0", points=total, rate="-")
        self.bar.start()


def rate_text(rate: float) -> str:
    """A rate of points as "2.6 million"."""
    return f"{rate / 1e6:.3g} million" if rate >= 1e6 else f"{rate:,.0f}"


def progress_kind(kind: str | None) -> str:
    """The value of `--progress`; ValueError of one line where it is none."""
    from hwspaces.units import nearest

    if kind is not None and kind not in KINDS:
        raise ValueError(f"--progress {kind} is not known{nearest(kind, KINDS)}")
    return kind or "auto"
