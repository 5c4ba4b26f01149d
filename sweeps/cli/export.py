"""`jaxroof export`: a step or a training iteration in the format of another program."""

import argparse
from typing import Any

from sweeps.answers.answer import say
from sweeps.cli import common, step, train
from sweeps.cli.leaf_flags import add_flags
from sweeps.cli.leaf_flags import flag as flag_of
from sweeps.cli.outputs import output_argument

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
    for each in _works(perfetto, about):
        output_argument(each, "-o", "--output", kinds=("timeline",), metavar="FILE.json", help=what)
    about = "Write one engine step as execution traces of MLCommons Chakra, a file per rank, as ASTRA-sim reads them."
    chakra = kinds.add_parser("chakra", help="execution traces of Chakra, for ASTRA-sim", description=about)
    about = "Write one training iteration as execution traces of MLCommons Chakra, a file per rank."
    for each in _works(chakra, about):
        _folder_argument(each, ("trace", "groups"), "new or empty or of the same ranks")
    about = "Write a model's layers on an accelerator as profiles of the simulator Vidur: kernels, messages, the host."
    vidur = kinds.add_parser("vidur", help="profiles of a model on an accelerator, for Vidur", description=about)
    _profile_arguments(vidur)
    _folder_argument(vidur, ("profile",), "laid out as Vidur's data/profiling; new or empty or of the same model")
    about = "Write the matrix products of one engine step as problems of Timeloop 0.4, a file for each."
    timeloop = kinds.add_parser("timeloop", help="matrix products as problems of Timeloop", description=about)
    _step_arguments(timeloop)
    _folder_argument(timeloop, ("problem",), "new or empty or of the same products")


def _folder_argument(parser: argparse.ArgumentParser, kinds: tuple[str, ...], what: str) -> None:
    flags = ("-o", "--output")
    output_argument(parser, *flags, kinds=kinds, folder="pictures", metavar="DIR", help=f"folder to write, {what}")


class _Work(argparse._SubParsersAction):
    """What is exported in place of a step; its flags stand behind it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = sorted(getattr(namespace, "_given", ()))
        if given:
            raise argparse.ArgumentError(None, f"{values[0]} stands before its flags: {flag_of(given[0])} is before it")
        super().__call__(parser, namespace, values, option_string)


def _works(parser: argparse.ArgumentParser, about: str) -> list[argparse.ArgumentParser]:
    """Declare the flags of a step, and those of a training iteration behind `TRAIN`; the parsers of both."""
    words = parser.add_subparsers(
        dest="work", metavar=f"[{TRAIN}]", action=_Work, help="a training iteration, not a step"
    )
    iteration = words.add_parser(TRAIN, help="one training iteration", description=about)
    train.case_arguments(iteration)
    _step_arguments(parser)
    return [parser, iteration]


def _profile_arguments(parser: argparse.ArgumentParser) -> None:
    common.names_arguments(parser)
    parser.add_argument("--weights", metavar="PRECISION", help="in place of the checkpoint's: fp8, int8, w4a16 ...")
    common.word_arguments(parser, "efficiency")
    common.settings_argument(parser, "--set", "any number of the hardware, with its unit", "PATH=VALUE")
    parser.add_argument("--tp", default="1", metavar="N,..", help="tensor-parallel degrees (default 1)")
    parser.add_argument("--most-tokens", default="4096", metavar="TOKENS", help="of a step, and of a request (4096)")
    parser.add_argument("--most-sequences", default="128", metavar="N", help="of a decode step (default 128)")
    parser.add_argument("--device", metavar="NAME", help="what Vidur calls the device (default: in lower case)")
    parser.add_argument("--network", metavar="NAME", help="what Vidur calls its node (default: DEVICE_node)")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="what Vidur calls the model (default: where it is)")


def _step_arguments(parser: argparse.ArgumentParser) -> None:
    common.case_arguments(parser)
    common.word_arguments(parser, "draft")
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
    if not options.output:
        raise ValueError("-o is missing: the name of what is written")
    {"perfetto": _timeline, "chakra": _traces, "timeloop": _products, "vidur": _profiles}[options.kind](options)


def _worded(options: argparse.Namespace) -> tuple[Any, str]:
    """The case of a step or a training iteration, and what it works on in words."""
    if getattr(options, "work", None) != TRAIN:
        case = _case(options)
        return case, step.step_text(case)
    case = train.training_case(options)
    work = case.scenario.workload
    return case, f"{work.global_batch:,.0f} sequences of {work.seq:,.0f} tokens"


def _timeline(options: argparse.Namespace) -> None:
    from sweeps.answers import tables
    from sweeps.run.answer import answer
    from sweeps.show import timeline, training_timeline

    case, what = _worded(options)
    found = answer(case)
    if options.work == TRAIN:
        training_timeline.written(options.output, case, found, what, options.force)
        time = tables.metric_text("iteration_time", found.metrics["iteration_time"])
        say(f"{options.output}: {time} of training on {what}")
        return
    timeline.written(options.output, case, found, what, options.force)
    hidden = timeline.hidden_time(found)
    also = f"; overlap hides {tables.metric_text('step_time', hidden)} more of communication" if hidden else ""
    say(f"{options.output}: {tables.metric_text('step_time', found.metrics['step_time'])} of {what}{also}")


def _traces(options: argparse.Namespace) -> None:
    from sweeps.run.answer import answer
    from sweeps.studies.export.chakra import written

    case, what = _worded(options)
    *files, groups = written(options.output, case, answer(case), what, options.force)
    say(f"{files[0]} to {files[-1].name}: {what}" if len(files) > 1 else f"{files[0]}: {what}")
    say(f"{groups}: groups of ranks")


def _products(options: argparse.Namespace) -> None:
    from sweeps.studies.map.products import written

    case, what = _worded(options)
    for path in written(options.output, case, what, options.force):
        say(path)


def _profiles(options: argparse.Namespace) -> None:
    from sweeps.ask.cases import case
    from sweeps.studies.export.vidur import names, written

    common.require_names(options)
    degrees = [int(common.whole_number("--tp", part)) for part in options.tp.split(",")]
    if len(set(degrees)) < len(degrees):
        raise ValueError(f"--tp {options.tp} has a degree twice")
    tokens, sequences = (_most(options, name) for name in MOST)
    settings = common.overrides(options.set)
    for path in settings:
        if not path.startswith("hardware."):
            raise ValueError(f"--set {path}: profiles take numbers of the hardware alone")
    cases = [
        case(
            "step",
            **common.named_words(options),
            workload={"prefill": 1.0},
            deployment={"tp": degree},
            overrides=settings,
        )
        for degree in degrees
    ]
    called = names(cases[0], options.model, options.device, options.network, options.repository)
    for path in written(options.output, cases, *called, tokens, sequences, options.force):
        say(path)


def _most(options: argparse.Namespace, name: str) -> int:
    """The value of a flag of `MOST`."""
    most = int(common.whole_number(flag_of(name), getattr(options, name)))
    if not MOST[name] <= most <= LARGEST:
        raise ValueError(f"{flag_of(name)} {most} must be from {MOST[name]} to {LARGEST:,}")
    return most


MOST = {"most_tokens": 64, "most_sequences": 4}
"""Flags of the largest step, and the least that each can be."""

LARGEST = 1 << 20
"""What they can be at most."""
