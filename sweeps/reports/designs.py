"""Section of a sweep or an optimum: its front of two metrics, and the designs that are selected on it."""

import dataclasses
import json
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import feasible, feasible_points, key_metrics, metrics
from sweeps.data.conditions import conditions
from sweeps.data.keep.rows import as_sample
from sweeps.reports import front_chart
from sweeps.reports.blocks import Chart, Column, Section, Table, column, quantity, said, words
from sweeps.reports.facts import of_attributes
from sweeps.show.pareto import front
from sweeps.show.plane import best_sentence, beyond, distinct

ACROSS = (
    "tpot",
    "tpot_p50",
    "tpot_mean",
    "step_time",
    "iteration_time",
    "time",
    "e2e",
    "ttft",
    "ttft_p99",
    "tokens_per_second_per_request",
)
"""Latencies, of which the first that varies is drawn across."""

UPWARDS = (
    "owning_usd_per_million_tokens",
    "usd_per_million_tokens",
    "usd_per_billion_tokens",
    "tokens_per_second_per_device",
    "goodput",
    "training_tokens_per_second_per_device",
    "mfu",
    "energy_delay_product",
    "requests_per_second",
)
"""Costs and throughputs, of which the first that varies is drawn upwards."""

FRONT = 2000
"""Designs of fronts that are listed at most."""

SAMPLE = 800
"""Designs beside the fronts that can be selected: an even sample, the same every time."""

MORE = 6
"""Columns of metrics beside the two of the front."""

