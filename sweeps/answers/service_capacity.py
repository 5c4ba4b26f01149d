"""Text of the capacity of a whole service: the rate, its latencies, what stops a larger one; and all of it as JSON."""

from typing import Any

from sweeps.answers import serve, tables
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.answers.request import question
from sweeps.data.labels import number
from sweeps.run.simulated.objective import limits
from sweeps.serving.report import binding
from sweeps.serving.service_capacity import MET, NEVER, ServiceCapacity
from sweeps.serving.target import good_share_of


def show(found: ServiceCapacity) -> None:
    """Print the report."""
    simulation, out = found.simulation, tables.console()
    if out.short(lambda: _brief(found)):
        return
    out.print(f"{tables.heading(simulation.case, simulation.load.text, simulation.spec.overrides)}")
    for line in serve.service_lines(simulation):
        out.print(line)
    out.print(f"source  {simulation.load.stream.source}", end="\n\n")
    out.print(f"capacity: {_capacity_text(found)}", end="\n\n")
    out.print(serve.latency_table(simulation))
    out.print()
    shown = ("tokens_per_second", "tokens_per_second_per_device", "usd_per_million_tokens", "utilization", "batch_mean")
    metrics = {name: simulation.metrics[name] for name in shown if name in simulation.metrics}
    good = {"good_share": good_share_of(simulation.metrics)} if limits(simulation.objective) else {}
    out.print(tables.metric_table(metrics | good, serve.SHARES))
    out.print()
    tables.print_lines(out, "stops", [found.missed] if found.missed else [])
    bound = binding(simulation)
    tables.print_lines(out, "binds", [] if bound is None else [bound.text])
    requests = f"{len(simulation.load.stream):,}"
    out.print(f"tried   {found.simulations} simulations of {requests} requests in {found.seconds:.1f} s")
    tables.print_lines(out, "note", simulation.notes)


def _brief(found: ServiceCapacity) -> Brief:
    """The rate on a screen, latencies at it, and what stops a larger one."""
    simulation, bound, capacity = found.simulation, binding(found.simulation), _capacity_text(found)
    metrics, notes = simulation.metrics, serve.all_notes(simulation)
    facts = [("limited", found.missed)] if found.missed else []
    facts += [("engine", bound.text)] if bound is not None else []
    facts += [("router", line.removeprefix("router").strip()) for line in serve.service_lines(simulation)[:1]]
    if "usd_per_million_tokens" in metrics:
        facts.append(("cost", f"{number(metrics['usd_per_million_tokens'])} USD per million output tokens"))
    return Brief(
        *question(simulation.case, f"requests of {simulation.load.text.partition(' of ')[2]}"),
        answer=f"{capacity[0].upper()}{capacity[1:]}",
        facts=tuple(facts),
        table=serve.short_latencies(simulation),
        notes=notes,
        matter=mattering(simulation.case, metrics, notes),
        next=f"at that rate: jaxroof serve --rate {number(found.load)}",
    )


def _capacity_text(found: ServiceCapacity) -> str:
    """The capacity in words."""
    wanted = found.target.text
    if found.state == NEVER:
        return f"none: {number(found.fails)} requests/s miss {wanted}"
    if found.state == MET:
        return f"{number(found.load)} requests/s keep {wanted}; {number(found.fails)} do not"
    why = f"with {len(found.simulation.load.stream):,} requests no rate misses it; give more"
    return f"at least {number(found.load)} requests/s keep {wanted}: {why}"


def record(found: ServiceCapacity) -> dict[str, Any]:
    """The capacity for machines: SI numbers; what does not exist is null."""
    return {
        "capacity": found.load,
        "fails_at": found.fails,
        "state": found.state,
        "stopped_by": found.missed or None,
        "target": found.target.text,
        "share": found.target.share,
        "tolerance": found.tolerance,
        "simulations": found.simulations,
        "search_seconds": round(found.seconds, 3),
        **serve.record(found.simulation),
    }
