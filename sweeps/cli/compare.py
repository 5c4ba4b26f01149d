"""`jaxroof compare`: accelerators, their number, layout and engine settings for one model under requests over time."""

import argparse
import pathlib
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.ask.keys import words
from sweeps.ask.offered_load import COMPARED
from sweeps.ask.words import ComparisonWords, StaticWords
from sweeps.cli import common
from sweeps.cli.leaf_flags import add_flags, flag
from sweeps.cli.outputs import output_argument, write
from sweeps.cli.serve import FLAGS

TOP = 20

PLAIN = ("model", "slo", "share", "rate", "headroom", "simulate", "disaggregated", "sort")
"""Words that are not tried, whose flags stand apart."""

TRIED = tuple(name for name in words(ComparisonWords) if name not in PLAIN)

LOAD = {name: FLAGS[name] for name in COMPARED}
"""Flags that say which requests come, by name."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    common.model_arguments(parser)
    common.word_arguments(parser, "slo", "share", "rate", "headroom", of=ComparisonWords)
    add_flags(parser.add_argument_group("requests, of distributions or a file"), LOAD)
    common.word_arguments(parser.add_argument_group("what is tried"), *TRIED, of=ComparisonWords)
    common.word_arguments(parser, "simulate", of=ComparisonWords)
    what = words(ComparisonWords)["disaggregated"].help
    parser.add_argument("--no-disaggregated", action="store_true", default=None, help=what)
    parser.add_argument(
        "--static", action="store_true", help="static batches in place of requests over time, as of `jaxroof request`"
    )
    common.word_arguments(parser, "batch", of=StaticWords)
    common.word_arguments(parser, "sort", of=ComparisonWords)
    what = "the launch flags or manifest of the best row: vllm, sglang, trtllm, dynamo or kubernetes"
    parser.add_argument("--emit", metavar="KIND", help=what)
    parser.add_argument("--top", metavar="N", help=f"rows that are printed (default {TOP})")
    parser.add_argument("--all", action="store_true", help="every layout, whether it serves or not, with its reason")
    what = ".json everything, .nc all candidates, .csv rows, .png or .svg a picture"
    kinds = ("dataset", "rows", "answer", "png", "svg")
    output_argument(parser, "-o", "--output", kinds=kinds, metavar="FILE", help=what)
    common.json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Compare, write the file that is wanted, and print the ranking."""
    # The static comparison has the same flags but reads other ones of them.
    if options.static:
        from sweeps.cli import compare_static

        return compare_static.run(options)
    # An unknown kind is refused before anything is simulated.
    if options.emit is not None:
        from sweeps.ask.engines import ENGINES
        from sweeps.serving.launch import launch_text, require_kind

        require_kind(options.emit)
        if options.engine is None and options.emit in ENGINES:
            options.engine = options.emit  # flags are of the engine that was compared
    if "," in (options.weights or "") and str(options.output).lower().endswith(".nc"):
        raise ValueError(f"-o {options.output}: candidates of several weights are not one dataset: give --weights one")
    result = _compared(options)
    shown = result.rows if options.all else result.best_layouts
    top = common.whole_setting(options, "top", TOP)
    if options.output:
        _write(options, result, shown, top)
    # Launch flags in place of the table: those of the best row.
    if options.emit is not None:
        if not shown:
            raise ValueError(f"--emit {options.emit}: nothing serves the requests within the limits")
        return say(launch_text(options.emit, result.record(shown[:1])["rows"][0]), end="")
    if options.json:
        return print_json(result.record(shown[:top]))
    from sweeps.answers.compare import show

    show(result, shown, top, options.all)
    if options.output:
        from sweeps.answers.tables import console, print_lines

        what = _WRITTEN.get(pathlib.Path(options.output).suffix.lower(), "the best rows")
        print_lines(console(), "file", [f"{options.output}: {what}"])


_WRITTEN = {
    ".json": "every row that is shown, for jaxroof emit and jaxroof serve --row",
    ".nc": "every candidate, as estimated",
    ".csv": "every row",
}
"""Content of files by their ending; of pictures, the best rows."""


def _compared(options: argparse.Namespace) -> Any:
    """The comparison that the flags ask for, with a line of what is done."""
    from sweeps.cli.progress import Simulations
    from sweeps.studies.compare.compare import comparison
    from sweeps.studies.compare.words import WORDS, read

    given = common.given_values(options, (*WORDS, "batch"))
    wanted = read(given | {"disaggregated": not options.no_disaggregated}, flag)
    with Simulations() as line:
        return comparison(wanted, line.begun)


def _write(options: argparse.Namespace, found: Any, shown: tuple[Any, ...], top: int) -> None:
    ending = pathlib.Path(options.output).suffix.lower()
    if ending == ".csv":
        from sweeps.answers.compare import write_rows

        return write_rows(options.output, found, shown, options.force)
    from sweeps.show.served import ranking
    from sweeps.studies.compare.comparison import dataset

    # A dataset holds every place, the other formats only what is shown; pictures are the default.
    makers = {".nc": lambda: dataset(found), ".json": lambda: found.record(shown[:top])}
    write(options, "output", makers.get(ending, lambda: ranking(found, shown[:top])))
