"""Text of a simulation: its progress, the tables of its metrics, and all of it as one JSON object."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.jobs.serve import LATENCIES, PERCENTILES
from sweeps.answers import tables
from sweeps.answers.shared import case_record
from sweeps.ask.names import units, variable
from sweeps.data.labels import number
from sweeps.run.evidence import Beyond, serving_beyond
from sweeps.run.simulated.classes import class_objectives, limits_text
from sweeps.run.simulated.objective import limits
from sweeps.run.simulated.policies import policy_record, policy_text
from sweeps.serving.report import binding, cache_tokens, nearest, slo_lines, status_text
from sweeps.serving.run import Simulation

NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E", "queueing": "queueing"}

METRICS = (
    *("requests_per_second", "tokens_per_second", "tokens_per_second_per_device", "prompt_tokens_per_second"),
    "run_tokens_per_second",
    *("usd_per_million_prompt_tokens", "usd_per_thousand_requests"),
    *("goodput", "good_share", "usd_per_million_tokens", "tokens_per_joule_at_tdp", "duration"),
    *("utilization", "engine_steps", "batch_mean", "batch_max", "kv_use_mean", "kv_use_max", "preemptions"),
    "cached_share",
)
"""Metrics of the second table, in its order."""

SHARES = ("good_share", "utilization", "kv_use_mean", "kv_use_max", "cached_share")
OF_LIMITS = ("goodput", "good_share")
"""Metrics that are shares; and those that say something only where there are limits."""


def show(found: Simulation, files: Iterable[str]) -> None:
    """Print the report, and which files are written."""
    case = found.case
    out = tables.console()
    out.print(tables.heading(case, found.load.text, found.spec.overrides))
    out.print(f"policy of {case.engine.name}: {policy_text(found.policy)}")
    out.print(f"source  {found.load.stream.source}", end="\n\n")
    columns = ("mean", *(f"p{percent}" for percent in PERCENTILES))
    latencies = tables.table("latency", *columns, "meaning", numbers=columns)
    # A run without output tokens lacks latencies such as TPOT.
    for name in (name for name in LATENCIES if f"{name}_mean" in found.metrics):
        values = [_time(found.metrics[f"{name}_{column}"]) for column in columns]
        latencies.add_row(NAMES[name], *values, variable(f"{name}_mean").long_name.removeprefix("mean of the "))
    out.print(latencies)
    out.print()
    if found.classes:
        _print_classes(out, found)
    # Goodput and its share say something only where there are limits.
    limited = limits(found.objective) or any(one.slo for one in found.load.classes)
    shown = [name for name in METRICS if name in found.metrics and (name not in OF_LIMITS or limited)]
    out.print(tables.metric_table({name: found.metrics[name] for name in shown}, SHARES))
    out.print()
    tables.print_lines(out, "slo", slo_lines(found))
    out.print(f"status  {status_text(found)}")
    # Tokens of a block, the unit in which the cache is allocated.
    size, each = float(found.policy.block_size), " in each replica" if found.replicas > 1 else ""
    blocks = f"{found.blocks:,.0f} blocks of {number(size)} token{'s' * (size > 1.0)}"
    out.print(f"memory  KV cache for {cache_tokens(found):,.0f} tokens in {blocks}{each}")
    bound = binding(found)
    tables.print_lines(out, "binds", [] if bound is None else [bound.text])
    # Simulated seconds of serving, and seconds that the simulation took.
    served, seconds = (formatted(value, "s") for value in (found.metrics["duration"], found.seconds))
    out.print(f"time    {served} of serving simulated in {seconds}")
    far = simulated_beyond(found)
    tables.print_lines(out, "beyond", [far.text] if far.marked else [])
    # Notes of the case come first; those of the simulation repeat some of them.
    tables.print_lines(out, "note", (*tables.notes(case), *(note for note in found.notes if note not in case.notes)))
    tables.print_lines(out, "file", files)


def simulated_beyond(found: Simulation) -> Beyond:
    """How far a step under the simulated load is beyond the evidence."""
    # A step of the mean batch at mean lengths stands for the run; the batch is one at least.
    stream, batch = found.load.stream, max(found.metrics["batch_mean"], 1.0)
    return serving_beyond(found.case.scenario, batch, float(np.mean(stream.isl)), float(np.mean(stream.osl)))


def _print_classes(out: Any, found: Simulation) -> None:
    """Latencies of every class of requests, and the share that keeps its limits."""
    columns = [(name, of) for name in ("ttft", "tpot", "e2e") for of in ("mean", f"p{PERCENTILES[-1]}")]
    heads = [f"{NAMES[name]}\n{of}" for name, of in columns]
    class_table = tables.table("class", "requests", *heads, "good", "limits", numbers=("requests", *heads, "good"))
    # Limits by class in the order of the load's classes: the class's own, or the common ones.
    stream, limited = found.replica.stream, class_objectives(found.load.classes, found.objective)
    for position, (name, metrics) in enumerate(found.classes.items()):
        one = found.load.classes[position]
        values = [_time(metrics[f"{latency}_{of}"]) for latency, of in columns]
        good = f"{100.0 * metrics['good_share']:.1f} %" if limits(limited[position]) else ""
        count = f"{int(np.sum(stream.kind == position)):,}"
        class_table.add_row(name, count, *values, good, limits_text(one, found.objective))
    out.print(class_table)
    out.print()


def record(found: Simulation) -> dict[str, Any]:
    """The simulation for machines: SI numbers; what does not exist is null."""
    case, near = found.case, nearest(found) if not found.metrics["good_share"] else None
    clients = None if found.load.clients is None else {"clients": found.load.clients, "think": found.load.think}
    return {
        **case_record(case),
        "policy": policy_record(found.policy),
        "load": {
            "text": found.load.text,
            "source": found.load.stream.source,
            "closed_loop": clients,
            **({} if found.load.images is None else {"images": found.load.images.record()}),
        },
        "requests": len(found.load.stream),
        "replicas": found.replicas,
        "slo": limits(found.objective),
        "nearest": None if near is None else {**dataclasses.asdict(near), "missed": list(near.missed)},
        "kv_blocks": found.blocks,
        "binds": None if (bound := binding(found)) is None else {**dataclasses.asdict(bound), "text": bound.text},
        "seconds": found.seconds,
        "notes": list(found.notes),
        "metrics": found.metrics,
        **({"classes": found.classes} if found.classes else {}),
        "units": units(found.metrics),
    }


def _time(seconds: float) -> str:
    return formatted(seconds, "s") if math.isfinite(seconds) else "-"
