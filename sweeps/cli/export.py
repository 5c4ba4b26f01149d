"""`jaxroof export`: a step in the format of another program."""

import argparse
from typing import Any

from sweeps.cli import common, step
from sweeps.cli.leaf_flags import add_flags
from sweeps.cli.outputs import output_argument

PROMPTS = {"isl": "prefill", "batch": "prefills"}
"""Flags of a batch of equal requests -> those of the step that prefills it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kinds and their flags."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    about = "Write one engine step as trace events: kernels, collectives and copies, and the host over time."
    perfetto = kinds.add_parser("perfetto", help="timeline for Perfetto and chrome://tracing", description=about)
    _step_arguments(perfetto)
    output_argument(
        perfetto,
        "-o",
        "--output",
        kinds=("timeline",),
        required=True,
        metavar="FILE.json",
        help="the timeline, as Perfetto (ui.perfetto.dev) and chrome://tracing open it",
    )
    about = "Write the matrix products of one engine step as problems of Timeloop 0.4, a file for each."
    timeloop = kinds.add_parser("timeloop", help="matrix products as problems of Timeloop", description=about)
    _step_arguments(timeloop)
    output_argument(
        timeloop,
        "-o",
        "--output",
        kinds=("problem",),
        folder="pictures",
        required=True,
        metavar="DIR",
        help="folder to write, new or empty or of the same products",
    )


def _step_arguments(parser: argparse.ArgumentParser) -> None:
    common.case_arguments(parser)
    common.draft_argument(parser)
    step.workload_arguments(parser)
    meant = "{}, in place of --{}"
    flags = {name: common.REQUESTS[name] for name in PROMPTS}
    add_flags(
        parser, {name: flag._replace(help=meant.format(flag.help, PROMPTS[name])) for name, flag in flags.items()}
    )


def _case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` of the step; --isl and --batch are the prompts of its prefill."""
    for name, other in PROMPTS.items():
        given = getattr(options, name)
        if given is None:
            continue
        if getattr(options, other) is not None:
            raise ValueError(f"--{name} and --{other} are one number: give one of them")
        common.workload_number(name, given)
        setattr(options, other, given)
    return step.step_case(options)


def run(options: argparse.Namespace) -> None:
    """Write what is wanted, and say what is in it."""
    (_timeline if options.kind == "perfetto" else _products)(options)


def _timeline(options: argparse.Namespace) -> None:
    from sweeps.cli import tables
    from sweeps.run.answer import answer
    from sweeps.show import timeline

    case = _case(options)
    found, what = answer(case), step.step_text(case)
    timeline.written(options.output, case, found, what, options.force)
    hidden = timeline.hidden_time(found)
    also = f"; overlap hides {tables.metric_text('step_time', hidden)} more of communication" if hidden else ""
    print(f"{options.output}: {tables.metric_text('step_time', found.metrics['step_time'])} of {what}{also}")


def _products(options: argparse.Namespace) -> None:
    from sweeps.studies.nests.products import written

    case = _case(options)
    what = step.step_text(case)
    for path in written(options.output, case, what, options.force):
        print(path)
