"""`jaxroof validate serving`: simulated TTFT, TPOT and throughput of served models against measured ones."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sweeps.ask.text import rate_text
from sweeps.cli.progress import Line

PICTURES = "also write pictures: predictions, errors by concurrency"

ENGINES = ("vllm", "trtllm", "sglang")
METRICS = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}
COLUMNS = ("median", "MAPE", "signed", "hits")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="CSV file of measured serving points")
    parser.add_argument("--data", metavar="FILE", help="the same file, named by a flag")
    what = "print the jaxroof serve command that simulates this row of the file, and score nothing; all: every row's"
    parser.add_argument("--command", metavar="ROW", help=what)
    parser.add_argument("--engine", choices=ENGINES, action="append", default=[], help="score this engine's rows only")
    parser.add_argument("--efficiency", metavar="NAME", help="a name or a TOML file for all engines; default: learned")


MOST_NAMED = 6
"""Rows that are named one by one in a line about rows that were left out."""


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

    found, left, _ = _read(options)
    if options.command != "all":
        number = int(whole_number("--command", options.command))
        why = next((one.reason for one in left if one.row == number), "the file has no such row")
        found = [one for one in found if one.row == number]
        if not found:
            raise ValueError(f"{options.data}: row {number}: {why}")
    return [serve_command(dataclasses.replace(one.spec, efficiency=options.efficiency)) for one in found]


def _read(options: argparse.Namespace) -> tuple[list[Any], list[Any], int]:
    """Rows that can be priced, of the engines that are asked for; the rows that cannot; and how many there are."""
    from sweeps.measure.validate.serving.serving_points import points

    if (options.file is None) == (options.data is None):
        raise ValueError("give one FILE of measured serving points")
    options.data = options.data or options.file
    found, left = points(options.data)
    return [one for one in found if not options.engine or one.engine in options.engine], left, len(found) + len(left)


def scored(options: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """Rows that can be priced beside their simulations, and the rows that were left out."""
    from sweeps.measure.validate.serving.attempt import attempted

    rows, left, every = _read(options)
    predicted: list[Any] = []
    if rows:
        with _Bar("reading labels") as bar:
            predicted, failed = attempted(rows, options.efficiency, bar.add)
        left += failed
    if not predicted:
        wanted = f" of {', '.join(options.engine)}" if options.engine else ""
        why = "; ".join(f"{reason} ({_which(numbers)})" for reason, numbers in _reasons(left)[:2])
        raise ValueError(f"{options.data}: none of {every} rows{wanted} can be simulated{f': {why}' if why else ''}")
    return predicted, left


def _reasons(left: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Every reason why rows were left out, the commonest first, and the rows in the order of the file."""
    from sweeps.measure.validate.measured_csv import by_reason

    return [(reason, [one.row for one in rows]) for reason, rows in by_reason(sorted(left))]


def _which(rows: Sequence[int]) -> str:
    named = ", ".join(str(row) for row in rows[:MOST_NAMED])
    return f"row{'s' if len(rows) > 1 else ''} {named}{', ...' if len(rows) > MOST_NAMED else ''}"


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
    """The errors, and every row, for machines."""
    import dataclasses

    from sweeps.measure.validate.serving.scores import scores, worst

    predicted, left = found
    trusted = any(one.point.suspect is None for one in predicted)
    return {
        "file": options.data,
        "efficiency": options.efficiency or "learned, of each row's engine",
        "scored": len(predicted),
        "errors": {
            key: {
                name: {metric: dataclasses.asdict(score) for metric, score in row.items()}
                for name, row in values.items()
            }
            for key, values in scores(predicted).items()
        },
        "worst": {
            metric: {"from_error": worse.from_error, "shares": worse.shares}
            for metric in METRICS
            if trusted
            for worse in [worst(predicted, metric)]
        },
        "rows": [_row(one) for one in predicted],
        "assumptions": [
            {"assumption": text, "rows": count} for text, count in _assumed(options, predicted).most_common()
        ],
        "left_out": [{"reason": reason, "rows": len(rows), "lines": rows} for reason, rows in _reasons(left)],
    }


def _assumed(options: argparse.Namespace, predicted: Any) -> Counter:
    from sweeps.measure.validate.serving.serving_points import assumptions

    return assumptions([one.point for one in predicted], learned=options.efficiency is None)


def _row(one: Any) -> dict[str, Any]:
    from sweeps.cli.serve_command import serve_command

    point = one.point
    return {
        "row": point.row,
        "model": point.model_name,
        "gpu": point.gpu,
        "engine": point.engine,
        "release": point.launch.engine,
        "command": serve_command(point.spec),
        "suite": point.family,
        "tp": point.deployment.tp,
        "isl": point.isl,
        "osl": point.osl,
        "concurrency": point.concurrency,
        "suspect": point.suspect,
        "ttft_measured_s": point.ttft,
        "ttft_predicted_s": one.ttft,
        "tpot_measured_s": point.tpot,
        "tpot_predicted_s": one.tpot,
    }


def show(out: Any, options: argparse.Namespace, found: tuple[list[Any], list[Any]]) -> None:
    """Print a table of the errors by label, the worst rows, what was assumed, and which rows were left out."""
    from sweeps.answers.tables import table
    from sweeps.measure.validate.serving.scores import scores, worst, worst_lines

    predicted, left = found
    name = options.efficiency or "learned, of each row's engine"
    out.print(f"Served models in {options.data}, efficiency {name}; error: predicted / measured - 1")
    out.print("hits: within 20 %; trusted: nothing speaks against the labels, as in all tables but the first row\n")
    heads = [f"{METRICS[metric]}\n{column}" for metric in METRICS for column in COLUMNS]
    shown = table("by", "", "rows", *heads, numbers=("rows", *heads))
    for key, values in scores(predicted).items():
        for value, row in values.items():
            cells = [text for score in row.values() for text in _cells(score)]
            shown.add_row(key, value, str(row["tpot"].n), *cells)
        shown.add_section()
    out.print(shown)
    trusted = any(one.point.suspect is None for one in predicted)
    for metric in METRICS if trusted else ():
        out.print()
        for line in worst_lines(worst(predicted, metric)):
            out.print(line)
    suspects = Counter(one.point.suspect for one in predicted if one.point.suspect is not None)
    for reason, count in suspects.most_common():
        out.print(f"{count} rows not trusted: {reason}")
    for text, count in _assumed(options, predicted).most_common():
        out.print(f"{count} rows on {text}")
    out.print(f"{len(predicted)} rows scored, {len(left)} left out")
    for reason, rows in _reasons(left):
        out.print(f"{len(rows)} left out: {reason} ({_which(rows)})")


def _cells(score: Any) -> list[str]:
    return [f"{score.median:.1%}", f"{score.mape:.1%}", f"{score.signed:+.1%}", f"{score.hits:.0%}"]
