"""Bus bandwidth and time of collectives over message size, by algorithm, in pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.collectives import UNAVAILABLE
from sweeps.measure.validate.collective_errors import ScoredCollective, family_name, kind_name, summary
from sweeps.measure.validate.relative_errors import grouped
from sweeps.show import style

MOST_TICKS = 5
"""Message sizes that are written along an axis."""

PER_DEVICE = {"all_reduce": lambda p: 2.0 * (p - 1.0) / p, "broadcast": lambda p: 1.0, "send_recv": lambda p: 1.0}
"""Collective -> share of the message that one device sends at least. Any other: (p - 1) / p.

Source: nccl-tests, doc/PERFORMANCE.md (bus bandwidth)."""


def bus_bandwidth(kind: str, participants: Any, message_bytes: Any, seconds: Any) -> Any:
    """B/s that every device sends at least: comparable with a link's bandwidth whatever the group's size."""
    share = PER_DEVICE.get(kind, lambda p: (p - 1.0) / p)
    return share(participants) * message_bytes / seconds


@style.styled
def algorithms(
    title: str,
    details: str,
    kind: str,
    participants: float,
    sizes: np.ndarray,
    times: Mapping[str, np.ndarray],
    chosen: np.ndarray,
) -> Any:
    """A figure of bus bandwidth and time over message size, a line per algorithm, the chosen one behind in grey.

    Args:
      title, details: the heading.
      kind: collective.
      participants: devices.
      sizes: B, shape [sizes].
      times: algorithm -> s, shape [sizes]; `UNAVAILABLE` where it cannot run.
      chosen: s of the chosen algorithm, shape [sizes].
    """
    made = style.figure(11.0, 4.4, title, details)
    left, right = made.subplots(1, 2)
    usable = {name: np.where(time < UNAVAILABLE, time, np.nan) for name, time in times.items()}
    usable = {name: time for name, time in usable.items() if np.isfinite(time).any()}
    for axes, shown in (
        (left, lambda time: bus_bandwidth(kind, participants, sizes, time)),
        (right, lambda time: time),
    ):
        axes.plot(sizes, shown(chosen), color=style.CLOUD, lw=7, solid_capstyle="round", label="chosen")
        for (name, time), colour in zip(usable.items(), style.SERIES_COLOURS, strict=False):
            axes.plot(sizes, shown(time), "o-", ms=3.5, lw=1.5, color=colour, label=name.replace("_", "-"))
        values = np.concatenate([shown(time)[np.isfinite(time)] for time in usable.values()])
        rate = axes is left
        log_axes(axes, sizes, values, "B/s" if rate else "s", "bus bandwidth" if rate else "time")
    right.legend(loc="upper left")
    return made


def log_axes(axes: Any, sizes: np.ndarray, values: np.ndarray, unit: str, words: str) -> None:
    """Logarithmic axes of message sizes and of `values`, in `unit` with `words` for what they are."""
    axes.set(xscale="log", yscale="log")
    low, high = float(np.log2(sizes.min())), float(np.log2(sizes.max()))
    step = next(step for step in (2.0, 4.0, 6.0, 8.0, 10.0) if (high - low) / step <= MOST_TICKS or step == 10.0)
    ticks = 2.0 ** np.arange(np.ceil(low / 2.0) * 2.0, high + 0.5, step)
    axes.set_xticks(ticks, [binary_size(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    limits = np.array([values.min() / 1.3, values.max() * 2.0])
    scale, name = (1e9, "G") if unit == "B/s" else (1e-6, "u")
    ticks = style.round_numbers(limits[0] / scale, limits[1] / scale, True)
    axes.set_yticks(ticks * scale, [style.tick_text(float(f"{tick:.4g}")) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(*limits)
    axes.set_xlabel("Message size")
    axes.set_ylabel(f"{words.capitalize()} ({name}{unit})")
    style.grid_behind(axes, "both", 0.7)


def binary_size(count: float) -> str:
    """A number of bytes with its binary prefix: "64 KiB"."""
    for prefix in ("", "Ki", "Mi", "Gi", "Ti"):
        if count < 1024.0 or prefix == "Ti":
            return f"{count:.4g} {prefix}B"
        count /= 1024.0
    raise AssertionError


# Pictures of measured collectives beside predicted ones, by message size.


COLUMNS = 3


@style.styled
def measured_against_predicted(device: str, scored: Sequence[ScoredCollective]) -> Any:
    """A figure with a panel per collective and library: bus bandwidth, measured (dots) and predicted (lines)."""
    panels = grouped(scored, _name)
    error = summary(scored)
    title = f"{device}: collectives are predicted to {error['median_ape']:.0%} (median), {error['mape']:.0%} (mean)"
    made, drawn = style.panels(
        len(panels),
        COLUMNS,
        (11.0 / COLUMNS, 2.7),
        (0.0, 0.3),
        title,
        "Bus bandwidth over message size; dots are measured, lines predicted, the dashes the link's datasheet. "
        "Beside each name: median and mean error.",
        f"{error['rows']} rows of {', '.join(dict.fromkeys(kind_name(s.row) for s in scored))}",
    )
    for i, (axes, (name, part)) in enumerate(zip(drawn, panels.items(), strict=True)):
        _panel(axes, name, part)
        if i < len(drawn) - COLUMNS:
            axes.set_xlabel("")
        if i % COLUMNS:
            axes.set_ylabel("")
    return made


def _name(scored: ScoredCollective) -> str:
    kind, family = scored.row.kind.replace("_", "-"), family_name(scored.row)
    return kind if family == "nccl" else f"{kind}, {family}"


def _panel(axes: Any, name: str, scored: Sequence[ScoredCollective]) -> None:
    groups = grouped(scored, lambda row: (row.row.participants, row.row.crosses))
    for (participants, crosses), colour in zip(sorted(groups), style.SERIES_COLOURS, strict=False):
        part = sorted(groups[participants, crosses], key=lambda s: s.row.message_bytes)
        size = np.array([s.row.message_bytes for s in part])
        kind = part[0].row.kind
        measured = bus_bandwidth(kind, participants, size, np.array([s.row.seconds for s in part]))
        axes.plot(size, measured, ".", ms=4, color=colour, alpha=0.75)
        for types in dict.fromkeys(s.row.algorithms for s in part):
            line = [s for s in part if s.row.algorithms == types]
            at = np.array([s.row.message_bytes for s in line])
            predicted = bus_bandwidth(kind, participants, at, np.array([s.predicted for s in line]))
            axes.plot(at, predicted, "-", lw=1.2, color=colour)
        axes.plot([], [], "o-", ms=4, color=colour, label=f"{participants:g} devices{' across nodes' * crosses}")
    axes.axhline(scored[0].row.links.scale_up.bandwidth, color=style.QUIET, lw=0.9, ls="--", zorder=1)
    error = summary(scored)
    axes.set_title(f"{name}: {error['median_ape']:.0%}, {error['mape']:.0%}", fontsize=9)
    size = np.array([s.row.message_bytes for s in scored])
    speeds = [
        bus_bandwidth(s.row.kind, s.row.participants, s.row.message_bytes, seconds)
        for s in scored
        for seconds in (s.row.seconds, s.predicted)
    ]
    log_axes(axes, size, np.array(speeds), "B/s", "bus bandwidth")
    axes.legend(loc="lower right", fontsize=7.5)
