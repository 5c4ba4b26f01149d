"""Capacity of a whole service on the command line: flags that it takes, its search, and what is printed."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common, service

ALONE = ("rates", "points", "concurrency", "node", "output", "plot")
"""Flags that a service has no use for: its capacity is the rate of one service, of which `serve` writes files."""


def run(options: argparse.Namespace, load: dict[str, Any]) -> None:
    """Find the largest rate of a whole service, and print the answer or its JSON.

    Args:
      load: what the flags say of the requests that come.
    """
    from sweeps.answers import service_capacity as report
    from sweeps.cli.progress import Simulations
    from sweeps.serving.service_capacity import service_capacity

    why = "the largest rate of one service is looked for (--router, --prefill, --tiers)"
    if refused := common.given(options, ALONE):
        raise ValueError(f"{refused[0]} cannot be given: {why}; `jaxroof serve` at that rate writes files")
    if options.hardware.strip() == "all" or "," in options.hardware:
        raise ValueError(f"--hardware {options.hardware} must be one accelerator: {why}")
    words = {name: value for name, value in common.case_words(options).items() if name not in ("hardware", "model")}
    words |= {name: value for name, value in service.words(options).items() if value}
    words |= {"policy": common.policy_settings(options.policy), **load}
    with Simulations() as line:
        found = service_capacity(
            options.model, options.hardware, options.slo, begun=line.begun, **judged(options), **words
        )
    if options.json:
        return print_json(report.record(found))
    report.show(found)


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """How a capacity is judged: the share of requests that have to keep limits, and the tolerance, where given."""
    from hwspaces import quantity

    given: dict[str, Any] = {} if options.share is None else {"share": options.share}
    if options.tolerance is not None:
        given["tolerance"] = quantity(options.tolerance, "1", "--tolerance")
    return given
