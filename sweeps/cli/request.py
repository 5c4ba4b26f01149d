"""`jaxroof request`: latency, throughput and fit of a static batch of equal requests on one deployment."""

import argparse
import json
from typing import Any

from sweeps.cli.common import asked_case, case_arguments, draft_argument, json_argument, overrides
from sweeps.cli.images import encoder_arguments, encoder_workload

ACCEPTANCE_HELP = (
    "probability that a drafted token is right (default 0), one for every position (0.8,0.7), or the law that every "
    "request draws its own from (beta:MEAN,CONCENTRATION)"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    parser.add_argument("--isl", metavar="TOKENS", help="prompt tokens of each request")
    parser.add_argument("--osl", metavar="TOKENS", help="output tokens of each request")
    batch_arguments(parser)
    encoder_arguments(parser)
    json_argument(parser)


def batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that describe a static batch beside its lengths."""
    parser.add_argument("--batch", metavar="N", help="requests that start and run together (default 1)")
    parser.add_argument("--cached", metavar="TOKENS", help="prompt tokens of each that are cached already (default 0)")
    parser.add_argument(
        "--delay", metavar="TIME", help="until the prompt is there, such as 150ms of retrieval (default 0)"
    )
    parser.add_argument("--acceptance", metavar="SHARE", help=ACCEPTANCE_HELP)
    draft_argument(parser)


def request_case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` of the batch that the flags describe; ValueError in one line when they do not."""
    for flag in ("isl", "osl"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} TOKENS is missing")
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
    from sweeps.answer import answer
    from sweeps.cli import tables
    from sweeps.cli.answers import beyond_tables, fit_text, intervals, money_text, power_lines, record
    from sweeps.dataset import variable

    case = request_case(options)
    found = answer(case)
    if options.json:
        print(json.dumps(record(case, found, options.kv), indent=2, allow_nan=False))
        return
    out = tables.console()
    out.print(tables.heading(case, request_text(case), options.kv, overrides(options.set)), end="\n\n")
    metrics = tables.table("metric", "value", "meaning", numbers=("value",))
    for name, value in found.metrics.items():
        if "_spread" in name:
            continue
        metrics.add_row(name, tables.metric_text(name, value), variable(name).long_name)
    out.print(metrics)
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
    for line in power_lines(found.metrics):
        out.print(f"power   {line}")
    out.print(f"memory  {fit_text(case, found.metrics)}")
    money = money_text(found.metrics)
    if money is not None:
        out.print(f"money   {money}")
    for note in tables.notes(case):
        out.print(f"note    {note}")
