"""`jaxroof export`: a step or a training iteration in the format of another program."""

import argparse
from typing import Any

from sweeps.answers.answer import say
from sweeps.cli import common, step, train, vidur
from sweeps.cli.leaf_flags import add_flags
from sweeps.cli.outputs import output_argument
from sweeps.cli.parser import WordFirst

PROMPTS = {"isl": "prefill", "batch": "prefills"}
"""Flags of a batch of equal requests -> those of the step that prefills it."""

TRAIN = "train"
"""The word for a training iteration, where a kind has both."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kinds and their flags."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    about = "Write one engine step as trace events: kernels, collectives and copies, and the host over time."
    perfetto = kinds.add_parser("perfetto", help="timeline for Perfetto and chrome://tracing", description=about)
    about = "Write one training iteration as trace events: passes, messages and idle time of every pipeline stage."
    what = "the timeline, as Perfetto (ui.perfetto.dev) and chrome://tracing open it"
    # Both kinds of work have the same output: the parser of a step and that of an iteration declare it.
    for each in _works(perfetto, about):
        output_argument(each, "-o", "--output", kinds=("timeline",), metavar="FILE.json", help=what)
    about = "Write one engine step as execution traces of MLCommons Chakra, a file per rank, as ASTRA-sim reads them."
    chakra = kinds.add_parser("chakra", help="execution traces of Chakra, for ASTRA-sim", description=about)
    about = "Write one training iteration as execution traces of MLCommons Chakra, a file per rank."
    for each in _works(chakra, about):
        _folder_argument(each, ("trace", "groups"), "new or empty or of the same ranks")
    about = "Write a model's layers on an accelerator as profiles of the simulator Vidur: kernels, messages, the host."
    profiles = kinds.add_parser("vidur", help="profiles of a model on an accelerator, for Vidur", description=about)
    vidur.arguments(profiles)
    _folder_argument(profiles, ("profile",), "laid out as Vidur's data/profiling; new or empty or of the same model")
    about = "Write the matrix products of one engine step as problems of Timeloop 0.4, a file for each."
    timeloop = kinds.add_parser("timeloop", help="matrix products as problems of Timeloop", description=about)
    _step_arguments(timeloop)
    _folder_argument(timeloop, ("problem",), "new or empty or of the same products")


def _folder_argument(parser: argparse.ArgumentParser, kinds: tuple[str, ...], what: str) -> None:
    flags = ("-o", "--output")
    output_argument(parser, *flags, kinds=kinds, folder="pictures", metavar="DIR", help=f"folder to write, {what}")


def _works(parser: argparse.ArgumentParser, about: str) -> list[argparse.ArgumentParser]:
    """Declare the flags of a step, and those of a training iteration behind `TRAIN`; the parsers of both."""
    what = "a training iteration, not a step"
    # The word for training comes first: flags of a step must not stand before it.
    words = parser.add_subparsers(dest="work", metavar=f"[{TRAIN}]", action=WordFirst, help=what)
    iteration = words.add_parser(TRAIN, help="one training iteration", description=about)
    train.case_arguments(iteration)
    _step_arguments(parser)
    return [parser, iteration]


def _step_arguments(parser: argparse.ArgumentParser) -> None:
    common.case_arguments(parser)
    common.word_arguments(parser, "draft")
    step.workload_arguments(parser)
    for name, other in PROMPTS.items():
        flag = common.REQUESTS[name]
        add_flags(parser, {name: flag._replace(help=f"{flag.help}, in place of --{other}")})


def run(options: argparse.Namespace) -> None:
    """Write what is wanted, and say what is in it."""
    if not options.output:
        raise ValueError("-o is missing: the name of what is written")
    # Vidur takes profiles over many sizes, not a single case.
    if options.kind == "vidur":
        return vidur.run(options)
    case, what = _worded(options)
    # Problems of Timeloop follow from shapes alone: no time is computed.
    if options.kind == "timeloop":
        from sweeps.studies.map.products import written as written_products

        for path in written_products(options.output, case, what, options.force):
            say(path)
        return None
    from sweeps.run.answer import answer

    result = answer(case)
    if options.kind == "perfetto":
        from sweeps.answers.export import timeline_text
        from sweeps.studies.export import timeline, training_timeline

        # Both modules have the same function `written`.
        module = training_timeline if options.work == TRAIN else timeline
        module.written(options.output, case, result, what, options.force)
        say(f"{options.output}: {timeline_text(result, what)}")
    else:
        from sweeps.studies.export.chakra import written as written_traces

        # One file for each rank, and last the file of communication groups.
        *files, groups = written_traces(options.output, case, result, what, options.force)
        say(f"{files[0]} to {files[-1].name}: {what}" if len(files) > 1 else f"{files[0]}: {what}")
        say(f"{groups}: groups of ranks")


def _worded(options: argparse.Namespace) -> tuple[Any, str]:
    """The case of a step or a training iteration, and what it works on in words."""
    if getattr(options, "work", None) == TRAIN:
        case = train.training_case(options)
        work = case.scenario.workload
        return case, f"{work.global_batch:,.0f} sequences of {work.seq:,.0f} tokens"
    # Equal requests may be described as in `request`: their prompts become the step's prefill.
    for name, other in PROMPTS.items():
        if (given := getattr(options, name)) is None:
            continue
        if getattr(options, other) is not None:
            raise ValueError(f"--{name} and --{other} are one number: give one of them")
        common.workload_number(name, given)
        setattr(options, other, given)
    from sweeps.answers.step import step_text

    case = step.step_case(options)
    return case, step_text(case)
