"""Refits what collectives lose on each link technology: `python -m tests.evidence.link_fit --data FILE`.

FILE is a CSV of measured collectives, or a folder of them (`collective_rows` says in which forms). The constants are
printed as tables for hwspaces/technology/links.toml, after the errors on rows that were fitted and on held-out ones.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.accelerators.link_technology import PROTOCOLS
from hwspaces.quantities.leaves import units
from jaxroof.hardware import Protocol, Transport
from sweeps.measure.validate.collective_errors import ScoredCollective, summary, times
from sweeps.measure.validate.collective_rows import EAGER, PROFILED, MeasuredCollective, collectives
from sweeps.run.precision import precision
from tests.evidence.harness import command, data
from tests.evidence.least_squares import fitted
from tests.evidence.parameters import Parameter

SPREAD = 0.08
"""Standard deviation of the log ratio that a row of a right model would have: repeats of one benchmark differ so."""

PRIOR_SPREAD = 1.5
"""Of a constant's logarithm: the priors only say where to start."""

START = {
    "latency": 1e-6,
    "low_latency.fixed_time": 5e-6,
    "low_latency.share": 0.05,
    "medium.fixed_time": 6e-6,
    "medium.share": 0.3,
    "bulk.fixed_time": 20e-6,
    "bulk.share": 0.65,
    "direct.fixed_time": 12e-6,
    "direct.share": 0.6,
    "peer.fixed_time": 10e-6,
    "peer.share": 0.9,
    "shot.fixed_time": 2e-6,
    "shot.share": 0.65,
    "signal_time": 1e-7,
    "peer_rate": 5e9,
    "switch.fixed_time": 60e-6,
    "switch.share": 0.65,
    "crossing": 2.0,
    "spread": 1.0,
    "own_part": 0.1,
}
"""Leaf of a link or its transport -> where the search starts, SI units."""

TIMES = ("latency", "low_latency.fixed_time", "medium.fixed_time", "bulk.fixed_time", "direct.fixed_time")
TIMES += ("peer.fixed_time", "shot.fixed_time")
OWN_TIMES = tuple(leaf for leaf in TIMES if not leaf.startswith("peer."))
NO_SWITCH = tuple(leaf for leaf in START if not leaf.startswith(("switch.", "peer.")))
NVLINK = tuple(leaf for leaf in START if leaf not in ("crossing", "spread"))

TABLES: Mapping[str, tuple[str, ...]] = {
    "NVLink": NVLINK,
    "NVLink3": TIMES,
    "NVLink5": OWN_TIMES,
    "PCIe4": NO_SWITCH,
    "PCIe5": NO_SWITCH,
}
"""Table of links.toml -> constants of its own. What a generation of NVLink lacks is that of NVLink, whose times are
those of its fourth generation."""

MEASURED: Mapping[str, tuple[str, ...]] = {
    "A100-SXM-80GB": ("NVLink3", "NVLink"),
    "H100-SXM": ("NVLink",),
    "H200-SXM": ("NVLink",),
    "B200-SXM": ("NVLink5",),
    "L40S": ("PCIe4",),
    "RTX-PRO-6000-Server": ("PCIe5",),
}
"""Device -> the tables that its scale-up link draws on, its own first."""

PROFILE_STEP = 20
"""Profiles have a thousand sizes, evenly spaced; tables have twenty."""

IMPOSSIBLE = ("a100_pairwise_nvlink",)
"""Profiles that are not fitted: 370 GB/s between two A100, whose NVLink has 300 GB/s; the file is also an H100's."""

UNITS = {"s": ("_us", 1e6), "B/s": ("_GBps", 1e-9), "1": ("", 1.0)}


def fittable(rows: Sequence[MeasuredCollective]) -> list[MeasuredCollective]:
    """Rows of devices whose links are fitted, without host time in them: streams and graphs.

    Of profiles only send-receives inside a node, which nothing else has, and of those every `PROFILE_STEP`th.
    """
    measured = [row for row in rows if row.device in MEASURED]
    profiles = [row for row in measured if row.mode == PROFILED and row.version not in IMPOSSIBLE]
    sends = [row for row in profiles if row.kind == "send_recv" and not row.crosses]
    return [row for row in measured if row.mode not in (EAGER, PROFILED)] + sends[::PROFILE_STEP]


def held_out(rows: Sequence[MeasuredCollective]) -> np.ndarray:
    """Which rows the first fit does not see: every third message size, and all groups of four."""
    third = set()
    for profiled in (False, True):
        sizes = sorted({row.message_bytes for row in rows if (row.mode == PROFILED) is profiled})
        third |= {(profiled, size) for size in sizes[2::3]}
    return np.array([(row.mode == PROFILED, row.message_bytes) in third or row.participants == 4.0 for row in rows])


