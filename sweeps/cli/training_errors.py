"""`jaxroof validate training`: passes of whole models in fp32 PyTorch, predicted and measured, by device and mode."""

import argparse
from collections import Counter
from typing import Any

from sweeps.ask.words import CONSTANTS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV file of measured runs")
    parser.add_argument("--efficiency", metavar="NAME_OR_FILE", help=f"{CONSTANTS} (default eager_fp32)")
    parser.add_argument("--rows", action="store_true", help="also print every row")


def scored(options: argparse.Namespace) -> tuple[str, list[Any], list[Any]]:
    """Name of the constants, rows of the label set beside their predictions, and rows without one."""
    import hwspaces
    from sweeps.measure.validate.training_passes import EFFICIENCY, measured_passes, scored_passes

    # These measurements are of eager PyTorch in fp32, which has constants of its own.
    constants = hwspaces.efficiency(options.efficiency or EFFICIENCY)
    rows, left = measured_passes(options.data)
    if not rows:
        raise ValueError(f"{options.data}: no row of the label set in it that can be predicted")
    return constants.name, scored_passes(rows, constants.efficiency), left


def record(options: argparse.Namespace, scored: tuple[str, list[Any], list[Any]]) -> dict[str, Any]:
    """The errors, and every row, for machines."""
    from sweeps.measure.validate.training_passes import pass_errors

    efficiency, passes, left = scored
    return {
        "file": options.data,
        "efficiency": efficiency,
        "errors": pass_errors(passes),
        "rows": [
            row.label._asdict()
            | {"predicted_forward": row.forward, "predicted_backward": row.backward, "error": row.error}
            for row in passes
        ],
        "unpredicted": [{"name": row.name, "reason": row.reason} for row in left],
    }


def show(out: Any, options: argparse.Namespace, scored: tuple[str, list[Any], list[Any]]) -> None:
    """Print a table of the errors by device and mode, after one of the rows where they are asked for."""
    from sweeps.answers.tables import error_cells, milliseconds, table
    from sweeps.measure.validate.training_passes import pass_errors

    efficiency, passes, left = scored
    if options.rows:
        numbers = ("forward, ms\nmeasured", "\npredicted", "backward, ms\nmeasured", "\npredicted", "step\nerror")
        shown = table("run", *numbers, numbers=numbers)
        for row in passes:
            label = row.label
            # Inference has a forward pass alone.
            backward = row.backward if label.mode == "training" else None
            cells = (label.forward, row.forward, label.backward, backward)
            shown.add_row(label.name, *(milliseconds(time) for time in cells), f"{row.error:+.1%}")
        out.print(shown)
    numbers = ("rows", "mean absolute\nerror", "mean error")
    shown = table("device", "passes", *numbers, numbers=numbers)
    for gpu, by_mode in pass_errors(passes).items():
        for place, (mode, error) in enumerate(by_mode.items()):
            shares = (*error_cells(error, "mean_absolute_error"), f"{error['mean_error']:+.1%}")
            shown.add_row("" if place else gpu, mode, str(error["rows"]), *shares)
    out.print(shown)
    out.print(f"Steps of whole models in {options.data} at efficiency {efficiency}: predicted / measured - 1.")
    for reason, count in Counter(row.reason for row in left).most_common():
        out.print(f"{count} rows not predicted: {reason}")
