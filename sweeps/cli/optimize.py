"""`jaxroof optimize`: the best hardware, deployment and workload numbers under constraints, by gradients."""

import argparse
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import given, json_argument, settings_argument, space_argument, word_arguments
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
    from sweeps.studies.optimize.conditions import per_condition

    source = content(pathlib.Path(options.spec))
    # The specification first, then flags in place of what it says.
    source = _with_flags(source if options.space is None else in_space(source, options.space), options)
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
    _told_each(asked, options)


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


def _told_each(asked: list[tuple[dict[str, Any], Mapping[str, Any]]], options: argparse.Namespace) -> None:
    """Print the optimum for every value of the conditions, one after the other."""
    from sweeps.answers.optimize import printed
    from sweeps.data.conditions import said
    from sweeps.studies.optimize.result import record
    from sweeps.studies.optimize.search import NONE_KEPT

    records = []
    if not options.json:
        say(said(tuple(asked[0][0])))
    for values, own in asked:
        if not options.json:
            say(f"\n{', '.join(f'{name} {value}' for name, value in values.items())}")
        try:
            result, seconds = _searched(own, options.spec)
        except ValueError as error:
            # Where one of them has no design, the others may have.
            if not str(error).startswith(NONE_KEPT):
                raise
            records.append({"conditions": values, "designs": [], "error": str(error)})
            if not options.json:
                say(str(error))
            continue
        records.append({"conditions": values, **record(result)})
        if not options.json:
            printed(result, seconds)
    if options.json:
        print_json(records)


def _with_flags(source: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The specification with what flags say in its place."""
    from sweeps.cli.common import given_values, named_settings, overrides, whole_number

    # A specification whose table is no table is passed on, and refused where specifications are checked.
    goals = dict(source.get("optimize", {})) if isinstance(source.get("optimize", {}), dict) else source["optimize"]
    aims = {flag: getattr(options, flag) for flag in ("minimize", "maximize") if getattr(options, flag)}
    if aims:
        # A goal by flag takes the place of all goals of the specification, not only of the same direction.
        goals = {key: value for key, value in goals.items() if key not in ("minimize", "maximize")}
        goals |= {flag: [name.strip() for name in text.split(",")] for flag, text in aims.items()}
    for flag, text in given_values(options, ("starts", "steps", "grid", "seed")).items():
        goals[flag] = int(whole_number(f"--{flag}", text, zero=flag == "seed"))
    limits = source.get("constraints", {})
    # Limits by flag are merged into the specification's, one bound at a time.
    for flag in LIMITS:
        for name, value in named_settings(f"--{flag}", getattr(options, flag), "tpot=40ms").items():
            limits = {**limits, name: {**limits.get(name, {}), flag: value}}
    per = {} if options.per is None else {"per": [name.strip() for name in options.per.split(",")]}
    table, set_by_flag = source.get("set", {}), overrides(options.set)
    figures = {"set": {**table, **set_by_flag}} if set_by_flag and isinstance(table, dict) else {}
    return {**source, **per, **figures, "optimize": goals, "constraints": limits}
