"""A sweep's metric over two of its axes, reduced over all others, and the choice behind each value."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.efficiency.hull import BEYOND
from jaxroof.numerics.struct import given
from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import Best, best, coordinates, feasible_points, masked
from sweeps.data.conditions import conditions, parts, where_text
from sweeps.show import style

MOST_SAID = 2
"""Values of conditions up to which a heading has the best design of each."""

SHOWN_TICKS = 12
"""Positions up to which each gets a tick of its own."""


@dataclasses.dataclass(frozen=True)
class Positions:
    """Numbers to plot at, in SI units or counted, and how to label them."""

    name: str
    label: str
    unit: str
    kind: str  # "log", "linear", or "index": names, and numbers without a rule between them
    at: np.ndarray  # shape (n,): where each position is drawn
    texts: tuple[str, ...]  # of each position, without its unit

    @property
    def edges(self) -> np.ndarray:
        """Borders between neighbours, and around the first and last, shape (n + 1,)."""
        at = np.log(self.at) if self.kind == "log" else self.at
        # A single position has a cell of one unit, or of a factor of e on a logarithmic axis.
        if len(at) == 1:
            half = np.array([0.5])
            borders = np.concatenate([at - half, at + half])
        else:
            middle = (at[1:] + at[:-1]) / 2
            # The outer borders mirror the first and the last inner one.
            borders = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
        return np.exp(borders) if self.kind == "log" else borders

    def applied(self, axes: Any, side: str) -> None:
        """Scale, ticks and label of the `side` ("x" or "y") of a matplotlib Axes."""
        axis = getattr(axes, f"{side}axis")
        getattr(axes, f"set_{side}label")(self.label)
        if self.kind == "log":
            getattr(axes, f"set_{side}scale")("log")
        if self.kind != "index":
            style.scaled_ticks(axis, self.at, self.unit, self.kind == "log")
        if self.kind == "index" or len(self.at) <= 8:
            shown = spread(len(self.at))
            texts = [self.texts[i] for i in shown]
            axis.set_minor_locator(style.matplotlib().ticker.NullLocator())
            getattr(axes, f"set_{side}ticks")(self.at[shown], texts, **(turned(texts, 36) if side == "x" else {}))


def turned(texts: list[str], most: int) -> dict[str, Any]:
    """How texts below an axis stand, as matplotlib takes it: aslant where they have more than `most` letters."""
    return {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, texts)) > most else {}


def spread(n: int) -> np.ndarray:
    """Positions of `n` that get a tick: all of a few, else every second, third, ..."""
    return np.arange(0, n, -(-n // SHOWN_TICKS))


def positions(dataset: xr.Dataset, name: str) -> Positions:
    """Positions of the coordinate `name` of `dataset`."""
    values, unit = dataset[name].values, labels.unit(dataset, name)
    label = style.quantity_label(labels.title(dataset, name), unit, values)
    if labels.is_text(dataset[name]):
        return Positions(name, label, unit, "index", np.arange(len(values)), tuple(map(str, values)))
    values = values.astype(float)
    # Ticks show numbers in the unit of the label, such as TB/s.
    scale = style.prefix(values, unit)[1]
    texts = tuple(style.tick_text(_rounded(value / scale)) for value in values)
    kind = _kind(values)
    return Positions(name, label, unit, kind, np.arange(len(values)) if kind == "index" else values, texts)


def _rounded(value: float) -> float:
    """A number to three digits; one that is whole but for rounding errors, exactly."""
    return round(value) if abs(value - round(value)) <= 1e-6 * abs(value) else float(f"{value:.3g}")


def _kind(values: np.ndarray) -> str:
    if len(values) < 2:
        return "index"
    # Equal ratios make a logarithmic axis, equal differences a linear one; else positions are counted.
    if (values > 0).all() and np.allclose(np.diff(np.log(values)), np.log(values[1] / values[0]), rtol=0.02):
        return "log"
    return "linear" if np.allclose(np.diff(values), values[1] - values[0], rtol=0.02) else "index"


# Words of a picture: the best design as a sentence, the reduced axes, and the source of the numbers.


def best_sentence(dataset: xr.Dataset, metric: str) -> tuple[str, str]:
    """The best feasible design by `metric`: (the answer as a sentence, where it is)."""
    names = conditions(dataset)
    point = best(dataset, metric)
    feasible, points = feasible_points(dataset)
    if point is None:
        return f"None of {points:,} designs is feasible", _obstacles(dataset)
    if names:
        return _best_per(dataset, metric, names)
    counted = f"{points:,}" if feasible == points else f"{feasible:,} feasible"
    swept = "" if feasible == points else f" ({points:,} were swept.)"
    return f"Best of {counted} designs: {said(dataset, metric, point.value)}", f"At {place(dataset, point)}.{swept}"


def _best_per(dataset: xr.Dataset, metric: str, names: tuple[str, ...]) -> tuple[str, str]:
    """The same per value of the conditions: each where they are few, else the range of the best ones."""
    optima = [(values, part, best(part, metric)) for values, part in parts(dataset, names)]
    found = [(values, part, point) for values, part, point in optima if point is not None]
    title = f"Best design per {', '.join(labels.short(dataset, name) for name in names)}: "
    if len(found) > MOST_SAID:
        ends = [labels.text(dataset, metric, end(point.value for *_, point in found)) for end in (min, max)]
        return f"{title}{labels.title(dataset, metric)} {ends[0]} to {ends[1]}", f"{len(found):,} conditions."
    texts, places = [], []
    for values, part, point in found:
        own = where_text(dataset, values)
        texts.append(f"{own}: {labels.text(dataset, metric, point.value)}".replace(" ", "\u00a0"))
        places.append(f"{own}: {place(part.drop_vars(names), point)}")
    return f"{title}{labels.title(dataset, metric)}, {'; '.join(texts)}", f"{'; '.join(places)}."


def held(dataset: xr.Dataset, shown: tuple[str | None, ...]) -> xr.Dataset:
    """The dataset at the first value of every condition that no axis of a picture shows; notes say so."""
    notes = []
    for name in conditions(dataset):
        if name in shown:
            continue
        values = dataset[name].values
        text = labels.text(dataset, name, values[0])
        notes.append(f"at {name} {text}, the first of {distinct(values).size} (--at {name}=...)")
        dataset = (
            dataset.isel(point=np.flatnonzero(values == values[0]))
            if labels.is_sample(dataset)
            else dataset.isel({name: 0})
        )
    known = [dataset.attrs["notes"]] if dataset.attrs.get("notes") else []
    return dataset.assign_attrs(notes=" | ".join([*notes, *known])) if notes else dataset


def heading(dataset: xr.Dataset, metric: str, shown: tuple[str | None, ...], reduce: str) -> tuple[str, str]:
    """Title and details of a picture of `metric` over the axes `shown`, reduced over all others."""
    rest = [labels.short(dataset, name) for name in labels.axes(dataset) if name not in shown]
    which = "the best feasible design" if reduce == "best" else "the median of the feasible designs"
    note = "" if not rest or labels.is_sample(dataset) else f"At every place, {which} over {', '.join(rest)}."
    if reduce == "median" and note:
        words = [labels.short(dataset, name) for name in shown if name is not None]
        return f"Median {labels.title(dataset, metric)} by {' and '.join(words)}", note
    title, details = best_sentence(dataset, metric)
    return title, f"{details}\n{note}"


def said(dataset: xr.Dataset, metric: str, value: float) -> str:
    """A value with what it is: "359 tokens per second and device", "time to first token 643 ms"."""
    words, number = labels.title(dataset, metric), labels.text(dataset, metric, value)
    if metric.endswith(("mfu", "mbu")):
        number = f"{100 * value:.1f} %"
    # A space that does not break keeps the unit with its number.
    number = number.replace(" ", "\u00a0")  # a line breaks before a number, not before its unit
    if words.startswith(("tokens per", "US dollars")):
        return f"{number} {words}"
    return f"{words} {number}"


def place(dataset: xr.Dataset, point: Best) -> str:
    """Place of a point in words: "tp 8, HBM bandwidth 3.35 TB/s"."""
    shown = coordinates(dataset, point)
    parts = [
        value if labels.is_text(dataset[name]) else f"{labels.short(dataset, name)} {value}".replace(" ", "\u00a0")
        for name, value in shown.items()
    ]
    return ", ".join(parts) or "the only point"


def _obstacles(dataset: xr.Dataset) -> str:
    """Why nothing is feasible: how many designs are legal splits, and how many fit."""
    words = {"legal": "are splits that the model and the links allow", "fits": "fit in memory"}
    shares = [
        f"{100 * float(dataset[name].mean()):.0f} % {meaning}" for name, meaning in words.items() if name in dataset
    ]
    return f"{'; '.join(shares)}." if shares else ""


def source_note(dataset: xr.Dataset) -> str:
    """Note on the sweep and its source, with the notes that the dataset carries."""
    attributes = dataset.attrs
    entries = attributes.get("entries", "").partition(", ")[0]
    notes = attributes.get("notes", "").split(" | ")
    parts = [attributes.get("title", ""), entries, *notes, attributes.get("source", "")]
    return "; ".join(part for part in parts if part)


REDUCTIONS = ("best", "median")

MOST_POINTS = 20_000
"""Points of a sample that are drawn at most: more only hide one another."""


@dataclasses.dataclass(frozen=True)
class Plane:
    """A metric over the axes `y` and `x`; NaN where nothing is feasible."""

    metric: str
    x: str
    y: str | None  # None: over x alone, one row
    values: np.ndarray  # shape (len(y), len(x))
    others: tuple[str, ...]  # the axes that were reduced
    chosen: tuple[np.ndarray, ...] | None  # of a best one: position along each of them, each of shape (len(y), len(x))

    @property
    def up(self) -> str:
        """The axis `y` of a map; ValueError where there is none."""
        return given(self.y, "second axis")

    def variable(self, dataset: xr.Dataset, name: str) -> np.ndarray:
        """Another variable at the points that hold the best values, shape (len(y), len(x))."""
        # Indices of every place of the map: along x columns, along y rows.
        rows, columns = np.indices(self.values.shape)
        where: dict[str | None, Any] = {self.x: columns, self.y: rows}
        where.update(zip(self.others, self.chosen or (), strict=False))
        array = dataset[name]
        # A dimension without a choice is read at its first position.
        return array.values[tuple(where.get(str(dim), np.zeros_like(rows)) for dim in array.dims)]


def plane(dataset: xr.Dataset, metric: str, x: str, y: str | None, reduce: str = "best") -> Plane:
    """`metric` over `y` and `x`, its best feasible value or its median over the other axes that it depends on."""
    shown_dims = [dim for dim in (y, x) if dim is not None]
    array = masked(dataset, metric, tuple(shown_dims))
    # The other axes last, as one flat axis over which values are reduced.
    others = tuple(str(dim) for dim in array.dims if dim not in shown_dims)
    array = array.transpose(*shown_dims, *others)
    shape = tuple(array.sizes[dim] for dim in shown_dims) if y is not None else (1, array.sizes[x])
    flat = array.values.reshape(*shape, -1)
    finite = np.isfinite(flat)
    # Places with any feasible point; the others stay NaN.
    some = finite.any(axis=-1)
    if reduce == "median":
        values = np.full(shape, np.nan, flat.dtype)
        values[some] = np.nanmedian(flat[some], axis=-1)
        return Plane(metric, x, y, values, others, None)
    higher = variable(metric).higher_is_better
    # Infeasible points must never be chosen, and count as the worst value.
    worst = flat.dtype.type(-np.inf if higher else np.inf)
    filled = np.where(finite, flat, worst)
    # Position of the best point over the flattened axes, which is kept for other variables.
    index = filled.argmax(axis=-1) if higher else filled.argmin(axis=-1)
    extremes = np.take_along_axis(filled, index[..., None], axis=-1)[..., 0]
    values = np.where(some, extremes, np.asarray(np.nan, flat.dtype))
    sizes = tuple(array.sizes[dim] for dim in others)
    chosen = np.unravel_index(index, sizes) if sizes else ()
    return Plane(metric, x, y, values, others, tuple(chosen))


def influence(dataset: xr.Dataset, metric: str) -> dict[str, float]:
    """Variance of the mean of log `metric` along every axis, over the feasible points; the largest first."""
    array = masked(dataset, metric)
    finite = np.isfinite(array.values) & (array.values > 0)
    # Logarithms weigh ratios alike, whatever the magnitude of the metric.
    logs = np.log(np.where(finite, array.values, np.asarray(1.0, array.dtype)))
    variances = {}
    pick = picked(logs.size)
    for name in labels.axes(dataset):
        (dim,) = dataset[name].dims
        if dim not in array.dims:
            variances[name] = 0.0
        elif labels.is_sample(dataset):
            variances[name] = _explained(_bins(dataset[name].values[pick]), logs[pick], finite[pick])
        else:
            # Means over the other axes along this one, from feasible points alone.
            rest = tuple(i for i, other in enumerate(array.dims) if other != dim)
            count = finite.sum(axis=rest)
            total = logs.sum(axis=rest, dtype=float)
            means = total[count > 0] / count[count > 0]
            # The variance of the means: how much this axis moves the metric by itself.
            variances[name] = float(means.var()) if means.size else 0.0
    return dict(sorted(variances.items(), key=lambda item: -item[1]))


def two_axes(dataset: xr.Dataset, metric: str) -> list[str]:
    """Up to two axes to draw a map over, the more influential first; with four numbers or more if any are."""
    ranked = [name for name in influence(dataset, metric) if distinct(dataset[name].values).size > 1]
    numeric = [name for name in ranked if not labels.is_text(dataset[name])]
    fine = [name for name in numeric if distinct(dataset[name].values).size >= 4]
    # Axes with many numbers first: they make maps with more than a few cells.
    return [*dict.fromkeys([*fine, *numeric, *ranked])][:2]


def map_axes(dataset: xr.Dataset, metric: str, x: str | None, y: str | None) -> tuple[str | None, str | None]:
    """Axes of a map: those given, else the most influential that are left; None where there are no more."""
    rest = [name for name in two_axes(dataset, metric) if name not in (x, y)]
    x = x or (rest.pop(0) if rest else None)
    return x, y or (rest.pop(0) if rest else None)


def line_axis(dataset: xr.Dataset, metric: str, x: str | None) -> str:
    """The axis given, else the most influential; ValueError of one line where there is none."""
    x = x or next(iter(two_axes(dataset, metric)), None)
    if x is None:
        raise ValueError("the file holds a single point: there is no axis to draw over")
    return x


def group_axis(dataset: xr.Dataset, taken: tuple[str, ...] = (), most: int = 8) -> str | None:
    """The axis to tell apart by colour: what is deployed if that varies, else the one with fewest values."""
    # Axes that deployments are told apart by, in order of preference.
    usual = ("tp", "hardware", "model", "weights", "kv", "efficiency", "batch")
    sizes = {name: distinct(dataset[name].values).size for name in labels.axes(dataset) if name not in taken}
    few = [name for name, size in sorted(sizes.items(), key=lambda item: item[1]) if 2 <= size <= most]
    return next((name for name in usual if name in few), few[0] if few else None)


def picked(size: int) -> np.ndarray:
    """Positions of the points of `size` that stand for all, every time the same: all of a few, else many, in order."""
    if size <= MOST_POINTS:
        return np.arange(size)
    # A fixed seed: the same file gives the same picture.
    return np.unique(np.random.default_rng(0).integers(0, size, MOST_POINTS))


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values among those that stand for all, sorted."""
    return np.unique(values[picked(values.size)])


