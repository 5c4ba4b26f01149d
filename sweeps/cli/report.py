"""`jaxroof report`: saved results as one offline interactive page."""

import argparse
import os
import pathlib

from sweeps.answers.answer import say
from sweeps.cli.outputs import output_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "results: JSON of --json or -o of any verb, netCDF, a folder or .zarr of a sweep; a section each"
    parser.add_argument("files", metavar="FILE", nargs="+", help=what)
    output_argument(
        parser,
        "-o",
        "--output",
        kinds=("page",),
        metavar="FILE.html",
        help="the page (default report.html)",
        default=lambda options: "report.html",
    )
    parser.add_argument("--title", metavar="TEXT", help="of the page")


def run(options: argparse.Namespace) -> None:
    """Write the page; says where it is and how to open it."""
    from sweeps.reports.report import report

    report(*options.files, output=options.output, title=options.title, force=options.force)
    size = os.path.getsize(options.output)
    place = pathlib.Path(options.output).resolve().as_uri()
    say(f"{options.output}: {size / 1e6:.1f} MB; open it in any browser, no network is needed: {place}")
