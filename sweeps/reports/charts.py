"""Charts of a report, by Vega-Altair: points over two numbers, bars, and lines; colours follow the reader's scheme."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.files.extras import installing
from sweeps.reports.blocks import Chart, Column, quantity, words
from sweeps.show.style import round_numbers

COLOURS = [f"var(--c{number})" for number in range(8)]
"""Colours of kinds, which the page's style states for light and dark."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
"""Shapes of kinds, so that no kind is told by its colour alone."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3], [6, 2, 2, 2])

FORMAT = ",.4~r"
"""Of numbers in tooltips; those of axes have a digit less."""

LABELS = "max(120, 0.42 * containerSize()[0])"
"""Pixels of the longest label of a bar, of as wide a place as the chart has."""

TALL = 340
"""Height of a chart in pixels."""

MOST_BARS = 16
"""Bars of a chart; what is smaller shares the last one."""

CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--ink)",
        "gridColor": "var(--grid)",
        "domainColor": "var(--quiet)",
        "tickColor": "var(--quiet)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 600,
        "labelOverlap": True,
        "labelFlush": False,
        "tickCount": 6,
    },
    "axisQuantitative": {"format": ",.3~r"},
    # The name of the axis upwards lies above it, where it takes no width and is read without turning one's head.
    "axisY": {
        "titleAngle": 0,
        "titleAnchor": "end",
        "titleAlign": "left",
        "titleBaseline": "bottom",
        "titleX": 0,
        "titleY": -8,
    },
    "legend": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--ink)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "orient": "bottom",
        "columns": {"expr": "width < 380 ? 2 : width < 700 ? 4 : 6"},
        "labelLimit": 150,
        "symbolStrokeWidth": 2,
    },
}
"""Look of every chart; colours are variables of the page's style."""


