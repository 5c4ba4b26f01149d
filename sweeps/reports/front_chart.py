"""Chart of a sweep's front: all designs as a density, the fronts exactly, and a sample that can be selected."""

from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Table, words
from sweeps.reports.points import Points

FEW = 2000
"""Points up to which none is left out."""

CELLS = (64, 40)
"""Ranges across and upwards in which points are counted."""

TAIL = 0.01
"""Share of the designs at the worse end of each axis that may lie beyond it, so that the front is not squeezed."""


def front_chart(
    points: Points,
    fronts: dict[str, np.ndarray],
    others: np.ndarray,
    table: Table,
    x: str,
    y: str,
) -> Chart:
    """The chart of `sweeps.reports.designs`; a selected area chooses the rows of its table."""
    alt = charts.altair()
    columns = {one.name: one for one in table.columns}
    across, up = columns[x], columns[y]
    on_front = sum(map(len, fronts.values()))
    bounds = [one for one in table.columns if one.name.endswith("bound")]
    # Decode decides on the price of a token, and is what most sweeps are about.
    kind = next((one for one in bounds if one.name == "decode_bound"), bounds[0] if bounds else None)
    kind = kind or words(
        "front", "front", ["on a front" if i < on_front else "others" for i in range(on_front + len(others))]
    )
    shown: dict[str, Column] = {"x": across, "y": up, "kind": kind}
    rest = [one for one in table.columns if one not in (across, up, kind) and not one.extra and one.name != "front"]
    shown |= {f"t{number}": one for number, one in enumerate(rest[:12])}
    data = charts.rows(shown)
    group = [name for name, places in fronts.items() for _ in places]
    on, off = data[:on_front], data[on_front:]
    for row, name in zip(on, group, strict=True):
        row["front"] = name
    many = points.at.size > FEW
    tail = TAIL if many else 0.0
    domains = [_domain(points.x / across.scale, on, "x", x, tail), _domain(points.y / up.scale, on, "y", y, tail)]
    logs = [charts.is_wide(np.array(domain)) for domain in domains]
    channels = {
        side: charts.axis(side, one.title, np.array(domain), log, domain)
        for side, one, domain, log in zip("xy", (across, up), domains, logs, strict=True)
    }
    names = list(dict.fromkeys(row["kind"] for row in (*on, *off)))
    looks = charts.kinds("kind", kind.title, names)
    # What lies beyond the axes is left out of what is drawn, and said.
    inside = [
        row
        for row in off
        if all(domain[0] <= row[side] <= domain[1] for side, domain in zip("xy", domains, strict=True))
    ]
    named: dict[str, Any] = {"front": on, "sample": inside}
    layers = []
    if many:
        named["density"] = _density(points.x / across.scale, points.y / up.scale, domains, logs)
        count = alt.Opacity(
            field="count", type="quantitative", scale=alt.Scale(type="log", range=[0.12, 0.75]), legend=None
        )
        cells = alt.Chart(alt.NamedData(name="density")).mark_rect(color="var(--cloud)", clip=True)
        layers.append(
            cells.encode(
                x=channels["x"],
                y=channels["y"],
                x2=alt.X2(field="x2"),
                y2=alt.Y2(field="y2"),
                opacity=count,
                tooltip=[alt.Tooltip(field="count", type="quantitative", title="designs here", format=",")],
            )
        )
    dots = {"x": channels["x"], "y": channels["y"], **looks, "tooltip": charts.tips(shown)}
    cloud = alt.Chart(alt.NamedData(name="sample")).mark_point(
        filled=True, size=22 if many else 40, opacity=0.55, clip=True
    )
    layers.append(cloud.encode(**dots))
    line = alt.Chart(alt.NamedData(name="front")).mark_line(color="var(--ink)", strokeWidth=1.3, clip=True)
    layers.append(line.encode(x=channels["x"], y=channels["y"], detail=alt.Detail(field="front", type="nominal")))
    best = alt.Chart(alt.NamedData(name="front")).mark_point(
        filled=True, size=64 if on_front < 200 else 36, opacity=1, stroke="var(--page)", strokeWidth=0.7, clip=True
    )
    brush = alt.selection_interval(name="brush", encodings=["x", "y"])
    layers.append(best.encode(**dots).add_params(brush))
    if len(fronts) > 1:
        # The name of each condition stands at the end of its front, inside of the chart.
        right = "scale('x', datum.x) > 0.6 * width"
        named["ends"] = [{**on[i], "name": name} for name, i in _ends(fronts)]
        text = alt.Chart(alt.NamedData(name="ends")).mark_text(
            align={"expr": f"{right} ? 'right' : 'left'"},
            dx={"expr": f"{right} ? -6 : 8"},
            dy=-11,
            limit={"expr": "0.55 * width"},
            fontSize=11,
            color="var(--ink)",
        )
        layers.append(text.encode(x=channels["x"], y=channels["y"], text=alt.Text(field="name")))
    note = _note(points, fronts, others, many, across, up)
    description = f"{up.title} against {across.title} of {points.at.size:,} feasible designs. {note}"
    spec = charts.spec(alt.layer(*layers), named, description, 420)
    return Chart(f"{up.title} against {across.title}", spec, description, note, table, wide=True)


