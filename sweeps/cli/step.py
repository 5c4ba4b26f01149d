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


def step_text(case: Any) -> str:
    """Batch of the step in words: "prefill of 1 x 2,048 tokens and decode of 64 x 2,048 tokens"."""
    work, parts = case.scenario.workload, []
    if work.prefill is not None:
        past = f" after {work.past:,.0f} cached" if work.past else ""
        parts.append(f"prefill of {work.prefills:,.0f} x {work.prefill:,.0f} tokens{past}")
    if work.decode is not None:
        parts.append(f"decode of {work.decode:,.0f} sequences at {work.context:,.0f} tokens")
    return " and ".join(parts)


def run(options: argparse.Namespace) -> None:
    """Print the step's table, or its JSON."""
    from sweeps.answers import shared, tables
    from sweeps.data.labels import number
    from sweeps.run.answer import answer

    case = step_case(options)
    result = answer(case)
    if options.json:
        return print_json(shared.record(case, result))
    work, metrics, ops = case.scenario.workload, result.metrics, result.steps["step"]
    out = tables.console()
    out.print(tables.heading(case, step_text(case), overrides(options.set)), end="\n\n")
    out.print(tables.op_table(ops))
    out.print()
    # Tokens per second of each part: a mixed step has two rates.
    rates = []
    if work.prefill is not None:
        rates.append(f"{number(work.prefills * work.prefill / metrics['step_time'])} prompt tokens/s")
    if work.decode is not None:
        rates.append(f"{number(work.decode / metrics['step_time'])} decoded tokens/s")
    # Shares of the step's time by the resource that limits its ops.
    shares = ", ".join(f"{bound} {tables.percent(share)}" for bound, share in result.bound_shares("step").items())
    out.print(f"step    {tables.metric_text('step_time', metrics['step_time'])}, {', '.join(rates)}")
    mfu, mbu = (tables.percent(float(metrics[name])) for name in ("mfu", "mbu"))
    out.print(f"use     MFU {mfu}, MBU {mbu}")
    out.print(f"bound   {shares} of the time")
    shared.show(case, result)
