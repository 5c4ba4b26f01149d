"""Sections of records that are rows alone: sizes and accelerators of a priced function, and routers of one load."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.reports.blocks import Section, Table, row_columns, said
from sweeps.reports.facts import about, beside

UNITS = ("_s", "_W", "_Hz", "_J", "_B")
"""Ends of keys that state the unit of their number, which is the SI unit of the variable without the end."""

ROUTED = ("router", "ttft_p50", "ttft_p99", "tpot_p50", "e2e_p50", "goodput", "tokens_per_second", "cached_share")


def points_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `price --over` or of several accelerators: a row for each."""
    rows = [{_plain(name): value for name, value in row.items()} for row in record["points"]]
    best = min(rows, key=lambda row: row["time"])
    # What was varied stands before the time.
    varied = list(rows[0])[: list(rows[0]).index("time")]
    where = ", ".join(f"{name} {best[name]:g}" if name != "hardware" else str(best[name]) for name in varied)
    answer = f"The shortest of {len(rows):,} times is {said('time', best['time'])}, at {where}."
    table = _table("Points", rows, (*varied, "time", "energy", "mfu", "mbu", "bound"))
    return Section("function", str(record["function"]), answer, about(record), [table], **beside(record))


def routers_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `serve --router A,B`: a row for each router."""
    rows = [{"router": name, **found["metrics"]} for name, found in record["routers"].items()]
    best = min(rows, key=lambda row: row["ttft_p99"])
    answer = f"{best['router']} has the shortest TTFT at p99, {said('ttft_p99', best['ttft_p99'])}."
    title = f"Routers for {record['model']} on {record['hardware']}"
    return Section("routers", title, answer, about(record), [_table("Routers", rows, ROUTED)], **beside(record))


def _table(title: str, rows: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> Table:
    return Table(title, row_columns(rows, shown))


def _plain(name: str) -> str:
    return next((name.removesuffix(end) for end in UNITS if name.endswith(end)), name)
