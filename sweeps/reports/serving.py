"""Sections of simulated streams: latencies, the engine over time, and capacities of many accelerators."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, column, metric_table, row_columns, said, words
from sweeps.reports.facts import about, beside, listed, of_attributes
from sweeps.reports.ops import percentile_table
from sweeps.show.style import prefix

BINS = 300
"""Ranges of time at most, of which a timeline has the mean."""

CURVE = 300
"""Points of a distribution at most."""


def served_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `serve`, which has figures of the whole run alone."""
    metrics = record["metrics"]
    facts = about(record)
    load = record.get("load")
    if isinstance(load, Mapping) and load.get("text"):
        facts.insert(2, ("Load", str(load["text"])))
    if record.get("slo"):
        facts.insert(3, ("Limits", _limits_text(record["slo"])))
    percentiles = percentile_table(metrics)
    blocks: list[Table | Chart] = [
        *_percentile_chart(metrics),
        *([percentiles] if percentiles else []),
        metric_table(metrics),
    ]
    title = f"{record.get('model', 'model')} served on {record.get('hardware', 'a device')}"
    answer = _answer(metrics, record.get("slo"))
    # That of a whole service is at the largest load that it takes.
    if record.get("capacity"):
        most = said("capacity", record["capacity"])
        answer = f"The largest load within {record.get('target')} is {most} requests per second. {answer}"
    return Section("served stream", title, answer, facts, blocks, **beside(record))


def _answer(metrics: Mapping[str, Any], slo: Any) -> str:
    text = (
        f"At {said('requests_per_second', metrics['requests_per_second'])} requests per second the median request has "
        f"TTFT {said('ttft', metrics['ttft_p50'])} and TPOT {said('tpot', metrics['tpot_p50'])}"
    )
    if slo and metrics.get("good_share") is not None:
        text += f"; {said('good_share', metrics['good_share'])} of the requests keep {_limits_text(slo)}"
    left = {name: metrics.get(name) or 0 for name in ("refused", "rejected", "unfinished")}
    lost = [f"{int(count):,} {name}" for name, count in left.items() if count]
    return f"{text}." + (f" Of the others {listed(lost)}." if lost else "")


def _limits_text(slo: Any) -> str:
    if not isinstance(slo, Mapping):
        return str(slo)
    return listed([f"{name.upper()} <= {said(name, value)}" for name, value in slo.items()])


def _percentile_chart(metrics: Mapping[str, Any]) -> list[Chart]:
    """TTFT and TPOT by percentile: all that a record says of their distribution."""
    ends = (50, 90, 95, 99)
    series = {
        name.upper(): (
            np.array(ends, float),
            np.array([metrics.get(f"{name}_p{end}") or np.nan for end in ends], float),
        )
        for name in ("ttft", "tpot", "e2e")
        if f"{name}_p50" in metrics
    }
    if not series:
        return []
    unit, scale = prefix(np.concatenate([both[1] for both in series.values()]), "s")
    series = {name: (across, up / scale) for name, (across, up) in series.items()}
    description = "Latencies by percentile of the requests; the table below has the same figures."
    spec = charts.lines("Percentile of the requests", f"Latency ({unit}s)", series, description, (False, True))
    return [Chart("Latencies by percentile", spec, description)]


def run_section(data: xr.Dataset) -> Section:
    """The section of a dataset of `serve -o`, which has every request and iteration."""
    slo = json.loads(data.attrs.get("slo") or "{}")
    metrics = {str(name): array.values[()].item() for name, array in data.data_vars.items() if not array.dims}
    facts = [
        ("Model", str(data.attrs.get("model", ""))),
        ("Hardware", f"{metrics.get('devices', 1):g} x {data.attrs.get('hardware', '')}"),
        ("Load", str(data.attrs.get("load", ""))),
        ("Limits", _limits_text(slo) if slo else ""),
        ("Engine", str(data.attrs.get("engine", ""))),
        ("Efficiency", str(data.attrs.get("efficiency", ""))),
    ]
    percentiles = percentile_table(metrics)
    blocks = [
        _distributions(data, slo),
        *_timelines(data),
        *([percentiles] if percentiles else []),
        _requests(data),
        metric_table(metrics),
    ]
    title = str(data.attrs.get("title", "Simulation"))
    return Section(
        "served stream",
        f"{title[:1].upper()}{title[1:]}",
        _answer(metrics, slo),
        [fact for fact in facts if fact[1]],
        [block for block in blocks if block is not None],
        **of_attributes(data.attrs),
    )


