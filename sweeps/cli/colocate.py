"""`jaxroof colocate`: two models on the same devices, in turns or side by side: latencies alone and together."""

import argparse

from sweeps.answers.to_json import print_json
from sweeps.cli import common
from sweeps.cli.leaf_flags import add_flags, leaf_flags

SHARED = leaf_flags("jaxroof.jobs.colocated")
"""Flags of what the models share, by name."""

NUMBERS = ("isl", "osl", "batch", "cached", "acceptance", *SHARED)
"""Flags of the first model's requests, and of what is shared."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    common.case_arguments(parser)
    common.word_arguments(parser, "draft")
    what = "of the other model: model, weights, isl, osl, batch, cached, drafts, ...; may be given several times"
    common.settings_argument(parser, "--neighbour", what)
    common.length_arguments(parser)
    common.batch_arguments(parser)
    add_flags(parser, SHARED)
    common.json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the table of metrics, or its JSON."""
    common.require_lengths(options)
    # Requests of the first model; those of the neighbour have names and values in one flag.
    workload = {name: getattr(options, name) for name in NUMBERS}
    neighbour = common.named_settings("--neighbour", options.neighbour, "model=Llama-2-13B")
    case = common.asked_case("colocated", options, workload, neighbour=neighbour)
    from sweeps.answers.colocate import show
    from sweeps.answers.shared import record
    from sweeps.run.answer import answer

    result = answer(case)
    if options.json:
        return print_json(record(case, result))
    show(case, result, common.overrides(options.set))
