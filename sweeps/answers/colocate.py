"""Text of `jaxroof colocate`: both models' latencies alone and together."""

from collections.abc import Mapping
from typing import Any

from sweeps.answers import tables
from sweeps.answers.answer import Table
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.answers.request import question
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer


def show(case: Case, result: Answer, settings: Mapping[str, str]) -> None:
    """Print every metric, or what each model is slowed by."""
    out = tables.console()
    if out.short(lambda: _brief(case, result)):
        return
    # Both tenants are in the heading, since latencies of one depend on the other.
    out.print(tables.heading(case, _words(case), settings), end="\n\n")
    out.print(tables.metric_table(result.metrics))
    tables.print_lines(out, "note", tables.notes(case))


def _brief(case: Case, result: Answer) -> Brief:
    metrics: dict[str, Any] = result.metrics
    notes = tables.notes(case)
    slower = metrics["tpot"] / metrics["tpot_alone"]
    fits = "both fit" if metrics["fits"] else "they do not fit"
    room = f"{tables.size(metrics['cache_left'])} left for KV cache: {metrics['sequence_capacity']:,.0f} sequences"
    return Brief(
        *question(case, _words(case).removesuffix(" tokens of the neighbour")),
        answer=f"TPOT {tables.metric_text('tpot', metrics['tpot'])} beside the neighbour, {slower:.2f} times as long",
        facts=(("memory", f"{fits}; {room}, {metrics['neighbour_sequence_capacity']:,.0f} of the neighbour"),),
        table=_latencies(metrics),
        notes=notes,
        matter=mattering(case, metrics, notes),
        next="side by side: --sharing space --cores 0.7",
    )


def _latencies(metrics: Mapping[str, Any]) -> Table:
    """Latencies of both models, alone and together."""
    heads = ("TTFT alone", "TTFT", "TPOT alone", "TPOT", "E2E")
    listing = tables.short_table("model", *heads, texts=("model",))
    for model, prefix in (("first", ""), ("neighbour", "neighbour_")):
        names = [f"{prefix}{name}" for name in ("ttft_alone", "ttft", "tpot_alone", "tpot", "e2e")]
        listing.add_row(model, *(tables.metric_text(name, metrics[name]) for name in names))
    return listing


def _words(case: Any) -> str:
    """Both tenants' requests in words."""
    own, other = case.scenario.workload, case.scenario.neighbour.requests
    texts = [
        f"{work.batch:,.0f} request{'s' * (work.batch > 1.0)} of {work.isl:,.0f} + {work.osl:,.0f} tokens"
        for work in (own, other)
    ]
    return f"{texts[0]}, beside {texts[1]} of the neighbour"
