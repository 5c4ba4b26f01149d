"""Kernels in pictures: predicted against measured times and power, and errors over what describes a call."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import hwspaces
from sweeps.ask.names import PARTS
from sweeps.measure.validate.die_areas import DieArea
from sweeps.measure.validate.kernel_errors import ScoredKernels
from sweeps.measure.validate.kernel_power import PowerScore
from sweeps.show import style

COLUMNS = 3
BINS = 14
"""Ranges of a feature whose errors are summed up by one point."""

NAMES = {
    "m": "rows m",
    "n": "outputs n",
    "k": "inputs k",
    "batch": "sequences",
    "seq_q": "new tokens per sequence",
    "kv_past": "cached tokens per sequence",
    "kv_len": "cached tokens per sequence",
    "n_heads": "query heads",
    "n_kv_heads": "heads of keys and values",
    "head_dim": "elements per head",
    "window": "window",
    "num_tokens": "tokens",
    "topk": "experts per token",
    "num_experts": "experts",
    "inter_size": "width of an expert",
    "moe_tp_size": "devices that share an expert",
    "rows": "rows of all experts",
    "stored": "rows of all experts, masked ones too",
    "touched": "experts with rows",
    "largest": "rows of the busiest expert",
    "copies": "copies of the weights in turn",
}
"""Column of a table -> what it counts."""


@style.styled
def measured_against_predicted(family: str, scored: Sequence[ScoredKernels]) -> Any:
    """A panel per device: predicted over measured time, against measured time; dark where rows are many."""
    devices, spread = list(dict.fromkeys(one.group.device for one in scored)), _measured(scored)
    fig, panels = _panels(
        scored,
        len(devices),
        f"{family[:1].upper()}{family[1:]}: predicted over measured time",
        "Shade: rows, logarithmic. Lines: median, and the range of 90 % of rows. Beside each name: median and mean "
        "absolute error.",
    )
    for axes, device in zip(panels, devices, strict=True):
        part = [one for one in scored if one.group.device == device]
        measured, ratio = _measured(part), _ratio(part)
        # Ratios beyond the axis are drawn at its edge.
        shown = np.clip(ratio, 1.0 / style.LARGEST_RATIO, style.LARGEST_RATIO)
        axes.hexbin(
            measured, shown, xscale="log", yscale="log", gridsize=45, bins="log", cmap="Greys", linewidths=0, mincnt=1
        )
        _spread(axes, measured, ratio, style.SERIES_COLOURS[0])
        _median(axes, measured, ratio, style.SERIES_COLOURS[0])
        axes.set_title(f"{_name(device)}: {_error_text(ratio)}", fontsize=9)
        style.quantity_axis(axes, "x", "measured", "s", spread, True, (spread.min(), spread.max()))
    return fig


@style.styled
def errors_by_feature(family: str, scored: Sequence[ScoredKernels]) -> Any:
    """A panel per column of the table: median of predicted over measured time by device, 90 % range of all rows."""
    # A column that is the same in all rows explains no error.
    names = [name for name in scored[0].group.columns if len(np.unique(_column(scored, name))) > 1]
    devices = list(dict.fromkeys(one.group.device for one in scored))
    fig, panels = _panels(
        scored,
        len(names),
        f"{family[:1].upper()}{family[1:]}: error against everything that describes a call",
        "Predicted over measured time: line, the median of a device; shade, the range of 90 % of all rows.",
    )
    for axes, name in zip(panels, names, strict=True):
        # Features may be zero, which a logarithmic axis does not have: they stand at one half.
        _spread(axes, np.maximum(_column(scored, name), 0.5), _ratio(scored), style.QUIET)
        for colour, device in zip(style.SERIES_COLOURS, devices, strict=False):
            part = [one for one in scored if one.group.device == device]
            _median(axes, np.maximum(_column(part, name), 0.5), _ratio(part), colour, _name(device))
        axes.set_xlabel(NAMES.get(name, name.replace("_", " ")))
        axes.set_xscale("log")
        style.scaled_ticks(axes.xaxis, np.maximum(_column(scored, name), 0.5), "1", True)
    panels[0].legend(fontsize=7, ncols=2, loc="upper center")
    return fig


@style.styled
def blocks_by_context(scored: Sequence[ScoredKernels]) -> Any:
    """A panel per kind of attention block: predicted over measured time against the context of its last token."""
    families = sorted({one.group.family for one in scored})
    devices = list(dict.fromkeys(one.group.device for one in scored))
    fig, panels = _panels(
        scored,
        len(families),
        "Attention blocks and their kernels: predicted over measured time, by context",
        "Line: median of a device; shade: range of 90 % of all rows. Beside each name: median and mean absolute error.",
    )
    for axes, family in zip(panels, families, strict=True):
        part = [one for one in scored if one.group.family == family]
        _spread(axes, _context(part), _ratio(part), style.QUIET)
        for colour, device in zip(style.SERIES_COLOURS, devices, strict=False):
            own = [one for one in part if one.group.device == device]
            if own:
                _median(axes, _context(own), _ratio(own), colour, _name(device))
        axes.set_title(f"{family[:1].upper()}{family[1:]}: {_error_text(_ratio(part))}", fontsize=8)
        axes.set_xscale("log")
        style.scaled_ticks(axes.xaxis, _context(part), "1", True)
        axes.set_xlabel("Tokens of a sequence, cached and new")
    # The panel that has most devices names them all.
    most = max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[1]))
    most.legend(fontsize=6, ncols=2, loc="upper center")
    return fig


def _context(scored: Sequence[ScoredKernels]) -> np.ndarray:
    return np.maximum(_column(scored, "step") + _column(scored, "isl"), 1.0)


@style.styled
def power_against_measured(scores: Sequence[PowerScore]) -> Any:
    """A panel per table and precision: predicted against measured power; short runs, which the meter blurs, in grey."""
    names = list(dict.fromkeys(score.label for score in scores))
    count, devices = sum(len(score.group) for score in scores), list(dict.fromkeys(s.group.device for s in scores))
    fig, panels = style.panels(
        len(names),
        COLUMNS,
        (11.0 / COLUMNS, 3.0),
        (0.0, 0.3),
        "Predicted against measured power of kernels",
        "Colour: runs that fill the meter's window; grey: shorter runs, whose readings are of what ran before as well.",
        f"{count:,} rows of {', '.join(devices)}",
    )
    # Equal limits of both axes: the diagonal is where predictions are right.
    top = 1.05 * max(score.measured.max() for score in scores)
    for axes, name in zip(panels, names, strict=True):
        part = [score for score in scores if score.label == name]
        measured, power, filled = (
            np.concatenate([getattr(s, field) for s in part]) for field in ("measured", "power", "filled")
        )
        axes.plot([0.0, top], [0.0, top], color=style.QUIET, lw=0.8, zorder=1)
        axes.scatter(measured[~filled], power[~filled], s=3, lw=0, color=style.CLOUD, rasterized=True)
        axes.scatter(
            measured[filled], power[filled], s=4, lw=0, alpha=0.5, color=style.SERIES_COLOURS[0], rasterized=True
        )
        error = np.abs(power[filled] / measured[filled] - 1.0)
        note = f": {np.median(error):.0%}, {np.mean(error):.0%}" if filled.any() else ""
        short = name.replace("_attention bfloat16", "").replace("context", "prefill").replace("generation", "decode")
        axes.set_title(f"{short}{note}", fontsize=9)
        axes.set(xlim=(0.0, top), ylim=(0.0, top), xlabel="Measured, W", ylabel="Predicted, W")
    return fig


def _panels(scored: Sequence[ScoredKernels], count: int, title: str, details: str) -> tuple[Any, list[Any]]:
    """A figure and its panels, each with a line where predicted and measured times are equal."""
    engines = ", ".join(dict.fromkeys(f"{one.group.engine} {one.group.version}" for one in scored))
    source = f"{sum(len(one.group) for one in scored):,} rows of {engines}"
    fig, panels = style.panels(count, COLUMNS, (11.0 / COLUMNS, 2.6), (0.0, 0.3), title, details, source)
    for axes in panels:
        axes.axhline(1.0, color=style.QUIET, lw=0.8, zorder=1)
    return fig, panels


def _spread(axes: Any, feature: np.ndarray, ratio: np.ndarray, colour: str) -> None:
    """The range of 90 % of `ratio` over ranges of `feature`, as a shade."""
    at, groups = _ranges(feature, ratio)
    low, _, high = style.spread_of(groups)
    style.ratio_axis(axes)
    axes.fill_between(at, low, high, color=colour, alpha=0.13, lw=0)


def _median(axes: Any, feature: np.ndarray, ratio: np.ndarray, colour: str, label: str = "") -> None:
    """The median of `ratio` over ranges of `feature`, as a line."""
    at, groups = _ranges(feature, ratio)
    axes.plot(at, style.spread_of(groups)[1], "-", lw=1.3, color=colour, label=label)


def _ranges(feature: np.ndarray, ratio: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Places on the axis of `feature` and the ratios there: values where few, else equal shares of rows."""
    values = np.unique(feature)
    # Many values are summed up in ranges with equal numbers of rows.
    if len(values) > BINS:
        values = np.unique(np.quantile(feature, np.linspace(0.0, 1.0, BINS + 1)))
        # Index of the range of every row; the last range includes its upper end.
        place = np.clip(np.searchsorted(values, feature, side="right") - 1, 0, len(values) - 2)
        groups = [ratio[place == i] for i in range(len(values) - 1)]
        # Geometric means: the axis is logarithmic.
        at = np.sqrt(values[1:] * values[:-1])
    else:
        groups, at = [ratio[feature == value] for value in values], values
    # Ranges may be empty where many rows have the same value.
    filled = [i for i, group in enumerate(groups) if len(group)]
    return at[filled], [groups[i] for i in filled]


