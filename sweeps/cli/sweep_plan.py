"""`jaxroof sweep --plan`: what a sweep will take, before it begins; nothing of it is written."""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.cli.common import given, whole_settings
from sweeps.cli.progress import Compiling, progress_kind
from sweeps.run.compile_cache import compilation_cache

FLAGS = ("json", "machines", "machine_price")
"""Flags that only a plan takes."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of a plan."""
    what = "say what the sweep takes (points, disk, shards, hours) by a sample of it on this machine, and write nothing"
    parser.add_argument("--plan", action="store_true", help=what)
    parser.add_argument("--machines", metavar="N", help="with --plan: machines such as this one that share the shards")
    what = "with --plan: the price of one machine's hour, without which no price is said"
    parser.add_argument("--machine-price", metavar="USD", help=what)
    parser.add_argument("--json", action="store_true", help="with --plan: one JSON object with SI numbers")


def refuse_without(options: argparse.Namespace) -> None:
    """ValueError of one line for flags of a plan where none is asked for."""
    if names := given(options, FLAGS):
        raise ValueError(f"{names[0]} is for --plan")


def run(options: argparse.Namespace, source: Callable[[argparse.Namespace], Mapping[str, Any]]) -> None:
    """Measure a sample, and print what follows from it.

    Args:
      options: parsed flags.
      source: the specification that they describe.
    """
    if options.force:
        raise ValueError("--force is for files that are written, and --plan writes none")
    from hwspaces import quantity
    from hwspaces.files.output import names_folder, names_store

    counts = {name: int(n) for name, n in whole_settings(options, ("shard_points", "workers", "machines")).items()}
    price = None
    if options.machine_price is not None:
        price = float(quantity(options.machine_price, "1", "--machine-price"))
    output = options.output
    one_file = output is not None and not (names_folder(output) or names_store(output))
    specification = source(options)
    if one_file:
        for_folders = ("keep", "compression", "digits", "shard_points", "scheduler", "workers")
        if names := given(options, for_folders):
            raise ValueError(f"{names[0]} is for folders, and -o {output} is a file")
        table = specification.get("output", {})
        if names := [name for name in for_folders if name in table]:
            raise ValueError(f"{options.spec}: output.{names[0]} is for folders, and -o {output} is a file")
    from sweeps.answers.forecast import print_forecast
    from sweeps.answers.to_json import print_json
    from sweeps.run.shards.forecast import forecast

    compiling = Compiling(progress_kind(options.progress))
    compilation_cache()
    try:
        found = forecast(
            specification,
            shard_points=counts.get("shard_points"),
            scheduler=options.scheduler,
            workers=counts.get("workers"),
            machines=counts.get("machines", 1),
            usd_per_machine_hour=price,
            one_file=one_file,
            compiling=compiling,
        )
    except ValueError as error:
        raise ValueError(f"{options.spec}: {error}") from None
    finally:
        compiling.stop()
    if options.json:
        return print_json(dataclasses.asdict(found))
    print_forecast(found, output)
