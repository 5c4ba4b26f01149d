"""Rows of `jaxroof compare` as records and as a CSV file."""

import math
from collections.abc import Iterable
from typing import Any

from sweeps.answers.brief import Brief, clipped
from sweeps.answers.tables import console, finite_text, print_lines, rows_by_reason, short_table, size, table, write_csv
from sweeps.ask.names import units, variable
from sweeps.data.labels import number
from sweeps.run.evidence import extrapolated
from sweeps.studies.compare.reasons import limit_text
from sweeps.studies.compare.static import StaticCandidate

FLAGS = ("fits", "legal", "feasible")


def row_record(row: StaticCandidate) -> dict[str, Any]:
    """One row for machines: SI numbers, null where the accelerator has no figure."""
    # A figure that does not exist is null, as JSON has neither NaN nor infinity.
    metrics: dict[str, Any] = {
        name: bool(value) if name in FLAGS else value if math.isfinite(value) else None
        for name, value in row.metrics.items()
        if name != "devices"
    }
    return {
        "hardware": row.hardware,
        "devices": row.devices,
        "layout": row.layout,
        "batch": row.batch,
        **metrics,
        "memory_capacity": row.capacity,
        "extrapolated": extrapolated(row.metrics),
        "reason": row.reason,
    }


def write_rows(
    path: str, ranked: Iterable[StaticCandidate], others: Iterable[StaticCandidate], force: bool = False
) -> None:
    """Ranked rows, then those without a rank and their reasons, as a CSV file that appears when it is whole."""
    records = [{"rank": rank, **row_record(row)} for rank, row in enumerate(ranked, 1)]
    records += [{"rank": None, **row_record(row)} for row in others]
    write_csv(path, records, force)


def record(found: Any, rows: tuple[Any, ...], explained: tuple[Any, ...]) -> dict[str, Any]:
    """Everything for machines: SI numbers; a figure that an accelerator does not have is null."""
    # Metrics of all rows together: some accelerators lack figures that others have.
    metrics = sorted({name for row in (*rows, *explained) for name in row.metrics})
    return {
        "model": found.model.name,
        "precision": found.model.precision,
        "kv_precision": found.kv,
        "efficiency": found.efficiency,
        "sorted_by": found.metric,
        "sorted_because": found.chosen,
        "higher_is_better": bool(variable(found.metric).higher_is_better),
        "tried": {"accelerators": found.accelerators, "points": found.points, "seconds": round(found.seconds, 3)},
        "prices": {name: price.record() for name, price in found.prices.items()},
        "rows": [{"rank": rank, **row_record(row)} for rank, row in enumerate(rows, 1)],
        "infeasible": [row_record(row) for row in explained],
        "lacking": dict(found.lacking),
        "refused_layouts": dict(found.refused),
        "notes": list(found.notes),
        "units": units(metrics),
    }


def show(found: Any, shown: tuple[Any, ...], explained: tuple[Any, ...], top: int, every: bool) -> None:
    """Print the ranking, and what was tried."""
    out = console()
    if out.short(lambda: brief(found, shown[:top])):
        return
    model, limits = found.model, ", ".join(limit_text(name, limit) for name, limit in found.slo.items())
    out.print(f"{model.name}: requests of {number(found.isl)} + {number(found.osl)} tokens", end="")
    out.print(f", {limits}" if limits else "")
    out.print(f"weights {model.precision} ({model.precision_source}), KV cache {found.kv}", end="")
    out.print(f", efficiency {found.efficiency}")
    direction = "highest" if variable(found.metric).higher_is_better else "lowest"
    out.print(f"sorted by {found.metric}, {direction} first ({found.chosen})", end="\n\n")
    estimated = {name for name, price in found.prices.items() if price.estimate}
    if shown:
        # The metric that rows are sorted by always has a column; the number of devices has one anyway.
        columns = dict(COLUMNS)
        columns.setdefault(found.metric, found.metric)
        columns.pop("devices", None)
        heads = {name: f"{head}\n({direction})" if name == found.metric else head for name, head in columns.items()}
        names = ("#", "accelerator", "devices", "layout", "batch", *heads.values(), "weights\nof capacity")
        ranked = table(*names, numbers=[name for name in names if name not in ("accelerator", "layout")])
        for rank, row in enumerate(shown[:top], 1):
            name = f"{row.hardware} *" if row.hardware in found.announced else row.hardware
            name = f"{name} ~" if row.hardware in estimated else name
            name = f"{name} ?" if extrapolated(row.metrics) else name
            cells = [finite_text(metric, row.metrics[metric]) for metric in columns]
            weights = f"{size(row.metrics['weight_bytes'])} of {size(row.capacity)}"
            ranked.add_row(str(rank), name, str(row.devices), row.layout, f"{row.batch:,}", *cells, weights)
        out.print(ranked)
        if len(shown) > top:
            out.print(f"... and {len(shown) - top} more; --top {len(shown)} shows them")
        if any(row.hardware in found.announced for row in shown[:top]):
            out.print("* announced")
        if any(row.hardware in estimated for row in shown[:top]):
            out.print("~ at an estimated price: nobody sells it, as far as is known")
        if any(extrapolated(row.metrics) for row in shown[:top]):
            out.print("? extrapolated: beyond what the constants were fitted to")
    else:
        out.print("nothing is feasible")
    _print_reasons(out, found, explained, every)
    out.print()
    names = dict.fromkeys(row.hardware for row in shown[:top] if row.hardware in found.prices)
    print_lines(out, "price", [f"{name}: {found.prices[name].text}" for name in names])
    _print_tried(out, found, len(found.infeasible) - len(explained))
    if shown:
        out.print(f"best    {_best_text(found, shown[0])}")
    print_lines(out, "note", found.notes[1:])