def _name(device: str) -> str:
    """The catalogue's own name of a device, for an alias."""
    return hwspaces.hardware(device).name


def _error_text(ratio: np.ndarray) -> str:
    error = np.abs(ratio - 1.0)
    return f"{np.median(error):.0%}, {np.mean(error):.0%}"


def _column(scored: Sequence[ScoredKernels], name: str) -> np.ndarray:
    return np.concatenate([one.group.columns[name] for one in scored])


def _measured(scored: Sequence[ScoredKernels]) -> np.ndarray:
    return np.concatenate([one.group.seconds for one in scored])


def _ratio(scored: Sequence[ScoredKernels]) -> np.ndarray:
    return np.concatenate([one.seconds for one in scored]) / _measured(scored)


# Die area in a picture: the parts of every die beside its published size.


@style.styled
def area_by_part(rows: Sequence[DieArea]) -> Any:
    """A bar per die, of the accelerator that it is worst for: predicted parts stacked; a mark where the die is."""
    shown: dict[str, DieArea] = {}
    for row in rows:
        # A die of several accelerators is shown for the one with the largest error.
        if row.die not in shown or row.error > shown[row.die].error:
            shown[row.die] = row
    bars = sorted(shown.values(), key=lambda row: row.known)
    worst = max((row.error for row in bars if row.fitted), default=0.0)
    title = f"Predicted die areas are within {worst:.0%} of published sizes where fitted to"
    details = "Bars: predicted, by part. Marks: published; hollow ones were not fitted to, or are upper limits."
    fig = style.figure(8.4, 0.5 + 0.32 * len(bars), title, details, "jaxroof validate area")
    axes, places, left = fig.subplots(), np.arange(len(bars)), np.zeros(len(bars))
    shades = style.matplotlib().colormaps["tab20"].colors
    for (part, words), colour in zip(PARTS.items(), shades[::2] + shades[1::2], strict=False):
        # Areas are m2, and shown as mm2.
        width = np.array([row.parts[part] for row in bars]) * 1e6
        axes.barh(places, width, 0.7, left, color=colour, label=words)
        left += width
    for place, row in zip(places, bars, strict=True):
        fill = style.INK if row.fitted else "white"
        axes.plot(row.known * 1e6, place, "D", ms=6, mfc=fill, mec=style.INK, zorder=4)
    axes.set_yticks(places, [f"{row.die} ({row.device})" for row in bars])
    axes.set_xlabel("mm2 of all dies of a device")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.2)
    return fig
