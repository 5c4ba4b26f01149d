"""Pools of their own for prefill and decode as text: the pools, and the best split."""

import argparse
from typing import Any

from hwspaces import formatted
from jaxroof.deployment import DEGREES, degree, devices
from sweeps.answers import tables
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.answers.request import bound_text, question, times_text
from sweeps.answers.shared import record, throttled_lines
from sweeps.answers.to_json import print_json
from sweeps.data.labels import number
from sweeps.run.answer import answer


def show_pools(case: Any, options: argparse.Namespace, settings: dict[str, Any]) -> None:
    """The table of metrics of one disaggregated deployment, or its JSON."""
    result = answer(case)
    if options.json:
        return print_json(record(case, result))
    out = tables.console()
    if out.short(lambda: _brief(case, result)):
        return None
    # The heading is of the decode pool, whose deployment is the scenario's; the prefill pool follows it.
    work = case.scenario.workload
    out.print(tables.heading(case, _asked(work), settings))
    out.print(f"prefill {_pool_text(case.scenario.prefill.deployment)}", end="\n\n")
    out.print(tables.metric_table(result.metrics))
    out.print()
    out.print(tables.op_summary(result.steps))
    tables.print_lines(out, "power", throttled_lines(case, result.metrics))
    tables.print_lines(out, "note", tables.notes(case))


def _brief(case: Any, result: Any) -> Brief:
    """Both pools on a screen: times, the rates of each, what limits them."""
    metrics, work, notes = result.metrics, case.scenario.workload, tables.notes(case)
    rates = {pool: f"{pool} {number(metrics[f'{pool}_rate'])}" for pool in ("prefill", "decode")}
    sent, exposed = (formatted(metrics[name], "s") for name in ("transfer_time", "transfer_exposed"))
    return Brief(
        *question(case, _asked(work)),
        answer=f"{times_text(metrics)}; requests/s that the pools can do: {', '.join(rates.values())}",
        facts=(
            (
                "pools",
                f"prefill {_pool_text(case.scenario.prefill.deployment)}; {metrics['bottleneck']} limits the rate",
            ),
            ("limited", bound_text(result)),
            ("transfer", f"of a request's cache {sent}, of which {exposed} after the prompt"),
        ),
        notes=notes,
        matter=mattering(case, metrics, notes),
        next="the best split: --devices N",
    )


def _asked(work: Any) -> str:
    """The requests that decode together, in words."""
    count = f"{work.batch:,.0f} request{'s' * (work.batch > 1.0)}"
    return f"decode {count} of {work.isl:,.0f} + {work.osl:,.0f} tokens at once"


def _pool_text(deployment: Any) -> str:
    """The prefill pool in words: how many devices, and how they are spread."""
    # Degrees of 1 are left out; a pool without any other degree is one device.
    spread = [(name, degree(getattr(deployment, name))) for name in DEGREES]
    words = ", ".join(f"{name} {value:g}" for name, value in spread if value != 1.0) or "tp 1"
    count = devices(deployment)
    return f"{count:g} device{'s' * (count > 1.0)}: {words}"


def show_splits(case: Any, found: Any, options: argparse.Namespace) -> None:
    """The best split at every load."""
    import numpy as np

    from sweeps.studies.splits import best_text

    if options.json:
        values = {name: np.asarray(found[name].values).tolist() for name in found.variables}
        return print_json({"attributes": dict(found.attrs), **values})
    out = tables.console()
    out.print(f"{found.attrs['title']}, {found.attrs['replicas']}")
    out.print(f"{found.attrs['requests']}; {found.attrs['target'] or 'no limits: lowest E2E latency'}", end="\n\n")
    rows = tables.table("requests/s", "best prefill:decode", numbers=("requests/s",))
    for i, load in enumerate(found["load"].values):
        rows.add_row(f"{load:.4g}", best_text(found, i))
    out.print(rows)
    if options.output:
        out.print(f"{options.output}: every split and load")
    tables.print_lines(out, "note", tables.notes(case))
