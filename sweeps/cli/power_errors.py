"""`jaxroof validate power`: predicted electrical power of kernels against the board's meter, and a picture of it."""

import argparse
import json
from typing import Any

from sweeps.cli.outputs import pictures_argument

COLUMNS = ("rows", "median", "MAPE", "signed", "median ", "MAPE ", "over TDP")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FOLDER", help="folder with aic_power.parquet")
    parser.add_argument(
        "--efficiency", metavar="NAME", help="of the second prediction's times; default: learned, of each row's engine"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    pictures_argument(parser, "also write a picture of predicted against measured power")


def run(options: argparse.Namespace) -> None:
    """Score the table and print the result."""
    from sweeps.measure.validate.kernel_power import power_errors, power_scores

    scores, left_out = power_scores(options.data, options.efficiency)
    pictures = _pictures(options, scores) if options.plots and scores else []
    rows = [row for held_out in (True, False) for row in power_errors(scores, held_out)]
    if options.json:
        reasons = [{"reason": reason, "rows": count} for reason, count in left_out.items()]
        print(json.dumps({"path": options.data, "groups": rows, "left_out": reasons, "pictures": pictures}, indent=2))
        return
    from sweeps.cli.tables import console, table

    out = console()
    out.print(f"Power of kernels in {options.data}; error: predicted / measured - 1, power at most TDP")
    out.print("Left: energy model at the measured time; right: at the predicted time. Over TDP: share of rows whose")
    out.print("energy at the measured time would take more than 5 % above the limit\n")
    for title, held_out, every in (
        ("Shapes that were held out of the fit, runs that fill the meter's window", True, False),
        ("All shapes, runs that fill the meter's window", False, False),
        ("All shapes, all runs", False, True),
    ):
        out.print(title)
        shown = table("kernels", "device", *COLUMNS, numbers=COLUMNS)
        for row in rows:
            if (row["held_out"], row["short_runs"]) == (held_out, every):
                shown.add_row(row["kernels"], row["device"], f"{row['rows']:,}", *_cells(row))
        out.print(shown)
        out.print()
    for reason, count in left_out.items():
        out.print(f"{count:,} rows left out: {reason}")
    for picture in pictures:
        out.print(picture)


def _cells(row: dict[str, Any]) -> list[str]:
    names = ("median_ape", "mape", "signed_median", "own_time_median_ape", "own_time_mape", "over_tdp")
    return [f"{row[name]:+.1%}" if name == "signed_median" else f"{row[name]:.1%}" for name in names]


def _pictures(options: argparse.Namespace, scores: list[Any]) -> list[str]:
    from sweeps.show import style
    from sweeps.show.kernels import power_against_measured

    return style.pictures(options.plots, [("power", power_against_measured(scores))], options.force)
