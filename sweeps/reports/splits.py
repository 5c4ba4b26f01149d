"""Section of the best split: devices for prefill and for decode, over the load."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, column, said, words
from sweeps.reports.facts import of_attributes

LATENCIES = ("ttft", "tpot", "e2e")


def splits_record_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `disaggregate --devices`."""
    dims = {"best_split": ("load",), "prefill_devices": ("split",), "decode_devices": ("split",)}
    dims |= {"split": ("split",), "load": ("load",)}
    values = {name: np.array(one) for name, one in record.items() if isinstance(one, list)}
    data = xr.Dataset({name: (dims.get(name, ("split", "load")), one) for name, one in values.items()})
    return splits_section(data.assign_attrs({**record["attributes"], "command": record.get("command") or ""}))


def splits_section(data: xr.Dataset) -> Section:
    """The section of a dataset of `disaggregate --devices -o`."""
    names = [str(name) for name in data["split"].values]
    loads, best = data["load"].values.astype(float), data["best_split"].values.astype(int)
    held = np.flatnonzero(best >= 0)
    answer = "No split keeps the limits at any of these loads."
    if held.size:
        low, high = held[0], held[-1]
        answer = (
            f"Of splits prefill:decode {names[best[low]]} is the best at {loads[low]:.3g} requests/s, and "
            f"{names[best[high]]} at {loads[high]:.3g}, the largest load here that any of them takes."
        )
    attributes = data.attrs
    keys = {"requests": "Requests", "target": "Limits", "replicas": "Replicas", "efficiency": "Efficiency"}
    facts = [(title, str(attributes[key])) for key, title in keys.items() if attributes.get(key)]
    blocks: list[Table | Chart] = [_lines(data, names, loads, name) for name in LATENCIES if name in data]
    blocks += [_best(data, names, loads, best), _every(data, names, loads)]
    title = str(attributes.get("title", "Split of devices"))
    return Section("split of devices", title, answer, facts, blocks, **of_attributes(attributes))


def _lines(data: xr.Dataset, names: Sequence[str], loads: np.ndarray, name: str) -> Chart:
    """A latency of every split over the load, as far as the split takes it."""
    stable = data["split_use"].values < 1.0
    values = np.where(stable, data[name].values, np.nan)
    one = column(name, values[np.isfinite(values)].tolist())
    series = {split: (loads, values[i] / one.scale) for i, split in enumerate(names) if stable[i].any()}
    limit = data.attrs.get(f"limit_{name}")
    note = "A line for each split, up to the load that it takes."
    note += f" The limit is {said(name, float(limit))}." if limit else ""
    description = f"{one.title} over the load, a line for each split prefill:decode of {', '.join(series)}."
    spec = charts.lines("Requests/s", one.title, series, description, (False, False), height=260)
    return Chart(f"{name.upper()} by split", spec, description, note)


def _best(data: xr.Dataset, names: Sequence[str], loads: np.ndarray, best: np.ndarray) -> Table:
    def of_best(name: str) -> list[float | None]:
        return [float(data[name].values[split, i]) if split >= 0 else None for i, split in enumerate(best)]

    columns = [
        Column("load", "requests/s", loads.tolist(), unit="1/s"),
        words("best_split", "best prefill:decode", [names[split] if split >= 0 else None for split in best]),
        *(column(name, of_best(name)) for name in LATENCIES if name in data),
        Column("use", "use (%)", of_best("split_use"), 0.01, "1"),
    ]
    return Table("Best split by load", columns, "A dash: no split keeps up within the limits.", first=20)


def _every(data: xr.Dataset, names: Sequence[str], loads: np.ndarray) -> Table:
    pairs = [(i, j) for j in range(len(loads)) for i in range(len(names))]

    def values(name: str) -> list[float]:
        return [float(data[name].values[i, j]) for i, j in pairs]

    columns = [
        words("split", "prefill:decode", [names[i] for i, _ in pairs]),
        Column("load", "requests/s", [float(loads[j]) for _, j in pairs], unit="1/s"),
        *(column(name, values(name)) for name in LATENCIES if name in data),
        Column("use", "use (%)", values("split_use"), 0.01, "1"),
        Column("limit_ratio", "largest latency over its limit", values("limit_ratio"), unit="1"),
    ]
    return Table("Every split", columns, "At a use of 100 % and more queues grow without end.", first=len(names))
