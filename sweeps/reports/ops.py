"""Sections of steps and batches of requests: what they take, the roofline of their ops, and every op."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, column, metric_table, phrase, quantity, words
from sweeps.reports.facts import about, beside, interval_text

HEADLINES = (
    "step_time",
    "ttft",
    "tpot",
    "e2e",
    "tokens_per_second",
    "usd_per_million_tokens",
    "iteration_time",
    "time",
)
"""Figures that an answer begins with, those that are there."""


def ops_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `step`, `request` or another verb with metrics and ops."""
    metrics = record["metrics"]
    steps: dict[str, list[Mapping[str, Any]]] = {}
    for op in record.get("ops", ()):
        steps.setdefault(str(op.get("step", "step")), []).append(op)
    # Ops of functions have shorter keys, and no shares.
    steps = {step: [_in_full(op, ops) for op in ops] for step, ops in steps.items()}
    blocks: list[Table | Chart] = []
    for step, ops in steps.items():
        # A request has two steps, whose names say which.
        of = f" of the {step} step" if len(steps) > 1 else ""
        blocks += _step_blocks(ops, of, (record.get("roofs") or {}).get(step))
    kind = "step" if "step_time" in metrics else "request" if "ttft" in metrics else "function"
    return Section(
        kind,
        f"{record.get('model') or record.get('function') or 'Answer'} on {record.get('hardware', 'a device')}",
        answer(metrics),
        about(record),
        [*blocks, metric_table(metrics)],
        **beside(record),
    )


SHORT_KEYS = {
    "time": "time_s",
    "flops": "flops_per_device",
    "bytes": "bytes_per_device",
    "message_bytes": "message_bytes_per_device",
    "energy": "energy_per_device_J",
}


