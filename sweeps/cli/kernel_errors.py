"""`jaxroof validate kernels`: predicted times of single kernels against measured ones, as tables, JSON or pictures."""

import argparse
import json
import math
from typing import Any

from sweeps.cli.outputs import pictures_argument

VIEWS = (
    ("family",),
    ("family", "device"),
    ("family", "precision", "engine"),
    ("family", "precision", "engine", "device"),
)
"""What each table groups rows by."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="FOLDER", help="folder with aic_*.parquet tables of kernels")
    parser.add_argument(
        "--efficiency", metavar="NAME", help="a name or a TOML file; default: learned, of each row's engine"
    )
    parser.add_argument("--hardware", metavar="NAME", help="score rows of this device only")
    parser.add_argument("--only", metavar="FAMILY", action="append", default=[], help="score this family of kernels")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    pictures_argument(parser, "also write pictures per family: predictions, errors by feature")


def run(options: argparse.Namespace) -> None:
    """Score the tables and print the result."""
    from sweeps.measure.validate.kernel_errors import kernel_errors

    result = kernel_errors(options.data, options.efficiency, options.hardware, tuple(options.only))
    pictures = _pictures(options, result) if options.plots else []
    if options.json:
        print(json.dumps(_json(options, result, pictures), indent=2, allow_nan=False))
    else:
        _print(options, result, pictures)


def _pictures(options: argparse.Namespace, result: Any) -> list[str]:
    from sweeps.show import style
    from sweeps.show.kernels import errors_by_feature, measured_against_predicted

    families: dict[str, list[Any]] = {}
    for scored in result.scored:
        families.setdefault(scored.group.family, []).append(scored)
    made = (
        (f"{family.replace(' ', '_')}_{name}", draw(family, members))
        for family, members in families.items()
        for name, draw in (("predicted", measured_against_predicted), ("errors", errors_by_feature))
    )
    return style.pictures(options.plots, made, options.force)


def _json(options: argparse.Namespace, result: Any, pictures: list[str]) -> dict[str, Any]:
    from sweeps.measure.validate.kernel_errors import LABELS

    return {
        "path": options.data,
        "efficiency": result.efficiency,
        "errors": _plain(result.errors().get((), {})),
        "errors_from_30_us": _plain(result.errors(long=True).get((), {})),
        "groups": [
            {**dict(zip(labels, key, strict=True)), **_plain(errors), "from_30_us": _plain(long.get(key, {}))}
            for labels in (*VIEWS, LABELS)
            for long in [result.errors(*labels, long=True)]
            for key, errors in result.errors(*labels).items()
        ],
        "left_out": [{"reason": reason, "rows": rows} for reason, rows in result.left_out],
        "pictures": pictures,
    }


def _plain(errors: dict[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in errors.items()}


def _print(options: argparse.Namespace, result: Any, pictures: list[str]) -> None:
    from sweeps.cli.tables import console, table

    out = console()
    out.print(f"Kernels in {options.data}, efficiency {result.efficiency}; error: predicted / measured - 1")
    out.print("The right half is of rows of 30 us and more; inside: measured within the predicted 90 % interval\n")
    one, two = ("rows", "MAPE", "median", "signed", "inside"), ("rows ", "MAPE ", "median ", "signed ", "inside ")
    for view in VIEWS:
        shown = table(*view, *one, *two, numbers=(*one, *two))
        long = result.errors(*view, long=True)
        for key, errors in result.errors(*view).items():
            shown.add_row(*key, *_cells(errors), *_cells(long.get(key)))
        out.print(shown)
        out.print()
    for reason, rows in result.left_out:
        out.print(f"{rows:,} rows left out: {reason}")
    for picture in pictures:
        out.print(picture)


def _cells(errors: dict[str, float] | None) -> list[str]:
    if errors is None:
        return ["-"] * 5
    inside = errors["coverage_90"]
    return [
        f"{errors['rows']:,}",
        f"{errors['mape']:.1%}",
        f"{errors['median_ape']:.1%}",
        f"{errors['signed_median']:+.1%}",
        "-" if math.isnan(inside) else f"{inside:.0%}",
    ]
