"""Text of a simulation: its progress, the tables of its metrics, and all of it as one JSON object."""

import dataclasses
import math
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.deployment import DEGREES, Deployment, degree
from jaxroof.jobs import JOBS
from jaxroof.jobs.serve import LATENCIES, PERCENTILES
from jaxroof.jobs.step import StepWork
from jaxroof.numerics.arrays import eager
from jaxroof.scheduler.service.handover import ROLES
from sweeps.answers import tables
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.answers.request import question, range_text
from sweeps.answers.shared import case_record, time_range
from sweeps.ask.names import units, variable
from sweeps.data.labels import number
from sweeps.run.evidence import Beyond, serving_beyond, serving_step
from sweeps.run.joined import Joined, joined_lines, step_joined
from sweeps.run.points import answers_at
from sweeps.run.simulated.classes import class_objectives, limits_text
from sweeps.run.simulated.objective import limits
from sweeps.run.simulated.policies import policy_record, policy_text
from sweeps.serving.kinds import kind_figures, of_kinds
from sweeps.serving.report import binding, cache_tokens, nearest, prompt_shares, slo_lines, status_text
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


def show(simulation: Simulation) -> None:
    """Print the report."""
    case = simulation.case
    out = tables.console()
    if out.short(lambda: brief(simulation)):
        return
    out.print(tables.heading(case, simulation.load.text, simulation.spec.overrides))
    out.print(f"policy of {case.engine.name}: {policy_text(simulation.policy)}")
    if simulation.prefill_policy is not None:
        out.print(f"policy of the pool for prompts: {policy_text(simulation.prefill_policy)}")
    for line in service_lines(simulation):
        out.print(line)
    out.print(f"source  {simulation.load.stream.source}", end="\n\n")
    out.print(latency_table(simulation))
    out.print()
    if simulation.classes:
        _print_classes(out, simulation)
    _print_kinds(out, simulation)
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
    tables.print_lines(out, "error", [f"mean TPOT {words}" for words in tpot_range_texts(simulation)])
    far = simulated_beyond(simulation)
    tables.print_lines(out, "beyond", [far.text] if far.marked else [])
    tables.print_lines(out, "surface", joined_lines(simulated_joined(simulation)))
    tables.print_lines(out, "note", all_notes(simulation))


def brief(simulation: Simulation) -> Brief:
    """The simulation on a screen: what keeps the limits, latencies, what stops a larger load."""
    case, metrics = simulation.case, simulation.metrics
    notes, limited = all_notes(simulation), limits(simulation.objective)
    rate = number(metrics["requests_per_second"])
    cost = metrics.get("usd_per_million_tokens")
    rates = [f"{number(metrics['tokens_per_second'])} tokens/s"] if "tokens_per_second" in metrics else []
    rates += [f"{number(cost)} USD per million output tokens"] if cost is not None and math.isfinite(cost) else []
    kept = f"; {slo_lines(simulation)[0]}" if limited else ""
    certain = [f"TPOT {words}" for words in tpot_range_texts(simulation)]
    bound, far = binding(simulation), simulated_beyond(simulation)
    work = f"{number(metrics['batch_mean'])} sequences decode on average"
    cache = f"at most {100 * metrics['kv_use_max']:.0f} % of the cache, {metrics['preemptions']:,.0f} preemptions"
    facts = [("limited", bound.text)] if bound is not None else []
    facts += [("engine", f"{work}, {cache}")]
    facts += [("beyond", far.text)] if far.marked else []
    unserved = status_text(simulation)
    facts += [("status", unserved)] if ", " in unserved else []
    return Brief(
        *question(case, simulation.load.text),
        answer=f"{rate} requests/s: {', '.join([*rates, *certain])}{kept}",
        facts=tuple(facts),
        table=short_latencies(simulation),
        notes=notes,
        matter=mattering(case, metrics, notes),
        next="the largest load: jaxroof capacity --slo",
    )


def all_notes(simulation: Simulation) -> tuple[str, ...]:
    """Notes of the case, then those of the simulation, which repeat some of them."""
    case = simulation.case
    return (*tables.notes(case), *(note for note in simulation.notes if note not in case.notes))


def short_latencies(simulation: Simulation) -> Any:
    """Mean and percentiles of the latencies that limits are of."""
    columns = ("mean", *(f"p{percent}" for percent in PERCENTILES))
    latencies = tables.short_table("latency", *columns, texts=("latency",))
    for name in ("ttft", "tpot", "e2e"):
        if f"{name}_mean" in simulation.metrics:
            latencies.add_row(NAMES[name], *(time_text(simulation.metrics[f"{name}_{column}"]) for column in columns))
    return latencies