def _in_full(op: Mapping[str, Any], ops: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """An op of a priced function with the keys of one of a model."""
    if "time_s" in op:
        return op
    full = {SHORT_KEYS.get(name, name): value for name, value in op.items()}
    intensity = op["flops"] / op["bytes"] if op["bytes"] else None
    return full | {"share": op["time"] / sum(other["time"] for other in ops), "intensity": intensity}


def answer(metrics: Mapping[str, Any]) -> str:
    """The first figures of a record in a sentence, with intervals where they are known, and what binds."""
    parts = []
    for name in HEADLINES:
        if name in metrics and metrics[name] is not None:
            parts.append(f"{phrase(name, metrics[name])}{interval_text(name, metrics)}")
    text = ", ".join(parts[:4])
    bounds = [f"{step} is bound by {metrics[name]}" for step, name in _BOUNDS.items() if metrics.get(name)]
    fits = "" if metrics.get("fits", True) else " It does not fit in memory."
    ends = f"; {' and '.join(bounds)}" if bounds else ""
    return f"{text[:1].upper()}{text[1:]}{ends}.{fits}"


_BOUNDS = {"the step": "bound", "prefill": "prefill_bound", "decode": "decode_bound"}


def _step_blocks(ops: Sequence[Mapping[str, Any]], of: str, roofs: Any) -> list[Table | Chart]:
    columns = _columns(ops)
    table = Table(f"Ops{of}", columns, "In the order in which they run; sizes are per device.")
    return [_bars(ops, of), *_roofline(ops, of, roofs), table]


def _columns(ops: Sequence[Mapping[str, Any]]) -> list[Column]:
    def values(name: str) -> list[Any]:
        return [op.get(name) for op in ops]

    return [
        words("op", "op", values("name")),
        quantity("time_s", "time", values("time_s"), "s"),
        Column("share", "share (%)", values("share"), 0.01, "1"),
        words("bound", "bound by", values("bound")),
        quantity("flops_per_device", "work", values("flops_per_device"), "FLOP"),
        quantity("bytes_per_device", "memory", values("bytes_per_device"), "B"),
        Column("intensity", "FLOP/B", values("intensity")),
        Column("count", "count", values("count"), extra=True),
        quantity("message_bytes_per_device", "message", values("message_bytes_per_device"), "B", extra=True),
        words("precision", "precision", values("precision"), extra=True),
        words("algorithm", "algorithm", values("algorithm"), extra=True),
        quantity("energy_per_device_J", "energy", values("energy_per_device_J"), "J", extra=True),
    ]


def _bars(ops: Sequence[Mapping[str, Any]], of: str) -> Chart:
    """Time by op, the longest first; ops of equal names in several blocks of layers count together."""
    times: dict[tuple[str, str], float] = {}
    for op in ops:
        key = str(op["name"]), str(op.get("bound"))
        times[key] = times.get(key, 0.0) + float(op["time_s"])
    ranked = sorted(times.items(), key=lambda item: -item[1])
    first, rest = ranked[: charts.MOST_BARS], ranked[charts.MOST_BARS :]
    names, bounds, values = [name for (name, _), _ in first], [bound for (_, bound), _ in first], [t for _, t in first]
    if rest:
        names.append(f"{len(rest)} others")
        bounds.append("several")
        values.append(sum(time for _, time in rest))
    total = sum(times.values())
    share = Column("share", "share (%)", [value / total for value in values], 0.01)
    drawn = charts.bars(
        words("op", "op", names),
        quantity("time", "Time", values, "s"),
        words("bound", "bound by", bounds),
        [share],
        f"Bars of the time of each op{of}, the longest first. The longest are "
        + ", ".join(f"{name} with {value / total:.0%}" for name, value in list(zip(names, values, strict=True))[:3]),
    )
    return Chart(f"Time by op{of}", drawn, drawn["description"], "Behind each bar: its time, and what binds it.")


def _roofline(ops: Sequence[Mapping[str, Any]], of: str, roofs: Any) -> list[Chart]:
    """Rate of every op over its intensity, under the roofs of the device where the record has them."""
    drawn = [op for op in ops if (op.get("flops_per_device") or 0) > 0 and (op.get("bytes_per_device") or 0) > 0]
    if not drawn:
        return []
    alt = charts.altair()
    rates = quantity("rate", "Achieved", [op["flops_per_device"] / op["time_s"] for op in drawn], "FLOP/s")
    shown = {
        "op": words("op", "op", [op["name"] for op in drawn]),
        "x": Column("intensity", "FLOP per byte", [op["flops_per_device"] / op["bytes_per_device"] for op in drawn]),
        "y": rates,
        "time": quantity("time", "time", [op["time_s"] for op in drawn], "s"),
        "share": Column("share", "share of the time (%)", [op["share"] for op in drawn], 0.01),
        "kind": words("bound", "bound by", [op.get("bound") for op in drawn]),
    }
    data = sorted(charts.rows(shown), key=lambda row: -row["share"])
    named = {"ops": data}
    across = np.array([row["x"] for row in data])
    low, high = float(across.min()) / 2, float(across.max()) * 2
    layers, tops = [], [row["y"] for row in data]
    bandwidth, lines = _roof_lines(roofs)
    if bandwidth:
        ridge = max(lines.values()) / bandwidth if lines else high
        low, high = min(low, ridge / 4), max(high, ridge * 6)
        named["roofs"] = [
            {"x": x, "y": y / rates.scale, "roof": name}
            for name, peak in lines.items()
            for x, y in ((low, low * bandwidth), (peak / bandwidth, peak), (high, peak))
            if name != "vector" or y == peak
        ]
        named["names"] = [
            {"x": high, "y": peak / rates.scale, "text": f"{name} peak {said_rate(peak)}"}
            for name, peak in lines.items()
        ]
        tops += [row["y"] for row in named["roofs"]]
    x = charts.axis("x", "FLOP per byte of device memory", across, True, (low, high))
    y = charts.axis("y", rates.title, np.array(tops), True, (min(tops) / 1.5, max(tops) * 2))
    if bandwidth:
        roof = alt.Chart(alt.NamedData(name="roofs")).mark_line(color="var(--ink)", strokeWidth=1.5)
        layers.append(roof.encode(x=x, y=y, detail=alt.Detail(field="roof", type="nominal")))
    kinds = charts.kinds("kind", "bound by", list(dict.fromkeys(row["kind"] for row in data)))
    size = alt.Size(field="share", type="quantitative", scale=alt.Scale(range=[30, 900]), legend=None)
    dots = alt.Chart(alt.NamedData(name="ops")).mark_point(
        filled=True, opacity=0.85, stroke="var(--page)", strokeWidth=1
    )
    layers.append(dots.encode(x=x, y=y, size=size, **kinds, tooltip=charts.tips(shown)))
    if bandwidth:
        name = alt.Chart(alt.NamedData(name="names")).mark_text(align="right", dy=-7, fontSize=11, color="var(--ink)")
        layers.append(name.encode(x=x, y=y, text=alt.Text(field="text")))
    left = [op for op in ops if op not in drawn]
    note = "A marker's area is the op's share of the time; the lines are the datasheet's limits."
    if not bandwidth:
        note = "A marker's area is the op's share of the time. The file does not hold the device's limits."
    if left:
        note += f" Left out, as they compute nothing or touch no memory: {len(left)} of {len(ops)} ops."
    description = f"Roofline{of}: the rate of {len(drawn)} ops over their FLOP per byte, log scales. {note}"
    return [Chart(f"Roofline{of}", charts.spec(alt.layer(*layers), named, description, 400), description, note)]


def _roof_lines(roofs: Any) -> tuple[float, dict[str, float]]:
    """Bandwidth of device memory in B/s, and peaks in FLOP/s by name; 0 and none where the record has no roofs."""
    if not isinstance(roofs, Mapping):
        return 0.0, {}
    peaks = {f"{name} matrix": float(peak) for name, peak in roofs["matrix_flops"].items()}
    return float(roofs["memory_bandwidth"]), peaks | {"vector": float(roofs["vector_flops"])}


def said_rate(rate: float) -> str:
    """A rate of operations with its unit."""
    one = quantity("rate", "rate", [rate], "FLOP/s")
    return f"{one.text(rate)} {one.title[one.title.rfind('(') + 1 : -1]}"


def figures_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of which only metrics are known."""
    return ops_section({**record, "ops": []})


def percentile_table(metrics: Mapping[str, Any]) -> Table | None:
    """Latencies of a served stream: mean and percentiles, a row for each."""
    ends = ("mean", "p50", "p90", "p95", "p99")
    names = [name for name in ("ttft", "tpot", "itl", "e2e", "queueing") if f"{name}_p50" in metrics]
    if not names:
        return None
    heads = {"ttft": "TTFT", "tpot": "TPOT", "itl": "time between tokens", "e2e": "E2E", "queueing": "queueing"}
    columns = [words("latency", "latency", [heads[name] for name in names])]
    figures = {end: [metrics.get(f"{name}_{end}") for name in names] for end in ends}
    # One unit for all of them, so that rows and columns compare.
    scale = quantity("", "", [value for values in figures.values() for value in values], "s")
    columns += [
        Column(end, f"{end}{scale.title}", values, scale.scale, "s", f"{end} of the requests")
        for end, values in figures.items()
    ]
    columns.append(words("meaning", "meaning", [column(f"{name}_mean", [0.0]).meaning for name in names]))
    return Table("Latencies", columns)
