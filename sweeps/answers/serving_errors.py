"""Errors of served points as text and JSON."""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any


def reasons(left: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Every reason why rows were left out, the commonest first, and the rows in the order of the file."""
    from sweeps.measure.validate.measured_csv import by_reason

    return [(reason, [one.row for one in rows]) for reason, rows in by_reason(sorted(left))]


def which(rows: Sequence[int]) -> str:
    """Rows in words: the first few."""
    named = ", ".join(str(row) for row in rows[:MOST_NAMED])
    return f"row{'s' if len(rows) > 1 else ''} {named}{', ...' if len(rows) > MOST_NAMED else ''}"


def record(
    options: argparse.Namespace, found: tuple[list[Any], list[Any]], command: Callable[[Any], str]
) -> dict[str, Any]:
    """The errors, and every row, for machines."""
    import dataclasses

    from sweeps.measure.validate.serving.scores import scores, worst

    predicted, left = found
    # Points whose labels are in doubt are not trusted: without any other there is no worst one to name.
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
            # A list of one element gives the result a name, so that it is computed once for each metric.
            for worse in [worst(predicted, metric)]
        },
        "rows": [row_record(one, command) for one in predicted],
        "assumptions": [
            {"assumption": text, "rows": count} for text, count in _assumed(options, predicted).most_common()
        ],
        "left_out": [{"reason": reason, "rows": len(rows), "lines": rows} for reason, rows in reasons(left)],
    }


def _assumed(options: argparse.Namespace, predicted: Any) -> Counter[str]:
    from sweeps.measure.validate.serving.serving_points import assumptions

    return assumptions([one.point for one in predicted], learned=options.efficiency is None)


def row_record(one: Any, command: Callable[[Any], str]) -> dict[str, Any]:
    """One point for machines."""
    point = one.point
    return {
        "row": point.row,
        "model": point.model_name,
        "gpu": point.gpu,
        "engine": point.engine,
        "release": point.launch.engine,
        "command": command(point.spec),
        "suite": point.family,
        "tp": point.deployment.tp,
        "isl": point.isl,
        "osl": point.osl,
        "concurrency": point.concurrency,
        "suspect": point.suspect,
        "ttft_measured_s": point.ttft,
        "ttft_predicted_s": one.time("ttft"),
        "tpot_measured_s": point.tpot,
        "tpot_predicted_s": one.time("tpot"),
        "tokens_per_second_measured": point.throughput,
        "tokens_per_second_predicted": one.rate,
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
    # The worst points are looked for only among rows that nothing speaks against.
    trusted = any(one.point.suspect is None for one in predicted)
    for metric in METRICS if trusted else ():
        out.print()
        for line in worst_lines(worst(predicted, metric)):
            out.print(line)
    # Rows in doubt are counted by the reason for the doubt.
    suspects = Counter(one.point.suspect for one in predicted if one.point.suspect is not None)
    for reason, count in suspects.most_common():
        out.print(f"{count} rows not trusted: {reason}")
    for text, count in _assumed(options, predicted).most_common():
        out.print(f"{count} rows on {text}")
    out.print(f"{len(predicted)} rows scored, {len(left)} left out")
    for reason, rows in reasons(left):
        out.print(f"{len(rows)} left out: {reason} ({which(rows)})")


def _cells(score: Any) -> list[str]:
    return [f"{score.median:.1%}", f"{score.mape:.1%}", f"{score.signed:+.1%}", f"{score.hits:.0%}"]


METRICS = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}


COLUMNS = ("median", "MAPE", "signed", "hits")


MOST_NAMED = 6
"""Rows that are named one by one in a line about rows that were left out."""
