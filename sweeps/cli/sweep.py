"""`jaxroof sweep`: every point of a specification into a netCDF file, and where the best of them are."""

import argparse
import pathlib
import time
from collections.abc import Callable
from typing import Any

from sweeps.answers.sweep import print_asked, print_found, speed_text
from sweeps.cli import sweep_plan
from sweeps.cli.common import given, schema_argument, space_argument, word_arguments
from sweeps.cli.outputs import dataset_argument
from sweeps.cli.progress import Compiling, progress, progress_kind
from sweeps.cli.sweep_question import asked
from sweeps.run.compile_cache import compilation_cache


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("spec", metavar="SPEC.toml", help="what to sweep: a file, or one of the distribution: demo")
    space_argument(parser)
    what = (
        "OUT.nc, a file that appears when it is whole; or OUT/, a folder of shards, OUT.zarr or s3://BUCKET/OUT.zarr, "
        "a Zarr store, that the same command continues after an interruption"
    )
    dataset_argument(parser, what, "OUT", folder="shards")
    parser.add_argument(
        "--keep",
        metavar="WHAT",
        action="append",
        help="less than every point: pareto, pareto=METRIC:METRIC, top=N, top=N:METRIC, histogram, quantiles; "
        "several with commas, or by giving the flag again",
    )
    parser.add_argument(
        "--no-prune",
        action="store_const",
        const=True,
        help="compute every point also where it cannot be among those that --keep keeps",
    )
    word_arguments(parser, "per")
    parser.add_argument("--compression", metavar="LEVEL", help="of the folder's files, 1 (fast) to 9 (small)")
    parser.add_argument("--digits", metavar="N", help="significant digits that are kept, so that files compress")
    parser.add_argument("--shard-points", metavar="N", help="points of a file of the folder, about")
    parser.add_argument(
        "--scheduler",
        metavar="WHERE",
        help="compute the folder on Dask workers: dask (started here), or the address of a scheduler, tcp://HOST:PORT",
    )
    parser.add_argument("--workers", metavar="N", help="processes that --scheduler dask starts (default: one per core)")
    parser.add_argument("--progress", metavar="KIND", help="auto (default), json, one object per line, or quiet")
    sweep_plan.arguments(parser)
    schema_argument(parser, "specifications", "sweeps.ask.json_schema:sweep_schema")


def run(options: argparse.Namespace) -> None:
    """Compute, write, and print the result."""
    if options.plan:
        return sweep_plan.run(options, asked)
    sweep_plan.refuse_without(options)
    if options.output is None:
        raise ValueError("-o OUT.nc is missing")
    from hwspaces.files.output import names_folder, names_store

    if names_folder(options.output) or names_store(options.output):
        from sweeps.cli.sweep_folder import run as run_folder

        return run_folder(options, asked)
    source = asked(options)
    # Files hold every point in one piece: options of shards do not apply.
    if of_folders := given(
        options, ("keep", "no_prune", "compression", "digits", "shard_points", "scheduler", "workers")
    ):
        raise ValueError(f"{of_folders[0]} is for folders: -o {pathlib.Path(options.output).stem}/")
    return _run_file(options, source)


def _run_file(options: argparse.Namespace, source: dict[str, Any]) -> None:
    from sweeps.answers.tables import size
    from sweeps.run.sweep import sweep_to_file

    kind = progress_kind(options.progress)
    start, bars, compiling = time.perf_counter(), [], Compiling(kind)

    # Called when the plan is known: compilation and points begin here.
    def begin(question: Any, plan: Any) -> Callable[[int], None]:
        if plan.compiled:
            compilation_cache()
        compiling.stop()
        print_asked(question, plan)
        bars.append(begun(plan.points))
        return bars[0].add

    with progress(kind) as begun:
        try:
            sweep_to_file(options.output, source, begin, force=options.force, compiling=compiling)
        except ValueError as error:
            raise ValueError(f"{options.spec}: {error}") from None
        finally:
            compiling.stop()
    points, seconds = bars[0].points, time.perf_counter() - start
    written = size(pathlib.Path(options.output).stat().st_size)
    print_found(options.output, f"{written}, {points:,} points in {speed_text(points, seconds)}")