def fit(rows: Sequence[MeasuredCollective]) -> dict[str, float]:
    """The constants that minimise log ratios over `rows`, by "table.leaf"; robust least squares."""
    sends = any(row.kind == "send_recv" for row in rows)
    tables = {table for row in rows for table in MEASURED[row.device]}
    parameters = [
        Parameter(f"{table}.{leaf}", START[leaf], PRIOR_SPREAD, START[leaf] * 1e-3, _highest(leaf), "start")
        for table, leaves in TABLES.items()
        if table in tables
        for leaf in leaves
        if sends or not leaf.startswith("peer.")
    ]
    with precision("float64"):
        predicted = times(rows)
        measured = [row.seconds for row in rows]
        return fitted(
            lambda values: predicted(_replacement(rows, values), 1.0), measured, [SPREAD] * len(rows), parameters
        )


def scored(rows: Sequence[MeasuredCollective], values: Mapping[str, float]) -> list[ScoredCollective]:
    """Predictions for `rows` with fitted constants."""
    with precision("float64"):
        predicted = np.asarray(times(rows)(_replacement(rows, values), 1.0))
    return [ScoredCollective(row, float(time)) for row, time in zip(rows, predicted, strict=True)]


def _replacement(rows: Sequence[MeasuredCollective], values: Mapping[str, Any]) -> Callable[[str], dict[str, Any]]:
    links = {row.device: row.links.scale_up for row in rows}

    def changed(device: str) -> dict[str, Any]:
        link = links[device]
        leaves = {}
        for leaf in START:
            for table in MEASURED[device]:
                if f"{table}.{leaf}" in values:
                    leaves.setdefault(leaf, values[f"{table}.{leaf}"])
        latency = leaves.pop("latency", link.latency)
        return {"latency": latency, "transport": _with_leaves(link.transport, leaves)}

    return changed


def _with_leaves(transport: Transport, leaves: Mapping[str, Any]) -> Transport:
    fields: dict[str, Any] = {leaf: value for leaf, value in leaves.items() if "." not in leaf}
    for name in PROTOCOLS:
        own: Protocol = getattr(transport, name)
        fields[name] = Protocol(
            fixed_time=leaves.get(f"{name}.fixed_time", own.fixed_time), share=leaves.get(f"{name}.share", own.share)
        )
    return dataclasses.replace(transport, **fields)


def _highest(leaf: str) -> float:
    return 1.0 if leaf.endswith(".share") else START[leaf] * 1e3


def toml(values: Mapping[str, float]) -> str:
    """The constants as tables of links.toml."""
    lines = []
    for table, leaves in TABLES.items():
        found = {leaf: values[f"{table}.{leaf}"] for leaf in leaves if f"{table}.{leaf}" in values}
        if not found:
            continue
        lines += [f"[link.{table}]"]
        for name in PROTOCOLS:
            inner = {leaf: value for leaf, value in found.items() if leaf.startswith(f"{name}.")}
            if inner:
                cells = ", ".join(_cell(leaf.partition(".")[2], leaf, value) for leaf, value in inner.items())
                lines += [f"{name} = {{ {cells} }}"]
        lines += [_cell(leaf, leaf, value) for leaf, value in found.items() if "." not in leaf]
        lines += [""]
    return "\n".join(lines)


def _cell(name: str, leaf: str, value: float) -> str:
    suffix, scale = UNITS[{"latency": "s", **units(Transport)}[leaf]]
    return f"{name}{suffix} = {value * scale:.3g}"


def _print_errors(title: str, rows: Sequence[ScoredCollective]) -> None:
    print(f"# {title}")
    groups: dict[tuple[str, str, str], list[ScoredCollective]] = {}
    for row in rows:
        family = "nccl" if row.row.family == "nccl" else "custom"
        key = (row.row.device, f"{family} {row.row.kind}", f"{row.row.participants:g} devices")
        groups.setdefault(key, []).append(row)
    for key, part in [(("all", "", ""), list(rows)), *sorted(groups.items())]:
        error = summary(part)
        print(
            f"#   {' '.join(word for word in key if word)}: {error['rows']} rows, MAPE {error['mape']:.1%}, "
            f"median {error['median_ape']:.1%}, signed {error['signed_median']:+.1%}"
        )


@command(data("CSV of measured collectives, or a folder", "FILE"))
def main(options: argparse.Namespace) -> None:
    rows = fittable(collectives(options.data)[0])
    if not rows:
        raise ValueError(f"{options.data}: no row of {', '.join(MEASURED)} without host time in it")
    hidden = held_out(rows)
    seen = [row for row, out in zip(rows, hidden, strict=True) if not out]
    unseen = [row for row, out in zip(rows, hidden, strict=True) if out]
    if seen and unseen:
        values = fit(seen)
        _print_errors(
            "fitted without every third size and without groups of four: the rows fitted", scored(seen, values)
        )
        _print_errors("the same constants: every third size and groups of four, held out", scored(unseen, values))
    values = fit(rows)
    _print_errors("constants from all rows", scored(rows, values))
    print(toml(values))


if __name__ == "__main__":
    sys.exit(main())
