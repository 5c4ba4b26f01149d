"""`jaxroof validate steps`: single steps of an engine under load, predicted and measured."""

import argparse
from typing import Any

from sweeps.ask.words import CONSTANTS

DEVICE, ENGINE = "H100-SXM", "vllm"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV file of measured steps")
    parser.add_argument("--hardware", default=DEVICE, metavar="NAME", help=f"what they ran on (default {DEVICE})")
    parser.add_argument("--efficiency", metavar="NAME_OR_FILE", help=f"{CONSTANTS} (default those of {ENGINE})")


def scored(options: argparse.Namespace) -> tuple[str, Any]:
    """Name of the constants, and the steps beside their predictions."""
    import hwspaces
    from sweeps.measure.validate.engine_steps import step_errors

    constants = hwspaces.efficiency(options.efficiency or hwspaces.engine(ENGINE).efficiency)
    return constants.name, step_errors(options.data, options.hardware, constants.efficiency)


def record(options: argparse.Namespace, found: tuple[str, Any]) -> dict[str, Any]:
    """The errors, and every row, for machines."""
    from sweeps.measure.validate.engine_steps import GROUPS

    efficiency, result = found
    return {
        "file": options.data,
        "hardware": options.hardware,
        "efficiency": efficiency,
        "errors": {key: result.errors(key) for key in GROUPS},
        "rows": [
            {"row": one.step.row, "model": one.step.model_name, "tp": float(one.step.deployment.tp)}
            | {"measured_s": one.step.seconds, "predicted_s": one.predicted}
            for one in result.scored
        ],
        "left_out": [{"row": one.row, "reason": one.reason} for one in result.left_out],
    }


def show(out: Any, options: argparse.Namespace, found: tuple[str, Any]) -> None:
    """Print a table of the errors by model, by batch and by sequences."""
    from sweeps.answers.tables import error_cells, table
    from sweeps.measure.validate.engine_steps import GROUPS
    from sweeps.measure.validate.measured_csv import by_reason

    efficiency, result = found
    numbers = ("rows", "MAPE", "median APE", "signed median")
    shown = table("by", "", *numbers, numbers=numbers)
    for key in GROUPS:
        for place, (name, error) in enumerate(result.errors(key).items()):
            shares = error_cells(error, "mape", "median_ape", "signed_median")
            shown.add_row("" if place else key, name, str(error["rows"]), *shares)
    out.print(shown)
    out.print(f"Steps on {options.hardware} in {options.data} at efficiency {efficiency}: predicted / measured - 1.")
    for reason, rows in by_reason(result.left_out):
        out.print(f"{len(rows)} rows not predicted: {reason}")