def latency_table(simulation: Simulation) -> Any:
    """Mean and percentiles of every latency."""
    columns = ("mean", *(f"p{percent}" for percent in PERCENTILES))
    latencies = tables.table("latency", *columns, "meaning", numbers=columns)
    # A run without output tokens lacks latencies such as TPOT.
    for name in (name for name in LATENCIES if f"{name}_mean" in simulation.metrics):
        values = [time_text(simulation.metrics[f"{name}_{column}"]) for column in columns]
        latencies.add_row(NAMES[name], *values, variable(f"{name}_mean").long_name.removeprefix("mean of the "))
    return latencies


def service_lines(simulation: Simulation) -> list[str]:
    """The way of requests to replicas in words, where all are simulated."""
    routes = simulation.routes
    if routes is None:
        return []
    weights = f" (prefix {routes.prefix_weight:g}, load {routes.load_weight:g})" if routes.router == "prefix" else ""
    lines = pool_lines(simulation)
    if lines:
        lines.append(f"router  {routes.router}{weights} to prefill, {routes.decode_router} to decode")
    else:
        number = sum(kind.replicas for kind in simulation.kinds)
        kinds = of_kinds(simulation)
        each = [f"{kind.replicas:,} x {name} ({spread_text(kind.scenario.deployment)})" for name, kind in kinds]
        which = f": {', '.join(each)}" if len(each) > 1 else ""
        lines.append(f"router  {routes.router}{weights} before {number:,} replica{'s' * (number > 1)}{which}")
    return (
        lines
        + encoder_lines(simulation)
        + admission_lines(simulation)
        + scaling_lines(simulation)
        + tier_lines(simulation)
    )


def pool_lines(simulation: Simulation) -> list[str]:
    """The pools in words, where there are two."""
    routes, pool = simulation.routes, simulation.case.scenario.prefill
    if routes is None or pool is None:
        return []
    sent = "layer by layer" if routes.layerwise else "after the prompt"
    return [
        f"pools   prefill {int(pool.deployment.dp):,} x {spread_text(pool.deployment)}, decode "
        f"{simulation.replicas:,} x {spread_text(simulation.case.scenario.deployment)}; the cache is sent {sent}"
    ]


def encoder_lines(simulation: Simulation) -> list[str]:
    """Workers that encode images alone, and how long a request's images take them."""
    pool = None if simulation.routes is None else simulation.routes.encoders
    if pool is None:
        return []
    time, sent = (formatted(each, "s") for each in (pool.time, pool.transfer))
    each = f"{time} for the images of a request, {sent} to send their vectors"
    return [f"encode  {pool.workers:,} x {pool.hardware}: {each}"]


def admission_lines(simulation: Simulation) -> list[str]:
    """Limit of admission control, and how many requests it and full queues have turned away."""
    limits = None if simulation.routes is None else simulation.routes.admission
    if limits is None:
        return []
    own = np.unique(limits)
    above = f"above {time_text(float(own[0]))}" if len(own) == 1 else "above their limit"
    count = int(simulation.metrics["rejected"])
    share = 100.0 * count / len(limits)
    return [f"admits  requests with an expected TTFT {above} are rejected: {count:,} were ({share:.1f} %)"]


def scaling_lines(simulation: Simulation) -> list[str]:
    """Replicas that start and stop, and the hours that they take beside those of all of them."""
    found, metrics = simulation.scaled, simulation.metrics
    if found is None:
        return []
    numbers = np.append(found.numbers, int(found.rule.least))
    started, stopped = found.changes
    hours, devices, fixed = (metrics[name] / HOUR for name in ("replica_time", "device_time", "fixed_device_time"))
    usd = [f", {number(metrics[name])} USD" if name in metrics else "" for name in ("run_usd", "fixed_run_usd")]
    return [
        f"scaling {found.text}",
        f"        {number(metrics['replicas_mean'])} replicas on average, {np.min(numbers):,} to {np.max(numbers):,}; "
        f"{started:,} started, {stopped:,} stopped",
        f"hours   {number(hours)} of replicas, {number(devices)} of devices{usd[0]}; all replicas all the time take "
        f"{number(fixed)} of devices{usd[1]}",
    ]


HOUR = 3600.0
"""s."""


def tier_shares(simulation: Simulation) -> dict[str, float]:
    """Share of the prompt tokens that was loaded from every tier of the cache, by its name."""
    names = () if simulation.routes is None else simulation.routes.tier_names
    shares = prompt_shares(simulation) if names else {}
    return {name: shares[name] for name in names}


def routes_record(simulation: Simulation) -> dict[str, Any]:
    """The way of requests to replicas as plain data."""
    routes = simulation.routes
    names = ("router", "decode_router", "prefix_weight", "load_weight", "seed", "layerwise")
    shares, asked = tier_shares(simulation), simulation.spec
    given = {name: value for name in ("admission", "autoscale") if (value := getattr(asked, name)) is not None}
    return {name: getattr(routes, name) for name in names} | given | ({"loaded_shares": shares} if shares else {})


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


