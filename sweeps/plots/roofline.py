"""The roofline of a step: what every op achieves against what the hardware allows at its intensity."""

from typing import Any

import numpy as np

from hwspaces import formatted
from sweeps.answer import Answer, OpAnswer, answer
from sweeps.cases import Case
from sweeps.plots import style

LABELLED_SHARE = 0.004
"""Share of the step's time from which an op is named."""

LARGEST_MARKER = 1500.0
"""Area in points^2 of the marker of an op that takes all of the time."""

GAPS = (3, 8, 14, 20, 28, 36, 46, 58, 72, 90)
ANGLES = tuple(np.radians((0, 180, 90, 270, 45, 315, 135, 225, 20, 340, 160, 200, 65, 295, 115, 245)))
"""Places of a name around its marker: points between them, and directions, the most readable first."""


@style.styled
def roofline(case: Case, found: Answer | None = None, what: str = "") -> Any:
    """A figure of the FLOP/s that every op achieves over its FLOP per byte, under the hardware's roofs.

    Args:
      case: one step, or a request, whose two steps get a panel each.
      found: its answer, if it is known already.
      what: what the step works on, in words.
    """
    found = found or answer(case)
    tp = case.scenario.deployment.tp
    title = f"{case.model.name} on {tp:g} x {case.hardware.name}{f': {what}' if what else ''}"
    details = (
        f"Marker area is an op's share of the step's time; roofs are the datasheet's, "
        f"times are {case.efficiency.name}. {_undrawn(found)}"
    )
    made = style.figure(1.0 + 7.4 * len(found.steps), 5.6, title, details, "; ".join(case.notes))
    for axes, (step, ops) in zip(made.subplots(1, len(found.steps), squeeze=False)[0], found.steps.items(), strict=True):
        _panel(made, axes, case, ops)
        if len(found.steps) > 1:
            axes.set_title(f"{step.capitalize()} step")
    return made


def _panel(made: Any, axes: Any, case: Case, ops: tuple[OpAnswer, ...]) -> None:
    hardware, total = case.scenario.hardware, sum(op.time for op in ops)
    drawn = [op for op in ops if op.flops > 0 and op.bytes > 0]
    bandwidth = hardware.memory.hbm.bandwidth
    peaks = {f"{name} matrix": hardware.matrix[name] for name in dict.fromkeys(op.precision for op in ops) if name}
    vector = hardware.cores.count * hardware.cores.vector_flops
    ridge = max(peaks.values()) / bandwidth
    low = min([op.intensity for op in drawn] + [ridge]) / 3
    high = max([op.intensity for op in drawn] + [ridge]) * 6
    bottom = min([op.flops / op.time for op in drawn] + [low * bandwidth]) / 3
    top = max(peaks.values()) * 5
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, top))
    for name, peak in peaks.items():
        start = peak / bandwidth
        axes.plot([low, start, high], [low * bandwidth, peak, peak], color=style.INK, lw=1.6, zorder=2)
        axes.text(
            high / 1.06, peak * 1.06, f"{name} peak {formatted(peak, 'FLOP/s')}", ha="right", va="bottom", fontsize=8.5
        )
    axes.plot([vector / bandwidth, high], [vector, vector], color=style.QUIET, lw=1.0, ls="--", zorder=2)
    axes.text(
        high / 1.06, vector * 1.06, f"vector peak {formatted(vector, 'FLOP/s')}",
        ha="right", va="bottom", fontsize=8.5, color=style.QUIET,
    )
    for op in sorted(drawn, key=lambda op: -op.time):
        area = max(14.0, LARGEST_MARKER * op.time / total)
        colour = style.BOUND_COLOURS[op.bound]
        axes.scatter(op.intensity, op.flops / op.time, s=area, color=colour, ec="white", lw=0.7, alpha=0.85, zorder=3)
    intensities = np.array([low, high])
    style.scaled_ticks(axes.xaxis, intensities, "1", True)
    style.scaled_ticks(axes.yaxis, np.array([bottom, top]), "FLOP/s", True)
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, top)
    axes.set_xlabel("Arithmetic intensity (FLOP per byte of HBM)")
    axes.set_ylabel(style.quantity_label("achieved", "FLOP/s", np.array([bottom, top])))
    _bandwidth_label(made, axes, low, ridge, bandwidth)
    bounds = dict.fromkeys(op.bound for op in sorted(drawn, key=lambda op: -op.time))
    line = style.matplotlib().lines.Line2D
    handles = [line([], [], marker="o", ls="", color=style.BOUND_COLOURS[name], label=f"bound by {name}") for name in bounds]
    axes.legend(handles=handles, loc="lower right")
    _named(made, axes, drawn, total)


def _bandwidth_label(made: Any, axes: Any, low: float, ridge: float, bandwidth: float) -> None:
    """The name of the memory roof, along its slope, clear of the ops at its lower end."""
    made.draw_without_rendering()
    at = low * (ridge / low) ** 0.55
    ends = axes.transData.transform([(low, low * bandwidth), (ridge, ridge * bandwidth)])
    angle = float(np.degrees(np.arctan2(*(ends[1] - ends[0])[::-1])))
    axes.annotate(
        f"HBM {formatted(bandwidth, 'B/s')}", (at, at * bandwidth), xytext=(-5, 5), textcoords="offset points",
        rotation=angle, rotation_mode="anchor", ha="center", va="bottom", fontsize=8.5,
    )


