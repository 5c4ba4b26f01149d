"""`jaxroof validate power`: predicted electrical power of kernels against the board's meter, and a picture of it."""

import argparse
from typing import Any

PICTURES = "also write a picture of predicted against measured power"

COLUMNS = ("rows", "median", "MAPE", "signed", "median ", "MAPE ", "over TDP")
SHARES = ("median_ape", "mape", "signed_median", "own_time_median_ape", "own_time_mape", "over_tdp")
"""Columns after the rows, and what they are of."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FOLDER", help="folder with aic_power.parquet")
    parser.add_argument(
        "--efficiency", metavar="NAME", help="of the second prediction's times; default: learned, of each row's engine"
    )


def scored(options: argparse.Namespace) -> tuple[list[Any], dict[str, int]]:
    """Scores of kernels, and how many rows were left out for which reason."""
    from sweeps.measure.validate.kernel_power import power_scores

    return power_scores(options.data, options.efficiency)


def pictures(found: tuple[list[Any], dict[str, int]]) -> list[tuple[str, Any]]:
    """One picture, where there is anything to draw."""
    from sweeps.show.kernels import power_against_measured

    return [("power", power_against_measured(found[0]))] if found[0] else []


def _rows(scores: list[Any]) -> list[dict[str, Any]]:
    """Errors by group, first of the shapes that were held out of the fit, then of all."""
    from sweeps.measure.validate.kernel_power import power_errors

    return [row for held_out in (True, False) for row in power_errors(scores, held_out)]


def record(options: argparse.Namespace, found: tuple[list[Any], dict[str, int]]) -> dict[str, Any]:
    """The errors for machines."""
    reasons = [{"reason": reason, "rows": count} for reason, count in found[1].items()]
    return {"path": options.data, "groups": _rows(found[0]), "left_out": reasons}


def show(out: Any, options: argparse.Namespace, found: tuple[list[Any], dict[str, int]]) -> None:
    """Print a table of the errors per choice of rows, and how many rows were left out."""
    from sweeps.answers.tables import error_cells, table

    rows = _rows(found[0])
    out.print(f"Power of kernels in {options.data}; error: predicted / measured - 1, power at most TDP")
    out.print("Left: energy model at the measured time; right: at the predicted time. Over TDP: share of rows whose")
    out.print("energy at the measured time would take more than 5 % above the limit\n")
    # Short runs end within the meter's averaging window: with and without them are separate tables.
    for title, held_out, every in (
        ("Shapes that were held out of the fit, runs that fill the meter's window", True, False),
        ("All shapes, runs that fill the meter's window", False, False),
        ("All shapes, all runs", False, True),
    ):
        out.print(title)
        shown = table("kernels", "device", *COLUMNS, numbers=COLUMNS)
        for row in rows:
            if (row["held_out"], row["short_runs"]) == (held_out, every):
                shown.add_row(row["kernels"], row["device"], f"{row['rows']:,}", *error_cells(row, *SHARES))
        out.print(shown)
        out.print()
    for reason, count in found[1].items():
        out.print(f"{count:,} rows left out: {reason}")
