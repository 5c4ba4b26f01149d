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
    """Write the file that is wanted, and say what is in it."""
    from sweeps.cli import tables
    from sweeps.run.answer import answer
    from sweeps.show import timeline

    case = _case(options)
    found = answer(case)
    timeline.written(options.output, case, found, step.step_text(case), options.force)
    hidden = timeline.hidden_time(found)
    also = f"; overlap hides {tables.metric_text('step_time', hidden)} more of communication" if hidden else ""
    text = tables.metric_text("step_time", found.metrics["step_time"])
    print(f"{options.output}: {text} of {step.step_text(case)}{also}")
