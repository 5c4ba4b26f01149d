"""Text of one load with several routers: a table with a row for each, and all of it as one JSON object."""

import math
from collections.abc import Mapping
from typing import Any

from hwspaces import formatted
from sweeps.answers import serve, tables
from sweeps.ask.names import units
from sweeps.data.labels import number
from sweeps.run.simulated.objective import limits, slo_text
from sweeps.run.simulated.policies import policy_text
from sweeps.serving.report import prompt_shares, replica_loads, status_text
from sweeps.serving.routers import imbalance
from sweeps.serving.run import Simulation

SOURCES = {"hbm": "HBM", "host": "host", "ssd": "SSD", "remote": "remote", "again": "computed\nagain", "new": "new"}
"""Names of sources of prompt tokens, as `sweeps.serving.report.prompt_shares` has them, in a table."""

LATENCIES = [(name, percent) for name in ("ttft", "tpot") for percent in ("p50", "p99")]


def show(found: Mapping[str, Simulation]) -> None:
    """Print the table."""
    first = next(iter(found.values()))
    case, limited = first.case, bool(limits(first.objective))
    out = tables.console()
    out.print(tables.heading(case, first.load.text, first.spec.overrides))
    out.print(f"policy of {case.engine.name}: {policy_text(first.policy)}")
    for line in serve.pool_lines(first):
        out.print(line)
    if first.spec.tiers:
        out.print(f"tiers   {first.spec.tiers}")
    out.print(f"source  {first.load.stream.source}", end="\n\n")

    heads = [SOURCES[name] for name in prompt_shares(first)]
    heads += [f"{serve.NAMES[name]}\n{percent}" for name, percent in LATENCIES]
    # Answers of one token have no rate of later ones.
    rate = "tokens_per_second" if "tokens_per_second" in first.metrics else "requests_per_second"
    heads += ["output\ntokens/s" if rate == "tokens_per_second" else "requests/s"]
    heads += ["largest\nload", *(["good"] if limited else [])]
    listing = tables.table("router", *heads, numbers=heads)
    for name, one in found.items():
        cells = [tables.percent(share) for share in prompt_shares(one).values()]
        cells += [serve.time_text(one.metrics.get(f"{latency}_{percent}", math.nan)) for latency, percent in LATENCIES]
        cells += [number(one.metrics[rate]), f"{imbalance(one):.2f}"]
        listing.add_row(name, *cells, *([tables.percent(one.metrics["good_share"])] if limited else []))
    out.print(listing)
    out.print()
    out.print("HBM to new: where prompt tokens came from; again: computed although an earlier request had them")
    out.print("largest load: requests of the replica that has most of them, over the mean of all replicas")
    if limited:
        out.print(f"good: requests that keep {slo_text(first.objective)}")
    status = {name: status_text(one) for name, one in found.items()}
    if len(set(status.values())) == 1:
        out.print(f"status  {status_text(first)}")
    else:
        tables.print_lines(out, "status", [f"{name}: {text}" for name, text in status.items()])
    served, took = (
        formatted(sum(each), "s")
        for each in zip(*((one.metrics["duration"], one.seconds) for one in found.values()), strict=True)
    )
    out.print(f"time    {served} of serving simulated in {took}")
    notes = [note for one in found.values() for note in one.notes if note not in case.notes]
    tables.print_lines(out, "note", (*tables.notes(case), *dict.fromkeys(notes)))


def record(found: Mapping[str, Simulation]) -> dict[str, Any]:
    """The simulations for machines, by router: SI numbers; what does not exist is null."""
    first = next(iter(found.values()))
    whole = serve.record(first)
    shared = ("hardware", "model", "efficiency", "engine", "policy", "load", "requests", "replicas", "slo", "kv_blocks")
    each = {
        name: {
            "metrics": one.metrics,
            "prompt_shares": prompt_shares(one),
            "replica_loads": replica_loads(one).tolist(),
            "load_imbalance": imbalance(one),
            "seconds": one.seconds,
            "notes": list(one.notes),
        }
        for name, one in found.items()
    }
    return {**{name: whole[name] for name in shared if name in whole}, "routers": each, "units": units(first.metrics)}
