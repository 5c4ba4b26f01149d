"""Results of a benchmark and of its check, as tables for people and as JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hwspaces import formatted
from sweeps.answers.tables import console, percent, print_lines, table
from sweeps.measure.microbench.check import FreshShape, check_errors
from sweeps.measure.microbench.collectives import bus_bandwidth
from sweeps.measure.microbench.device import Device
from sweeps.measure.microbench.run import BenchRequest, BenchResult, best_rates


def print_found(options: Any, asked: BenchRequest, device: Device, result: BenchResult, seconds: float) -> None:
    """Best rates of every table, against the catalogue's peaks where the device is in it."""
    # Peaks of the catalogue; a device that is not in it has none, and its rates are printed without shares.
    out, entry = console(), device.entry
    figures = entry.figures if entry else {}
    out.print(f"{device.name} ({device.platform}, {device.count} device{'s' * (device.count > 1)})", end="\n\n")
    # One row for every measured surface, against the matrix peak of its precision and the memory bandwidth.
    surfaces = table("surface", "grid", "best", "of peak", "best", "of peak", "fastest", "spread", numbers=_NUMBERS)
    for surface in result.tables:
        # Best FLOP/s and B/s of any shape; 0 FLOP/s where a surface has no arithmetic.
        flops, moved = best_rates(surface, asked, device)
        grid = " x ".join(f"{len(p)} {axis} {_span(p)}" for axis, p in surface.axes.items())
        surfaces.add_row(
            surface.name,
            grid,
            formatted(flops, "FLOP/s") if flops else "-",
            _share(flops, figures.get(f"matrix.{surface.precision}")),
            formatted(moved, "B/s"),
            _share(moved, figures.get("memory.hbm.bandwidth")),
            formatted(float(surface.seconds.min()), "s"),
            percent(result.spreads[surface.name]),
        )
    if result.tables:
        out.print(surfaces)
        out.print()
    # Figures of the whole device rather than of a surface: memory, vector units and collectives.
    rates = table("rate", "measured", "of peak", numbers=("measured", "of peak"))
    for name, rate in result.figures.bandwidths.items():
        rates.add_row(name.replace("_", " "), formatted(rate, "B/s"), _share(rate, figures.get("memory.hbm.bandwidth")))
    if result.figures.vector is not None:
        # A figure that the catalogue lacks makes the peak 0, of which no share is printed.
        peak = figures.get("cores.vector_flops", 0.0) * figures.get("cores.count", 0.0)
        rates.add_row("vector fp32", formatted(result.figures.vector, "FLOP/s"), _share(result.figures.vector, peak))
    for message in result.collectives:
        name = f"{message.name.replace('_', '-')} of {formatted(message.bytes, 'B')}"
        bandwidth = formatted(bus_bandwidth(message, device.count), "B/s")
        rates.add_row(name, f"{formatted(message.measurement.seconds, 's')}, bus {bandwidth}", "-")
    if rates.rows:
        out.print(rates)
        out.print()
    shapes = sum(surface.seconds.size for surface in result.tables)
    out.print(
        f"{options.output}: {shapes} shapes in {seconds:.0f} s; a dispatch takes {formatted(result.dispatch, 's')}"
    )
    print_lines(out, "note", result.left_out)
    if result.dispatch_bound:
        out.print(f"note    {result.dispatch_bound} shapes may have waited for the host: their times are upper bounds")
    if options.hardware_out:
        out.print(f"{options.hardware_out}: the device as a hardware entry")
        out.print(f"`jaxroof step --hardware {options.hardware_out} --efficiency surface:{options.output}` uses both.")


def record(options: Any, asked: BenchRequest, device: Device, result: BenchResult, seconds: float) -> dict[str, Any]:
    """The same for machines."""
    tables = {}
    for surface in result.tables:
        flops, moved = best_rates(surface, asked, device)
        tables[surface.name] = {
            "axes": {axis: positions.tolist() for axis, positions in surface.axes.items()},
            "flops": flops,
            "bandwidth": moved,
            "spread": result.spreads[surface.name],
        }
    return {
        "device": device.name,
        "platform": device.platform,
        "devices": device.count,
        "tables": tables,
        "bandwidths": result.figures.bandwidths,
        "vector_flops": result.figures.vector,
        "collectives": [
            {"name": m.name, "bytes": m.bytes, "seconds": m.measurement.seconds} for m in result.collectives
        ],
        "dispatch": result.dispatch,
        "left_out": result.left_out,
        "seconds": seconds,
        "file": options.output,
    }


def print_check(rows: Sequence[FreshShape], file: str, base: str) -> None:
    """Every fresh shape, and the errors of every table."""
    out = console()
    shapes = table("surface", "fresh shape", *_TIMES, base, numbers=(*_TIMES, base))
    for row in sorted(rows, key=lambda row: row.table):
        shape = ", ".join(f"{axis} {position:,}" for axis, position in row.shape.items())
        # The last error is that of the constants below the file, which predict without its surfaces.
        errors = [f"{100 * e:+.1f} %" for e in (row.error, row.drift, row.corrected, row.plain / row.measured - 1.0)]
        shapes.add_row(row.table, shape, formatted(row.measured, "s"), formatted(row.predicted, "s"), *errors)
    out.print(shapes)
    out.print()
    out.print("Median magnitude of errors:")
    summary = table("surface", "shapes", *_ERRORS, base, numbers=("shapes", *_ERRORS, base))
    for name, errors in check_errors(rows).items():
        shares = [percent(errors[key]) for key in ("error", "drift", "corrected", "plain")]
        summary.add_row(name, str(errors["shapes"]), *shares)
    out.print(summary)
    out.print(f"\nerror: {file} through the efficiency, against times measured now.")
    out.print(
        "drift: the nearest shape that the file holds, timed again right after: what the machine does not repeat."
    )
    out.print(f"corrected: error without that drift. {base}: the constants below the file alone.")


_NUMBERS = ("best", "of peak", "fastest", "spread")
_TIMES = ("measured", "predicted", "error", "drift", "corrected")
_ERRORS = ("error", "drift", "corrected")


def _span(positions: np.ndarray) -> str:
    return f"{positions[0]:,.0f}..{positions[-1]:,.0f}" if len(positions) > 1 else f"{positions[0]:,.0f}"


def _share(rate: float, peak: float | None) -> str:
    return percent(rate / peak) if peak and rate else "-"
