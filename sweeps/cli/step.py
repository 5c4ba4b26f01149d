"""`jaxroof step`: cost of one engine step of a deployment, op by op."""

import argparse
from collections.abc import Collection
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import asked_case, case_arguments, json_argument, overrides, word_arguments
from sweeps.cli.images import encoder_arguments, encoder_workload
from sweeps.cli.leaf_flags import add_flags, leaf_flags

NUMBERS = leaf_flags("jaxroof.jobs.step")
"""Flags of a step's work, by name."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    word_arguments(parser, "engine", "draft")
    workload_arguments(parser)
    json_argument(parser)


def workload_arguments(parser: argparse._ActionsContainer, beside: Collection[str] = ()) -> None:
    """Add the flags that say what one step works on; `beside`: those that the parser has already.

    Prefill and decode together make a mixed step.
    """
    add_flags(parser, {name: flag for name, flag in NUMBERS.items() if name not in beside})
    encoder_arguments(parser)


def step_case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` of one step that the flags describe; ValueError in one line when they do not."""
    given = {name: getattr(options, name) for name in NUMBERS}
    if given["prefill"] is None and given["decode"] is None:
        raise ValueError("a step needs --prefill TOKENS, --decode N with --context TOKENS, or both")
    # A decode step needs both the number of sequences and how long they are.
    if (given["decode"] is None) != (given["context"] is None):
        raise ValueError("--decode and --context belong together: give both or neither")
    if given["prefill"] is None and (given["prefills"] or given["past"]):
        raise ValueError("--prefills and --past describe the prompts of --prefill TOKENS, which is missing")
    return asked_case("step", options, given | encoder_workload(options, "prefill"))


def run(options: argparse.Namespace) -> None:
    """Print the step, or its JSON."""
    from sweeps.answers import shared
    from sweeps.answers.step import show
    from sweeps.run.answer import answer

    case = step_case(options)
    result = answer(case)
    if options.json:
        return print_json(shared.record(case, result))
    show(case, result, overrides(options.set))