def _bins(values: np.ndarray) -> np.ndarray:
    """Index of each draw's bin, of some equally full bins; of few distinct draws, the index of the draw."""
    n = min(32, max(4, values.size // 64))  # with few points to a bin, chance would look like influence
    kinds, codes = np.unique(values, return_inverse=True)
    return codes if kinds.size <= n else codes * n // kinds.size


def _explained(codes: np.ndarray, logs: np.ndarray, finite: np.ndarray) -> float:
    count = np.bincount(codes, finite)
    total = np.bincount(codes, np.where(finite, logs, 0.0))
    return float((total[count > 0] / count[count > 0]).var()) if finite.any() else 0.0


# Marks of extrapolation in pictures: dotted where a design is beyond the evidence of its constants.


HATCH = "...."
BEYOND_WORDS = "beyond the evidence"


def extrapolations(names: Any) -> list[str]:
    """Names of the metrics that say how far engine steps are beyond the evidence, of those that are there."""
    return [name for name in names if str(name).endswith("_extrapolation")]


def beyond(dataset: xr.Dataset) -> xr.DataArray:
    """Whether a step of a design is beyond the evidence; False where the sweep did not ask for how far it is."""
    far = xr.DataArray(False)
    for name in extrapolations(dataset):
        far = far | (dataset[name] >= BEYOND)
    return far


def beyond_there(dataset: xr.Dataset, drawn: Plane) -> np.ndarray:
    """Whether the points that hold a plane's values are beyond the evidence, shape (len(y), len(x)).

    False everywhere where the sweep did not ask for a metric `*_extrapolation`, and for medians over other axes.
    """
    # A median is of many designs, of which no single one is beyond the evidence.
    if drawn.chosen is None and drawn.others:
        return np.zeros(drawn.values.shape, bool)
    far = [drawn.variable(dataset, name) >= BEYOND for name in extrapolations(dataset)]
    return np.any(far, axis=0) & np.isfinite(drawn.values) if far else np.zeros(drawn.values.shape, bool)


def mark_beyond(axes: Any, across: np.ndarray, up: np.ndarray, there: np.ndarray) -> None:
    """Dots over the cells of a map that are beyond the evidence, between the edges `across` and `up`."""
    rectangle = style.matplotlib().patches.Rectangle
    look = {"fill": False, "hatch": HATCH, "lw": 0.0, "edgecolor": style.INK, "zorder": 4}
    for row, cells in enumerate(there):
        # Runs of marked cells in a row become one rectangle each.
        ends = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(int)))
        for first, last in ends.reshape(-1, 2):
            corner, width = (across[first], up[row]), across[last] - across[first]
            axes.add_patch(rectangle(corner, width, up[row + 1] - up[row], **look))


def beyond_handle() -> Any:
    """The mark in a legend."""
    words = BEYOND_WORDS
    return style.matplotlib().patches.Patch(facecolor="white", edgecolor=style.INK, hatch=HATCH, lw=0.4, label=words)
