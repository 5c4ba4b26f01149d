"""`jaxroof optimize`: the best hardware, deployment and workload numbers under constraints, by gradients."""

import argparse
import json
import pathlib
import time
from typing import Any

from sweeps.cli.common import compilation_cache, json_argument
from sweeps.cli.outputs import output_argument

LIMITS = {"max": "most", "min": "least"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument(
        "spec", metavar="SPEC.toml", help="a sweep's specification with [optimize] and [constraints]: ranges are bounds"
    )
    for flag in ("minimize", "maximize"):
        parser.add_argument(
            f"--{flag}", metavar="METRIC,..", help=f"metrics or leaves to {flag}, in place of the specification's"
        )
    for flag, word in LIMITS.items():
        parser.add_argument(
            f"--{flag}",
            metavar="NAME=LIMIT",
            action="append",
            default=[],
            help=f"what a metric or leaf may be at {word}: tpot=40ms; may be given several times",
        )
    for flag, what in (
        ("starts", "designs that descent starts from (default 512)"),
        ("steps", "steps of the descent (default 150)"),
        ("grid", "points of the grid that starts are taken from (default 100000)"),
        ("seed", "of what is drawn (default 0)"),
    ):
        parser.add_argument(f"--{flag}", metavar="N", help=what)
    output_argument(
        parser,
        "-o",
        "--output",
        kinds=("dataset",),
        metavar="OUT.nc",
        help="every design that was found, with all its metrics",
    )
    output_argument(
        parser,
        "--plot",
        kinds=("png", "svg"),
        metavar="FILE",
        help=".png or .svg: slices through the best design, or the front",
    )
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Search, write what is wanted, and print the best designs and what holds them there."""
    from sweeps.ask.spec import content
    from sweeps.studies.optimization import spec as specs
    from sweeps.studies.optimization.search import searched

    source = _with_flags(content(pathlib.Path(options.spec)), options)
    try:
        asked = specs.design(source)
        compilation_cache()
        begin = time.perf_counter()
        problem = specs.made(asked)
    except ValueError as error:
        raise ValueError(f"{options.spec}: {error}") from None
    bar = _Bar()
    try:
        found = searched(problem, asked.search, bar)
    finally:
        bar.stop()
    seconds = time.perf_counter() - begin
    if options.output:
        from sweeps.serving.files import written
        from sweeps.studies.optimization.result import dataset

        written(options.output, dataset(found), options.force)
    if options.plot:
        from sweeps.show.optimum import optimum
        from sweeps.show.style import saved

        saved(optimum(found), options.plot, options.force)
    if options.json:
        from sweeps.studies.optimization.result import record

        print(json.dumps(record(found), indent=2, allow_nan=False))
        return
    from sweeps.cli.optimize_report import printed

    printed(found, seconds)
    for path in (options.output, options.plot):
        if path:
            print(path)


class _Bar:
    """The stage of the search and how much of it is done: a bar on a terminal, nothing elsewhere. On stderr."""

    def __init__(self):
        import sys

        self._bar, self._tasks = None, {}
        if sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            from sweeps.cli.tables import console

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._bar = Progress(*columns, console=console(error=True), transient=True)
            self._bar.start()

    def __call__(self, stage: str, done: int, all_of_it: int) -> None:
        if self._bar is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=all_of_it)
        self._bar.update(self._tasks[stage], completed=done)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def _with_flags(source: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The specification with what flags say in its place."""
    from sweeps.cli.common import named_settings, whole_number

    goals = dict(source.get("optimize", {})) if isinstance(source.get("optimize", {}), dict) else source["optimize"]
    given = {flag: getattr(options, flag) for flag in ("minimize", "maximize") if getattr(options, flag)}
    if given:
        goals = {key: value for key, value in goals.items() if key not in ("minimize", "maximize")}
        goals |= {flag: [name.strip() for name in text.split(",")] for flag, text in given.items()}
    for flag in ("starts", "steps", "grid", "seed"):
        text = getattr(options, flag)
        if text is not None:
            goals[flag] = int(whole_number(f"--{flag}", text, zero=flag == "seed"))
    limits = source.get("constraints", {})
    for flag in LIMITS:
        for name, value in named_settings(f"--{flag}", getattr(options, flag), "tpot=40ms").items():
            limits = {**limits, name: {**limits.get(name, {}), flag: value}}
    return {**source, "optimize": goals, "constraints": limits}
