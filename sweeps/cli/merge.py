"""`jaxroof merge`: a folder of shards as one netCDF file."""

import argparse
import pathlib
import time

from sweeps.cli.outputs import output_argument
from sweeps.cli.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("folder", metavar="DIR", help="a folder that `jaxroof sweep -o DIR/` has finished")
    output_argument(
        parser, "-o", "--output", kinds=("dataset",), metavar="OUT.nc", help="the file; it appears when it is whole"
    )


def run(options: argparse.Namespace) -> None:
    """Write the file."""
    if options.output is None:
        raise ValueError("-o OUT.nc is missing")
    from sweeps.cli.tables import size
    from sweeps.data.shards import manifest
    from sweeps.data.shards.merge import merge

    begun = time.perf_counter()
    bar = Progress(manifest.read(pathlib.Path(options.folder)).header["points"])
    try:
        merge(options.folder, options.output, bar.add, force=options.force)
    finally:
        bar.stop()
    written = size(pathlib.Path(options.output).stat().st_size)
    print(f"{options.output}: {written}, {bar.points:,} points in {time.perf_counter() - begun:.1f} s")
