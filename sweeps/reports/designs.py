"""Section of a sweep or an optimum: its front of two metrics, and the designs that are selected on it."""

import json
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.data.best import feasible_points, key_metrics, metrics
from sweeps.data.conditions import conditions
from sweeps.data.keep.rows import as_sample
from sweeps.reports.blocks import Chart, Column, Section, Table, column, quantity, said, words
from sweeps.reports.facts import of_attributes
from sweeps.reports.front_chart import front_chart
from sweeps.reports.points import Points, at_points, feasible_in, fronts, sample
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

MORE = 6
"""Columns of metrics beside the two of the front."""


def designs_section(data: xr.Dataset) -> Section:
    """The section of a sweep, of what a sweep kept, or of an optimum."""
    dataset = _sample(data)
    x, y = chosen_pair(dataset)
    points = feasible_in(dataset, x, y)
    title = str(data.attrs.get("title", "Sweep"))
    title = f"{title[:1].upper()}{title[1:]}"
    facts = _facts(data, dataset)
    if not points.at.size:
        return Section("sweep", title, "No design is feasible.", facts, **of_attributes(data.attrs))
    groups = conditions(dataset)
    found = fronts(dataset, points, groups, x, y)
    others = sample(points, found)
    chosen = np.concatenate([*found.values(), others])
    table = _table(dataset, points, chosen, sum(map(len, found.values())), x, y)
    chart = front_chart(points, found, others, table, x, y)
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
