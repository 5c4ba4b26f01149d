"""Text of a simulation: its progress, the tables of its metrics, and all of it as one JSON object."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.deployment import DEGREES, Deployment, degree
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


def show(simulation: Simulation, files: Iterable[str]) -> None:
    """Print the report, and which files are written."""
    case = simulation.case
    out = tables.console()
    out.print(tables.heading(case, simulation.load.text, simulation.spec.overrides))
    out.print(f"policy of {case.engine.name}: {policy_text(simulation.policy)}")
    for line in service_lines(simulation):
        out.print(line)
    out.print(f"source  {simulation.load.stream.source}", end="\n\n")
    out.print(latency_table(simulation))
    out.print()
    if simulation.classes:
        _print_classes(out, simulation)
    # Goodput and its share say something only where there are limits.
    limited = limits(simulation.objective) or any(one.slo for one in simulation.load.classes)
    shown = [name for name in METRICS if name in simulation.metrics and (name not in OF_LIMITS or limited)]
    out.print(tables.metric_table({name: simulation.metrics[name] for name in shown}, SHARES))
    out.print()
    tables.print_lines(out, "slo", slo_lines(simulation))
    out.print(f"status  {status_text(simulation)}")
    # Tokens of a block, the unit in which the cache is allocated.
    size, each = float(simulation.policy.block_size), " in each replica" if simulation.replicas > 1 else ""
    blocks = f"{simulation.blocks:,.0f} blocks of {number(size)} token{'s' * (size > 1.0)}"
    out.print(f"memory  KV cache for {cache_tokens(simulation):,.0f} tokens in {blocks}{each}")
    bound = binding(simulation)
    tables.print_lines(out, "binds", [] if bound is None else [bound.text])
    # Simulated seconds of serving, and seconds that the simulation took.
    served, seconds = (formatted(value, "s") for value in (simulation.metrics["duration"], simulation.seconds))
    out.print(f"time    {served} of serving simulated in {seconds}")
    far = simulated_beyond(simulation)
    tables.print_lines(out, "beyond", [far.text] if far.marked else [])
    # Notes of the case come first; those of the simulation repeat some of them.
    tables.print_lines(
        out, "note", (*tables.notes(case), *(note for note in simulation.notes if note not in case.notes))
    )
    tables.print_lines(out, "file", files)


def latency_table(simulation: Simulation) -> Any:
    """Mean and percentiles of every latency."""
    columns = ("mean", *(f"p{percent}" for percent in PERCENTILES))
    latencies = tables.table("latency", *columns, "meaning", numbers=columns)
    # A run without output tokens lacks latencies such as TPOT.
    for name in (name for name in LATENCIES if f"{name}_mean" in simulation.metrics):
        values = [_time(simulation.metrics[f"{name}_{column}"]) for column in columns]
        latencies.add_row(NAMES[name], *values, variable(f"{name}_mean").long_name.removeprefix("mean of the "))
    return latencies


def service_lines(simulation: Simulation) -> list[str]:
    """The way of requests to replicas in words, where all are simulated."""
    routes, pool = simulation.routes, simulation.case.scenario.prefill
    if routes is None:
        return []
    weights = f" (prefix {routes.prefix_weight:g}, load {routes.load_weight:g})" if routes.router == "prefix" else ""
    if pool is None:
        number = simulation.replicas
        lines = [f"router  {routes.router}{weights} before {number:,} replica{'s' * (number > 1)}"]
        return lines + tier_lines(simulation)
    first, then = int(pool.deployment.dp), simulation.replicas
    sent = "layer by layer" if routes.layerwise else "after the prompt"
    return [
        f"pools   prefill {first:,} x {spread_text(pool.deployment)}, decode {then:,} x "
        f"{spread_text(simulation.case.scenario.deployment)}; the cache is sent {sent}",
        f"router  {routes.router}{weights} to prefill, {routes.decode_router} to decode",
        *tier_lines(simulation),
    ]


def tier_shares(simulation: Simulation) -> dict[str, float]:
    """Share of the prompt tokens that was loaded from every tier of the cache, by its name."""
    if simulation.places is None or simulation.routes is None:
        return {}
    names = simulation.routes.tier_names
    loaded, prompts = np.sum(simulation.places.loaded, axis=0), float(np.sum(simulation.load.stream.isl))
    return {name: float(tokens) / prompts for name, tokens in zip(names, loaded, strict=True)}


def routes_record(simulation: Simulation) -> dict[str, Any]:
    """The way of requests to replicas as plain data."""
    routes = simulation.routes
    names = ("router", "decode_router", "prefix_weight", "load_weight", "seed", "layerwise")
    shares = tier_shares(simulation)
    return {name: getattr(routes, name) for name in names} | ({"loaded_shares": shares} if shares else {})


def tier_lines(simulation: Simulation) -> list[str]:
    """Tiers of the cache, and what was loaded from them."""
    shares = tier_shares(simulation)
    if not shares:
        return []
    parts = [f"{100.0 * share:.1f} % from {name}" for name, share in shares.items()]
    return [f"tiers   {simulation.spec.tiers}: of the prompt tokens, {', '.join(parts)} were loaded"]


def spread_text(deployment: Deployment) -> str:
    """How one replica is spread over its devices: "tp2 pp4"."""
    degrees = [(name, degree(getattr(deployment, name))) for name in DEGREES if name != "dp"]
    return " ".join(f"{name}{value:g}" for name, value in degrees if value != 1.0) or "tp1"


def simulated_beyond(simulation: Simulation) -> Beyond:
    """How far a step under the simulated load is beyond the evidence."""
    # A step of the mean batch at mean lengths stands for the run; the batch is one at least.
    stream, batch = simulation.load.stream, max(simulation.metrics["batch_mean"], 1.0)
    return serving_beyond(simulation.case.scenario, batch, float(np.mean(stream.isl)), float(np.mean(stream.osl)))


def _print_classes(out: Any, simulation: Simulation) -> None:
    """Latencies of every class of requests, and the share that keeps its limits."""
    columns = [(name, of) for name in ("ttft", "tpot", "e2e") for of in ("mean", f"p{PERCENTILES[-1]}")]
    heads = [f"{NAMES[name]}\n{of}" for name, of in columns]
    class_table = tables.table("class", "requests", *heads, "good", "limits", numbers=("requests", *heads, "good"))
    # Limits by class in the order of the load's classes: the class's own, or the common ones.
    stream, limited = simulation.replica.stream, class_objectives(simulation.load.classes, simulation.objective)
    for position, (name, metrics) in enumerate(simulation.classes.items()):
        one = simulation.load.classes[position]
        values = [_time(metrics[f"{latency}_{of}"]) for latency, of in columns]
        good = f"{100.0 * metrics['good_share']:.1f} %" if limits(limited[position]) else ""
        count = f"{int(np.sum(stream.kind == position)):,}"
        class_table.add_row(name, count, *values, good, limits_text(one, simulation.objective))
    out.print(class_table)
    out.print()


def record(simulation: Simulation) -> dict[str, Any]:
    """The simulation for machines: SI numbers; what does not exist is null."""
    case, near = simulation.case, nearest(simulation) if not simulation.metrics["good_share"] else None
    clients = (
        None
        if simulation.load.clients is None
        else {"clients": simulation.load.clients, "think": simulation.load.think}
    )
    return {
        **case_record(case),
        "policy": policy_record(simulation.policy),
        "load": {
            "text": simulation.load.text,
            "source": simulation.load.stream.source,
            "closed_loop": clients,
            **({} if simulation.load.images is None else {"images": simulation.load.images.record()}),
        },
        "requests": len(simulation.load.stream),
        "replicas": simulation.replicas,
        **({} if simulation.routes is None else {"routes": routes_record(simulation)}),
        "slo": limits(simulation.objective),
        "nearest": None if near is None else {**dataclasses.asdict(near), "missed": list(near.missed)},
        "kv_blocks": simulation.blocks,
        "binds": None if (bound := binding(simulation)) is None else {**dataclasses.asdict(bound), "text": bound.text},
        "seconds": simulation.seconds,
        "notes": list(simulation.notes),
        "metrics": simulation.metrics,
        **({"classes": simulation.classes} if simulation.classes else {}),
        "units": units(simulation.metrics),
    }


def _time(seconds: float) -> str:
    return formatted(seconds, "s") if math.isfinite(seconds) else "-"
