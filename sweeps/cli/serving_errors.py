"""`jaxroof validate serving`: simulated TTFT, TPOT and throughput of served models against measured ones."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sweeps.cli.outputs import pictures_argument
from sweeps.cli.progress import LINE_SECONDS, rate_text

ENGINES = ("vllm", "trtllm", "sglang")
METRICS = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}
COLUMNS = ("median", "MAPE", "signed", "hits")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV file of measured serving points")
    parser.add_argument("--engine", choices=ENGINES, action="append", default=[], help="score this engine's rows only")
    parser.add_argument("--efficiency", metavar="NAME", help="a name or a TOML file for all engines; default: learned")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    pictures_argument(parser, "also write pictures: predictions, errors by concurrency")


MOST_NAMED = 6
"""Rows that are named one by one in a line about rows that were left out."""


def run(options: argparse.Namespace) -> None:
    """Simulate every row that can be priced, and print how far off it is and which rows were left out."""
    from sweeps.measure.validate.serving.attempt import attempted
    from sweeps.measure.validate.serving.predict import engine_efficiencies
    from sweeps.measure.validate.serving.serving_points import points

    found, left = points(options.data)
    every = len(found) + len(left)
    rows = [one for one in found if not options.engine or one.engine in options.engine]
    predicted: list[Any] = []
    if rows:
        efficiencies = engine_efficiencies(options.efficiency)
        with _Bar() as bar:
            predicted, failed = attempted(rows, efficiencies, bar.show)
        left += failed
    if not predicted:
        wanted = f" of {', '.join(options.engine)}" if options.engine else ""
        why = "; ".join(f"{reason} ({_which(numbers)})" for reason, numbers in _reasons(left)[:2])
        raise ValueError(f"{options.data}: none of {every} rows{wanted} can be simulated{f': {why}' if why else ''}")
    pictures = _pictures(options, predicted) if options.plots else []
    if options.json:
        print(json.dumps(_json(options, predicted, left, pictures), indent=2, allow_nan=False))
    else:
        _print(options, predicted, left, pictures)


def _reasons(left: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Every reason why rows were left out, the commonest first, and the rows in the order of the file."""
    found: dict[str, list[int]] = {}
    for one in sorted(left, key=lambda one: one.row):
        found.setdefault(one.reason, []).append(one.row)
    return sorted(found.items(), key=lambda pair: -len(pair[1]))


def _which(rows: Sequence[int]) -> str:
    named = ", ".join(str(row) for row in rows[:MOST_NAMED])
    return f"row{'s' if len(rows) > 1 else ''} {named}{', ...' if len(rows) > MOST_NAMED else ''}"


class _Bar:
    """What is done, how much of it and how fast, on the error stream: a bar on a terminal, else a line now and then."""

    def __enter__(self) -> "_Bar":
        self.what, self.bar = "", None
        self.begun = self.last = self.said = time.perf_counter()
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            from sweeps.cli.tables import console

            columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
            self.bar = Progress(*columns, console=console(error=True), transient=True)
            self.task = self.bar.add_task("reading labels", total=None)
            self.bar.start()
        return self

    def show(self, what: str, done: int, every: int) -> None:
        """Say that `done` of `every` of what is counted are done."""
        now = time.perf_counter()
        if what != self.what:  # it began when the last thing was reported
            self.what, self.begun = what, self.last
        self.last = now
        rate = done / max(now - self.begun, 1e-9)
        text = f"{done:,} of {every:,} {what}, {rate_text(rate) if rate >= 10.0 else f'{rate:.2g}'}/s"
        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=every, description=text)
        elif now - self.said > LINE_SECONDS["auto"] and done < every:
            self.said = now
            print(text, file=sys.stderr, flush=True)

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _pictures(options: argparse.Namespace, predicted: Any) -> list[str]:
    from sweeps.show import style
    from sweeps.show.serving import errors_by_concurrency, predicted_against_measured

    made = (
        (f"serving_{name}", draw(predicted))
        for name, draw in (("predicted", predicted_against_measured), ("errors", errors_by_concurrency))
    )
    return style.pictures(options.plots, made, options.force)


def _json(options: argparse.Namespace, predicted: Any, left: Any, pictures: list[str]) -> dict[str, Any]:
    import dataclasses

    from sweeps.measure.validate.serving.scores import scores, worst

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
            metric: {"from_error": found.from_error, "shares": found.shares}
            for metric in METRICS
            if trusted
            for found in [worst(predicted, metric)]
        },
        "rows": [_row(one) for one in predicted],
        "assumptions": [
            {"assumption": text, "rows": count} for text, count in _assumed(options, predicted).most_common()
        ],
        "left_out": [{"reason": reason, "rows": len(rows), "lines": rows} for reason, rows in _reasons(left)],
        "pictures": pictures,
    }


def _assumed(options: argparse.Namespace, predicted: Any) -> Counter:
    from sweeps.measure.validate.serving.serving_points import assumptions

    return assumptions([one.point for one in predicted], learned=options.efficiency is None)


def _row(one: Any) -> dict[str, Any]:
    point = one.point
    return {
        "row": point.row,
        "model": point.model_name,
        "gpu": point.gpu,
        "engine": point.engine,
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


def _print(options: argparse.Namespace, predicted: Any, left: Any, pictures: list[str]) -> None:
    from sweeps.cli.tables import console, table
    from sweeps.measure.validate.serving.scores import scores, worst, worst_lines

    out = console()
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
            out.print(line, highlight=False, markup=False)
    suspects = Counter(one.point.suspect for one in predicted if one.point.suspect is not None)
    for reason, count in suspects.most_common():
        out.print(f"{count} rows not trusted: {reason}", highlight=False, markup=False)
    for text, count in _assumed(options, predicted).most_common():
        out.print(f"{count} rows on {text}", highlight=False, markup=False)
    out.print(f"{len(predicted)} rows scored, {len(left)} left out", highlight=False, markup=False)
    for reason, rows in _reasons(left):
        out.print(f"{len(rows)} left out: {reason} ({_which(rows)})", highlight=False, markup=False)
    for picture in pictures:
        out.print(picture)


def _cells(score: Any) -> list[str]:
    return [f"{score.median:.1%}", f"{score.mape:.1%}", f"{score.signed:+.1%}", f"{score.hits:.0%}"]
