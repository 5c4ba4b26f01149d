"""Rows of `jaxroof compare` as records and as a CSV file."""

import csv
import math
from collections.abc import Iterable
from typing import Any

from hwspaces.files.output import replacing
from sweeps.run.evidence import extrapolated
from sweeps.studies.compare.static import StaticCandidate

FLAGS = ("fits", "legal", "feasible")


def row_record(row: StaticCandidate) -> dict[str, Any]:
    """One row for machines: SI numbers, null where the accelerator has no figure."""
    metrics: dict[str, Any] = {
        name: bool(value) if name in FLAGS else value if math.isfinite(value) else None
        for name, value in row.metrics.items()
        if name != "devices"
    }
    return {
        "hardware": row.hardware,
        "devices": row.devices,
        "layout": row.layout,
        "batch": row.batch,
        **metrics,
        "memory_capacity": row.capacity,
        "extrapolated": extrapolated(row.metrics),
        "reason": row.reason,
    }


def write_rows(
    path: str, ranked: Iterable[StaticCandidate], others: Iterable[StaticCandidate], force: bool = False
) -> None:
    """Ranked rows, then those without a rank and their reasons, as a CSV file that appears when it is whole."""
    records = [{"rank": rank, **row_record(row)} for rank, row in enumerate(ranked, 1)]
    records += [{"rank": None, **row_record(row)} for row in others]
    if not records:
        raise ValueError(f"{path}: there are no rows to write")
    with replacing(path, ("rows",), force=force) as name, open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
