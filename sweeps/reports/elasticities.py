"""Section of sensitivities: elasticities of every metric as a tornado, and what real changes of the numbers do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, heading, is_number, said, words
from sweeps.reports.facts import beside, listed, of_attributes

MOST_BARS = 15
"""Numbers of a tornado at most."""

FLAT = 5e-4
"""Elasticities below this are none: they would be shown as 0."""

LABEL = "containerSize()[0] < 420 ? replace(datum.label, 'hardware.', '') : datum.label"
"""Name of a number at its bar; a phone has no room for the longest part, which most have."""

ROWS = 20
"""Rows of the table that are shown at first."""


def sensitivity_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `sensitivity`."""
    return _section(record, beside(record))


def sensitivity_file_section(data: xr.Dataset) -> Section:
    """The section of a dataset of `sensitivity -o`, which has the same numbers as variables."""
    names = [str(name).removeprefix("elasticity_of_") for name in data if str(name).startswith("elasticity_of_")]
    slopes = {name: data[f"elasticity_of_{name}"].values for name in names}
    paths = [str(path) for path in data["knob"].values]
    knobs = [
        {"path": path, "value": float(data["knob_value"].values[i]), "unit": str(data["knob_unit"].values[i])}
        | {"elasticities": {name: _known(values[i]) for name, values in slopes.items()}}
        for i, path in enumerate(paths)
    ]
    factors = [float(factor) for factor in data["factor"].values] if "factor" in data else []
    checks = {
        name: [
            {"path": path, "factor": factor, "actual": _known(data[f"change_of_{name}"].values[i, j])}
            for i, path in enumerate(paths)
            for j, factor in enumerate(factors)
        ]
        for name in names
        if f"change_of_{name}" in data
    }
    record = {
        "case": str(data.attrs.get("title", "")),
        "job": data.attrs.get("job"),
        "metrics": {name: data[name].values.item() for name in names if name in data},
        "knobs": knobs,
        "checks": checks,
    }
    return _section(record, of_attributes(data.attrs))


def _section(record: Mapping[str, Any], about_file: dict[str, Any]) -> Section:
    metrics, knobs = record["metrics"], record["knobs"]
    case, _, setting = str(record["case"]).partition("\n")
    facts = [(heading(name), said(name, value)) for name, value in metrics.items()]
    facts += [("Setting", " ".join(setting.split()))] if setting.strip() else []
    for step, shares in (record.get("bounds") or {}).items():
        parts = [f"{bound} {said('mfu', share)}" for bound, share in shares.items() if share >= FLAT]
        facts.append((f"Time of {step} is bound by", ", ".join(parts)))
    blocks: list[Table | Chart] = [chart for name in metrics for chart in _tornado(name, knobs, record)]
    blocks.append(_table(metrics, knobs, record))
    blocks += _pairs(record.get("pairs") or {})
    title = f"What matters for {case}"
    return Section("sensitivity", title, _answer(metrics, knobs), facts, blocks, **about_file)


