"""A file of measured kernels in short: its tables with their axes, shortest and longest times, for machines."""

from typing import Any

import numpy as np

from hwspaces.performance.surface import SurfaceFile
from jaxroof.version import VERSION


def surface_record(surfaces: SurfaceFile) -> dict[str, Any]:
    """Where the kernels were measured, bandwidths in B/s, and a row for every table; times in s."""
    tables = []
    for one in surfaces.tables:
        # Not a number: shapes of a grid that were not measured.
        times = one.seconds[one.measured]
        ends = {
            name: {"from": float(places.min()), "to": float(places.max()), "positions": len(np.unique(places))}
            for name, places in one.axes.items()
        }
        row = {"table": one.name, "kind": one.kind, "precision": one.precision, "times": int(times.size)}
        row |= {"shortest_s": float(times.min()), "longest_s": float(times.max())}
        tables.append(row | {"shapes": int(one.seconds.size), "axes": ends, "labels": dict(one.labels)})
    # The command that made the file is not the one that reads it.
    provenance = {"measured_by" if key == "command" else key: value for key, value in surfaces.provenance.items()}
    return {
        "title": provenance.pop("title", "Measured kernels"),
        "jaxroof_version": provenance.pop("jaxroof_version", VERSION),
        "provenance": provenance,
        "bandwidths_Bps": dict(surfaces.bandwidths),
        "tables": tables,
    }
