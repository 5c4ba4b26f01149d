"""`jaxroof train`: one iteration of training a model on a layout of devices, or the best of all layouts."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common, deployment
from sweeps.cli.leaf_flags import add_flags, flag, leaf_flags
from sweeps.cli.train_search import TOP, run_search

DEGREES = {
    "dp": "data-parallel degree: copies of the model, each with sequences of its own (default 1)",
    "tp": "tensor-parallel degree (default 1)",
    "pp": "pipeline stages (default 1)",
    "cp": "context-parallel degree: tokens of a sequence are split (default 1)",
    "ep": "expert-parallel degree, of the tp x cp x dp devices (default 1)",
}
"""Degrees as training frameworks count them."""

NUMBERS = leaf_flags("jaxroof.training.training")
"""Flags of a training's numbers, by name."""

WORK = (*NUMBERS, "schedule", "precision", "lora", "offload")
"""Flags that only a training has."""

PLACES = ("sequence_parallel", "context_kind", "overlap", "imbalance", "attention_kernel")
"""Flags of the deployment beside its degrees."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    parser.add_argument("--search", action="store_true", help="every layout of --devices, the fastest that fit first")
    parser.add_argument("--devices", metavar="N", help="of --search")
    parser.add_argument("--top", metavar="N", help=f"layouts of --search that are shown (default {TOP})")
    common.json_argument(parser)


def case_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that describe one training."""
    common.names_arguments(parser)
    common.word_arguments(parser, "efficiency", "prices")
    for name, text in DEGREES.items():
        parser.add_argument(flag(name), metavar="N", help=text)
    workload_arguments(parser)
    parser.add_argument("--weights", metavar="NAME", help="with --lora: storage of the frozen weights: nf4, w4a16 ...")
    add_flags(parser, {name: deployment.flags()[name] for name in PLACES})
    what = "any number: workload.gradient_bytes=4, hardware.memory.hbm.capacity=141GB; may be given several times"
    common.settings_argument(parser, "--set", what, "PATH=VALUE")


def workload_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that only a training has."""
    add_flags(parser, NUMBERS)
    what = "1f1b (default), gpipe, interleaved:CHUNKS, zero-bubble, dualpipe"
    parser.add_argument("--schedule", metavar="NAME", help=what)
    parser.add_argument("--precision", metavar="NAME", help="of linear layers: bf16 (default), fp8")
    parser.add_argument("--lora", metavar="TEXT", help="train adapters alone: rank=16,target=q,v (q k v o up down)")
    parser.add_argument("--offload", metavar="WHAT", help="optimizer: its states are in host memory")


def training_case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` that the flags describe; ValueError in one line when they do not."""
    common.require_names(options)
    for name in ("global_batch", "seq"):
        if getattr(options, name) is None:
            raise ValueError(f"{flag(name)} is missing: {NUMBERS[name].help}")
    from sweeps.ask.training import workload_settings
    from sweeps.ask.training_case import training_case as described

    if options.offload not in (None, "optimizer"):
        raise ValueError(f"--offload {options.offload} must be optimizer")
    # The text of every number first; counts replace theirs by checked whole numbers.
    work = common.given_values(options, (*NUMBERS, "lora", "schedule", "offload"))
    work |= common.whole_settings(options, [name for name, number in NUMBERS.items() if number.counts])
    others = other_settings(options)
    settings = common.overrides(others)
    # Settings of the workload are set apart: the others are overrides of the scenario by path.
    work |= workload_settings(setting for setting in options.set if setting not in others)
    return described(
        workload=work,
        deployment=common.whole_settings(options, DEGREES) | common.given_values(options, PLACES),
        precision=options.precision,
        overrides=settings,
        # A search tries layouts of its own: the one of the flags need not be legal.
        check=not getattr(options, "search", False),
        **common.named_words(options),
    )


def other_settings(options: argparse.Namespace) -> list[str]:
    """Settings of `--set` outside of the workload."""
    return [setting for setting in options.set if not setting.strip().startswith("workload.")]


def run(options: argparse.Namespace) -> None:
    """Print the tables of an iteration or of a search, or their JSON."""
    if options.search:
        return run_search(options, training_case)
    if of_search := common.given(options, ("devices", "top")):
        raise ValueError(f"{of_search[0]} belongs to --search")
    case = training_case(options)
    from sweeps.answers import train as report
    from sweeps.run.answer import answer

    result = answer(case)
    if options.json:
        return print_json(report.record(case, result))
    report.show(case, result.metrics, common.overrides(other_settings(options)))
