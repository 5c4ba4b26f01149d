"""`jaxroof surface`: files of measured kernels: import from a benchmark's tables, or summary of one."""

import argparse
from pathlib import Path
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import json_argument
from sweeps.cli.outputs import output_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    about = "Read a benchmark's files and write their kernels as tables: --efficiency surface:OUT.nc then uses them."
    importing = actions.add_parser("import", help="tables from the files of a benchmark", description=about)
    importing.add_argument("files", nargs="+", metavar="FILE", help="csv or parquet")
    output_argument(
        importing,
        "-o",
        "--output",
        kinds=("surfaces",),
        required=True,
        metavar="OUT.nc",
        help="netCDF file to write",
    )
    importing.add_argument(
        "--format", default="auto", metavar="NAME", help="auto (default), infersim, aic or llmcompass"
    )
    importing.add_argument("--gpu", metavar="NAME", help="device, where a file holds several")
    importing.add_argument("--engine", metavar="NAME", help="engine, where a file holds several: trtllm, vllm, sglang")
    importing.add_argument(
        "--engine-version", "--version", metavar="TEXT", help="version of the engine, where a file holds several"
    )
    importing.add_argument(
        "--drop", action="store_true", help="leave out, and count, rows that are impossible or there twice"
    )
    # Shapes that are missing are always interpolated: the flag of earlier releases changes nothing.
    importing.add_argument("--keep-holes", action="store_true", help=argparse.SUPPRESS)
    showing = actions.add_parser("show", help="what a file holds", description="Tables, device and bandwidths of FILE.")
    showing.add_argument("file", metavar="FILE.nc", help="netCDF file of measured kernels")
    json_argument(showing)


def run(options: argparse.Namespace) -> None:
    """Import files, or show one."""
    if options.action == "import":
        _import(options)
    else:
        _show(options.file, options.json)


def _import(options: argparse.Namespace) -> None:
    import datetime

    from hwspaces.performance.surface import write_surfaces
    from sweeps.measure.surface_import import imported
    from sweeps.measure.surface_import.kernel_rows import WantedRows

    wanted = WantedRows(options.gpu, options.engine, options.engine_version)
    kernels = imported([Path(file) for file in options.files], options.format, wanted, options.drop)
    # The command is stored with the tables, so that the import can be repeated.
    words = [*options.files, f"--format {options.format}"]
    chosen = {"gpu": options.gpu, "engine": options.engine, "engine-version": options.engine_version}
    words += [f"--{flag} {value}" for flag, value in chosen.items() if value]
    words += ["--drop"] if options.drop else []
    provenance = {
        "device": kernels.device,
        **kernels.provenance,
        "date": datetime.date.today().isoformat(),
        "command": f"jaxroof surface import {' '.join(words)}",
    }
    write_surfaces(options.output, kernels.tables, provenance, {}, options.force, options.files)
    # Shapes that were not measured are not a number, and are not counted.
    count = sum(int((table.seconds > 0).sum()) for table in kernels.tables)
    say(f"{options.output}: {len(kernels.tables)} tables with {count} times, measured on {kernels.device}")
    dropped = kernels.dropped
    if options.drop:
        say(f"dropped: {dropped.impossible} impossible, {dropped.duplicates} duplicate")
    for sentence in kernels.left_out:
        say(f"left out  {sentence}")


def _show(file: str, as_json: bool) -> None:
    from hwspaces import formatted
    from hwspaces.performance.surface import read_surfaces
    from sweeps.answers.tables import console, table
    from sweeps.ask.text import escaped
    from sweeps.measure.surface_record import surface_record

    surfaces = read_surfaces(file)
    if as_json:
        return print_json(surface_record(surfaces))
    out = console()
    # Provenance comes from the file, and may hold any characters.
    for key, value in surfaces.provenance.items():
        out.print(escaped(f"{key}  {value}", breaks=True))
    for name, value in surfaces.bandwidths.items():
        out.print(f"{name.replace('_', ' ')}  {formatted(value, 'B/s')}")
    out.print()
    listing = table("table", "kind", "precision", "axes", "times", "shortest", "longest", "labels", numbers=("times",))
    for entry in surfaces.tables:
        listing.add_row(*_cells(entry))
    out.print(listing)


def _cells(entry: Any) -> list[str]:
    """A table as a row: every axis with its ends and how many positions it has."""
    import numpy as np

    from hwspaces import formatted

    axes = [
        f"{name} {values.min():g}-{values.max():g} ({len(np.unique(values))})" for name, values in entry.axes.items()
    ]
    # Not a number: shapes of a grid that were not measured.
    measured = entry.seconds[entry.measured]
    times = f"{measured.size}" if measured.size == entry.seconds.size else f"{measured.size} of {entry.seconds.size}"
    labels = ", ".join(f"{name} {value:g}" for name, value in entry.labels.items())
    ends = [formatted(float(time), "s", 3) for time in (measured.min(), measured.max())]
    return [entry.name, entry.kind, entry.precision, ", ".join(axes), times, *ends, labels or "-"]