def _named(made: Any, axes: Any, ops: list[OpAnswer], total: float) -> None:
    """Names and shares of the ops, each where it covers no marker and no other name; ops at one spot share a name."""
    made.draw_without_rendering()
    renderer = made.canvas.get_renderer()
    boxes = style.matplotlib().transforms.Bbox
    scale = made.dpi / 72
    spots: list[tuple[np.ndarray, float, list[OpAnswer]]] = []
    for op in sorted(ops, key=lambda op: -op.time):
        place = axes.transData.transform((op.intensity, op.flops / op.time))
        radius = scale * np.sqrt(max(14.0, LARGEST_MARKER * op.time / total) / np.pi)
        same = next((spot for spot in spots if np.hypot(*(spot[0] - place)) < 3 * scale), None)
        if same is None:
            spots.append((place, radius, [op]))
        else:
            same[2].append(op)
    taken = [boxes.from_extents(*(place - 0.8 * radius), *(place + 0.8 * radius)) for place, radius, _ in spots]
    taken += [text.get_window_extent(renderer) for text in axes.texts] + _along(axes, boxes, scale)
    taken.append(axes.get_legend().get_window_extent(renderer))
    spread = [name for *_, here in spots for name in {_plain(op.name) for op in here}]
    for place, radius, here in spots:
        share = sum(op.time for op in here) / total
        if share < LABELLED_SHARE:
            continue
        text = axes.annotate(
            f"{_joined(here, spread)} {100 * share:.1f} %", axes.transData.inverted().transform(place),
            xytext=(0, 0), textcoords="offset points", fontsize=8, color=style.INK, zorder=5,
        )
        _settled(axes, text, place, radius, taken, renderer, scale)
        taken.append(text.get_window_extent(renderer).padded(2 * scale))


def _along(axes: Any, boxes: Any, scale: float) -> list:
    """Small boxes along every line of the picture, which names keep off."""
    found = []
    for line in axes.lines:
        corners = axes.transData.transform(line.get_xydata())
        for start, end in zip(corners, corners[1:], strict=False):
            steps = int(np.hypot(*(end - start)) / (4 * scale)) + 1
            for share in np.linspace(0, 1, steps + 1):
                at = start + share * (end - start)
                found.append(boxes.from_extents(*(at - 1.5 * scale), *(at + 1.5 * scale)))
    return found


def _settled(axes: Any, text: Any, place: np.ndarray, radius: float, taken: list, renderer: Any, scale: float) -> None:
    """Move a name to the nearest place around its marker that is free; with a thin line where that is far."""
    inside = axes.get_window_extent(renderer)
    size = text.get_window_extent(renderer)  # now with its lower left corner, about, at `place`
    best = None
    for gap in GAPS:
        for angle in ANGLES:
            across, up = np.cos(angle), np.sin(angle)
            reach = radius + gap * scale
            x = place[0] + across * reach - (0.5 - 0.5 * across) * size.width
            y = place[1] + up * reach - (0.5 - 0.5 * up) * size.height
            box = size.translated(x - size.x0, y - size.y0)
            within = inside.x0 < box.x0 and box.x1 < inside.x1 and inside.y0 < box.y0 and box.y1 < inside.y1
            covered = sum(_overlap(box, other) for other in taken) + (0 if within else 1e9)
            if best is None or covered < best[0]:
                best = (covered, gap, x, y, box)
        if best[0] == 0:
            break
    _, gap, x, y, box = best
    text.xyann = ((x - place[0]) / scale, (y - place[1]) / scale)
    if gap > 12:
        centre = np.array([np.clip(place[0], box.x0, box.x1), np.clip(place[1], box.y0, box.y1)])
        ends = axes.transData.inverted().transform([place, centre])
        axes.plot(*ends.T, color=style.QUIET, lw=0.5, zorder=2.5)


def _overlap(box: Any, other: Any) -> float:
    width = min(box.x1, other.x1) - max(box.x0, other.x0)
    height = min(box.y1, other.y1) - max(box.y0, other.y0)
    return width * height if width > 0 and height > 0 else 0.0


def _joined(ops: list[OpAnswer], spread: list[str]) -> str:
    """Names of the ops at one spot; a block of layers is named where another block's op stands elsewhere."""
    return ", ".join(dict.fromkeys(op.name if spread.count(_plain(op.name)) > 1 else _plain(op.name) for op in ops))


def _plain(name: str) -> str:
    """An op's name without the number of its block of layers."""
    return name.rpartition(".")[2]


def _undrawn(found: Answer) -> str:
    """Which ops have no place on a roofline, and their share of the time."""
    parts = []
    for ops in found.steps.values():
        total = sum(op.time for op in ops)
        rest: dict[str, float] = {}
        for op in ops:
            if not (op.flops > 0 and op.bytes > 0):
                rest[_plain(op.name)] = rest.get(_plain(op.name), 0.0) + op.time / total
        if rest:
            named = ", ".join(f"{name} {100 * share:.1f} %" for name, share in rest.items())
            parts.append(f"Not drawn, for they compute nothing: {named}.")
    return " ".join(dict.fromkeys(parts))
