"""`jaxroof merge`: a folder of shards as one netCDF file."""

import argparse
import pathlib
import time

from sweeps.answers.answer import say
from sweeps.cli.outputs import dataset_argument
from sweeps.cli.progress import progress


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("folder", metavar="DIR", help="a folder that `jaxroof sweep -o DIR/` has finished")
    dataset_argument(parser, "the file; it appears when it is whole")


def run(options: argparse.Namespace) -> None:
    """Write the file."""
    if options.output is None:
        raise ValueError("-o OUT.nc is missing")
    from sweeps.answers.tables import size
    from sweeps.data.shards import manifest
    from sweeps.data.shards.merge import merge

    start = time.perf_counter()
    # Points of all shards from the header of the manifest, without opening a single shard.
    points = manifest.read(pathlib.Path(options.folder)).header["points"]
    with progress() as begun:
        merge(options.folder, options.output, begun(points).add, force=options.force)
    written = size(pathlib.Path(options.output).stat().st_size)
    say(f"{options.output}: {written}, {points:,} points in {time.perf_counter() - start:.1f} s")