def _distributions(data: xr.Dataset, slo: Mapping[str, float]) -> Chart | None:
    """Share of the requests with at most a latency, of TTFT, TPOT and E2E."""
    series, everything = {}, []
    for name in ("ttft", "tpot", "e2e"):
        values = np.sort(data[name].values[np.isfinite(data[name].values)]) if name in data else np.zeros(0)
        if not values.size:
            continue
        # Enough points for a smooth curve: both ends, and places evenly between them.
        picks = np.unique(np.linspace(0, values.size - 1, CURVE).astype(int))
        series[name.upper()] = (values[picks], 100.0 * (picks + 1) / values.size)
        everything.append(values[picks])
    if not series:
        return None
    unit, scale = prefix(np.concatenate(everything), "s")
    scaled = {name: (across / scale, up) for name, (across, up) in series.items()}
    limits = {f"{name.upper()} limit": value / scale for name, value in slo.items() if name.upper() in series}
    description = f"Share of the requests with at most a latency: {', '.join(series)}."
    spec = charts.lines(
        f"Latency ({unit}s)", "Requests with at most that (%)", scaled, description, (True, False), limits, True, 300
    )
    return Chart("How long requests take", spec, description, "Vertical lines: limits." if limits else "", wide=True)


def _timelines(data: xr.Dataset) -> list[Chart]:
    """What the engine does over time: requests that run and wait, tokens per step, use of the cache."""
    end, spans = data["end"].values.astype(float), data["iteration_time"].values.astype(float)
    if not end.size:
        return []
    edges = np.linspace(float((end - spans).min()), float(end.max()), BINS + 1)
    # Iterations end one after the other, of several replicas in any order.
    places = np.clip(np.searchsorted(edges, end, side="left") - 1, 0, BINS - 1)
    length = np.bincount(places, spans, BINS)
    middles = 0.5 * (edges[1:] + edges[:-1])

    def mean(name: str, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        sums = np.bincount(places, spans * data[name].values.astype(float), BINS)
        there = length > 0
        return middles[there], scale * sums[there] / length[there]

    made = []
    panels = [
        ("Requests in the engine", "Requests", {"running": mean("running"), "waiting": mean("waiting")}),
        ("Tokens of a step", "Tokens", {"decoded": mean("decoding"), "prompt": mean("prompt_tokens")}),
    ]
    blocks = float(data["kv_blocks"].max()) if "kv_blocks" in data else 0.0
    if blocks and "blocks" in data:
        panels.append(("Use of the KV cache", "Blocks in use (%)", {"KV cache": mean("blocks", 100.0 / blocks)}))
    for title, up, series in panels:
        peaks = ", ".join(f"{name} at most {values[1].max():,.3g}" for name, values in series.items() if values[1].size)
        description = f"{title} over the run, means over {BINS} ranges of time: {peaks}."
        spec = charts.lines("Time (s)", up, series, description, (False, False), height=180)
        made.append(Chart(title, spec, description))
    return made


REQUESTS = 500
"""Requests of a table at most."""


def _requests(data: xr.Dataset) -> Table:
    """Requests, the slowest to begin first."""
    names = [name for name in ("arrival", "ttft", "tpot", "e2e", "queueing", "isl", "osl", "cached") if name in data]
    order = np.argsort(-np.nan_to_num(data["ttft"].values, nan=-1.0), kind="stable")[:REQUESTS]
    columns = [Column("request", "request", [int(i) for i in order])]
    columns += [column(name, [_item(value) for value in data[name].values[order]]) for name in names]
    count = data.sizes["request"]
    shown = f"The {len(order):,} of {count:,} requests with the longest TTFT." if count > len(order) else ""
    return Table("Requests", columns, shown, first=20)


def _item(value: Any) -> float | int | None:
    number = value.item()
    return number if number == number else None


# Capacities: a record has rows and curves by accelerator, a dataset the same as variables.


CAPACITY = ("rank", "hardware", "devices", "capacity", "capacity_per_device", "usd_per_million_tokens")

CURVES = ("ttft_p99", "tpot_p50", "ttft_p50", "tpot_p99", "tokens_per_second")


def capacity_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `capacity`."""
    rows, target = record["rows"], str(record.get("target", ""))
    facts = [
        ("Model", str(record.get("model", ""))),
        ("Limits", target),
        ("Requests", str(record.get("source", ""))),
        ("Engine", str(record.get("engine", ""))),
    ]
    curve = record.get("curve") or {}
    load = next((name for name in ("rate", "concurrency") if name in curve), None)
    curves = {
        name: {str(key): np.array(values, float) for key, values in curve[name].items()}
        for name in CURVES
        if isinstance(curve.get(name), Mapping)
    }
    across = np.array(curve[load], float) if load else np.zeros(0)
    return _capacities(
        rows, curves, across, load or "rate", target, str(record.get("model", "")), facts, beside(record)
    )


def curve_section(data: xr.Dataset) -> Section:
    """The section of a dataset of `capacity -o`."""
    load = next((str(dim) for dim in data.dims if dim not in ("hardware",)), "rate")
    key = next(str(dim) for dim in data["capacity"].dims)
    plain = [str(name) for name, array in data.data_vars.items() if array.dims == (key,)]
    labels = [str(value) for value in data[key].values]
    rows = [
        {"rank": i + 1, "hardware": label, **{name: data[name].values[i].item() for name in plain}}
        for i, label in enumerate(labels)
    ]
    curves = {
        name: {label: data[name].transpose(key, load).values[i] for i, label in enumerate(labels)}
        for name in CURVES
        if name in data and set(data[name].dims) == {key, load}
    }
    target, title = str(data.attrs.get("target", "")), str(data.attrs.get("title", ""))
    facts = [("Limits", target), ("Requests", str(data.attrs.get("requests", "")))]
    about_file = of_attributes(data.attrs)
    across = np.asarray(data[load].values, float) if load in data.coords else np.zeros(0)
    return _capacities(rows, curves, across, load, target, title.partition(":")[0], facts, about_file)


def _capacities(
    rows: Sequence[Mapping[str, Any]],
    curves: Mapping[str, Mapping[str, np.ndarray]],
    across: np.ndarray,
    load: str,
    target: str,
    model: str,
    facts: list[tuple[str, str]],
    about_file: dict[str, Any],
) -> Section:
    best = max(rows, key=lambda row: row.get("capacity") or 0.0, default=None)
    answer = "No accelerator keeps the limits."
    if best is not None and best.get("capacity"):
        answer = (
            f"{best['hardware']} takes the largest load, {said('capacity', best['capacity'])} requests per second"
            f"{f' within {target}' if target else ''}."
        )
    blocks: list[Table | Chart] = []
    if rows:
        names = [str(row.get("label") or row["hardware"]) for row in rows]
        held = Column("capacity", "Requests per second", [row.get("capacity") for row in rows], unit="1/s")
        description = f"Largest load by accelerator: {', '.join(names)}."
        spec = charts.bars(words("hardware", "accelerator", names), held, None, [], description)
        blocks.append(Chart("Largest load within the limits", spec, description))
    title = "Requests per second" if load == "rate" else "Clients"
    for name, by_label in curves.items():
        one = column(name, np.concatenate(list(by_label.values())).tolist() if by_label else [])
        series = {
            label: (across, values / one.scale) for label, values in by_label.items() if len(values) == len(across)
        }
        if len(across) < 2 or not series:
            continue
        description = f"{one.title} against the load, a line for each of {', '.join(series)}."
        spec = charts.lines(title, one.title, series, description, (True, True))
        blocks.append(Chart(f"{one.title} against the load", spec, description))
    blocks.append(Table("Accelerators", row_columns(rows, CAPACITY)))
    facts = [fact for fact in facts if fact[1]]
    return Section("capacity", f"Capacity for {model}", answer, facts, blocks, **about_file)