def altair() -> Any:
    """The altair package; ValueError in one line where it, or what embeds its JavaScript, is not installed."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise ValueError(f"reports need altair and vl-convert-python: {installing('report')}") from None
    return altair


def rows(columns: Mapping[str, Column]) -> list[dict[str, Any]]:
    """Points as Vega-Lite takes them: by short names, numbers in the units of their columns."""
    made = []
    for values in zip(*(one.values for one in columns.values()), strict=True):
        pairs = zip(columns.items(), values, strict=True)
        made.append({key: _plain(one.scaled(value)) if one.numeric else one.text(value) for (key, one), value in pairs})
    return made


def tips(columns: Mapping[str, Column]) -> list[Any]:
    """What a pointer over a point shows, a line for every column."""
    alt = altair()
    return [
        alt.Tooltip(field=key, type="quantitative", title=one.title, format=FORMAT)
        if one.numeric
        else alt.Tooltip(field=key, type="nominal", title=one.title)
        for key, one in columns.items()
    ]


def axis(
    side: str,
    title: str,
    values: np.ndarray,
    log: bool | None = None,
    domain: tuple[float, float] | None = None,
    zero: bool = False,
) -> Any:
    """The channel of an axis, of the field that its side names.

    Args:
      side: "x" or "y".
      title: with the unit.
      values: what is drawn, by which ends and ticks are chosen.
      log: whether it is logarithmic; None: where that suits the values.
      domain: its ends; None: a little beyond the values.
      zero: whether a linear one begins at 0.
    """
    alt = altair()
    log = is_wide(values) if log is None else log
    channel = {"x": alt.X, "y": alt.Y}[side]
    about: dict[str, Any] = {"field": side, "type": "quantitative", "title": title}
    if not log:
        ends = {"zero": zero} if domain is None else {"domain": list(domain), "nice": False, "zero": False}
        return channel(**about, scale=alt.Scale(**ends))
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = domain or ((float(finite.min()) / 1.15, float(finite.max()) * 1.15) if finite.size else (0.1, 10.0))
    # Round numbers alone: the lines of all digits of every decade would hide the points.
    ticks = [float(f"{tick:.3g}") for tick in round_numbers(low, high, True)]
    axis = alt.Axis(values=ticks) if len(ticks) > 1 else alt.Undefined
    return channel(**about, scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def is_wide(values: np.ndarray) -> bool:
    """Whether a logarithmic axis suits numbers: all positive, the largest more than five times the smallest."""
    finite = values[np.isfinite(values)]
    return bool(finite.size and finite.min() > 0 and finite.max() / finite.min() > 5)


def kinds(field: str, title: str, names: Sequence[str]) -> dict[str, Any]:
    """Channels of colour and shape, by which kinds of points are told apart; their legends are one."""
    alt = altair()
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(names))]
    look: dict[str, Any] = {"field": field, "type": "nominal", "title": title}
    # A single kind needs no legend.
    look |= {"legend": None} if len(names) < 2 else {}
    return {
        "color": alt.Color(**look, scale=alt.Scale(domain=list(names), range=colours)),
        "shape": alt.Shape(**look, scale=alt.Scale(domain=list(names), range=shapes)),
    }


def spec(chart: Any, data: Mapping[str, list[dict[str, Any]]], description: str, height: int = TALL) -> dict[str, Any]:
    """The specification of a chart as wide as its place on the page, with its named data."""
    made: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    made.pop("$schema", None)
    # Descriptions of single marks would be thousands; the table beside the chart has their numbers.
    made["config"] = {**CONFIG, "mark": {"aria": False}, "aria": True}
    made["description"] = description
    made["autosize"] = {"type": "fit-x", "contains": "padding"}
    made["padding"] = {"left": 4, "top": 8, "right": 12, "bottom": 4}
    made["datasets"] = dict(data)
    return made


def points(
    x: Column, y: Column, kind: Column, more: Sequence[Column], interval: tuple[Column, Column] | None, description: str
) -> dict[str, Any]:
    """Points of kinds over two numbers, with bars of an interval of the second one; an area of them can be selected."""
    alt = altair()
    shown = {"x": x, "y": y, "kind": kind} | {f"t{number}": one for number, one in enumerate(more)}
    data = rows(shown)
    names = list(dict.fromkeys(row["kind"] for row in data))
    base = alt.Chart(alt.NamedData(name="points"))
    upwards = np.array([row["y"] for row in data if row["y"] is not None], float)
    layers = []
    if interval is not None:
        for row, low, high in zip(data, interval[0].values, interval[1].values, strict=True):
            row |= {"low": y.scaled(low), "high": y.scaled(high)}
        ends = [row[end] for row in data for end in ("low", "high") if row[end] is not None]
        upwards = np.concatenate([upwards, np.array(ends, float)])
    across = np.array([row["x"] for row in data if row["x"] is not None], float)
    channels = {"x": axis("x", x.title, across), "y": axis("y", y.title, upwards)}
    if interval is not None:
        rule = base.mark_rule(strokeWidth=1.5, strokeOpacity=0.55)
        low = alt.Y(field="low", type="quantitative", title=y.title)
        colour = kinds("kind", kind.title, names)["color"]
        layers.append(rule.encode(x=channels["x"], y=low, y2=alt.Y2(field="high"), color=colour))
    brush = alt.selection_interval(name="brush", encodings=["x", "y"])
    dots = base.mark_point(filled=True, size=90, opacity=0.95).encode(
        **channels, **kinds("kind", kind.title, names), tooltip=tips(shown)
    )
    layers.append(dots.add_params(brush))
    return spec(alt.layer(*layers), {"points": data}, description)


def bars(label: Column, value: Column, kind: Column | None, more: Sequence[Column], description: str) -> dict[str, Any]:
    """Horizontal bars in their order, each with its number behind it, coloured by kind."""
    alt = altair()
    shown = {"label": label, "value": value, **({} if kind is None else {"kind": kind})}
    shown |= {f"t{number}": one for number, one in enumerate(more)}
    data = rows(shown)
    for row, number in zip(data, value.values, strict=True):
        row["text"] = value.text(number) + (f"  {row['kind']}" if kind is not None else "")
    longest = max((row["value"] or 0.0 for row in data), default=1.0) or 1.0
    across = alt.Scale(domain=[0, longest], nice=False, rangeMax={"expr": "width - 95"})
    base = alt.Chart(alt.NamedData(name="bars")).encode(
        y=alt.Y(field="label", type="nominal", sort=None, title=None, axis=alt.Axis(labelLimit=150, ticks=False)),
        x=alt.X(field="value", type="quantitative", title=value.title, scale=across),
    )
    colour: Any = alt.value(COLOURS[0])
    if kind is not None:
        # No legend: the text behind each bar has its kind.
        names = list(dict.fromkeys(row["kind"] for row in data))
        colour = kinds("kind", kind.title, names)["color"].copy()
        colour["legend"] = None
    drawn = base.mark_bar(height={"band": 0.72}, cornerRadiusEnd=2).encode(color=colour, tooltip=tips(shown))
    text = base.mark_text(align="left", dx=5, fontSize=11, color="var(--ink)").encode(text=alt.Text(field="text"))
    return spec(drawn + text, {"bars": data}, description, height=max(90, 22 * len(data)))


def parts(title: str, what: str, values: Mapping[str, float], unit: str, note: str = "") -> Chart:
    """Bars of what a whole consists of, with their shares; `what` names the quantity, in an SI unit."""
    total = sum(values.values())
    shares = Column("share", "share (%)", [value / total for value in values.values()], 0.01)
    listed = ", ".join(f"{name} {value / total:.0%}" for name, value in values.items())
    label, number = words("part", "part", list(values)), quantity(what, what.capitalize(), list(values.values()), unit)
    drawn = bars(label, number, None, [shares], f"{title} by part: {listed}")
    return Chart(title, drawn, drawn["description"], note)


def lines(
    x: str,
    y: str,
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
    description: str,
    log: tuple[bool, bool],
    limits: Mapping[str, float] | None = None,
    step: bool = False,
    height: int = 220,
) -> dict[str, Any]:
    """Lines by name, told apart by colour and dashes, with vertical limits.

    Args:
      x, y: titles of the axes.
      series: name -> numbers across and upwards, in the units of the titles.
      description: for readers who do not see it.
      log: whether each axis is logarithmic.
      limits: name -> place across.
      step: lines go across first.
      height: pixels.
    """
    alt = altair()
    data = [
        {"x": _plain(across), "y": _plain(up), "series": name}
        for name, both in series.items()
        for across, up in zip(*both, strict=True)
        if np.isfinite(across) and np.isfinite(up) and (across > 0 or not log[0]) and (up > 0 or not log[1])
    ]
    names = list(series)
    look: dict[str, Any] = {"field": "series", "type": "nominal", "title": None}
    colour = alt.Color(**look, scale=alt.Scale(domain=names, range=[COLOURS[i % 8] for i in range(len(names))]))
    dash = alt.StrokeDash(**look, scale=alt.Scale(domain=names, range=[list(DASHES[i % 8]) for i in range(len(names))]))
    numbers = {side: np.array([row[side] for row in data], float) for side in "xy"}
    channels = {
        side: axis(side, title, numbers[side], one, zero=side == "y")
        for side, title, one in zip("xy", (x, y), log, strict=True)
    }
    shown = [
        alt.Tooltip(field="series", type="nominal", title="series"),
        alt.Tooltip(field="x", type="quantitative", title=x, format=FORMAT),
        alt.Tooltip(field="y", type="quantitative", title=y, format=FORMAT),
    ]
    base = alt.Chart(alt.NamedData(name="lines")).encode(**channels)
    drawn = base.mark_line(strokeWidth=2, interpolate="step-after" if step else "linear")
    layers = [drawn.encode(color=colour, strokeDash=dash)]
    # Wide invisible points take the pointer: a line alone is hard to hit.
    layers.append(base.mark_point(size=120, opacity=0, filled=True).encode(tooltip=shown))
    named = {"lines": data}
    if limits:
        named["limits"] = [{"x": place, "name": name} for name, place in limits.items()]
        rule = alt.Chart(alt.NamedData(name="limits")).encode(x=alt.X(field="x", type="quantitative"))
        layers.append(rule.mark_rule(color="var(--quiet)", strokeDash=[4, 3], strokeWidth=1.5))
        layers.append(
            rule.mark_text(align="left", dx=5, y={"expr": "height - 10"}, fontSize=11, color="var(--ink)").encode(
                text=alt.Text(field="name")
            )
        )
    return spec(alt.layer(*layers), named, description, height)


def _plain(value: Any) -> float | None:
    """A number of few digits: more are not seen, and take room."""
    return None if value is None else float(f"{float(value):.6g}")
