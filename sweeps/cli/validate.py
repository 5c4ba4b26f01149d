"""`jaxroof validate`: predictions against measured data, one kind of data per word."""

import argparse
import json
from collections import Counter
from typing import Any

from sweeps.cli import (
    area_errors,
    collective_errors,
    kernel_errors,
    plausibility,
    power_errors,
    serving_errors,
    training_errors,
)
from sweeps.cli.common import EFFICIENCY_HELP

METRIC_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kinds of data and what each of them takes."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind, (summary, declared, _) in KINDS.items():
        declared(kinds.add_parser(kind, help=summary, description=summary[0].upper() + summary[1:] + "."))


def run(options: argparse.Namespace) -> None:
    """Score one file and print the result."""
    KINDS[options.kind][2](options)


def _request_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV file of measured requests")
    parser.add_argument("--efficiency", metavar="NAME_OR_FILE", help=EFFICIENCY_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _requests(options: argparse.Namespace) -> None:
    import hwspaces
    from sweeps.measure.validate.single_requests import request_errors

    constants = hwspaces.efficiency(options.efficiency)
    result = request_errors(options.data, constants.efficiency)
    if options.json:
        print(json.dumps(_json(options.data, constants, result), indent=2))
    else:
        _print(options.data, constants, result)


def _json(file: str, constants: Any, result: Any) -> dict[str, Any]:
    return {
        "file": file,
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
        values[f"{metric}_measured_s"] = served.measured.get(metric)
        values[f"{metric}_predicted_s"] = row.predicted[metric]
        values[f"{metric}_error"] = row.error(metric)
    return values


def _print(file: str, constants: Any, result: Any) -> None:
    from sweeps.cli.tables import console, table

    engine = f" ({constants.engine})" if constants.engine else ""
    out = console()
    out.print(f"Requests one at a time in {file}, efficiency {constants.name}{engine}; ms")
    numbers = [f"{name}\n{what}" for name in METRIC_NAMES.values() for what in ("measured", "predicted", "error")]
    rows = table("experiment", "model", "GPU", "tp", *numbers, numbers=("tp", *numbers))
    for row in result.scored:
        cells = []
        for metric in METRIC_NAMES:
            measured, error = row.served.measured.get(metric), row.error(metric)
            cells += [_ms(measured), _ms(row.predicted[metric]), "-" if error is None else f"{error:+.1%}"]
        served = row.served
        rows.add_row(served.experiment, served.model, served.gpu, f"{served.deployment.tp:g}", *cells)
    out.print(rows)
    out.print("\nError, predicted / measured - 1")
    heads = ("rows", "MAPE", "median APE", "signed median")
    summary = table("", *heads, numbers=heads)
    for metric, error in result.errors().items():
        shares = (f"{error['mape']:.1%}", f"{error['median_ape']:.1%}", f"{error['signed_median']:+.1%}")
        summary.add_row(METRIC_NAMES[metric], str(error["rows"]), *shares)
    out.print(summary)
    if result.unpredicted:
        out.print(f"{len(result.unpredicted)} rows not predicted:")
        for reason, count in Counter(row.reason for row in result.unpredicted).most_common():
            numbers = [str(row.row) for row in result.unpredicted if row.reason == reason]
            which = f"rows {', '.join(numbers[:6])}{', ...' if count > 6 else ''}"
            out.print(f"  {count}: {reason} ({which})")


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.4g}"


KINDS = {
    "requests": (
        "TTFT, TPOT and E2E latency of requests that were served one at a time",
        _request_arguments,
        _requests,
    ),
    "collectives": (
        "times of all-reduces and other collectives, by device, library, group and message size",
        collective_errors.arguments,
        collective_errors.run,
    ),
    "kernels": (
        "times of single kernels, by kind, precision, engine and device",
        kernel_errors.arguments,
        kernel_errors.run,
    ),
    "power": (
        "electrical power of single kernels, by kind and precision",
        power_errors.arguments,
        power_errors.run,
    ),
    "serving": (
        "TTFT, TPOT and throughput of models that were served under load",
        serving_errors.arguments,
        serving_errors.run,
    ),
    "training": (
        "passes of whole models in fp32 PyTorch, inference and training, by device",
        training_errors.arguments,
        training_errors.run,
    ),
    "plausibility": (
        "shares of peak and bandwidth that every accelerator is predicted to reach on large kernels",
        plausibility.arguments,
        plausibility.run,
    ),
    "area": (
        "die areas of accelerators against published sizes; needs no data",
        area_errors.arguments,
        area_errors.run,
    ),
}
"""Kind of measured data -> (what is compared, its arguments, what runs)."""
