"""Bus bandwidth and time of collectives over message size, by algorithm, in pictures."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.collectives import UNAVAILABLE
from sweeps.show import style

MOST_TICKS = 5
"""Message sizes that are written along an axis."""

PER_DEVICE: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda p: 2.0 * (p - 1.0) / p,
    "broadcast": lambda p: 1.0,
    "send_recv": lambda p: 1.0,
}
"""Collective -> share of the message that one device sends at least. Any other: (p - 1) / p.

Source: nccl-tests, doc/PERFORMANCE.md (bus bandwidth)."""


def bus_bandwidth(kind: str, participants: Any, message_bytes: Any, seconds: Any) -> Any:
    """B/s that every device sends at least: comparable with a link's bandwidth whatever the group's size."""
    share = PER_DEVICE[kind](participants) if kind in PER_DEVICE else (participants - 1.0) / participants
    return share * message_bytes / seconds


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
    fig = style.figure(11.0, 4.4, title, details)
    left, right = fig.subplots(1, 2)
    # An algorithm that cannot run at a size leaves a gap in its line.
    usable = {name: np.where(time < UNAVAILABLE, time, np.nan) for name, time in times.items()}
    usable = {name: time for name, time in usable.items() if np.isfinite(time).any()}
    panels: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (left, lambda time: bus_bandwidth(kind, participants, sizes, time)),
        (right, lambda time: time),
    )
    for axes, shown in panels:
        # The chosen algorithm as a wide grey line behind, whichever it is at a size.
        axes.plot(sizes, shown(chosen), color=style.CLOUD, lw=7, solid_capstyle="round", label="chosen")
        for (name, time), colour in zip(usable.items(), style.SERIES_COLOURS, strict=False):
            axes.plot(sizes, shown(time), "o-", ms=3.5, lw=1.5, color=colour, label=name.replace("_", "-"))
        values = np.concatenate([shown(time)[np.isfinite(time)] for time in usable.values()])
        rate = axes is left
        log_axes(axes, sizes, values, "B/s" if rate else "s", "bus bandwidth" if rate else "time")
    right.legend(loc="upper left")
    return fig


def log_axes(axes: Any, sizes: np.ndarray, values: np.ndarray, unit: str, words: str) -> None:
    """Logarithmic axes of message sizes and of `values`, in `unit` with `words` for what they are."""
    axes.set(xscale="log", yscale="log")
    low, high = float(np.log2(sizes.min())), float(np.log2(sizes.max()))
    # Steps of 2 to 10 powers of two, the smallest that leaves few enough ticks.
    step = next(step for step in (2.0, 4.0, 6.0, 8.0, 10.0) if (high - low) / step <= MOST_TICKS or step == 10.0)
    # Ticks at even powers of two, so that they fall on 1, 4, 16 and so on.
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