def _answer(metrics: Mapping[str, Any], knobs: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for name in metrics:
        ranked = _ranked(name, knobs)
        if ranked:
            slope = ranked[0]["elasticities"][name]
            parts.append(f"{heading(name)} by {slope:+.3g} % ({ranked[0]['path']})")
    if not parts:
        return "No number has an effect."
    return f"1 % more of the number that matters most changes {listed(parts)}."


def _ranked(name: str, knobs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Numbers with an effect on a metric, the largest first."""
    moving = [
        one for one in knobs if is_number(one["elasticities"].get(name)) and abs(one["elasticities"][name]) >= FLAT
    ]
    return sorted(moving, key=lambda one: -abs(one["elasticities"][name]))


def _changes(record: Mapping[str, Any], name: str) -> dict[str, dict[float, Any]]:
    """Path -> factor -> the real change of a metric."""
    found: dict[str, dict[float, Any]] = {}
    for row in (record.get("checks") or {}).get(name, ()):
        found.setdefault(str(row["path"]), {})[float(row["factor"])] = row.get("actual")
    return found


def _factors(record: Mapping[str, Any]) -> list[float]:
    return sorted({float(row["factor"]) for rows in (record.get("checks") or {}).values() for row in rows})


def _tornado(name: str, knobs: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> list[Chart]:
    """Elasticities of a metric as bars to both sides of zero, the largest above."""
    ranked = _ranked(name, knobs)
    if not ranked:
        return []
    changes, drawn = _changes(record, name), ranked[:MOST_BARS]
    data = []
    for one in drawn:
        slope = float(one["elasticities"][name])
        row = {"path": str(one["path"]), "value": _value_text(one), "slope": float(f"{slope:.4g}")}
        row |= {"text": f"{slope:+.3g}", "side": "more" if slope > 0 else "less"}
        for i, factor in enumerate(_factors(record)):
            change = changes.get(str(one["path"]), {}).get(factor)
            row[f"f{i}"] = f"{100.0 * change:+.3g} %" if is_number(change) else "-"
        data.append(row)
    title = heading(name)
    most = ", ".join(f"{row['path']} {row['text']}" for row in data[:3])
    description = (
        f"Bars of the elasticity of {title} with respect to {len(data)} of {len(ranked)} numbers that have an effect, "
        f"the largest first; those to the right raise it. The largest: {most}."
    )
    note = "Change of the metric in per cent for 1 % more of a number."
    if len(ranked) > len(data):
        note += f" {len(ranked) - len(data)} smaller ones stand in the table."
    return [Chart(f"Elasticity of {title}", _bars(data, title, _factors(record), description), description, note)]


def _bars(data: list[dict[str, Any]], title: str, factors: Sequence[float], description: str) -> dict[str, Any]:
    alt = charts.altair()
    ends = [row["slope"] for row in data]
    low, high = min(0.0, *ends), max(0.0, *ends)
    # Room in pixels for the numbers behind the bars, on the sides that have any.
    room = {"rangeMin": 52 if low < 0.0 else 0, "rangeMax": alt.ExprRef("width - 52" if high > 0.0 else "width")}
    scale = alt.Scale(domain=[low, high], nice=False, **room)
    labels = alt.Axis(labelLimit=alt.ExprRef(charts.LABELS), labelExpr=LABEL, ticks=False, domain=False)
    base = alt.Chart(alt.NamedData(name="bars")).encode(
        y=alt.Y(field="path", type="nominal", sort=None, title=None, axis=labels),
        x=alt.X(field="slope", type="quantitative", title="Elasticity", scale=scale, axis=alt.Axis(tickCount=4)),
    )
    colour = alt.Color(
        field="side", type="nominal", legend=None, scale=alt.Scale(domain=["more", "less"], range=charts.COLOURS[1::-1])
    )
    tips = [
        alt.Tooltip(field="path", type="nominal", title="number"),
        alt.Tooltip(field="value", type="nominal", title="value"),
        alt.Tooltip(field="text", type="nominal", title=f"elasticity of {title}"),
    ]
    tips += [
        alt.Tooltip(field=f"f{i}", type="nominal", title=f"{factor - 1.0:+.0%} of it")
        for i, factor in enumerate(factors)
    ]
    bars = base.mark_bar(height={"band": 0.72}, cornerRadiusEnd=2).encode(color=colour, tooltip=tips)
    layers = [bars]
    for align, away, test in (("left", 4, "datum.slope >= 0"), ("right", -4, "datum.slope < 0")):
        text = base.transform_filter(test).mark_text(align=align, dx=away, fontSize=11, color="var(--ink)")
        layers.append(text.encode(text=alt.Text(field="text")))
    zero = alt.Chart(alt.NamedData(name="zero")).mark_rule(color="var(--quiet)")
    layers.append(zero.encode(x=alt.X(field="slope", type="quantitative", scale=scale, title="Elasticity")))
    named = {"bars": data, "zero": [{"slope": 0.0}]}
    return charts.spec(alt.layer(*layers), named, description, height=max(90, 22 * len(data)))


def _table(metrics: Mapping[str, Any], knobs: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> Table:
    """Every number: its value, elasticities, and real changes among all columns."""
    columns = [
        words("number", "number", [one["path"] for one in knobs]),
        words("value_text", "value", [_value_text(one) for one in knobs]),
        Column("value", "SI value", [one.get("value") for one in knobs], extra=True),
        words("unit", "SI unit", [one.get("unit") for one in knobs], extra=True),
    ]
    for name in metrics:
        title = heading(name)
        slopes = [one["elasticities"].get(name) for one in knobs]
        columns.append(Column(f"elasticity_of_{name}", title, slopes, unit="1", meaning=f"elasticity of {title}"))
    for name in metrics:
        title, changes = heading(name), _changes(record, name)
        for factor in _factors(record):
            values = [changes.get(str(one["path"]), {}).get(factor) for one in knobs]
            sign = f"{factor - 1.0:+.0%}"
            columns.append(
                Column(f"change_of_{name}_at_{factor:g}", f"{title}, {sign} of it (%)", values, 0.01, "1", extra=True)
            )
    note = "Per cent of each metric for 1 % more of the number; all columns have the real changes for a tenth of it."
    return Table("Elasticities", columns, note, first=ROWS)


def _pairs(pairs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    rows = [{"metric": name, **one} for name, found in pairs.items() for one in found]
    if not rows:
        return []
    heads = {"metric": "metric", "first": "number", "second": "and", "kind": "kind"}
    columns = [words(key, title, [row.get(key) for row in rows]) for key, title in heads.items()]
    numbers = {"curvature": "d2 ln y", "gain": "gain"}
    columns += [Column(key, title, [row.get(key) for row in rows], unit="1") for key, title in numbers.items()]
    return [Table("Pairs of numbers, both turned to the better", columns, first=ROWS)]


def _value_text(knob: Mapping[str, Any]) -> str:
    from hwspaces import formatted

    value, unit = knob.get("value"), str(knob.get("unit") or "1")
    if not is_number(value):
        return str(value)
    return f"{value:,.6g}" if unit == "1" else formatted(float(value), unit)


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