def brief(found: Any, rows: tuple[Any, ...]) -> Brief:
    """The ranking on a screen: the best row in a sentence, and the first rows."""
    asked = f"{found.model.name}: static batches of {number(found.isl)} + {number(found.osl)} tokens"
    setting = f"weights {found.model.precision}, KV cache {found.kv}"
    tried = f"{found.points:,} points of {found.accelerators} accelerators"
    if not rows:
        return Brief(asked, setting, "Nothing is feasible.", (("tried", tried),), notes=found.notes[1:])
    columns = {name: head.replace("\n", "") for name, head in COLUMNS.items()}
    columns.setdefault(found.metric, found.metric)
    columns.pop("devices", None)
    last = (columns["tokens_per_second"], columns["tokens_per_second_per_device"])
    names = ("#", "accelerator", "devices", "layout", "batch", *columns.values())
    listing = short_table(*names, texts=("accelerator", "layout"), last=last)
    for rank, row in enumerate(rows, 1):
        cells = [finite_text(metric, row.metrics[metric]) for metric in columns]
        listing.add_row(str(rank), row.hardware, str(row.devices), clipped(row.layout, 32), f"{row.batch:,}", *cells)
    return Brief(
        asked=asked,
        setting=setting,
        answer=_best_text(found, rows[0]),
        facts=(("tried", f"{tried}; sorted by {found.metric}"),),
        table=listing,
        notes=found.notes[1:],
        next="of requests over time: without --static",
    )


def _print_reasons(out: Any, found: Any, explained: tuple[Any, ...], every: bool) -> None:
    """Why accelerators have no row above: those of one reason together where it is the same for all."""
    own, same = rows_by_reason(explained)
    for name, reason in found.lacking.items():
        same.setdefault(reason, []).append(name)
    if own:
        out.print()
        misses = table("not feasible", "devices", "layout", "batch", "because", numbers=("devices", "batch"))
        for row in own:
            misses.add_row(row.hardware, str(row.devices), row.layout, f"{row.batch:,}", row.reason)
        out.print(misses)
    if same:
        out.print()
    for reason, names in same.items():
        out.print(f"{reason}: {', '.join(dict.fromkeys(names))}")
    # Layouts that the model rules out: the first one stands for all, unless all are asked for.
    if found.refused and not every:
        (layout, rule), *others = found.refused.items()
        out.print(f"\nnot possible for the model: {layout} ({rule})", end="")
        out.print(f" and {len(others)} more layouts; --all shows them" if others else "")
    for layout, rule in found.refused.items() if every else ():
        out.print(f"not possible for the model: {layout} ({rule})")


def _print_tried(out: Any, found: Any, left: int) -> None:
    # Sizes of the grid that was computed: accelerators x layouts x batches.
    words = {"hardware": f"of {found.accelerators} accelerators", "deployment": "layouts", "batch": "batches"}
    counts = " x ".join(f"{found.sizes.get(dim, 0):,} {word}" for dim, word in words.items())
    rate = found.points / max(found.seconds, 1e-9)
    out.print(f"tried   {counts} = {found.points:,} points in {found.seconds:.1f} s, {rate:,.0f} points/s")
    if left:
        out.print(f"        {left:,} more rows (accelerator, devices, layout) are not feasible; --all shows them")
    if not found.slo and found.rows:
        out.print("        no --slo was given: prompts of a whole batch are prefilled at once, so TTFT grows with it")


def _best_text(found: Any, row: Any) -> str:
    """The best row in words."""
    metrics = row.metrics
    latency = f"TTFT {finite_text('ttft', metrics['ttft'])}, TPOT {finite_text('tpot', metrics['tpot'])}"
    rate = f"{finite_text('tokens_per_second', metrics['tokens_per_second'])} tokens/s"
    cost = metrics["usd_per_million_tokens"]
    price = f", {cost:.3g} USD per million output tokens" if math.isfinite(cost) else ""
    return f"{row.devices} x {row.hardware} as {row.layout} at batch {row.batch:,}: {latency}, {rate}{price}"


COLUMNS = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "tokens_per_second": "tokens/s",
    "tokens_per_second_per_device": "tokens/s\n/device",
    "usd_per_million_tokens": "USD/M\ntokens",
}
"""Metrics of the table; another one that rows are sorted by comes to them."""
