"""`jaxroof scenario`: the suite of scenarios beside hand-worked values."""

import argparse
import collections
import itertools
import math
from typing import Any

from sweeps.cli.outputs import dataset_argument
from sweeps.cli.printing import print_json
from sweeps.cli.progress import Line


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("action", choices=("list", "run"), help="list: what there is; run: answers beside the hand's")
    parser.add_argument("ids", nargs="*", metavar="ID", help="scenarios, such as T3.2")
    parser.add_argument("--all", action="store_true", help="every scenario")
    parser.add_argument("--efficiency", metavar="NAME", help="of the predicted values (default: each scenario's)")
    dataset_argument(parser, "write the rows as a netCDF file")
    parser.add_argument("--json", action="store_true", help="JSON with SI numbers instead of a table")


def run(options: argparse.Namespace) -> None:
    """Print what there is, or the rows."""
    if options.action == "list":
        _print_list(options.json)
        return
    if bool(options.ids) == options.all:
        raise ValueError("give the scenarios to run, such as T3.2, or --all")
    from jaxroof.jobs import JOBS
    from sweeps.run.compile_cache import compilation_cache
    from sweeps.studies import scenarios

    if any(JOBS[scenarios.scenario(name).spec["job"]].simulated for name in options.ids or scenarios.names()):
        compilation_cache()
    total, count = len(options.ids or scenarios.names()), itertools.count(1)
    with Line(elsewhere=False) as bar:

        def done(name: str) -> None:
            number = next(count)
            bar.show(f"{number} of {total} scenarios ({name})", number, total)

        rows = scenarios.run(options.ids or None, options.efficiency, done)
    if options.output is not None:
        from sweeps.data import store

        store.saved(options.output, scenarios.table(rows), options.force)
    if options.json:
        ratios = [{"ratio": row.ratio, "assumed_ratio": row.assumed_ratio} for row in rows]
        print_json([vars(row) | both for row, both in zip(rows, ratios, strict=True)])
    else:
        _print_rows(rows)
    if options.output is not None:
        print(f"\n{options.output}: {len(rows)} rows")


def _print_list(as_json: bool) -> None:
    from sweeps.cli.tables import console, table
    from sweeps.studies.scenarios.suite import names, scenario

    entries = [scenario(name) for name in names()]
    if as_json:
        keys = ("id", "title", "source")
        return print_json([{key: getattr(entry, key) for key in keys} for entry in entries])
    found = table("id", "job", "scenario", "source")
    for entry in entries:
        found.add_row(entry.id, entry.spec.get("job", "request"), entry.title, entry.source)
    out = console()
    out.print(found)
    out.print(f"\n{len(entries)} scenarios; each is a specification: jaxroof sweep workloads/scenarios/ID.toml")


def _print_rows(rows: list[Any]) -> None:
    from sweeps.cli.tables import console, table

    numbers = ("value", "by hand", "ratio", "as the hand", "its ratio")
    found = table("id", "what", *numbers, "status", numbers=numbers)
    for row in rows:
        ratios = [_ratio(row.ratio), _text(row.assumed, row.unit), _ratio(row.assumed_ratio)]
        figures = [_text(row.value, row.unit), _text(row.hand, row.unit), *ratios]
        found.add_row(row.id, row.what, *figures, row.status)
    out = console()
    out.print(found)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.why:
            reasons.setdefault(row.why, []).append(row.id)
    out.print("\nwhy values and the hand's differ")
    for why, ids in reasons.items():
        out.print(f"  {', '.join(dict.fromkeys(ids))}: {why}")
    counts = collections.Counter(row.status for row in rows)
    out.print("\n" + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    out.print(
        "as the hand: with half of the matrix peak, all bandwidth and no fixed time (--efficiency half); explained: "
        "the hand leaves out or counts otherwise what the reason says"
    )


def _text(value: float, unit: str) -> str:
    if math.isnan(value):
        return ""
    if unit in ("s", "B"):
        from hwspaces.units import formatted

        return formatted(value, unit, 4) if value else f"0 {unit}"
    return f"{value:,.4g}"


def _ratio(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"
