"""`jaxroof export vidur`: profiles of a model on an accelerator, for the simulator Vidur."""

import argparse

from sweeps.answers.answer import say
from sweeps.cli import common

MOST = ("most_tokens", "most_sequences")
"""Flags of the largest step."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the word."""
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


def run(options: argparse.Namespace) -> None:
    """Write the profiles, and say where they are."""
    from sweeps.studies.export.vidur import written
    from sweeps.studies.export.vidur_question import names, profile_cases, require_most

    common.require_names(options)
    degrees = common.whole_numbers("--tp", options.tp)
    # Both flags have defaults, so that two numbers come in their order.
    tokens, sequences = (int(number) for number in common.whole_settings(options, MOST).values())
    require_most(most_tokens=tokens, most_sequences=sequences)
    cases = profile_cases(common.named_words(options), degrees, common.overrides(options.set))
    called = names(cases[0], options.model, options.device, options.network, options.repository)
    for path in written(options.output, cases, *called, tokens, sequences, options.force):
        say(path)
