"""`jaxroof request`: latency, throughput and fit of a static batch of equal requests on one deployment."""

import argparse
import json
from typing import Any

from sweeps.cli.common import (
    REQUESTS,
    asked_case,
    batch_arguments,
    case_arguments,
    draft_argument,
    json_argument,
    length_arguments,
    overrides,
    require_lengths,
)
from sweeps.cli.images import encoder_arguments, encoder_workload
from sweeps.cli.leaf_flags import add_flags


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    length_arguments(parser)
    static_batch_arguments(parser)
    encoder_arguments(parser)
    json_argument(parser)


def static_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that describe a static batch beside its lengths."""
    batch_arguments(parser)
    add_flags(parser, {"delay": REQUESTS["delay"]})
    draft_argument(parser)


def request_case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` of the batch that the flags describe; ValueError in one line when they do not."""
    require_lengths(options)
    names = ("batch", "isl", "osl", "cached", "acceptance", "delay")
    workload = {name: getattr(options, name) for name in names}
    return asked_case("request", options, workload | encoder_workload(options, "isl"))


def request_text(case: Any) -> str:
    """The batch in words: "32 requests of 1,024 + 256 tokens"."""
    work = case.scenario.workload
    cached = f" ({work.cached:,.0f} cached)" if work.cached else ""
    what = f"{work.batch:,.0f} requests of {work.isl:,.0f}{cached} + {work.osl:,.0f} tokens"
    return what + (f", each with {work.encoder_tokens:,.0f} for the encoder" if work.encoder_tokens else "")


def run(options: argparse.Namespace) -> None:
    """Print the table of metrics, or its JSON."""
    from sweeps.cli import tables
    from sweeps.cli.answers import beyond_tables, fit_text, intervals, money_text, power_lines, record
    from sweeps.run.answer import answer

    case = request_case(options)
    found = answer(case)
    if options.json:
        print(json.dumps(record(case, found), indent=2, allow_nan=False))
        return
    out = tables.console()
    out.print(tables.heading(case, request_text(case), overrides(options.set)), end="\n\n")
    out.print(tables.metric_table({name: value for name, value in found.metrics.items() if "_spread" not in name}))
    out.print()
    out.print(tables.op_summary(found.steps))
    out.print()
    for step in found.steps:
        shares = ", ".join(f"{bound} {tables.percent(share)}" for bound, share in found.bound_shares(step).items())
        out.print(f"{step:8}bound by {shares} of its time")
    for line in intervals(found.metrics):
        out.print(f"error   {line}")
    for line in beyond_tables(found.metrics):
        out.print(f"tables  {line}")
    for line in power_lines(case, found.metrics):
        out.print(f"power   {line}")
    out.print(f"memory  {fit_text(case, found.metrics)}")
    money = money_text(case, found.metrics)
    if money is not None:
        out.print(f"money   {money}")
    for note in tables.notes(case):
        out.print(f"note    {note}")
