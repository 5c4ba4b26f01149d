"""Section of scenarios: expected and found values, and whether they agree."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from sweeps.reports.blocks import Chart, Column, Section, Table, is_number, words
from sweeps.reports.errors_chart import MOST, Band, bands
from sweeps.reports.facts import beside, of_attributes
from sweeps.studies.scenarios import expected_text, value_text

VERDICTS = ("agrees", "differs")
"""Verdicts that are judged; of any other status a value is only shown."""


def scenarios_section(record: Mapping[str, Any]) -> Section:
    """The section of the rows of `scenario run`."""
    return _section(record["rows"], beside(record))


def scenarios_file_section(data: xr.Dataset) -> Section:
    """The section of a dataset of `scenario run -o`, which has the same rows."""
    columns = {str(name): array.values.tolist() for name, array in data.variables.items()}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return _section(rows, of_attributes(data.attrs))


def _section(rows: Sequence[Mapping[str, Any]], about_file: dict[str, Any]) -> Section:
    names = list(dict.fromkeys(str(row["id"]) for row in rows))
    judged = [row for row in rows if row["status"] in VERDICTS]
    agree = sum(row["status"] == "agrees" for row in judged)
    answer = f"{agree} of {len(judged)} expected values agree with what is found."
    default = [row for row in rows if row.get("by_default")]
    if default:
        within = sum(row["by_default"] == "agrees" for row in default)
        answer += f" Under the default constants {within} of {len(default)} agree."
    title = "Scenarios beside expected values" if len(names) > 1 else str(rows[0].get("title") or names[0])
    facts = [("Scenarios", ", ".join(names)), ("Values", f"{len(rows)}")]
    return Section("scenarios", title, answer, facts, [*_chart(rows), _table(rows)], **about_file)


def _chart(rows: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Deviations on the bars of their tolerances, the largest of them first."""
    known = [row for row in rows if _number(row.get("deviation")) is not None and _number(row["tolerance"]) is not None]
    ranked = sorted(known, key=lambda row: -abs(row["deviation"]))[:MOST]
    if not ranked:
        return []
    # Of a single scenario every value would begin with its name.
    several = len({row["id"] for row in rows}) > 1
    names = [f"{row['id']} {row['what']}" if several else str(row["what"]) for row in ranked]
    shown = [
        Band(name, -row["tolerance"], row["deviation"], row["tolerance"], str(row["status"]))
        for name, row in zip(names, ranked, strict=True)
    ]
    description = (
        f"Deviation of {len(shown)} of {len(rows)} values from the expected ones, the largest first; bars are the "
        f"tolerances. The largest is {100.0 * shown[0].middle:+.3g} %, of {shown[0].name}."
    )
    note = "Mark: found / expected - 1. Bar: tolerance, to both sides."
    spec = bands(shown, description, "Deviation (%)")
    return [Chart("Deviations from the expected values", spec, description, note, wide=True)]


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    def values(name: str) -> list[Any]:
        return [row.get(name) for row in rows]

    unit = [str(one or "") for one in values("unit")]
    expected, most, found = (list(map(_or_nan, values(name))) for name in ("expected", "most", "found"))
    columns = [
        words("id", "scenario", values("id")),
        words("what", "value", values("what")),
        words("expected_text", "expected", [text or None for text in map(expected_text, expected, most, unit)]),
        words("found_text", "found", [text or None for text in map(value_text, found, unit)]),
        Column("deviation", "deviation (%)", [_number(one) for one in values("deviation")], 0.01, "1"),
        Column("tolerance", "tolerance (%)", values("tolerance"), 0.01, "1"),
        words("status", "verdict", values("status")),
        Column(
            "predicted_deviation", "by default (%)", [_number(one) for one in values("predicted_deviation")], 0.01, "1"
        ),
        words("by_default", "verdict by default", [one or None for one in values("by_default")]),
        words("why", "reason", [one or None for one in values("why")]),
    ]
    columns += [Column(name, f"{name}, SI", [_number(one) for one in values(name)], extra=True) for name in SI]
    columns += [words(name, name, values(name), extra=True) for name in ("unit", "metric", "title")]
    note = "By default: with the constants that every answer has, in place of those of the derivation."
    return Table("Checks", columns, note)


SI = ("expected", "most", "found", "predicted")
"""Numbers of a row in the SI unit of its metric."""


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) and value == value else None


def _or_nan(value: Any) -> float:
    return math.nan if (number := _number(value)) is None else number
