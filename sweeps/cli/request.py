"""`jaxroof request`: latency, throughput and fit of a static batch of equal requests on one deployment."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common
from sweeps.cli.images import encoder_arguments, encoder_workload
from sweeps.cli.leaf_flags import add_flags


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    common.case_arguments(parser)
    common.word_arguments(parser, "engine")
    common.length_arguments(parser)
    static_batch_arguments(parser)
    parser.add_argument("--hit-rate", metavar="SHARE", help="in place of --cached: share of every prompt")
    encoder_arguments(parser)
    common.json_argument(parser)


def static_batch_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags that describe a static batch beside its lengths."""
    common.batch_arguments(parser)
    add_flags(parser, {"delay": common.REQUESTS["delay"]})
    common.word_arguments(parser, "draft")


def request_case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` of the batch that the flags describe; ValueError in one line when they do not."""
    common.require_lengths(options)
    names = ("batch", "isl", "osl", "cached", "acceptance", "delay")
    workload = {name: getattr(options, name) for name in names}
    # A share of the prompt becomes cached tokens, since the workload counts tokens.
    if getattr(options, "hit_rate", None) is not None:
        workload["cached"] = _found(options)
    return common.asked_case("request", options, workload | encoder_workload(options, "isl"))


def _found(options: argparse.Namespace) -> str:
    """Prompt tokens that the prefix cache has, by the share of them."""
    from hwspaces.quantities.leaves import declared_quantity
    from sweeps.ask.leaves import known_leaf

    if options.cached is not None:
        raise ValueError("--hit-rate and --cached say the same in two ways: give one")
    share = declared_quantity(options.hit_rate, known_leaf("workload.hit_rate"), "--hit-rate")
    # Rounded down: a partial token is not in the cache.
    return str(int(share * common.whole_number("--isl", options.isl)))


def run(options: argparse.Namespace) -> None:
    """Print the batch, or its JSON."""
    from sweeps.answers import shared
    from sweeps.answers.request import show
    from sweeps.run.answer import request_answer

    case = request_case(options)
    result = request_answer(case)
    if options.json:
        return print_json(shared.record(case, result))
    show(case, result, common.overrides(options.set))
