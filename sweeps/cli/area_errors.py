"""`jaxroof validate area`: predicted die area of catalogue accelerators against published sizes."""

import argparse
import json
from typing import Any

from sweeps.cli.outputs import pictures_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--hardware", metavar="NAME", help="this accelerator only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    pictures_argument(parser, "also write a picture: parts of every die beside its known area")


def run(options: argparse.Namespace) -> None:
    """Compare and print."""
    import hwspaces
    from sweeps.measure.validate.die_areas import die_areas

    rows = die_areas()
    if options.hardware is not None:
        name = hwspaces.hardware(options.hardware).name
        rows = [row for row in rows if row.device == name]
        if not rows:
            raise ValueError(f"--hardware {options.hardware}: {name} is on no die of published size")
    picture = _picture(options, rows) if options.plots else None
    if options.json:
        print(json.dumps(_json(rows, picture), indent=2, allow_nan=False))
    else:
        _print(rows, picture)


def _picture(options: argparse.Namespace, rows: list[Any]) -> str:
    from sweeps.show import style
    from sweeps.show.area import area_by_part

    return style.pictures(options.plots, [("die_area", area_by_part(rows))], options.force)[0]


def _json(rows: list[Any], picture: str | None) -> dict[str, Any]:
    return {
        "rows": [
            {
                "device": row.device,
                "die": row.die,
                "known_m2": row.known,
                "known_is_a_limit": row.limit,
                "fitted": row.fitted,
                "predicted_m2": row.predicted,
                "ratio": row.ratio,
                "parts_m2": row.parts,
            }
            for row in rows
        ],
        "largest_error_of_fitted": max((row.error for row in rows if row.fitted), default=None),
        "pictures": [] if picture is None else [picture],
    }


def _print(rows: list[Any], picture: str | None) -> None:
    from sweeps.cli.tables import console, table

    out, numbers = console(), ("known\nmm2", "predicted\nmm2", "ratio")
    shown = table("device", "die", *numbers, "", numbers=numbers)
    for row in rows:
        limit = "< " if row.limit else ""
        remark = "" if row.fitted else "upper limit" if row.limit else "not fitted"
        cells = f"{limit}{row.known * 1e6:.0f}", f"{row.predicted * 1e6:.0f}", f"{row.ratio:.2f}"
        shown.add_row(row.device, row.die, *cells, remark)
    out.print(shown)
    fitted = [row for row in rows if row.fitted]
    if fitted:
        worst = max(fitted, key=lambda row: row.error)
        count = len({row.die for row in fitted})
        out.print(f"\n{count} dies fitted to; the largest error is {worst.error:.0%}, of {worst.device}.")
    out.print("Accelerators keep the area of their die: `hardware.silicon.scale` is known over predicted.")
    if picture is not None:
        out.print(picture)