def _mean_step(simulation: Simulation) -> tuple[float, float, float]:
    """Mean batch, one at least, and mean prompt and output tokens: a step of these stands for the run."""
    stream = simulation.load.stream
    return max(simulation.metrics["batch_mean"], 1.0), float(np.mean(stream.isl)), float(np.mean(stream.osl))


def simulated_beyond(simulation: Simulation) -> Beyond:
    """How far a step under the simulated load is beyond the evidence."""
    return serving_beyond(simulation.case.scenario, *_mean_step(simulation))


def tpot_range(simulation: Simulation) -> tuple[float, float] | None:
    """90 % interval of the mean TPOT in s, by the errors of a step of the mean batch; None where they are not known."""
    if "tpot_mean" not in simulation.metrics:
        return None
    batch, isl, osl = _mean_step(simulation)
    # Sequences that decode are at the middle of their outputs on average.
    step = StepWork(decode=batch, context=isl + 0.5 * osl)
    names = ("step_time", "step_time_spread", "step_time_least")
    with eager():
        found = answers_at(JOBS["step"], dataclasses.replace(simulation.case.scenario, workload=step), names)
    if "step_time_spread" not in found:
        return None
    low, high = time_range("step_time", {name: float(value) for name, value in found.items()})
    scale = simulation.metrics["tpot_mean"] / float(found["step_time"])
    return scale * low, scale * high


def tpot_range_texts(simulation: Simulation) -> list[str]:
    """That interval in words, beside the mean; none where it is not known."""
    ends = tpot_range(simulation)
    if ends is None:
        return []
    return [f"{formatted(simulation.metrics['tpot_mean'], 's')} ({range_text(*ends)}, 90 %)"]


def simulated_joined(simulation: Simulation) -> list[Joined]:
    """How a step under the simulated load is priced by a user's measured tables; none where there are none."""
    return step_joined(simulation.case.scenario, serving_step(*_mean_step(simulation)))


def _print_classes(out: Any, simulation: Simulation) -> None:
    """Latencies of every class of requests, the share that keeps its limits, and their rate."""
    columns = [(name, f"p{of}") for name in ("ttft", "tpot", "e2e") for of in (PERCENTILES[0], PERCENTILES[-1])]
    heads = [f"{NAMES[name]}\n{of}" for name, of in columns]
    rejected = any(metrics["rejected"] for metrics in simulation.classes.values())
    lost = ("rejected",) if rejected else ()
    numbers = ("requests", *lost, *heads, "good", "goodput\n/s")
    class_table = tables.table("class", *numbers, "limits", numbers=numbers)
    # Of one replica in several, all have its rate.
    replicas = simulation.replicas if simulation.routes is None else 1
    # Limits by class in the order of the load's classes: the class's own, or the common ones.
    stream, limited = simulation.replica.stream, class_objectives(simulation.load.classes, simulation.objective)
    for position, (name, metrics) in enumerate(simulation.classes.items()):
        one = simulation.load.classes[position]
        values = [time_text(metrics[f"{latency}_{of}"]) for latency, of in columns]
        limit = bool(limits(limited[position]))
        good = [f"{100.0 * metrics['good_share']:.1f} %", number(replicas * metrics["goodput"])] if limit else ["", ""]
        counts = [int(np.sum(stream.kind == position)), *(int(metrics[each]) for each in lost)]
        words = limits_text(one, simulation.objective)
        class_table.add_row(name, *(f"{count:,}" for count in counts), *values, *good, words)
    out.print(class_table)
    out.print()


def _print_kinds(out: Any, simulation: Simulation) -> None:
    """What every kind of replicas did, where there are several."""
    figures = kind_figures(simulation)
    if not figures:
        return
    heads = ("requests", "prompt tokens", "output tokens", "busy", "TTFT\nmean")
    kind_table = tables.table("replicas", *heads, numbers=heads)
    for one, kind in zip(figures, simulation.kinds, strict=True):
        name = f"{one.replicas:,} x {one.hardware} ({spread_text(kind.scenario.deployment)})"
        name = name if one.role == ROLES[0] else f"{one.role} {name}"
        counts = (one.requests, one.prompt_tokens, one.output_tokens)
        ttft = time_text(one.ttft_mean)
        kind_table.add_row(name, *(f"{count:,.0f}" for count in counts), f"{100.0 * one.busy_share:.1f} %", ttft)
    out.print(kind_table)
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
        **({} if (own := simulation.prefill_policy) is None else {"prefill_policy": policy_record(own)}),
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
        **({"kinds": [_finite(dataclasses.asdict(one)) for one in each]} if (each := kind_figures(simulation)) else {}),
        "units": units(simulation.metrics),
    }


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures with null in place of what is not known."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in figures.items()}


def time_text(seconds: float) -> str:
    """A time with its unit; "-" where there is none."""
    return formatted(seconds, "s") if math.isfinite(seconds) else "-"
