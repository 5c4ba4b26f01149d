"""Roofline of a step: the achieved rate of every op against the hardware's roof at its intensity."""

from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.hardware import Hardware
from sweeps.ask.cases import Case
from sweeps.run.answer import OpAnswer, answer
from sweeps.show import style
from sweeps.show.names import Spot, named

LABELLED_SHARE = 0.004
"""Share of the step's time from which an op is named."""

LARGEST_MARKER = 1500.0
"""Area in points^2 of the marker of an op that takes all of the time."""

TOUCHING = 13.0
"""Points between markers up to which they share a name: less than the height of two lines."""

FEW, CROWDED_SHARE = 30, 0.01
"""Ops from which a picture is crowded, and the share that then gets a label."""

MOST_NAMES = 3
"""Names of one spot; others are counted together."""


@style.styled
def roofline(case: Case, what: str = "") -> Any:
    """A figure of the FLOP/s that every op achieves over its FLOP per byte, under the hardware's roofs.

    Args:
      case: one step, or a request, whose two steps get a panel each.
      what: what the step works on, in words.
    """
    result, tp = answer(case), case.scenario.deployment.tp
    title = f"{case.model.name} on {tp:g} x {case.hardware.name}{f': {what}' if what else ''}"
    details = (
        f"Marker area is an op's share of the step's time; roofs are the datasheet's, "
        f"times are by {case.efficiency.name} constants. {_undrawn(result.steps)}"
    )
    fig = style.figure(1.0 + 7.4 * len(result.steps), 5.6, title, details, "; ".join(case.notes))
    panels = fig.subplots(1, len(result.steps), squeeze=False)[0]
    for axes, (step, ops) in zip(panels, result.steps.items(), strict=True):
        _panel(fig, axes, case.scenario.hardware, ops)
        if len(result.steps) > 1:
            axes.set_title(f"{step.capitalize()} step")
    return fig


@style.styled
def ops_roofline(ops: tuple[OpAnswer, ...], hardware: Hardware, title: str, times: str, notes: str = "") -> Any:
    """The same picture of any ops on a device.

    Args:
      ops: with their times on `hardware`.
      title: what they are.
      times: name of the efficiency that the times are by.
      notes: below the picture.
    """
    details = (
        f"Marker area is an op's share of the time; roofs are the datasheet's, times are by {times} constants. "
        f"{_undrawn({'run': ops})}"
    )
    fig = style.figure(8.4, 5.6, title, details, notes)
    _panel(fig, fig.subplots(1, 1), hardware, ops)
    return fig


def _panel(made: Any, axes: Any, hardware: Hardware, ops: tuple[OpAnswer, ...]) -> None:
    """One step: the roofs of the hardware, and a marker for every op that computes and moves bytes."""
    total = sum(op.time for op in ops)
    # Ops without arithmetic or without bytes have no place on logarithmic axes.
    drawn = [op for op in ops if op.flops > 0 and op.bytes > 0]
    bandwidth = hardware.memory.hbm.bandwidth
    # Roofs of the precisions that ops compute in; without any, of the fastest that the hardware has.
    used = [name for name in dict.fromkeys(op.precision for op in ops) if name] or [
        max(hardware.matrix, key=hardware.matrix.__getitem__)
    ]
    peaks = {f"{name} matrix": hardware.matrix[name] for name in used}
    # Intensity in FLOP/B at which the memory roof meets the highest peak.
    ridge = max(peaks.values()) / bandwidth
    low = min([op.intensity for op in drawn] + [ridge]) / 3
    high = max([op.intensity for op in drawn] + [ridge]) * 6
    bottom = min([_rate(op) for op in drawn] + [low * bandwidth]) / 3
    top = max(peaks.values()) * 5
    x, y = np.array([low, high]), np.array([bottom, top])
    axes.set(xscale="log", yscale="log", xlim=x, ylim=y)
    _roofs(axes, peaks, hardware.cores.count * hardware.cores.vector_flops, bandwidth, low, high)
    # Large markers first, so that small ones lie on top.
    for op in sorted(drawn, key=lambda op: -op.time):
        colour = style.BOUND_COLOURS[op.bound]
        axes.scatter(
            op.intensity, _rate(op), s=_area(op, total), color=colour, ec="white", lw=0.7, alpha=0.85, zorder=3
        )
    style.quantity_axis(axes, "x", "Arithmetic intensity (FLOP per byte of HBM)", "1", x, True, x)
    style.quantity_axis(axes, "y", "achieved", "FLOP/s", y, True, y)
    _bandwidth_label(made, axes, low, ridge, bandwidth)
    bounds = dict.fromkeys(op.bound for op in sorted(drawn, key=lambda op: -op.time))
    line = style.matplotlib().lines.Line2D
    dots = {name: line([], [], marker="o", ls="", color=style.BOUND_COLOURS[name]) for name in bounds}
    axes.legend(dots.values(), [f"bound by {name}" for name in dots], loc="lower right")
    named(made, axes, _spots(made, axes, drawn, total))