MOST = 200_000_000
"""Points up to which arrays of all of them fit in the memory of a workstation."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Feasible points of a dataset over the axes that two metrics depend on, flat."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    at: np.ndarray  # position of each feasible point in the flattened axes
    x: np.ndarray
    y: np.ndarray


def designs_section(data: xr.Dataset) -> Section:
    """The section of a sweep, of what a sweep kept, or of an optimum."""
    dataset = _sample(data)
    x, y = chosen_pair(dataset)
    points = _points(dataset, x, y)
    title = str(data.attrs.get("title", "Sweep"))
    title = f"{title[:1].upper()}{title[1:]}"
    facts = _facts(data, dataset)
    if not points.at.size:
        return Section("sweep", title, "No design is feasible.", facts, **of_attributes(data.attrs))
    groups = conditions(dataset)
    fronts = _fronts(dataset, points, groups, x, y)
    others = _others(points, fronts)
    chosen = np.concatenate([*fronts.values(), others])
    table = _table(dataset, points, chosen, sum(map(len, fronts.values())), x, y)
    chart = front_chart.front_chart(dataset, points, fronts, others, table, x, y)
    answer, where = best_sentence(dataset, y) if y in dataset else ("", "")
    answer = f"{answer}. {where}".replace("..", ".") if answer else f"{points.at.size:,} designs are feasible."
    blocks: list[Table | Chart] = [chart, table]
    if "active" in data.attrs:
        blocks += _binding(data)
    return Section(
        "optimum" if "design" in data.dims else "sweep", title, answer, facts, blocks, **of_attributes(data.attrs)
    )


def _sample(data: xr.Dataset) -> xr.Dataset:
    """The dataset with its points as a sample or a grid; designs of an optimum are a sample."""
    dataset = as_sample(data)
    if dataset is None:
        raise ValueError("it kept counts of points, not points: `jaxroof plot --kind spread` draws them")
    if "design" in dataset.dims:
        others = [dim for dim in dataset.dims if dim != "design"]
        dataset = (
            dataset.drop_dims(others)
            .rename({"design": "point"})
            .assign_coords(point=("point", np.arange(dataset.sizes["design"])))
        )
    return dataset


def chosen_pair(dataset: xr.Dataset) -> tuple[str, str]:
    """The two metrics to trade: those of a kept front, else a latency against a cost, else the first two that vary.

    Raises:
      ValueError: one line, where fewer than two metrics vary.
    """
    if "pareto" in dataset.attrs:
        first, _, second = str(dataset.attrs["pareto"]).partition(":")
        if first in dataset and second in dataset:
            return first, second
    varying = [name for name in (*key_metrics(dataset), *metrics(dataset)) if name in dataset and dataset[name].dims]
    varying = list(dict.fromkeys(varying))
    across = next((name for name in ACROSS if name in varying), None)
    up = next((name for name in UPWARDS if name in varying and name != across), None)
    left = [name for name in varying if name not in (across, up)]
    across = across or (left.pop(0) if left else None)
    up = up or (left.pop(0) if left else None)
    if across is None or up is None:
        raise ValueError("a front needs two metrics that vary, and it has fewer")
    return across, up


def _points(dataset: xr.Dataset, x: str, y: str) -> Points:
    plain = {name: dataset[name].drop_vars(dataset[name].coords) for name in (x, y)}
    first, second = xr.broadcast(plain[x], plain[y])
    if first.size > MOST:
        raise ValueError(f'it has {first.size:,} points, more than {MOST:,}: sweep it with keep = ["pareto=..."]')
    second = second.transpose(*first.dims)
    mask = feasible(dataset)
    # A point counts where any point along the axes is feasible that neither metric depends on.
    mask = mask.any([dim for dim in mask.dims if dim not in first.dims])
    keep = np.broadcast_to(mask.broadcast_like(first).transpose(*first.dims).values, first.shape).reshape(-1)
    across, up = first.values.reshape(-1), second.values.reshape(-1)
    # Infeasible points may hold infinities or be missing.
    at = np.flatnonzero(keep & np.isfinite(across) & np.isfinite(up))
    return Points(tuple(map(str, first.dims)), first.shape, at, across[at], up[at])


def at_points(array: xr.DataArray, points: Points, chosen: np.ndarray) -> np.ndarray:
    """Values of a variable or coordinate at some of the points; along other axes, at their first position."""
    where = dict(zip(points.dims, np.unravel_index(points.at[chosen], points.shape), strict=True))
    index = tuple(where.get(str(dim), np.zeros(len(chosen), int)) for dim in array.dims)
    # One-dimensional picks: all dimensions are indexed together, as NumPy does.
    return np.asarray(array.values[index]) if array.dims else np.full(len(chosen), array.values[()])


def _fronts(dataset: xr.Dataset, points: Points, groups: tuple[str, ...], x: str, y: str) -> dict[str, np.ndarray]:
    """Places of the designs that no other beats, exactly, by the value of the conditions."""
    signs = [-1.0 if variable(name).higher_is_better else 1.0 for name in (x, y)]
    across, up = signs[0] * points.x, signs[1] * points.y
    there = [name for name in groups if dataset[name].dims and str(dataset[name].dims[0]) in points.dims]
    if not there:
        return {"": front(across, up)}
    every = np.arange(points.at.size)
    columns = [at_points(dataset[name], points, every) for name in there]
    kinds, codes = np.unique(
        np.stack([np.unique(one, return_inverse=True)[1] for one in columns]), axis=1, return_inverse=True
    )
    found: dict[str, np.ndarray] = {}
    for code in range(kinds.shape[1]):
        places = np.flatnonzero(codes.reshape(-1) == code)
        texts = [
            f"{labels.short(dataset, name)} {labels.text(dataset, name, one[places[0]])}"
            for name, one in zip(there, columns, strict=True)
        ]
        best = places[front(across[places], up[places])]
        if sum(map(len, found.values())) + len(best) > FRONT:
            break
        found[", ".join(texts)] = best
    return found


def _others(points: Points, fronts: dict[str, np.ndarray]) -> np.ndarray:
    """Places of an even sample of the points that are on no front, the same every time."""
    on = np.concatenate([*fronts.values(), np.zeros(0, int)])
    rest = points.at.size - on.size
    if rest <= SAMPLE:
        return np.setdiff1d(np.arange(points.at.size), on)
    picks = np.unique(np.random.default_rng(0).integers(0, points.at.size, SAMPLE))
    return np.setdiff1d(picks, on)


def _table(dataset: xr.Dataset, points: Points, chosen: np.ndarray, on_front: int, x: str, y: str) -> Table:
    """Selected designs: both metrics, others that readers ask for, what binds, and where in the sweep they are."""
    names = dict.fromkeys((x, y, *key_metrics(dataset), *metrics(dataset)))
    shown = [name for name in names if name in dataset and dataset[name].dims and not _of_ops(dataset[name])]
    columns = [words("front", "front", ["yes" if i < on_front else "no" for i in range(len(chosen))])]
    for name in shown[: 2 + MORE]:
        columns.append(column(name, _items(at_points(dataset[name], points, chosen)), extra=shown.index(name) > 3))
    for name in (str(name) for name in dataset.data_vars if str(name).endswith("bound") and not _of_ops(dataset[name])):
        columns.append(
            words(
                name,
                f"{name.removesuffix('bound').strip('_') or 'step'} bound by",
                bound_names(dataset, name, points, chosen),
            )
        )
    far = beyond(dataset)
    if far.dims:
        inside = at_points(far, points, chosen)
        columns.append(words("evidence", "evidence", ["beyond" if one else "inside" for one in inside]))
    for name in labels.axes(dataset):
        if dataset[name].dims[0] in points.dims and len(distinct(dataset[name].values)) > 1:
            columns.append(_coordinate(dataset, name, _items(at_points(dataset[name], points, chosen))))
    note = "Designs on the front, until an area of the chart is selected."
    return Table("Selected designs", columns, note, (columns[1], columns[2]), on_front)


def _coordinate(dataset: xr.Dataset, name: str, values: list[Any]) -> Column:
    head = labels.short(dataset, name)
    if labels.is_text(dataset[name]):
        return words(name, head, values)
    return quantity(name, head, values, labels.unit(dataset, name), labels.title(dataset, name))


def bound_names(dataset: xr.Dataset, name: str, points: Points, chosen: np.ndarray) -> list[str]:
    """What binds at some of the points, in words."""
    flags, codes = variable(name).flags, at_points(dataset[name], points, chosen)
    return [flags[int(code)] if 0 <= code < len(flags) else "unknown" for code in codes]


def _of_ops(array: xr.DataArray) -> bool:
    return any(labels.is_op_dimension(str(dim)) for dim in array.dims)


def _items(values: np.ndarray) -> list[Any]:
    """Values as Python's own, NaN as None, floats without digits that a float32 does not have."""
    items = values.tolist()
    if values.dtype.kind != "f":
        return items
    return [float(f"{value:.6g}") if value == value else None for value in items]


