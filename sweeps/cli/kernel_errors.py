"""`jaxroof validate kernels`: predicted times of single kernels against measured ones, as tables, JSON or pictures."""

import argparse
import math
from collections.abc import Iterator
from typing import Any

PICTURES = "also write pictures per family: predictions, errors by feature; one of attention blocks"

VIEWS = (
    ("family",),
    ("family", "device"),
    ("family", "precision", "engine"),
    ("family", "precision", "engine", "device"),
    ("family", "precision", "engine", "version", "kernel"),
)
"""What each table groups rows by."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--data",
        required=True,
        metavar="FOLDER",
        help="folder with tables of kernels and of attention blocks",
    )
    parser.add_argument(
        "--efficiency", metavar="NAME", help="a name or a TOML file; default: learned, of each row's engine"
    )
    parser.add_argument("--hardware", metavar="NAME", help="score rows of this device only")
    parser.add_argument("--only", metavar="FAMILY", action="append", default=[], help="score this family of kernels")


def scored(options: argparse.Namespace) -> Any:
    """The rows beside their predictions."""
    from sweeps.measure.validate.kernel_errors import kernel_errors

    return kernel_errors(options.data, options.efficiency, options.hardware, tuple(options.only))


def pictures(found: Any) -> Iterator[tuple[str, Any]]:
    """Two pictures of every family, and one of all attention blocks."""
    from sweeps.show.kernels import blocks_by_context, errors_by_feature, measured_against_predicted

    blocks = [one for one in found.scored if one.group.table is not None]
    if blocks:
        yield "blocks_context", blocks_by_context(blocks)
    for family in dict.fromkeys(one.group.family for one in found.scored):
        members = [one for one in found.scored if one.group.family == family]
        for name, draw in (("predicted", measured_against_predicted), ("errors", errors_by_feature)):
            # File names hold no commas and spaces.
            yield f"{family.replace(',', '').replace(' ', '_')}_{name}", draw(family, members)


def record(options: argparse.Namespace, found: Any) -> dict[str, Any]:
    """The errors for machines; an error of nothing is null."""
    from sweeps.measure.validate.kernel_errors import LABELS

    return {
        "path": options.data,
        "efficiency": found.efficiency,
        "errors": found.errors().get((), {}),
        "errors_from_30_us": found.errors(long=True).get((), {}),
        "groups": [
            {**dict(zip(labels, key, strict=True)), **errors, "from_30_us": long.get(key, {})}
            for labels in (*VIEWS, LABELS)
            # A list of one element gives the errors of long kernels a name within the comprehension.
            for long in [found.errors(*labels, long=True)]
            for key, errors in found.errors(*labels).items()
        ],
        "left_out": [{"reason": reason, "rows": rows} for reason, rows in found.left_out],
    }


def show(out: Any, options: argparse.Namespace, found: Any) -> None:
    """Print a table of the errors per view, and how many rows were left out."""
    from sweeps.answers.tables import table

    out.print(f"Kernels in {options.data}, efficiency {found.efficiency}; error: predicted / measured - 1")
    out.print("The right half is of rows of 30 us and more; inside: measured within the predicted 90 % interval\n")
    one, two = ("rows", "MAPE", "median", "signed", "inside"), ("rows ", "MAPE ", "median ", "signed ", "inside ")
    for view in VIEWS:
        shown = table(*view, *one, *two, numbers=(*one, *two))
        long = found.errors(*view, long=True)
        for key, errors in found.errors(*view).items():
            shown.add_row(*key, *_cells(errors), *_cells(long.get(key)))
        out.print(shown)
        out.print()
    for reason, rows in found.left_out:
        out.print(f"{rows:,} rows left out: {reason}")


def _cells(errors: dict[str, float] | None) -> list[str]:
    if errors is None:
        return ["-"] * 5
    from sweeps.answers.tables import error_cells

    inside = errors["coverage_90"]
    # Rows without a predicted interval have no coverage.
    shares = error_cells(errors, "mape", "median_ape", "signed_median")
    return [f"{errors['rows']:,}", *shares, "-" if math.isnan(inside) else f"{inside:.0%}"]
