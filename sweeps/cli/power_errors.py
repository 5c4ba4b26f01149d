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
    from sweeps.validate.power import power_scores

    scores, left_out = power_scores(options.data, options.efficiency)
    pictures = _pictures(options, scores) if options.plots and scores else []
    rows = [row for held_out in (True, False) for row in _rows(scores, held_out)]
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


def _rows(scores: list[Any], held_out: bool) -> list[dict[str, Any]]:
    """Errors by kernels and device, then of all; of held-out shapes only where the meter was filled."""
    import numpy as np

    found = []
    for short in (False,) if held_out else (False, True):
        masks = [(s.filled | short) & (s.held_out | (not held_out)) for s in scores]
        members: dict[tuple[str, str], list[int]] = {}
        for i, score in enumerate(scores):
            members.setdefault((score.label, score.group.device), []).append(i)
        for key, chosen in [*members.items(), (("all", "all"), list(range(len(scores))))]:

            def column(name: str, chosen: list[int] = chosen, masks: list[Any] = masks) -> Any:
                return np.concatenate([getattr(scores[i], name)[masks[i]] for i in chosen] or [np.zeros(0)])

            measured = column("measured")
            if not len(measured):
                continue
            error, own = column("power") / measured - 1.0, column("own") / measured - 1.0
            limits = np.concatenate([np.full(masks[i].sum(), _tdp(scores[i])) for i in chosen])
            found.append(
                {
                    "kernels": key[0],
                    "device": key[1],
                    "held_out": held_out,
                    "short_runs": short,
                    "rows": len(measured),
                    "median_ape": float(np.median(np.abs(error))),
                    "mape": float(np.mean(np.abs(error))),
                    "signed_median": float(np.median(error)),
                    "own_time_median_ape": float(np.median(np.abs(own))),
                    "own_time_mape": float(np.mean(np.abs(own))),
                    "over_tdp": float(np.mean(column("unlimited") > 1.05 * limits)),
                }
            )
    return found


def _tdp(score: Any) -> float:
    import hwspaces

    return float(hwspaces.hardware(score.group.device).hardware.power.tdp)


def _cells(row: dict[str, Any]) -> list[str]:
    names = ("median_ape", "mape", "signed_median", "own_time_median_ape", "own_time_mape", "over_tdp")
    return [f"{row[name]:+.1%}" if name == "signed_median" else f"{row[name]:.1%}" for name in names]


def _pictures(options: argparse.Namespace, scores: list[Any]) -> list[str]:
    from sweeps.show import style
    from sweeps.show.power import measured_against_predicted

    return style.pictures(options.plots, [("power", measured_against_predicted(scores))], options.force)
