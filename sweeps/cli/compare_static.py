"""`jaxroof compare --static`: a ranking by static batches, all of whose prompts are prefilled at once."""

import argparse
import math
import pathlib
from typing import Any

from sweeps.ask.keys import words
from sweeps.ask.offered_load import COMPARED
from sweeps.ask.words import ComparisonWords, StaticWords
from sweeps.cli import common
from sweeps.cli.printing import print_json

TOP = 20

_STATIC = (*words(StaticWords), "model", "isl", "osl", "image", "images")
SERVED = tuple(name for name in (*words(ComparisonWords), *COMPARED) if name not in (*_STATIC, "disaggregated"))
SERVED += ("emit", "no_disaggregated")
"""Flags of a served comparison."""


def run(options: argparse.Namespace) -> None:
    """Compare, write the file that is wanted, and print the ranking."""
    if options.model is None:
        raise ValueError("--model is missing")
    if options.devices is not None and options.max_devices is not None:
        raise ValueError("--devices and --max-devices say the same in two ways: give one")
    for flag in ("isl", "osl"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} is missing")
    if options.image is not None or options.images is not None:
        raise ValueError("--image cannot be given with --static, whose prompts are text; leave out --static")
    for name in SERVED:
        if getattr(options, name) not in (None, []):
            raise ValueError(f"--{name.replace('_', '-')} cannot be given with --static: a batch has no traffic")
    top = TOP if options.top is None else int(common.whole_number("--top", options.top))
    ending = options.output and pathlib.Path(options.output).suffix.lower()
    if ending and ending not in _WRITTEN:
        raise ValueError(f"{options.output} must end in .nc, .csv, .png or .svg with --static")
    numbers = {name: common.whole_number(f"--{name}", getattr(options, name)) for name in ("isl", "osl")}
    lists: dict[str, Any] = {name: _whole_numbers(f"--{name}", getattr(options, name)) for name in ("devices", "batch")}
    limit = {}
    if options.max_devices is not None:
        limit["max_devices"] = int(common.whole_number("--max-devices", options.max_devices))
    names = None if options.hardware is None else [name.strip() for name in options.hardware.split(",")]
    settings = common.overrides(options.set)
    from sweeps.cli.progress import progress
    from sweeps.studies.compare.static import compare_static

    chosen = {name: getattr(options, name) for name in words(StaticWords) if name != "max_devices"}
    chosen |= {"hardware": names, "set": settings, **numbers, **lists, **limit}
    with progress() as begun:
        found = compare_static(options.model, **chosen, begun=lambda points: begun(points).add)
    shown = found.rows if options.all else found.best_layouts
    explained = found.infeasible if options.all else found.nearest_misses
    if ending:
        _write(options, ending, found, shown, explained, top)
    if options.json:
        return print_json(_record(found, shown if options.all or options.top is None else shown[:top], explained))
    _print(found, shown, explained, top, options.all)
    if ending:
        print(f"{options.output}: {_WRITTEN[ending]}")


_WRITTEN = {".nc": "every point", ".csv": "every row", ".png": "the best rows", ".svg": "the best rows"}


def _whole_numbers(flag: str, text: str | None) -> list[int] | None:
    """A list of counts, each of them once."""
    if text is None:
        return None
    return list(dict.fromkeys(int(common.whole_number(flag, part.strip())) for part in text.split(",")))


def _write(options: argparse.Namespace, ending: str, found: Any, shown: tuple, explained: tuple, top: int) -> None:
    path, force = options.output, options.force
    if ending == ".nc":
        from sweeps.data.store import saved

        if not found.points:
            raise ValueError(f"{path}: there are no points to write")
        saved(path, found.dataset, force)
    elif ending == ".csv":
        from sweeps.cli.static_rows import write_rows

        write_rows(path, shown, explained, force)
    else:
        from sweeps.show import style
        from sweeps.show.compare import ranking

        style.saved(ranking(found, shown[:top]), path, force)


def _record(found: Any, rows: tuple, explained: tuple) -> dict[str, Any]:
    """Everything for machines: SI numbers; a figure that an accelerator does not have is null."""
    from sweeps.ask.names import units, variable
    from sweeps.cli.static_rows import row_record

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


COLUMNS = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "tokens_per_second": "tokens/s",
    "tokens_per_second_per_device": "tokens/s\n/device",
    "usd_per_million_tokens": "USD/M\ntokens",
}
"""Metrics of the table; another one that rows are sorted by comes to them."""


def _print(found: Any, shown: tuple, explained: tuple, top: int, every: bool) -> None:
    from sweeps.ask.names import variable
    from sweeps.cli.tables import console, print_lines, size, table
    from sweeps.data.labels import number
    from sweeps.run.evidence import extrapolated
    from sweeps.studies.compare.reasons import limit_text

    out = console()
    model, limits = found.model, ", ".join(limit_text(name, limit) for name, limit in found.slo.items())
    out.print(f"{model.name}: requests of {number(found.isl)} + {number(found.osl)} tokens", end="")
    out.print(f", {limits}" if limits else "")
    out.print(f"weights {model.precision} ({model.precision_source}), KV cache {found.kv}", end="")
    out.print(f", efficiency {found.efficiency}")
    direction = "highest" if variable(found.metric).higher_is_better else "lowest"
    out.print(f"sorted by {found.metric}, {direction} first ({found.chosen})", end="\n\n")
    estimated = {name for name, price in found.prices.items() if price.estimate}
    if shown:
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
            cells = [_cell(metric, row.metrics[metric]) for metric in columns]
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


def _print_reasons(out: Any, found: Any, explained: tuple, every: bool) -> None:
    """Why accelerators have no row above: those of one reason together where it is the same for all."""
    from sweeps.cli.tables import table

    same: dict[str, list[str]] = {}
    own = []
    for row in explained:
        if row.reason.startswith("no "):
            same.setdefault(row.reason, []).append(row.hardware)
        else:
            own.append(row)
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
    if found.refused and not every:
        (layout, rule), *others = found.refused.items()
        out.print(f"\nnot possible for the model: {layout} ({rule})", end="")
        out.print(f" and {len(others)} more layouts; --all shows them" if others else "")
    for layout, rule in found.refused.items() if every else ():
        out.print(f"not possible for the model: {layout} ({rule})")


def _print_tried(out: Any, found: Any, left: int) -> None:
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
    latency = f"TTFT {_cell('ttft', metrics['ttft'])}, TPOT {_cell('tpot', metrics['tpot'])}"
    rate = f"{_cell('tokens_per_second', metrics['tokens_per_second'])} tokens/s"
    cost = metrics["usd_per_million_tokens"]
    price = f", {cost:.3g} USD per million output tokens" if math.isfinite(cost) else ""
    return f"{row.devices} x {row.hardware} as {row.layout} at batch {row.batch:,}: {latency}, {rate}{price}"


def _cell(name: str, value: float) -> str:
    from sweeps.cli.tables import metric_text

    return metric_text(name, value) if math.isfinite(value) else "-"