def _domain(values: np.ndarray, on: list[dict[str, Any]], side: str, name: str, tail: float) -> tuple[float, float]:
    """Ends of an axis: all of the fronts, and all designs but a share of them at its worse end."""
    ends = [row[side] for row in on]
    higher = bool(variable(name).higher_is_better)
    low, high = np.quantile(values, [tail if higher else 0.0, 1.0 if higher else 1.0 - tail])
    low, high = float(min(low, *ends)), float(max(high, *ends))
    if charts.is_wide(np.array([low, high])):
        return low / (high / low) ** 0.03, high * (high / low) ** 0.03
    room = 0.04 * (high - low or abs(high) or 1.0)
    return (max(low - room, 0.0) if low >= 0 else low - room), high + room


def _density(
    across: np.ndarray, up: np.ndarray, domains: list[tuple[float, float]], logs: list[bool]
) -> list[dict[str, float]]:
    """Counts of points in cells of equal size on the chart; empty ones are left out."""
    edges = [
        np.geomspace(*domain, cells + 1) if log else np.linspace(*domain, cells + 1)
        for domain, log, cells in zip(domains, logs, CELLS, strict=True)
    ]
    counts, *_ = np.histogram2d(across, up, edges)
    rounded = [[float(f"{edge:.6g}") for edge in ends] for ends in edges]
    return [
        {
            "x": rounded[0][i],
            "x2": rounded[0][i + 1],
            "y": rounded[1][j],
            "y2": rounded[1][j + 1],
            "count": int(counts[i, j]),
        }
        for i, j in zip(*np.nonzero(counts), strict=True)
    ]


def _ends(fronts: dict[str, np.ndarray]) -> list[tuple[str, int]]:
    """Place of the last point of every front among those of all of them."""
    ends, start = [], 0
    for name, places in fronts.items():
        if len(places):
            ends.append((name, start + len(places) - 1))
        start += len(places)
    return ends


def _note(points: Points, fronts: dict[str, np.ndarray], others: np.ndarray, many: bool, x: Column, y: Column) -> str:
    """What is drawn exactly, and what stands for others."""
    corner = {True: "higher", False: "lower"}
    better = ", ".join(
        f"{corner[bool(variable(one.name).higher_is_better)]} {one.title.partition(' (')[0]}" for one in (x, y)
    )
    on_front = sum(map(len, fronts.values()))
    per = f" in {len(fronts)} fronts, one per condition" if len(fronts) > 1 else ""
    text = f"Better: {better}. Large markers are the {on_front:,} designs that no other beats{per}, found exactly. "
    if not many:
        return f"{text}All {points.at.size:,} feasible designs are drawn. Drag over an area to list its designs."
    return (
        f"{text}Shaded cells count all {points.at.size:,} feasible designs but the last {100 * TAIL:g} % of each axis; "
        f"small markers are an even sample of {len(others):,}. Drag over an area to list its designs, all of those on "
        "fronts, and of the others the sample."
    )
