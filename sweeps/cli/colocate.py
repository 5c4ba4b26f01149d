"""`jaxroof colocate`: two models on the same devices, in turns or side by side: latencies alone and together."""

import argparse
import json
from typing import Any

from sweeps.cli.common import (
    asked_case,
    batch_arguments,
    case_arguments,
    draft_argument,
    json_argument,
    length_arguments,
    named_settings,
    overrides,
    require_lengths,
)
from sweeps.cli.leaf_flags import add_flags, leaf_flags

SHARED = leaf_flags("jaxroof.jobs.colocated")
"""Flags of what the models share, by name."""

NUMBERS = ("isl", "osl", "batch", "cached", "acceptance", *SHARED)
"""Flags of the first model's requests, and of what is shared."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    draft_argument(parser)
    parser.add_argument(
        "--neighbour",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the other model: model, weights, isl, osl, batch, cached, drafts, ...; may be given several times",
    )
    length_arguments(parser)
    batch_arguments(parser)
    add_flags(parser, SHARED)
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the table of metrics, or its JSON."""
    require_lengths(options)
    workload = {name: getattr(options, name) for name in NUMBERS}
    neighbour = named_settings("--neighbour", options.neighbour, "model=Llama-2-13B")
    case = asked_case("colocated", options, workload, neighbour=neighbour)
    from sweeps.cli import tables
    from sweeps.cli.answers import record
    from sweeps.run.answer import answer

    found = answer(case)
    if options.json:
        print(json.dumps(record(case, found), indent=2, allow_nan=False))
        return
    out = tables.console()
    out.print(tables.heading(case, _words(case), overrides(options.set)), end="\n\n")
    out.print(tables.metric_table(found.metrics))
    for note in tables.notes(case):
        out.print(f"note    {note}")


def _words(case: Any) -> str:
    """Both tenants' requests in words."""
    own, other = case.scenario.workload, case.scenario.neighbour.requests
    texts = [f"{work.batch:,.0f} requests of {work.isl:,.0f} + {work.osl:,.0f} tokens" for work in (own, other)]
    return f"{texts[0]}, beside {texts[1]} of the neighbour"
