"""`jaxroof validate serving`: simulated TTFT, TPOT and throughput of served models against measured ones."""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from sweeps.ask.text import rate_text
from sweeps.cli.progress import Line

PICTURES = "also write pictures: predictions, errors by concurrency"

ENGINES = ("vllm", "trtllm", "sglang")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="CSV file of measured serving points")
    parser.add_argument("--data", metavar="FILE", help="the same file, named by a flag")
    what = "print the jaxroof serve command that simulates this row of the file, and score nothing; all: every row's"
    parser.add_argument("--command", metavar="ROW", help=what)
    parser.add_argument("--engine", choices=ENGINES, action="append", default=[], help="score this engine's rows only")
    parser.add_argument("--efficiency", metavar="NAME", help="a name or a TOML file for all engines; default: learned")


def commands(options: argparse.Namespace) -> list[str] | None:
    """The `jaxroof serve` command of the row that `--command` names, or of every row; None where it is not given.

    Raises:
      ValueError: one line: no such row, or the reason why it cannot be simulated.
    """
    if options.command is None:
        return None
    import dataclasses

    from sweeps.cli.common import whole_number
    from sweeps.cli.serve_command import serve_command

    rows, left, _ = _read(options)
    if options.command != "all":
        number = int(whole_number("--command", options.command))
        # A row that cannot be simulated has a reason; one that is not in the file has none.
        why = next((one.reason for one in left if one.row == number), "the file has no such row")
        rows = [one for one in rows if one.row == number]
        if not rows:
            raise ValueError(f"{options.data}: row {number}: {why}")
    # The same constants as in scoring, so that the command repeats the prediction.
    return [serve_command(dataclasses.replace(one.spec, efficiency=options.efficiency)) for one in rows]


def _read(options: argparse.Namespace) -> tuple[list[Any], list[Any], int]:
    """Rows that can be priced, of the engines that are asked for; the rows that cannot; and how many there are."""
    from sweeps.measure.validate.serving.forms import served_points

    if (options.file is None) == (options.data is None):
        raise ValueError("give one FILE of measured serving points")
    options.data = options.data or options.file
    priced, left = served_points(options.data)
    return [one for one in priced if not options.engine or one.engine in options.engine], left, len(priced) + len(left)


def scored(options: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """Rows that can be priced beside their simulations, and the rows that were left out."""
    from sweeps.answers.serving_errors import reasons, which
    from sweeps.measure.validate.serving.attempt import attempted

    rows, left, every = _read(options)
    # No simulation is compiled where no row can be priced.
    predicted: list[Any] = []
    if rows:
        with _Bar("reading labels") as bar:
            predicted, failed = attempted(rows, options.efficiency, bar.add)
        left += failed
    if not predicted:
        wanted = f" of {', '.join(options.engine)}" if options.engine else ""
        # The two commonest reasons are enough to see what is wrong.
        why = "; ".join(f"{reason} ({which(numbers)})" for reason, numbers in reasons(left)[:2])
        raise ValueError(f"{options.data}: none of {every} rows{wanted} can be simulated{f': {why}' if why else ''}")
    return predicted, left


class _Bar(Line):
    """What is done, how much of it and how fast."""

    def __init__(self, text: str):
        super().__init__(text)
        self.what, self.last, self.begun = "", self.said, self.said

    def add(self, what: str, done: int, every: int) -> None:
        """Say that `done` of `every` of what is counted are done."""
        now = time.perf_counter()
        if what != self.what:  # it began when the last thing was reported
            self.what, self.begun = what, self.last
        self.last = now
        rate = done / max(now - self.begun, 1e-9)
        text = f"{done:,} of {every:,} {what}, {rate_text(rate) if rate >= 10.0 else f'{rate:.2g}'}/s"
        self.show(text, done, every)


def pictures(found: tuple[list[Any], list[Any]]) -> Iterator[tuple[str, Any]]:
    """Two pictures of all rows."""
    from sweeps.show.serving import errors_by_concurrency, predicted_against_measured

    for name, draw in (("predicted", predicted_against_measured), ("errors", errors_by_concurrency)):
        yield f"serving_{name}", draw(found[0])


def record(options: argparse.Namespace, found: tuple[list[Any], list[Any]]) -> dict[str, Any]:
    """The errors and every point for machines, each with the command that serves it again."""
    from sweeps.answers import serving_errors
    from sweeps.cli.serve_command import serve_command

    return serving_errors.record(options, found, serve_command)


def show(out: Any, options: argparse.Namespace, found: tuple[list[Any], list[Any]]) -> None:
    """Print tables of the errors."""
    from sweeps.answers import serving_errors

    serving_errors.show(out, options, found)
