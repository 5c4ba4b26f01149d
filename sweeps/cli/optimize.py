"""`jaxroof optimize`: the best hardware, deployment and workload numbers under constraints, by gradients."""

import argparse
import pathlib
import time
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import json_argument, settings_argument, space_argument, word_arguments
from sweeps.cli.outputs import dataset_argument, files, picture_argument, write
from sweeps.cli.progress import Line
from sweeps.run.compile_cache import compilation_cache

PER = "axes that are conditions, which a design cannot choose (default: the model and its traffic); none: choose all"

LIMITS = {"max": "most", "min": "least"}


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


def run(options: argparse.Namespace) -> None:
    """Search, write what is wanted, and print the best designs and what holds them there."""
    from sweeps.ask.spaces import in_space
    from sweeps.ask.spec import content
    from sweeps.studies.optimize import spec as specs
    from sweeps.studies.optimize.search import searched

    source = content(pathlib.Path(options.spec))
    # The specification first, then flags in place of what it says.
    source = _with_flags(source if options.space is None else in_space(source, options.space), options)
    try:
        # Errors of reading and of compiling the problem both name the file.
        question = specs.design(source)
        compilation_cache()
        begin = time.perf_counter()
        problem = specs.made(question)
    except ValueError as error:
        raise ValueError(f"{options.spec}: {error}") from None
    with Line(elsewhere=False) as bar:
        result = searched(
            problem, question.search, lambda stage, *done: bar.show(f"{stage} {done[0]}/{done[1]}", *done)
        )
    seconds = time.perf_counter() - begin
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


def _with_flags(source: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The specification with what flags say in its place."""
    from sweeps.cli.common import given_values, named_settings, overrides, whole_number

    # A specification whose table is no table is passed on, and refused where specifications are checked.
    goals = dict(source.get("optimize", {})) if isinstance(source.get("optimize", {}), dict) else source["optimize"]
    given = {flag: getattr(options, flag) for flag in ("minimize", "maximize") if getattr(options, flag)}
    if given:
        # A goal by flag takes the place of all goals of the specification, not only of the same direction.
        goals = {key: value for key, value in goals.items() if key not in ("minimize", "maximize")}
        goals |= {flag: [name.strip() for name in text.split(",")] for flag, text in given.items()}
    for flag, text in given_values(options, ("starts", "steps", "grid", "seed")).items():
        goals[flag] = int(whole_number(f"--{flag}", text, zero=flag == "seed"))
    limits = source.get("constraints", {})
    # Limits by flag are merged into the specification's, one bound at a time.
    for flag in LIMITS:
        for name, value in named_settings(f"--{flag}", getattr(options, flag), "tpot=40ms").items():
            limits = {**limits, name: {**limits.get(name, {}), flag: value}}
    per = {} if options.per is None else {"per": [name.strip() for name in options.per.split(",")]}
    given_figures = overrides(options.set)
    figures = {"set": {**source.get("set", {}), **given_figures}} if given_figures else {}
    return {**source, **per, **figures, "optimize": goals, "constraints": limits}
