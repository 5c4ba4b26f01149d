"""Section of a comparison: its ranking, and cost against latency of every row."""

import json
from collections.abc import Mapping
from typing import Any

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, column, meaning, phrase, row_columns, said, words
from sweeps.reports.facts import beside

FIRST = (
    "rank",
    "hardware",
    "devices",
    "layout",
    "batch",
    "usd_per_million_tokens",
    "requests_per_second",
    "ttft",
    "tpot",
    "ttft_mean",
    "tpot_mean",
    "tokens_per_second_per_device",
    "owning_usd_per_million_tokens",
)
"""Columns that are shown at once, in this order; the others where all are asked for."""

LATENCIES = ("tpot_mean", "tpot", "ttft_mean", "ttft")
"""Across the charts: the first two that rows have of TPOT and TTFT."""


def comparison_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `compare`, served or static."""
    rows, metric = record["rows"], record["sorted_by"]
    question = record.get("question") or {}
    target = question.get("target")
    facts = [
        ("Model", str(record["model"])),
        ("Weights", str(record.get("precision", ""))),
        ("Limits", str(target or "")),
        ("Requests", ", ".join(f"{name} {value}" for name, value in (question.get("requests") or {}).items())),
        ("Load", f"{question['rate']:g} requests/s" if question.get("rate") else ""),
        ("Engine", str(question.get("engine") or "")),
        ("Efficiency", str(question.get("efficiency") or record.get("efficiency") or "")),
        ("Ranked by", f"{meaning(metric)} ({record.get('sorted_because', '')})"),
    ]
    title = f"Accelerators for {record['model']}"
    if not rows:
        return Section("comparison", title, "Nothing serves the requests within the limits.", facts, _outside(record))
    table = _table(rows, metric)
    blocks: list[Table | Chart] = [*_charts(rows, metric, table), table, *_outside(record)]
    return Section(
        "comparison", title, _answer(rows, metric), [fact for fact in facts if fact[1]], blocks, **beside(record)
    )


def _answer(rows: list[Mapping[str, Any]], metric: str) -> str:
    best = rows[0]
    low, high = best.get("interval_90") or (None, None)
    interval = "" if low is None else f" (90 %: {said(metric, low)} to {said(metric, high)})"
    words = (
        f"{best['devices']} x {best['hardware']} as {best['layout']} comes first: "
        f"{phrase(metric, best[metric])}{interval}."
    )
    if best.get("extrapolated"):
        inside = next((row for row in rows if not row.get("extrapolated")), None)
        words += " It is beyond the evidence of its constants"
        if inside is None:
            return f"{words}, as every other row is."
        return (
            f"{words}; the first row inside of it is {inside['devices']} x {inside['hardware']} as "
            f"{inside['layout']}, {said(metric, inside[metric])}."
        )
    other = next((row for row in rows if row["hardware"] != best["hardware"]), None)
    if other is not None:
        words += (
            f" Of other accelerators {other['devices']} x {other['hardware']} is next, {said(metric, other[metric])}."
        )
    return words


def _table(rows: list[Mapping[str, Any]], metric: str) -> Table:
    intervals = [row.get("interval_90") or (None, None) for row in rows]
    shown = [*FIRST, metric] if metric not in FIRST else list(FIRST)
    columns = row_columns(rows, shown)
    if any(low is not None for low, _ in intervals):
        scale = next(one for one in columns if one.name == metric).scale
        ends = [
            Column(f"{metric}_{end}", f"90 % {end}", [pair[i] for pair in intervals], scale, extra=metric not in shown)
            for i, end in enumerate(("from", "to"))
        ]
        place = next(i for i, one in enumerate(columns) if one.name == metric) + 1
        columns[place:place] = ends
    if "extrapolated" in rows[0]:
        far = ["beyond" if row.get("extrapolated") else "inside" for row in rows]
        last = max(i for i, one in enumerate(columns) if not one.extra) + 1
        inside = words("inside", "evidence", far, "whether the constants were fitted to anything like it")
        columns.insert(last, inside)
    columns = [one for one in columns if one.name != "extrapolated"]
    columns.append(words("spec", "specification", [json.dumps(row.get("spec") or {}) for row in rows], extra=True))
    # Rows and points of the chart meet by these two numbers.
    across = next((column(name, [row.get(name) for row in rows]) for name in LATENCIES if name in rows[0]), None)
    axes = None if across is None else (across, next(one for one in columns if one.name == metric))
    return Table("Ranking", columns, "Sort by any column; all figures are in the file that Download CSV writes.", axes)


def _charts(rows: list[Mapping[str, Any]], metric: str, table: Table) -> list[Chart]:
    if table.axes is None:
        return []
    cost = table.axes[1]
    kind = words("hardware", "accelerator", [row["hardware"] for row in rows])
    more = [
        Column("rank", "rank", [row.get("rank") for row in rows]),
        Column("devices", "devices", [row.get("devices") for row in rows]),
        words("layout", "layout", [row.get("layout") for row in rows]),
    ]
    ends = [row.get("interval_90") or (None, None) for row in rows]
    known = any(low is not None for low, _ in ends)
    if known:
        low, high = ([pair[i] for pair in ends] for i in (0, 1))
        interval = tuple(Column(name, f"90 % {name}", side, cost.scale) for name, side in (("from", low), ("to", high)))
        more += list(interval)
    drawn = []
    for name in (one for one in LATENCIES if one in rows[0] and rows[0][one] is not None):
        across = column(name, [row.get(name) for row in rows])
        description = (
            f"{cost.title} of {len(rows)} rows against their {across.title}, by accelerator. "
            + ("Vertical lines are 90 % intervals. " if known else "")
            + "The table below has the same rows."
        )
        spec = charts.points(across, cost, kind, more, interval if known else None, description)  # type: ignore[arg-type]
        note = "Drag over an area to keep only its rows in the table." if across.name == table.axes[0].name else ""
        note += " Vertical lines: 90 % intervals." if known else ""
        linked = table if across.name == table.axes[0].name else None
        drawn.append(Chart(f"{cost.title} against {across.title}", spec, description, note.strip(), linked))
    return drawn[:2]


def _outside(record: Mapping[str, Any]) -> list[Table]:
    """Accelerators outside of the ranking, and why."""
    rows = list(record.get("infeasible") or ())
    reasons = {**(record.get("lacking") or {}), **(record.get("refused_layouts") or {})}
    if not rows and not reasons:
        return []
    names = [row.get("hardware") for row in rows] + list(reasons)
    columns = [
        words("hardware", "accelerator", names),
        words("devices", "devices", [row.get("devices") for row in rows] + [None] * len(reasons)),
        words("layout", "layout", [row.get("layout") for row in rows] + [None] * len(reasons)),
        words("reason", "reason", [row.get("reason") for row in rows] + [str(text) for text in reasons.values()]),
    ]
    return [Table("Outside of the ranking", columns)]
