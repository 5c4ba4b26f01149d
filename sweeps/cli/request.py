"""`jaxroof request`: latency, throughput and fit of a static batch of equal requests on one deployment."""

import argparse
import dataclasses
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


def request_text(case: Any) -> str:
    """The batch in words: "32 requests of 1,024 + 256 tokens"."""
    work = case.scenario.workload
    cached = f" ({work.cached:,.0f} cached)" if work.cached else ""
    # A single output token comes from the prefill: there is no decoding to describe.
    output = f" + {work.osl:,.0f}" if work.osl > 1.0 else ""
    what = f"{work.batch:,.0f} requests of {work.isl:,.0f}{cached}{output} tokens"
    return what + (f", each with {work.encoder_tokens:,.0f} for the encoder" if work.encoder_tokens else "")


def run(options: argparse.Namespace) -> None:
    """Print the table of metrics, or its JSON."""
    from sweeps.answers import shared, tables
    from sweeps.ask.offered_load import without_output
    from sweeps.run.answer import answer

    case = request_case(options)
    result = answer(case)
    # With at most one output token there is no decode step, and metrics of decoding are left out.
    if case.scenario.workload.osl <= 1.0:
        metrics = without_output(result.metrics, float(case.scenario.workload.isl))
        result = dataclasses.replace(result, metrics=metrics, steps={"prefill": result.steps["prefill"]})
    if options.json:
        return print_json(shared.record(case, result))
    out = tables.console()
    out.print(tables.heading(case, request_text(case), common.overrides(options.set)), end="\n\n")
    # Metrics on certainty are lines below the table, not rows of it.
    shown = {name: value for name, value in result.metrics.items() if not shared.is_certainty(name)}
    out.print(tables.metric_table(shown))
    out.print()
    out.print(tables.op_summary(result.steps))
    out.print()
    for step in result.steps:
        shares = ", ".join(f"{bound} {tables.percent(share)}" for bound, share in result.bound_shares(step).items())
        out.print(f"{step:8}bound by {shares} of its time")
    shared.show(case, result)
