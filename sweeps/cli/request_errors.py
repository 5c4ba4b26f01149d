"""`jaxroof validate requests`: latencies of requests that were served one at a time, predicted and measured."""

import argparse
from typing import Any

from sweeps.ask.words import CONSTANTS

METRIC_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV file of measured requests")
    parser.add_argument("--efficiency", metavar="NAME_OR_FILE", help=CONSTANTS)


def scored(options: argparse.Namespace) -> tuple[Any, Any]:
    """The constants of the predictions, and the rows beside them."""
    import hwspaces
    from sweeps.measure.validate.single_requests import request_errors

    constants = hwspaces.efficiency(options.efficiency)
    return constants, request_errors(options.data, constants.efficiency)


def record(options: argparse.Namespace, found: tuple[Any, Any]) -> dict[str, Any]:
    """The errors, and every row, for machines."""
    constants, result = found
    return {
        "file": options.data,
        "efficiency": constants.name,
        "engine": constants.engine,
        "rows": [_row(row) for row in result.scored],
        "errors": result.errors(),
        "unpredicted": [{"row": row.row, "experiment": row.name, "reason": row.reason} for row in result.unpredicted],
    }


def _row(row: Any) -> dict[str, Any]:
    served = row.served
    values = {"experiment": served.experiment, "model": served.model, "gpu": served.gpu, "tp": served.deployment.tp}
    values |= {"isl": served.requests.isl, "cached": served.requests.cached, "osl": served.requests.osl}
    for metric in METRIC_NAMES:
        # A row may lack a measured latency: the prediction then stands alone.
        values[f"{metric}_measured_s"] = served.measured.get(metric)
        values[f"{metric}_predicted_s"] = row.predicted[metric]
        values[f"{metric}_error"] = row.error(metric)
    return values


def show(out: Any, options: argparse.Namespace, found: tuple[Any, Any]) -> None:
    """Print a table of the rows, and one of their errors."""
    from sweeps.answers.tables import error_cells, milliseconds, table
    from sweeps.measure.validate.measured_csv import by_reason

    constants, result = found
    engine = f" ({constants.engine})" if constants.engine else ""
    out.print(f"Requests one at a time in {options.data}, efficiency {constants.name}{engine}; ms")
    numbers = [f"{name}\n{what}" for name in METRIC_NAMES.values() for what in ("measured", "predicted", "error")]
    shown = table("experiment", "model", "GPU", "tp", *numbers, numbers=("tp", *numbers))
    for row in result.scored:
        cells = []
        for metric in METRIC_NAMES:
            measured, error = row.served.measured.get(metric), row.error(metric)
            cells += [
                milliseconds(measured),
                milliseconds(row.predicted[metric]),
                "-" if error is None else f"{error:+.1%}",
            ]
        served = row.served
        shown.add_row(served.experiment, served.model, served.gpu, f"{served.deployment.tp:g}", *cells)
    out.print(shown)
    out.print("\nError, predicted / measured - 1")
    heads = ("rows", "MAPE", "median APE", "signed median")
    summary = table("", *heads, numbers=heads)
    for metric, error in result.errors().items():
        shares = error_cells(error, "mape", "median_ape", "signed_median")
        summary.add_row(METRIC_NAMES[metric], str(error["rows"]), *shares)
    out.print(summary)
    if result.unpredicted:
        out.print(f"{len(result.unpredicted)} rows not predicted:")
        # Reasons are shared by many rows: the first six are named.
        for reason, rows in by_reason(result.unpredicted):
            which = f"rows {', '.join(str(row.row) for row in rows[:6])}{', ...' if len(rows) > 6 else ''}"
            out.print(f"  {len(rows)}: {reason} ({which})")
