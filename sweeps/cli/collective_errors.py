"""`jaxroof validate collectives`: predicted times of collectives against measured ones, as tables, JSON or pictures."""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

PICTURES = "also write a picture per device, measured against predicted"

VIEWS = (
    ("device", "family"),
    ("device", "collective", "devices"),
    ("collective", "size"),
    ("device", "size"),
)
"""What each table groups rows by, beside the one over everything."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--data", required=True, metavar="PATH", help="CSV or parquet file of measured collectives, or a folder"
    )
    parser.add_argument("--losses", default="1", metavar="SHARE", help="of the links' measured losses; 0: datasheet")


def scored(options: argparse.Namespace) -> tuple[float, Any]:
    """The share of measured losses that applies, and the rows beside their predictions."""
    from hwspaces import quantity
    from sweeps.measure.validate.collective_errors import collective_errors

    # The word 0 is allowed beside quantities: links at their datasheet, without any measured loss.
    losses = 0.0 if options.losses == "0" else quantity(options.losses, "1", "--losses")
    if losses > 1.0:
        raise ValueError(f"--losses = {options.losses!r} must be at most 1")
    return losses, collective_errors(options.data, losses)


def pictures(found: tuple[float, Any]) -> Iterator[tuple[str, Any]]:
    """A picture of every device."""
    from sweeps.show.collective_errors import measured_against_predicted

    rows = found[1].scored
    for device in dict.fromkeys(one.row.device for one in rows):
        yield device, measured_against_predicted(device, [one for one in rows if one.row.device == device])


def record(options: argparse.Namespace, found: tuple[float, Any]) -> dict[str, Any]:
    """The errors for machines."""
    from sweeps.measure.validate.collective_errors import GROUPS

    losses, result = found
    return {
        "path": options.data,
        "losses": losses,
        "rows": len(result.scored),
        # Errors over all rows have the empty tuple as their group.
        "errors": result.errors()[()],
        "groups": [
            {**dict(zip(GROUPS, group, strict=True)), **errors} for group, errors in result.errors(*GROUPS).items()
        ],
        "left_out": [{"file": row.file, "row": row.row, "reason": row.reason} for row in result.left_out],
    }


def show(out: Any, options: argparse.Namespace, found: tuple[float, Any]) -> None:
    """Print a table of the errors per view, and which rows were left out."""
    from sweeps.answers.tables import error_cells, table

    losses, result = found
    words = {1.0: "measured losses", 0.0: "links at their datasheet"}.get(losses, f"{losses:g} of the measured losses")
    out.print(f"Collectives in {options.data}, {words}; error: predicted / measured - 1\n")
    numbers = ("rows", "MAPE", "median", "signed median")
    # The empty view comes first: one row over everything.
    for view in ((), *VIEWS):
        shown = table(*(view or ("",)), *numbers, numbers=numbers)
        for group, error in result.errors(*view).items():
            shares = error_cells(error, "mape", "median_ape", "signed_median")
            shown.add_row(*(group or ("all",)), str(error["rows"]), *shares)
        out.print(shown)
        out.print()
    if result.left_out:
        out.print(f"{len(result.left_out)} rows left out:")
        # Rows are left out for few reasons: each is printed once per file with its number of rows.
        for (file, reason), count in Counter((row.file, row.reason) for row in result.left_out).most_common():
            first = next(row.row for row in result.left_out if (row.file, row.reason) == (file, reason))
            out.print(f"  {count}: {reason} ({file}, from row {first})")
