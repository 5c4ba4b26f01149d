"""Breakdown of a step's time: its ops, stacked, along one axis of a sweep."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.data import labels
from sweeps.data.best import best
from sweeps.show import style
from sweeps.show.overview import default_metric
from sweeps.show.plane import REDUCTIONS, line_axis, positions, source_note, spread, turned

MOST_OPS = 11
"""Ops that have a colour of their own; the smaller ones share one."""

REST = "all others"


@style.styled
def breakdown(dataset: xr.Dataset, x: str | None = None, metric: str | None = None, reduce: str = "best") -> Any:
    """A figure of the time of every op along the axis `x`, one panel per step.

    Args:
      dataset: of a grid whose specification asked for the breakdown.
      x: axis; by default the one that `metric` depends on most.
      metric: what makes a design good; by default the first of what readers ask for.
      reduce: the other axes stand at the "best" feasible design, or each at its middle value ("median").
    """
    steps = [name for name in ("op_time", "prefill_op_time", "decode_op_time") if name in dataset]
    if not steps:
        raise ValueError("the file has no breakdown; set breakdown = true under [output] of its specification")
    if labels.is_sample(dataset):
        raise ValueError("a breakdown needs a grid; the file is a sample")
    metric = metric or default_metric(dataset)
    x = line_axis(dataset, metric, x)
    place = {dim: at for dim, at in _place(dataset, metric, reduce).items() if dim != x}
    values = {dim: labels.text(dataset, dim, dataset[dim].values[at]) for dim, at in place.items()}
    where = ", ".join(f"{labels.short(dataset, dim)} {value}" for dim, value in values.items())
    tables = {name: _table(dataset, name, x, place) for name in steps}
    which = "the best design's values" if reduce == "best" else "their middle values"
    details = f"Other axes at {which}: {where}." if place else ""
    title = f"Where the time goes, by {labels.title(dataset, x)}"
    fig = style.figure(1.8 + 4.4 * len(steps), 4.6, title, details, source_note(dataset))
    axes = fig.subplots(1, len(steps), squeeze=False)[0]
    colours = _colours(tables)
    # Colours are the same in all panels, so that one legend serves them.
    for panel, (name, table) in zip(axes, tables.items(), strict=True):
        _stack(panel, dataset, x, table, colours)
        step = name.removesuffix("op_time").strip("_")
        panel.set_title(f"{step.capitalize()} step" if step else "Step")
    patch = style.matplotlib().patches.Patch
    handles = [patch(color=colour, label=op) for op, colour in reversed(colours.items())]
    axes[-1].legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.2)
    return fig


def _place(dataset: xr.Dataset, metric: str, reduce: str) -> dict[str, int]:
    """Position along every axis at which the others stand."""
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce = {reduce!r} must be {' or '.join(REDUCTIONS)}")
    middle = {name: dataset.sizes[name] // 2 for name in labels.axes(dataset)}
    point = best(dataset, metric) if reduce == "best" else None
    return middle if point is None else point.position


def _table(dataset: xr.Dataset, name: str, x: str, place: dict[str, int]) -> dict[str, np.ndarray]:
    """s of every op along `x`, blocks of layers added up."""
    array = dataset[name].isel({dim: at for dim, at in place.items() if dim in dataset[name].dims})
    ops = str(array.dims[-1])
    # The op does not depend on this axis: its time is repeated along it.
    if x not in array.dims:
        array = array.expand_dims({x: dataset.sizes[x]})
    # An op that a design does not have takes no time.
    values = np.nan_to_num(array.transpose(x, ops).values.astype(float))
    table: dict[str, np.ndarray] = {}
    for op, column in zip(dataset[ops].values, values.T, strict=True):
        # Names begin with the number of the block of layers, by which the same op is added up.
        number, dot, plain = str(op).partition(".")
        plain = plain if dot and number.isdigit() else str(op)
        table[plain] = table.get(plain, 0.0) + column
    return table


def _colours(tables: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    """A colour for each of the largest ops of any step, in the order of running, and one for the rest."""
    share: dict[str, float] = {}
    for table in tables.values():
        total = sum(column.sum() for column in table.values())
        for op, column in table.items():
            # An op counts by its largest share in any step, so that none is hidden which matters in one of them.
            share[op] = max(share.get(op, 0.0), float(column.sum() / total))
    large = sorted(share, key=lambda op: -share[op])[:MOST_OPS]
    palette = style.matplotlib().colormaps["tab20"].colors
    # Six hues of the palette, each in a dark and a light shade.
    bright = [palette[i] for i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 18, 19)]
    named = dict(zip((op for op in share if op in large), bright, strict=False))
    return named | ({REST: style.CLOUD} if len(share) > len(named) else {})


def _stack(axes: Any, dataset: xr.Dataset, x: str, table: dict[str, np.ndarray], colours: dict[str, Any]) -> None:
    across = positions(dataset, x)
    # Ops without a colour of their own are one bar on top of the others.
    rest = sum((column for op, column in table.items() if op not in colours), np.zeros(len(across.at)))
    columns = {op: rest if op == REST else table.get(op, np.zeros_like(rest)) for op in colours}
    total = sum(columns.values(), start=np.zeros(len(across.at)))
    scale = style.prefix(total, "s")[1]
    at, floor = np.arange(len(across.at)), np.zeros(len(across.at))
    for op, column in columns.items():
        axes.bar(at, column / scale, bottom=floor / scale, width=0.84, color=colours[op], lw=0)
        floor = floor + column
    shown = spread(len(at))
    texts = [across.texts[i] for i in shown]
    axes.set_xticks(shown, texts, **turned(texts, 40))
    axes.set_xlabel(across.label)
    axes.set_ylabel(style.quantity_label("time", "s", total))
