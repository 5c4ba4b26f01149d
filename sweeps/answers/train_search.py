"""Text of `jaxroof train --search`: the best layouts of many devices, and one JSON object."""

from typing import Any

from hwspaces import formatted
from sweeps.answers import tables
from sweeps.answers.brief import Brief
from sweeps.data.labels import number


def record(case: Any, found: Any, devices: int, top: int) -> dict[str, Any]:
    """The best layouts for machines: SI numbers."""
    return {
        "hardware": case.hardware.name,
        "model": case.model.name,
        "precision": case.model.precision,
        "efficiency": case.efficiency.name,
        "devices": devices,
        "tried": len(found.layouts),
        "feasible": len(found.order),
        "seconds": round(found.seconds, 3),
        "rows": [{"rank": rank, **row} for rank, row in enumerate(found.rows(top), 1)],
        "notes": list(case.notes),
    }


def _brief(case: Any, found: Any, devices: int, rows: Any) -> Brief:
    """The best layouts on a screen."""
    work = case.scenario.workload
    asked = f"{case.model.name} on {devices:,} x {case.hardware.name}: {work.global_batch:,.0f} sequences of "
    asked += f"{work.seq:,.0f} tokens; weights {case.model.precision}"
    tried = f"{len(found.order):,} of {len(found.layouts):,} layouts are feasible"
    if not rows:
        return Brief(asked, answer=f"Nothing is feasible: {_least_text(case, found)}.", notes=tables.notes(case))
    degrees = {"micro_batch": "micro", "zero": "ZeRO"}
    names = ("tp", "pp", "cp", "ep", "dp", "micro_batch", "zero")
    figures = ("iteration", "MFU", "memory", "tok/s/dev")
    listing = tables.short_table("#", *(degrees.get(n, n) for n in names), "recompute", *figures, texts=("recompute",))
    for rank, row in enumerate(rows, 1):
        cells = [formatted(row["iteration_time"], "s"), tables.percent(row["mfu"]), tables.size(row["training_memory"])]
        rate = number(row["training_tokens_per_second_per_device"])
        listing.add_row(str(rank), *(str(row[name]) for name in names), row["recompute"], *cells, rate)
    first = rows[0]
    layout = " ".join(f"{name}{first[name]}" for name in ("tp", "pp", "cp", "ep", "dp") if first[name] != 1) or "tp1"
    speed = f"{formatted(first['iteration_time'], 's')} per iteration, MFU {tables.percent(first['mfu'])}"
    return Brief(asked, answer=f"Best: {layout}, {speed}; {tried}", table=listing, notes=tables.notes(case))


def _least_text(case: Any, found: Any) -> str:
    """How much memory is lacking where nothing is feasible."""
    least = tables.size(float(found.metrics["training_memory"].min()))
    return f"the least that any layout needs is {least} of {tables.size(case.scenario.hardware.memory.hbm.capacity)}"


def show(case: Any, found: Any, devices: int, top: int) -> None:
    """Print the best layouts, and how many were tried."""
    out, rows, work = tables.console(), found.rows(top), case.scenario.workload
    if out.short(lambda: _brief(case, found, devices, rows)):
        return
    size = f"{work.global_batch:,.0f} sequences of {work.seq:,.0f} tokens per iteration"
    out.print(f"{case.model.name} on {devices:,} x {case.hardware.name}: {size}")
    out.print(f"weights {case.model.precision}, efficiency {case.efficiency.name}", end="\n\n")
    columns = ("#", "tp", "pp", "cp", "ep", "dp", "micro", "ZeRO")
    figures = ("iteration", "MFU", "memory", "bubble", "exposed", "tokens/s\n/device")
    listing = tables.table(*columns, "recompute", "schedule", *figures, numbers=(*columns, *figures))
    for rank, row in enumerate(rows, 1):
        # Chunks of an interleaved schedule follow its name.
        chunks = f":{row['virtual_stages']}" if row["virtual_stages"] > 1 else ""
        degrees = [str(row[name]) for name in ("tp", "pp", "cp", "ep", "dp", "micro_batch", "zero")]
        listing.add_row(
            # Without pipeline stages there is no schedule.
            *(str(rank), *degrees, row["recompute"], f"{row['schedule']}{chunks}" if row["pp"] > 1 else "-"),
            formatted(row["iteration_time"], "s"),
            tables.percent(row["mfu"]),
            tables.size(row["training_memory"]),
            tables.percent(row["bubble_share"]),
            formatted(row["communication_exposed"], "s") if row["communication_exposed"] else "-",
            number(row["training_tokens_per_second_per_device"]),
        )
    if rows:
        out.print(listing)
    else:
        out.print(f"nothing is feasible: {_least_text(case, found)}")
    out.print()
    rate = len(found.layouts) / max(found.seconds, 1e-9)
    out.print(
        f"tried   {len(found.layouts):,} layouts in {found.seconds:.2f} s, {rate:,.0f} per second; "
        f"{len(found.order):,} are feasible"
    )
    tables.print_lines(out, "note", tables.notes(case))