def _roofs(axes: Any, peaks: dict[str, float], vector: float, bandwidth: float, low: float, high: float) -> None:
    """Lines of the memory and matrix roofs and of the vector peak, from the lowest intensity to the highest."""
    right = high / 1.06
    for name, peak in peaks.items():
        # Below the ridge the roof is intensity times bandwidth, above it the peak.
        axes.plot([low, peak / bandwidth, high], [low * bandwidth, peak, peak], color=style.INK, lw=1.6, zorder=2)
        text = f"{name} peak {formatted(peak, 'FLOP/s')}"
        axes.text(right, peak * 1.06, text, ha="right", va="bottom", fontsize=8.5)
    axes.plot([vector / bandwidth, high], [vector, vector], color=style.QUIET, lw=1.0, ls="--", zorder=2)
    text = f"vector peak {formatted(vector, 'FLOP/s')}"
    axes.text(right, vector * 1.06, text, ha="right", va="bottom", fontsize=8.5, color=style.QUIET)


def _bandwidth_label(made: Any, axes: Any, low: float, ridge: float, bandwidth: float) -> None:
    """The name of the memory roof, along its slope, clear of the ops at its lower end."""
    made.draw_without_rendering()
    at = low * (ridge / low) ** 0.55
    # The angle on the page, which depends on both scales.
    ends = axes.transData.transform([(low, low * bandwidth), (ridge, ridge * bandwidth)])
    angle = float(np.degrees(np.arctan2(*(ends[1] - ends[0])[::-1])))
    axes.annotate(
        f"HBM {formatted(bandwidth, 'B/s')}",
        (at, at * bandwidth),
        xytext=(-5, 5),
        textcoords="offset points",
        rotation=angle,
        rotation_mode="anchor",
        ha="center",
        va="bottom",
        fontsize=8.5,
    )


def _spots(made: Any, axes: Any, ops: list[OpAnswer], total: float) -> list[Spot]:
    """Every marker with its name; of markers that touch, the largest has the names of all, one to a line."""
    made.draw_without_rendering()
    scale = made.dpi / 72
    groups: list[tuple[np.ndarray, float, list[OpAnswer]]] = []
    # Ops by falling time: the first of a group is its largest marker.
    for op in sorted(ops, key=lambda op: -op.time):
        place = axes.transData.transform((op.intensity, _rate(op))) / scale
        radius = float(np.sqrt(_area(op, total) / np.pi))
        # Markers that touch, or whose names would, form one group.
        near = (group for group in groups if np.hypot(*(group[0] - place)) < max(group[1] + radius, TOUCHING))
        group = next(near, None)
        groups.append((place, radius, [op])) if group is None else group[2].append(op)
    # Names that occur in several groups.
    several = [name for *_, group in groups for name in {op.plain_name for op in group}]
    # In a crowded picture only ops with a larger share get a name.
    least = LABELLED_SHARE if len(ops) <= FEW else CROWDED_SHARE
    leads = {id(group[0]): _names(group, several, total, least) for *_, group in groups}
    # Only the largest marker of a group has a text; the others keep names away.
    return [
        Spot(op.flops / op.bytes, _rate(op), float(np.sqrt(_area(op, total) / np.pi)), leads.get(id(op), ""), number)
        for number, (*_, group) in enumerate(groups)
        for op in group
    ]


def _names(group: list[OpAnswer], several: list[str], total: float, least: float) -> str:
    """Names and shares of the largest ops of one spot, one to a line, and the others together; blocks of layers apart
    only where they stand apart.
    """
    shares: dict[str, float] = {}
    for op in group:
        name = op.name if several.count(op.plain_name) > 1 else op.plain_name
        shares[name] = shares.get(name, 0.0) + op.time / total
    lines = [f"{name} {100 * share:.1f} %" for name, share in shares.items() if share >= least]
    # One line more than the limit would be as long as the summary that replaces it.
    if len(lines) > MOST_NAMES + 1:
        others = sum(list(shares.values())[MOST_NAMES:])
        lines[MOST_NAMES:] = [f"{len(shares) - MOST_NAMES} others {100 * others:.1f} %"]
    return "\n".join(lines)


def _rate(op: OpAnswer) -> float:
    return op.flops / op.time


def _area(op: OpAnswer, total: float) -> float:
    # Area in points^2 is the share of the time; the least is still visible.
    return max(14.0, LARGEST_MARKER * op.time / total)


def _undrawn(steps: dict[str, tuple[OpAnswer, ...]]) -> str:
    """Ops without a place on a roofline, and their share of the time."""
    parts = []
    for step, ops in steps.items():
        total = sum(op.time for op in ops)
        rest: dict[str, float] = {}
        for op in ops:
            if not (op.flops > 0 and op.bytes > 0):
                rest[op.plain_name] = rest.get(op.plain_name, 0.0) + op.time / total
        if rest:
            named = ", ".join(f"{name} {100 * share:.1f} %" for name, share in rest.items())
            of = f" in {step}" if len(steps) > 1 else ""
            parts.append(f"Not drawn{of}, for they compute nothing: {named}.")
    return " ".join(parts)
