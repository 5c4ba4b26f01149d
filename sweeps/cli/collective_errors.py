"""`jaxroof validate collectives`: predicted times of collectives against measured ones, as tables, JSON or pictures."""

import argparse
import json
from collections import Counter
from typing import Any

from sweeps.cli.outputs import pictures_argument

VIEWS = (
    ("device", "family"),
    ("device", "collective", "devices"),
    ("collective", "size"),
    ("device", "size"),
)
"""What each table groups rows by, beside the one over everything."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--data", required=True, metavar="PATH", help="CSV file of measured collectives, or a folder")
    parser.add_argument("--losses", default="1", metavar="SHARE", help="of the links' measured losses; 0: datasheet")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    pictures_argument(parser, "also write a picture per device, measured against predicted")


def run(options: argparse.Namespace) -> None:
    """Score the files and print the result."""
    from hwspaces import quantity
    from sweeps.measure.validate.collective_errors import collective_errors

    losses = 0.0 if options.losses == "0" else quantity(options.losses, "1", "--losses")
    if losses > 1.0:
        raise ValueError(f"--losses = {options.losses!r} must be at most 1")
    result = collective_errors(options.data, losses)
    pictures = _pictures(options, result) if options.plots else []
    if options.json:
        print(json.dumps(_json(options.data, losses, result, pictures), indent=2, allow_nan=False))
    else:
        _print(options.data, losses, result, pictures)


def _pictures(options: argparse.Namespace, result: Any) -> list[str]:
    from sweeps.show import style
    from sweeps.show.collectives import measured_against_predicted

    made = (
        (device, measured_against_predicted(device, [s for s in result.scored if s.row.device == device]))
        for device in dict.fromkeys(scored.row.device for scored in result.scored)
    )
    return style.pictures(options.plots, made, options.force)


def _json(path: str, losses: float, result: Any, pictures: list[str]) -> dict[str, Any]:
    from sweeps.measure.validate.collective_errors import GROUPS

    return {
        "path": path,
        "losses": losses,
        "rows": len(result.scored),
        "errors": result.errors()[()],
        "groups": [
            {**dict(zip(GROUPS, group, strict=True)), **errors} for group, errors in result.errors(*GROUPS).items()
        ],
        "left_out": [{"file": row.file, "row": row.row, "reason": row.reason} for row in result.left_out],
        "pictures": pictures,
    }


def _print(path: str, losses: float, result: Any, pictures: list[str]) -> None:
    from sweeps.cli.tables import console, table

    out = console()
    words = {1.0: "measured losses", 0.0: "links at their datasheet"}.get(losses, f"{losses:g} of the measured losses")
    out.print(f"Collectives in {path}, {words}; error: predicted / measured - 1\n")
    numbers = ("rows", "MAPE", "median", "signed median")
    for view in ((), *VIEWS):
        shown = table(*(view or ("",)), *numbers, numbers=numbers)
        for group, error in result.errors(*view).items():
            shares = (f"{error['mape']:.1%}", f"{error['median_ape']:.1%}", f"{error['signed_median']:+.1%}")
            shown.add_row(*(group or ("all",)), str(error["rows"]), *shares)
        out.print(shown)
        out.print()
    if result.left_out:
        out.print(f"{len(result.left_out)} rows left out:")
        for (file, reason), count in Counter((row.file, row.reason) for row in result.left_out).most_common():
            first = next(row.row for row in result.left_out if (row.file, row.reason) == (file, reason))
            out.print(f"  {count}: {reason} ({file}, from row {first})")
    for picture in pictures:
        out.print(picture)
