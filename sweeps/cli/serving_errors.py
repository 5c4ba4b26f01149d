"""`jaxroof validate serving`: simulated TTFT, TPOT and throughput of served models against measured ones."""

import argparse
import json
from collections import Counter
from typing import Any

ENGINES = ("vllm", "trtllm", "sglang")
METRICS = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}
COLUMNS = ("median", "MAPE", "signed", "hits")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV file of measured serving points")
    parser.add_argument("--engine", choices=ENGINES, action="append", default=[], help="score this engine's rows only")
    parser.add_argument("--efficiency", metavar="NAME", help="a name or a TOML file for all engines; default: learned")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--plots", metavar="DIR", help="also write pictures: predictions, errors by concurrency")


def run(options: argparse.Namespace) -> None:
    """Simulate every row that can be priced, and print how far off it is."""
    from sweeps.validate.serving.points import DisaggPoint, points
    from sweeps.validate.serving.predict import engine_efficiencies, predictions
    from sweeps.validate.serving.suspects import checked

    if options.plots:
        from sweeps.plots import style

        style.matplotlib()
    found, skipped = points(options.data)
    reasons = Counter(one.reason for one in skipped)
    apart = sum(isinstance(one, DisaggPoint) for one in found)
    if apart:
        reasons["prefill and decode workers apart are not simulated"] = apart
    rows = [one for one in found if not isinstance(one, DisaggPoint)]
    rows = [one for one in rows if not options.engine or one.engine in options.engine]
    if not rows:
        wanted = f" of {', '.join(options.engine)}" if options.engine else ""
        raise ValueError(f"{options.data}: none of {len(found) + len(skipped)} rows{wanted} can be simulated")
    efficiencies = engine_efficiencies(options.efficiency)
    with _bar() as progress:
        predicted = predictions(checked(rows), efficiencies, progress)
    pictures = _pictures(options.plots, predicted) if options.plots else []
    if options.json:
        print(json.dumps(_json(options, predicted, reasons, pictures), indent=2, allow_nan=False))
    else:
        _print(options, predicted, reasons, pictures)


class _bar:
    """A progress bar on the error stream where that is a terminal; a context whose value takes (done, all)."""

    def __enter__(self) -> Any:
        from rich.progress import Progress

        from sweeps.cli.tables import console

        errors = console(error=True)
        self.bar = Progress(console=errors, transient=True, disable=not errors.is_terminal)
        self.task = self.bar.add_task("requests", total=None)
        self.bar.start()
        return lambda done, total: self.bar.update(self.task, completed=done, total=total)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()


def _pictures(folder: str, predicted: Any) -> list[str]:
    import pathlib

    from sweeps.plots import style
    from sweeps.plots.serving import errors_by_concurrency, predicted_against_measured

    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in (("predicted", predicted_against_measured), ("errors", errors_by_concurrency)):
        path = str(pathlib.Path(folder) / f"serving_{name}.png")
        style.saved(draw(predicted), path)
        written.append(path)
    return written


def _json(options: argparse.Namespace, predicted: Any, reasons: Counter, pictures: list[str]) -> dict[str, Any]:
    import dataclasses

    from sweeps.validate.serving.scores import scores, worst

    return {
        "file": options.data,
        "efficiency": options.efficiency or "learned, of each row's engine",
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
            for found in [worst(predicted, metric)]
        },
        "rows": [_row(one) for one in predicted],
        "left_out": [{"reason": reason, "rows": count} for reason, count in reasons.most_common()],
        "pictures": pictures,
    }


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


def _print(options: argparse.Namespace, predicted: Any, reasons: Counter, pictures: list[str]) -> None:
    from sweeps.cli.tables import console, table
    from sweeps.validate.serving.scores import scores, worst, worst_lines

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
    for metric in METRICS:
        out.print()
        for line in worst_lines(worst(predicted, metric)):
            out.print(line, highlight=False, markup=False)
    suspects = Counter(one.point.suspect for one in predicted if one.point.suspect is not None)
    for reason, count in suspects.most_common():
        out.print(f"{count} rows not trusted: {reason}", highlight=False, markup=False)
    for reason, count in reasons.most_common():
        out.print(f"{count} rows left out: {reason}", highlight=False, markup=False)
    for picture in pictures:
        out.print(picture)


def _cells(score: Any) -> list[str]:
    return [f"{score.median:.1%}", f"{score.mape:.1%}", f"{score.signed:+.1%}", f"{score.hits:.0%}"]
