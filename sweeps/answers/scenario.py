"""Scenarios beside expected values as text."""

import collections
import math
from typing import Any

from sweeps.answers.brief import Brief
from sweeps.answers.to_json import print_json


def show_list(as_json: bool) -> None:
    """Print the scenarios of the suite."""
    from sweeps.answers.tables import console, table
    from sweeps.studies.scenarios.suite import names, scenario

    entries = [scenario(name) for name in names()]
    if as_json:
        keys = ("id", "title", "source")
        return print_json([{key: getattr(entry, key) for key in keys} for entry in entries])
    listing = table("id", "job", "scenario", "source")
    for entry in entries:
        listing.add_row(entry.id, entry.spec.get("job", "request"), entry.title, entry.source)
    out = console()
    out.print(listing)
    out.print(f"\n{len(entries)} scenarios; each is a specification: jaxroof sweep workloads/scenarios/ID.toml")


def show_rows(rows: list[Any]) -> None:
    """Print scenarios beside their expected values."""
    from sweeps.answers.tables import console, table
    from sweeps.studies.scenarios import expected_text, outside_by_default, value_text

    out = console()
    if out.short(lambda: _brief(rows)):
        return
    numbers = ("expected", "found", "deviation", "predicted", "deviation of it")
    comparison = table("id", "what", *numbers[:3], "agrees", *numbers[3:], "agrees by default", numbers=numbers)
    for row in rows:
        # An expected value is a single number, or a range up to `most`.
        expected = expected_text(row.expected, row.most, row.unit)
        figures = [
            expected,
            value_text(row.found, row.unit),
            _share(row.deviation),
            AGREEMENTS.get(row.status, row.status),
        ]
        predicted = [
            value_text(row.predicted, row.unit),
            _share(row.predicted_deviation),
            AGREEMENTS.get(row.by_default, ""),
        ]
        comparison.add_row(row.id, row.what, *figures, *predicted)
    out.print(comparison)
    show_reasons("tolerances above 5 %, and what derivations leave out", rows, "agrees", out)
    show_reasons("outside", rows, "differs", out)
    counts = collections.Counter(row.status for row in rows)
    out.print("\n" + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    # A second judgement: predictions with default constants, where the scenario has one.
    judged = collections.Counter(row.by_default for row in rows if row.by_default)
    if judged:
        outside = ", ".join(f"{name} ({len(some)})" for name, some in outside_by_default(rows).items())
        out.print(
            f"by default constants: {judged['agrees']} of {judged.total()} agree"
            + (f"; outside: {outside}" if outside else "")
        )
    out.print(
        "found: with the assumptions of the derivations (--efficiency half), but for measured values; predicted: with "
        "default constants. Derivations: docs/evidence/scenarios.md"
    )


def _brief(rows: list[Any]) -> Brief:
    """How many values agree, and those that do not before the others."""
    from sweeps.answers.tables import short_table
    from sweeps.studies.scenarios import expected_text, value_text

    agree, judged = sum(row.status == "agrees" for row in rows), [row for row in rows if row.by_default]
    default = sum(row.by_default == "agrees" for row in judged)
    listing = short_table("id", "what", "expected", "found", "deviation", "agrees", texts=("id", "what", "agrees"))
    for row in sorted(rows, key=lambda row: row.status == "agrees"):
        expected = expected_text(row.expected, row.most, row.unit)
        cells = (
            expected,
            value_text(row.found, row.unit),
            _share(row.deviation),
            AGREEMENTS.get(row.status, row.status),
        )
        listing.add_row(row.id, row.what, *cells)
    return Brief(
        asked=f"{agree} of {len(rows)} values agree, with the assumptions of their derivations",
        answer=f"Under the default constants {default} of {len(judged)} agree." if judged else "",
        table=listing,
        next="derivations: docs/evidence/scenarios.md",
    )


def _share(deviation: float) -> str:
    return "" if math.isnan(deviation) else f"{100 * deviation:+.1f} %"


def show_reasons(title: str, rows: list[Any], status: str, out: Any) -> None:
    """Print why rows of one status have it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.why and row.status == status:
            reasons.setdefault(row.why, []).append(row.id)
    if reasons:
        out.print(f"\n{title}")
    for why, ids in reasons.items():
        out.print(f"  {', '.join(dict.fromkeys(ids))}: {why}")


AGREEMENTS = {"agrees": "yes", "differs": "no"}
"""Words of the table for a row's status, where they differ."""
