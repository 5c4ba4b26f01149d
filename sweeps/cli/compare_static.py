"""`jaxroof compare --static`: a ranking by static batches, all of whose prompts are prefilled at once."""

import argparse
import pathlib
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.ask.keys import words
from sweeps.ask.offered_load import COMPARED
from sweeps.ask.words import ComparisonWords, StaticWords
from sweeps.cli import common
from sweeps.cli.outputs import write

TOP = 20

_STATIC = (*words(StaticWords), "model", "isl", "osl", "image", "images")
SERVED = tuple(name for name in (*words(ComparisonWords), *COMPARED) if name not in (*_STATIC, "disaggregated"))
SERVED += ("emit", "no_disaggregated")
"""Flags of a served comparison."""


def run(options: argparse.Namespace) -> None:
    """Compare, write the file that is wanted, and print the ranking."""
    from sweeps.answers.compare_static import record, show, write_rows

    if options.model is None:
        raise ValueError("--model is missing")
    if options.devices is not None and options.max_devices is not None:
        raise ValueError("--devices and --max-devices say the same in two ways: give one")
    for flag in ("isl", "osl"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} is missing")
    if options.image is not None or options.images is not None:
        raise ValueError("--image cannot be given with --static, whose prompts are text; leave out --static")
    if served := common.given(options, SERVED):
        raise ValueError(f"{served[0]} cannot be given with --static: a batch has no traffic")
    top = common.whole_setting(options, "top", TOP)
    ending = options.output and pathlib.Path(options.output).suffix.lower()
    if ending == ".json":
        raise ValueError(f"{options.output} must end in .nc, .csv, .png or .svg with --static")
    numbers = common.whole_settings(options, ("isl", "osl"))
    # Each number is tried once, even where the list repeats it.
    lists: dict[str, Any] = {
        name: list(dict.fromkeys(common.whole_numbers(f"--{name}", text)))
        for name, text in common.given_values(options, ("devices", "batch")).items()
    }
    limit = {name: int(number) for name, number in common.whole_settings(options, ["max_devices"]).items()}
    names = None if options.hardware is None else [name.strip() for name in options.hardware.split(",")]
    settings = common.overrides(options.set)
    from sweeps.cli.progress import progress
    from sweeps.studies.compare.static import compare_static

    chosen = {name: getattr(options, name) for name in words(StaticWords) if name != "max_devices"}
    chosen |= {"hardware": names, "set": settings, **numbers, **lists, **limit}
    with progress() as begun:
        result = compare_static(options.model, **chosen, begun=lambda points: begun(points).add)
    shown = result.rows if options.all else result.best_layouts
    explained = result.infeasible if options.all else result.nearest_misses
    if ending == ".csv":
        write_rows(options.output, shown, explained, options.force)
    elif ending == ".nc":
        if not result.points:
            raise ValueError(f"{options.output}: there are no points to write")
        write(options, "output", lambda: result.dataset)
    elif ending:
        from sweeps.show.compare import ranking

        write(options, "output", lambda: ranking(result, shown[:top]))
    if options.json:
        return print_json(record(result, shown if options.all or options.top is None else shown[:top], explained))
    show(result, shown, explained, top, options.all)
    if ending:
        from sweeps.answers.tables import console, print_lines

        print_lines(console(), "file", [f"{options.output}: {_WRITTEN.get(ending, 'the best rows')}"])


_WRITTEN = {".nc": "every point", ".csv": "every row"}
