"""`jaxroof query`: the points of a sweep that keep a condition, best first, without loading the sweep."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import json_argument, whole_number, word_arguments
from sweeps.cli.outputs import dataset_argument, print_files, write

SHOWN = ("tokens_per_second_per_device", "tpot", "ttft", "step_time", "usd_per_million_tokens", "feasible")
"""Variables that a table has beside those that are named, of those that there are."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("sweep", metavar="SWEEP", help="a folder of shards or a netCDF file")
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="such as 'tpot < 40 ms and feasible': variables and axes, numbers in SI or with a unit, quoted names",
    )
    parser.add_argument("--sort", metavar="NAME", help="a variable or an axis, better ones first; cost stands for USD")
    parser.add_argument("--top", metavar="N", default="20", help="rows that are shown (default 20)")
    parser.add_argument("--highest", action="store_true", help="the highest first")
    parser.add_argument("--lowest", action="store_true", help="the lowest first")
    word_arguments(parser, "per")
    parser.add_argument(
        "--points-limit", metavar="N", help="points that it may look at (default 10,000,000,000, some minutes)"
    )
    dataset_argument(parser, "write the rows, with all variables")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the rows, or write them."""
    top = int(whole_number("--top", options.top))
    limit = None if options.points_limit is None else int(whole_number("--points-limit", options.points_limit))
    if options.highest and options.lowest:
        raise ValueError("--highest and --lowest are both given")
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened
    from sweeps.data.querying.run import POINTS_LIMIT, query

    # Three states: highest first, lowest first, or whichever is better for the variable.
    highest = True if options.highest else False if options.lowest else None
    with opened(options.sweep) as stored:
        # A sweep may have kept some of its points, which are then queried as a sample.
        dataset = as_sample(stored)
        if dataset is None:
            raise ValueError(f"{options.sweep} kept counts alone, not points")
        result = query(
            dataset, options.where, options.sort, top, highest, POINTS_LIMIT if limit is None else limit, options.per
        )
        write(options, "output", lambda: result.rows, [options.sweep])
        if options.json:
            # Columns become rows: one object for every point.
            columns = [result.rows[name].values.tolist() for name in result.rows.variables]
            rows = [dict(zip(map(str, result.rows.variables), row, strict=True)) for row in zip(*columns, strict=True)]
            return print_json(
                {"matches": result.matches, "points": result.points, "per": list(result.per), "rows": rows}, indent=None
            )
        _table(options, dataset, result)


def _table(options: argparse.Namespace, dataset: Any, found: Any) -> None:
    from sweeps.answers.answer import Column, Table
    from sweeps.answers.tables import console
    from sweeps.data import labels
    from sweeps.data.conditions import said
    from sweeps.data.querying.run import named

    out = console()
    # Axes first, then what the question names, then what readers usually ask for.
    varied = [name for name in labels.axes(dataset) if name in found.rows]
    mentioned = named(options.where, options.sort, dataset)
    shown = dict.fromkeys((*mentioned, *(name for name in SHOWN if name in dataset)))
    names = [name for name in (*varied, *(name for name in shown if name not in varied)) if name in found.rows]
    # Where the table is too wide, other metrics go before axes, and what is sorted by stays.
    ranks = {name: 0 if name == options.sort else 1 if name in varied else 2 for name in names}
    listing = Table([Column(name, number=True, rank=ranks[name]) for name in names])
    for i in range(found.rows.sizes["row"]):
        values = [found.rows[name].values[i] for name in names]
        listing.add_row(*(labels.text(dataset, name, value) for name, value in zip(names, values, strict=True)))
    share = f" ({100 * found.matches / max(found.points, 1):.3g} %)"
    out.print(f"{found.matches:,} of {found.points:,} points{share}")
    if found.per:
        out.print(said(found.per))
    if found.matches:
        out.print()
        out.print(listing)
    print_files(options)
