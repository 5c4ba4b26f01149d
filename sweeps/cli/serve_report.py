"""Text of a simulation: its progress, the tables of its metrics, and all of it as one JSON object."""

import dataclasses
import math
import sys
import time
from typing import Any

from hwspaces import formatted
from jaxroof.jobs.serve import LATENCIES, PERCENTILES
from sweeps.ask.names import UDUNITS, variable
from sweeps.cli import tables
from sweeps.cli.progress import LINE_SECONDS
from sweeps.data.labels import number
from sweeps.serving.objective import limits
from sweeps.serving.policies import policy_record, policy_text
from sweeps.serving.report import cache_tokens, nearest, slo_lines, status_text
from sweeps.serving.run import Simulation

NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E", "queueing": "queueing"}

METRICS = (
    *("requests_per_second", "tokens_per_second", "tokens_per_second_per_device", "prompt_tokens_per_second"),
    *("goodput", "good_share", "usd_per_million_tokens", "tokens_per_joule_at_tdp", "duration"),
    *("utilization", "engine_steps", "batch_mean", "batch_max", "kv_use_mean", "kv_use_max", "preemptions"),
    "cached_share",
)
"""Metrics of the second table, in its order."""

SHARES = ("good_share", "utilization", "kv_use_mean", "kv_use_max", "cached_share")
OF_LIMITS = ("goodput", "good_share")
"""Metrics that are shares; and those that say something only where there are limits."""


def show(found: Simulation) -> None:
    """Print the report."""
    out = tables.console()
    out.print(tables.heading(found.case, found.load.text, found.spec.overrides))
    out.print(f"policy of {found.engine}: {policy_text(found.policy)}")
    out.print(f"source  {found.load.stream.source}", end="\n\n")
    columns = ("mean", *(f"p{percent}" for percent in PERCENTILES))
    latencies = tables.table("latency", *columns, "meaning", numbers=columns)
    for name in LATENCIES:
        values = [_time(found.metrics[f"{name}_{column}"]) for column in columns]
        latencies.add_row(NAMES[name], *values, variable(f"{name}_mean").long_name.removeprefix("mean of the "))
    out.print(latencies)
    out.print()
    shown = [name for name in METRICS if name in found.metrics and (name not in OF_LIMITS or limits(found.objective))]
    out.print(tables.metric_table({name: found.metrics[name] for name in shown}, SHARES))
    out.print()
    for line in slo_lines(found):
        out.print(f"slo     {line}")
    out.print(f"status  {status_text(found)}")
    size = float(found.policy.block_size)
    blocks = f"{found.blocks:,.0f} blocks of {number(size)} token{'s' * (size > 1.0)}"
    out.print(f"memory  KV cache for {cache_tokens(found):,.0f} tokens in {blocks}{_each(found)}")
    served = found.metrics["duration"]
    out.print(f"time    {formatted(served, 's')} of serving simulated in {formatted(found.seconds, 's')}")
    for note in (*tables.notes(found.case), *(note for note in found.notes if note not in found.case.notes)):
        out.print(f"note    {note}")


def record(found: Simulation) -> dict[str, Any]:
    """The simulation for machines: SI numbers; what does not exist is null."""
    case, near = found.case, nearest(found) if not found.metrics["good_share"] else None
    clients = None if found.load.clients is None else {"clients": found.load.clients, "think": found.load.think}
    metrics = {name: value if math.isfinite(value) else None for name, value in found.metrics.items()}
    return {
        "hardware": case.hardware.name,
        "model": case.model.name,
        "precision": case.model.precision,
        "precision_source": case.model.precision_source,
        "kv_precision": case.kv,
        "efficiency": case.efficiency.name,
        "deployment": dataclasses.asdict(case.scenario.deployment),
        "engine": found.engine,
        "policy": policy_record(found.policy),
        "load": {"text": found.load.text, "source": found.load.stream.source, "closed_loop": clients},
        "requests": len(found.load.stream),
        "replicas": found.replicas,
        "slo": limits(found.objective),
        "nearest": None if near is None else {**dataclasses.asdict(near), "missed": list(near.missed)},
        "kv_blocks": found.blocks,
        "seconds": found.seconds,
        "notes": list(found.notes),
        "metrics": metrics,
        "units": {name: UDUNITS.get(variable(name).unit, variable(name).unit) for name in metrics},
    }


class Progress:
    """Requests that are over: a bar on a terminal, now and then a line elsewhere. On stderr."""

    def __init__(self):
        self.said, self.bar = time.perf_counter(), None
        if sys.stderr.isatty():
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            text = TextColumn("{task.description}")
            self.bar = Bar(text, BarColumn(), TimeRemainingColumn(), console=tables.console(error=True), transient=True)
            self.task = self.bar.add_task("compiling", total=None)
            self.bar.start()

    def show(self, done: int, requests: int) -> None:
        """Say that `done` of `requests` are over."""
        text = f"{done:,} of {requests:,} requests"
        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=requests, description=text)
        elif time.perf_counter() - self.said > LINE_SECONDS["auto"] and done < requests:
            self.said = time.perf_counter()
            print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


def _time(seconds: float) -> str:
    return formatted(seconds, "s") if math.isfinite(seconds) else "-"


def _each(found: Simulation) -> str:
    return " in each replica" if found.replicas > 1 else ""