def _facts(data: xr.Dataset, dataset: xr.Dataset) -> list[tuple[str, str]]:
    """What was swept: entries, points, axes, and numbers that are held."""
    possible, total = feasible_points(dataset)
    stated = data.attrs.get("points")
    facts = [("Entries", str(data.attrs.get("entries", "")))]
    if stated is not None:
        facts.append(("Designs", f"{int(stated):,}, of which {total:,} were kept"))
    else:
        facts.append(("Designs", f"{total:,}, of which {possible:,} are feasible"))
    axes = [f"{labels.short(dataset, name)} ({len(distinct(dataset[name].values)):,})" for name in labels.axes(dataset)]
    facts.append(("Axes", ", ".join(axes)))
    held = [
        f"{labels.short(dataset, str(name))} {labels.text(dataset, str(name), label.values[()])}"
        for name, label in dataset.coords.items()
        if not label.dims
    ]
    facts.append(("Held", ", ".join(held)))
    facts.append(("Objectives", str(data.attrs.get("objectives", ""))))
    return [fact for fact in facts if fact[1]]


def _binding(data: xr.Dataset) -> list[Table]:
    """Constraints and bounds that are active at an optimum."""
    active = json.loads(data.attrs["active"])
    if not active:
        return []
    columns = [
        words("name", "limit", [one.get("name") for one in active]),
        words("kind", "kind", [one.get("kind") for one in active]),
        Column("elasticity", "elasticity", [one.get("elasticity") for one in active]),
    ]
    objective = said("objective", data.attrs.get("objectives"))
    return [
        Table(
            "What binds the best design",
            columns,
            f"Elasticity: change of the objective ({objective}) per change of the limit.",
        )
    ]
