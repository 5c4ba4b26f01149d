"""Section of a collective: times of its algorithms and bus bandwidth over the size of the message."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, quantity, said, words
from sweeps.reports.facts import beside
from sweeps.show.style import prefix


def collective_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `collective`."""
    rows, kind = record["sizes"], str(record["kind"]).replace("_", "-")
    last = rows[-1]
    rate = quantity("rate", "rate", [last["bus_bandwidth_Bps"]], "B/s")
    size, algorithm = _size(last["message_bytes"]), _plain(last["algorithm"])
    bandwidth = f"{rate.text(last['bus_bandwidth_Bps'])} {rate.title[rate.title.rfind('(') + 1 : -1]}"
    time = said("time", last["time_s"])
    answer = f"A message of {size} takes {time} by {algorithm}, a bus bandwidth of {bandwidth}."
    stride = record.get("stride")
    facts = [
        ("Hardware", f"{record['devices']:,g} x {record['hardware']}"),
        ("Stride", "" if stride is None else f"{stride:g} devices"),
        ("Efficiency", str(record.get("efficiency") or "")),
    ]
    charts_of = [_one(last)] if len(rows) == 1 else _over(rows)
    title = f"{kind.capitalize()} over {record['devices']:,g} x {record['hardware']}"
    blocks: list[Table | Chart] = [*charts_of, _table(rows)]
    return Section("collective", title, answer, [fact for fact in facts if fact[1]], blocks, **beside(record))


def _over(rows: list[Mapping[str, Any]]) -> list[Chart]:
    """Time of every algorithm, and bus bandwidth of the chosen one, over the size."""
    sizes = np.array([row["message_bytes"] for row in rows], float)
    names = list(dict.fromkeys(name for row in rows for name in row["times_s"]))
    times = {name: np.array([row["times_s"].get(name, np.nan) for row in rows], float) for name in names}
    unit, scale = prefix(np.concatenate(list(times.values())), "s")
    size_unit, size_scale = prefix(sizes, "B")
    across = sizes / size_scale
    x = f"Message ({size_unit}B)"
    chosen = list(dict.fromkeys(_plain(row["algorithm"]) for row in rows))
    description = (
        f"Time of {len(names)} algorithms over the size of the message, log scales; chosen from small to large: "
        f"{', '.join(chosen)}."
    )
    series = {_plain(name): (across, values / scale) for name, values in times.items()}
    drawn = charts.lines(x, f"Time ({unit}s)", series, description, (True, True), height=300)
    made = [
        Chart("Time by algorithm", drawn, description, "The table below has the algorithm that is chosen at each size.")
    ]
    rates = np.array([row["bus_bandwidth_Bps"] for row in rows], float)
    rate_unit, rate_scale = prefix(rates, "B/s")
    largest = f"{rates.max() / rate_scale:.3g} {rate_unit}B/s"
    description = f"Bus bandwidth of the chosen algorithm over the size; the largest is {largest}."
    series = {"bus bandwidth": (across, rates / rate_scale)}
    drawn = charts.lines(x, f"Bus bandwidth ({rate_unit}B/s)", series, description, (True, False), height=300)
    return [*made, Chart("Bus bandwidth", drawn, description, "Of the chosen algorithm.")]


def _one(row: Mapping[str, Any]) -> Chart:
    """Times of the algorithms at a single size, the shortest first."""
    times = dict(sorted(row["times_s"].items(), key=lambda item: item[1]))
    names = words("algorithm", "algorithm", [_plain(name) for name in times])
    description = f"Time of each algorithm, the shortest first: {', '.join(names.values)}."
    spec = charts.bars(names, quantity("time", "Time", list(times.values()), "s"), None, [], description)
    return Chart("Time by algorithm", spec, description)


def _table(rows: list[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row["times_s"]))
    every = [time for row in rows for time in row["times_s"].values()]
    # One unit for all of them, so that rows and columns compare.
    unit = quantity("", "", every, "s")
    columns = [
        words("message", "message", [_size(row["message_bytes"]) for row in rows]),
        Column("message_bytes", "B", [row["message_bytes"] for row in rows], unit="B", extra=True),
        Column("time", f"time{unit.title}", [row["time_s"] for row in rows], unit.scale, "s"),
        words("algorithm", "algorithm", [_plain(row["algorithm"]) for row in rows]),
        quantity("bus_bandwidth", "bus bandwidth", [row["bus_bandwidth_Bps"] for row in rows], "B/s"),
    ]
    columns += [
        Column(
            f"{name}_time", f"{_plain(name)}{unit.title}", [row["times_s"].get(name) for row in rows], unit.scale, "s"
        )
        for name in names
    ]
    return Table("Times", columns)


def _plain(name: str) -> str:
    return name.replace("_", "-")


def _size(value: float) -> str:
    from sweeps.show.collectives import binary_size

    return binary_size(value)
