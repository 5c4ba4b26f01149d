"""`jaxroof optimize`: the best hardware, deployment and workload numbers under constraints, by gradients."""

import argparse
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import given, json_argument, schema_argument, settings_argument, space_argument, word_arguments
from sweeps.cli.optimize_question import LIMITS
from sweeps.cli.optimize_question import asked as question
from sweeps.cli.outputs import dataset_argument, files, picture_argument, write
from sweeps.cli.progress import Line
from sweeps.run.compile_cache import compilation_cache

PER = "axes that are conditions, which a design cannot choose (default: the model and its traffic); none: choose all"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument(
        "spec", metavar="SPEC.toml", help="a sweep's specification with [optimize] and [constraints]; ranges are bounds"
    )
    space_argument(parser)
    for flag in ("minimize", "maximize"):
        parser.add_argument(
            f"--{flag}", metavar="METRIC,..", help=f"metrics or leaves to {flag}, in place of the specification's"
        )
    for flag, word in LIMITS.items():
        what = f"what a metric or leaf may be at {word}: tpot=40ms; may be given several times"
        settings_argument(parser, f"--{flag}", what, "NAME=LIMIT")
    for flag, what in (
        ("starts", "designs that descent starts from (default 512)"),
        ("steps", "steps of the descent (default 150)"),
        ("grid", "points of the grid that starts are taken from (default 100000)"),
        ("seed", "of what is drawn (default 0)"),
    ):
        parser.add_argument(f"--{flag}", metavar="N", help=what)
    word_arguments(parser, "set")
    word_arguments(parser, "per", help=PER)
    dataset_argument(parser, "every design that was found, with all its metrics")
    picture_argument(parser, ".png or .svg: slices through the best design, or the front", metavar="FILE")
    json_argument(parser)
    schema_argument(parser, "specifications", "sweeps.studies.optimize.json_schema:optimum_schema")


def run(options: argparse.Namespace) -> None:
    """Search, write what is wanted, and print the best designs and what holds them there."""
    from sweeps.ask.spaces import in_space
    from sweeps.ask.spec import content
    from sweeps.studies.optimize.conditions import per_condition

    source = content(pathlib.Path(options.spec))
    # The specification first, then flags in place of what it says.
    source = question(source if options.space is None else in_space(source, options.space), options)
    try:
        asked = list(per_condition(source))
    except ValueError as error:
        raise ValueError(f"{options.spec}: {error}") from None
    compilation_cache()
    if len(asked) == 1:
        ((_, own),) = asked
        result, seconds = _searched(own, options.spec)
        return _told(result, seconds, options)
    if foreign := given(options, ("output", "plot")):
        words = ", ".join(asked[0][0])
        raise ValueError(f"{foreign[0]} is of one design, and there is one for each {words}: give one value of each")
    from sweeps.answers.optima import printed_each

    printed_each(asked, lambda own: _searched(own, options.spec), options.json)


def _searched(source: Mapping[str, Any], name: str) -> tuple[Any, float]:
    """The optimum of a specification, and the seconds that it took."""
    from sweeps.studies.optimize import spec as specs
    from sweeps.studies.optimize.search import searched

    begin = time.perf_counter()
    try:
        # Errors of reading and of compiling the problem both name the file.
        question = specs.design(source)
        problem = specs.made(question)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    with Line(elsewhere=False) as bar:
        result = searched(
            problem, question.search, lambda stage, *done: bar.show(f"{stage} {done[0]}/{done[1]}", *done)
        )
    return result, time.perf_counter() - begin


def _told(result: Any, seconds: float, options: argparse.Namespace) -> None:
    """Write what is wanted of one optimum, and print it."""
    if options.output:
        from sweeps.serving.files import written
        from sweeps.studies.optimize.result import dataset

        written(options.output, dataset(result), options.force)
    if options.plot:
        from sweeps.show.optimum import optimum

        write(options, "plot", lambda: optimum(result))
    if options.json:
        from sweeps.studies.optimize.result import record

        return print_json(record(result))
    from sweeps.answers.optimize import printed

    printed(result, seconds)
    for path in files(options):
        say(path)
