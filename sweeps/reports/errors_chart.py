"""Charts of errors: predicted against measured numbers with the line of equals, and errors by group as bands."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sweeps.reports import charts
from sweeps.reports.blocks import Column

NEAR = 0.2
"""Error whose lines stand beside the line of equals."""

NEAR_TEXT = f"{100.0 * NEAR:g} %"

MOST = 24
"""Bands of a chart at most."""


WORDS = ("Measured", "Predicted")


class Band(NamedTuple):
    """An error with a range around it; shares, signed."""

    name: str
    low: float
    middle: float
    high: float
    note: str  # for a pointer: what else is known


def against(measured: Column, predicted: Column, kind: Column, more: Sequence[Column], words: str) -> dict[str, Any]:
    """Predicted over measured numbers as points of kinds, of which an area can be selected.

    Solid: predicted as measured. Dashed: predicted `NEAR` above and below it.
    """
    alt = charts.altair()
    titled = (
        dataclasses.replace(one, title=f"{word} {one.title}")
        for word, one in zip(WORDS, (measured, predicted), strict=True)
    )
    measured, predicted = titled
    shown = {"x": measured, "y": predicted, "kind": kind} | {f"t{number}": one for number, one in enumerate(more)}
    data = charts.rows(shown)
    numbers = np.array([row[side] for row in data for side in "xy" if row[side] is not None], float)
    log = charts.is_wide(numbers)
    low, high = float(numbers.min()) / 1.15, float(numbers.max()) * 1.15
    # Both axes have the same ends, so that the line of equals is the diagonal.
    channels = {
        side: charts.axis(side, one.title, numbers, log, (low, high))
        for side, one in (("x", measured), ("y", predicted))
    }
    lines = [
        {"x": place, "y": place * factor, "line": name, "far": factor != 1.0}
        for name, factor in (("equal", 1.0), (f"+{NEAR_TEXT}", 1.0 + NEAR), (f"-{NEAR_TEXT}", 1.0 - NEAR))
        for place in (low, high)
    ]
    dash = alt.StrokeDash(
        field="far", type="nominal", legend=None, scale=alt.Scale(domain=[False, True], range=[[1, 0], [4, 4]])
    )
    drawn = alt.Chart(alt.NamedData(name="lines")).mark_line(color="var(--quiet)", strokeWidth=1.3, clip=True)
    layers = [drawn.encode(**channels, strokeDash=dash, detail=alt.Detail(field="line", type="nominal"))]
    names = list(dict.fromkeys(row["kind"] for row in data))
    size = 70 if len(data) < 200 else 30
    dots = alt.Chart(alt.NamedData(name="points")).mark_point(filled=True, size=size, opacity=0.75)
    dots = dots.encode(**channels, **charts.kinds("kind", kind.title, names), tooltip=charts.tips(shown))
    layers.append(dots.add_params(alt.selection_interval(name="brush", encodings=["x", "y"])))
    return charts.spec(alt.layer(*layers), {"points": data, "lines": lines}, words)


def bands(shown: Sequence[Band], words: str, title: str = "Error (%)") -> dict[str, Any]:
    """Errors in per cent, each a mark on the bar of its range; the line of no error goes through all."""
    alt = charts.altair()
    data = [
        {"name": one.name, "note": one.note}
        | {end: round(100.0 * getattr(one, end), 3) for end in ("low", "middle", "high")}
        for one in shown[:MOST]
    ]
    ends = [row[end] for row in data for end in ("low", "middle", "high")]
    room = 0.04 * ((max(ends, default=1.0) - min(ends, default=0.0)) or 1.0)
    scale = alt.Scale(domain=[min(ends, default=0.0) - room, max(ends, default=1.0) + room], zero=True, nice=False)
    axis = alt.Axis(labelLimit=alt.ExprRef(charts.LABELS), ticks=False)
    base = alt.Chart(alt.NamedData(name="bands")).encode(
        y=alt.Y(field="name", type="nominal", sort=None, title=None, axis=axis)
    )
    tips = [alt.Tooltip(field="name", type="nominal", title="group")]
    tips += [
        alt.Tooltip(field=end, type="quantitative", title=words, format="+.3~r")
        for end, words in (("middle", "error (%)"), ("low", "from (%)"), ("high", "to (%)"))
    ]
    tips.append(alt.Tooltip(field="note", type="nominal", title="of"))
    across = alt.X(field="low", type="quantitative", title=title, scale=scale)
    bar = base.mark_bar(height={"band": 0.55}, opacity=0.35, color=charts.COLOURS[0], cornerRadius=2)
    middle = alt.X(field="middle", type="quantitative", title=title, scale=scale)
    zero = alt.Chart(alt.NamedData(name="zero")).mark_rule(color="var(--quiet)", strokeWidth=1.3)
    layers = [
        bar.encode(x=across, x2=alt.X2(field="high"), tooltip=tips),
        zero.encode(x=alt.X(field="zero", type="quantitative", title=title, scale=scale)),
        base.mark_point(filled=True, size=70, opacity=1.0, color=charts.COLOURS[1]).encode(x=middle, tooltip=tips),
    ]
    named = {"bands": data, "zero": [{"zero": 0.0}]}
    return charts.spec(alt.layer(*layers), named, words, height=max(110, 24 * len(data)))
