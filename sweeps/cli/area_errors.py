"""`jaxroof validate area`: predicted die area of catalogue accelerators against published sizes."""

import argparse
from typing import Any

PICTURES = "also write a picture: parts of every die beside its known area"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--hardware", metavar="NAME", help="this accelerator only")


def scored(options: argparse.Namespace) -> list[Any]:
    """Rows of accelerators whose dies have a published size."""
    from sweeps.measure.validate.die_areas import die_areas, die_areas_of

    return die_areas() if options.hardware is None else die_areas_of(options.hardware)


def pictures(rows: list[Any]) -> list[tuple[str, Any]]:
    """One picture of every die."""
    from sweeps.show.kernels import area_by_part

    return [("die_area", area_by_part(rows))]


def record(options: argparse.Namespace, rows: list[Any]) -> dict[str, Any]:
    """The areas for machines."""
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
    }


def show(out: Any, options: argparse.Namespace, rows: list[Any]) -> None:
    """Print a table of the areas, and how far off those are that constants were fitted to."""
    from sweeps.answers.tables import table

    numbers = ("known\nmm2", "predicted\nmm2", "ratio")
    shown = table("device", "die", *numbers, "", numbers=numbers)
    # Areas are m2; 1 m2 is 1e6 mm2.
    for row in rows:
        limit = "< " if row.limit else ""
        remark = "" if row.fitted else "upper limit" if row.limit else "not fitted"
        cells = f"{limit}{row.known * 1e6:.0f}", f"{row.predicted * 1e6:.0f}", f"{row.ratio:.2f}"
        shown.add_row(row.device, row.die, *cells, remark)
    out.print(shown)
    fitted = [row for row in rows if row.fitted]
    if fitted:
        worst = max(fitted, key=lambda row: row.error)
        # Several accelerators may share a die, which is counted once.
        count = len({row.die for row in fitted})
        out.print(f"\n{count} dies fitted to; the largest error is {worst.error:.0%}, of {worst.device}.")
    out.print("Accelerators keep the area of their die: `hardware.silicon.scale` is known over predicted.")
