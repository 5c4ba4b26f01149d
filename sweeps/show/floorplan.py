"""Floor plan of a device: its dies by part and its memory stacks to scale, and the limits of its package."""

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

import hwspaces
from hwspaces import HardwareEntry, formatted
from hwspaces.accelerators.unbuilt import area_note
from jaxroof.chip.area import area_parts, package_known, package_uses
from jaxroof.hardware import Hardware
from sweeps.ask.names import LIMITS, PARTS
from sweeps.show import style
from sweeps.show.package_plan import Rectangle, TileGroup, package_plan

_BOUNDS = style.BOUND_COLOURS

PART_COLOURS = {
    "matrix": _BOUNDS["matrix"],
    "vector": _BOUNDS["vector"],
    "double": _BOUNDS["exp"],
    "graphics": "#999933",
    "core": style.CLOUD,
    "core_memory": _BOUNDS["scratchpad"],
    "l2": _BOUNDS["l2"],
    "stacks": _BOUNDS["hbm"],
    "links": _BOUNDS["link"],
    "fixed": _BOUNDS["launch"],
    "base": "#B0A090",
}
"""Part of `jaxroof.area_parts` -> its colour: that of the resource that it is."""

WITHIN, BEYOND = _BOUNDS["matrix"], _BOUNDS["power"]
"""Colours of what is taken of a limit, and of what is taken beyond it."""

MM, MM2 = 1e3, 1e6
"""mm per m, and mm2 per m2."""

SIZES = (9.0, 8.0, 7.0, 6.0)
"""Points of letters inside of parts, the largest that fits."""

MARGIN = 3.0
"""Points between the edge of a part and its name."""


@style.styled
def floorplan(entry: HardwareEntry, hardware: Hardware | None = None, what: str = "") -> Any:
    """A figure of the package of an accelerator.

    Args:
      entry: the accelerator, whose name and technologies are written.
      hardware: the device, where it is not as `entry` has it: a design of a space.
      what: which design it is, in words.

    Raises:
      ValueError: one line, where the areas of its dies are unknown.
    """
    # Without a device of its own the figure is of the catalogue's entry, whose die area may be published.
    own, hardware = hardware is None, entry.hardware if hardware is None else hardware
    if hardware.silicon is None:
        raise ValueError(
            f"{entry.name}: the area of its dies is unknown: no process, memory technology or number of cores"
        )
    plan = package_plan(hardware)
    areas = {name: float(area) for name, area in area_parts(hardware).items() if float(area) > 0.0}
    limited = package_known(hardware)
    details = _details(entry, hardware, plan, what)
    title = _title(entry, hardware, sum(areas.values()), sum(len(group.dies) for group in plan))
    fig = style.figure(10.6, 5.6, title, details, _source(entry, own))
    # Without known limits of the package the parts have the right column to themselves.
    cells = fig.add_gridspec(
        2 if limited else 1, 2, width_ratios=(1.75, 1.0), height_ratios=(1.8, 1.0) if limited else None
    )
    _areas(fig.add_subplot(cells[0, 1]), areas)
    if limited:
        _limits(fig.add_subplot(cells[1, 1]), {name: float(use) for name, use in package_uses(hardware).items()})
    _package(fig, fig.add_subplot(cells[:, 0]), plan, entry.memory or "memory")
    return fig


def named_floorplan(name: str, settings: Mapping[str, Any]) -> Any:
    """The figure of an accelerator of the catalogue or of a TOML file, with `settings` of its numbers by path."""
    entry = hwspaces.hardware(name)
    if not settings:
        return floorplan(entry)
    what = f"With {', '.join(f'{path} = {value}' for path, value in settings.items())}."
    return floorplan(entry, hwspaces.overridden(entry, settings).hardware, what)


def _title(entry: HardwareEntry, hardware: Hardware, area: float, count: int) -> str:
    process = f" in {entry.process}" if entry.process else ""
    tdp = "unknown" if hardware.power.tdp is None else formatted(float(hardware.power.tdp), "W")
    number = "one die" if count == 1 else f"{count} dies"
    return f"{entry.name}: {area * MM2:,.0f} mm2 on {number}{process}, TDP {tdp}"


def _details(entry: HardwareEntry, hardware: Hardware, plan: tuple[TileGroup, ...], what: str) -> str:
    words, package = ["Areas to scale; shapes and positions are schematic."], hardware.package
    if package is not None and any(group.stacks for group in plan):
        number = sum(len(group.stacks) for group in plan)
        words.append(
            f"{number} stack{'s' * (number > 1)} of {entry.memory or 'memory'}, "
            f"{float(package.stack_footprint) * MM2:.0f} mm2 each."
        )
    note = area_note(dataclasses.replace(entry, hardware=hardware))
    words += [] if note is None else [f"{note.partition(' (')[0]}."]
    if package is None or not package_known(hardware):
        words.append("Its package is unknown: memory stacks and limits are not shown.")
    elif float(package.stacked) > 0.0 and len(plan) > 1:
        words.append("The dies with cores lie on those without.")
    return f"{what}\n{' '.join(words)}" if what else " ".join(words)


def _source(entry: HardwareEntry, own: bool) -> str:
    known = f"total area of die {entry.die} as published" if entry.die and own else "predicted, no published die"
    return f"{known}; areas per unit of parts are fitted to dies of known size: jaxroof hardware {entry.name}"


def _areas(axes: Any, areas: dict[str, float]) -> None:
    """A bar for every part, which is the legend of the plan."""
    total, places = sum(areas.values()), np.arange(len(areas))
    values = np.array(list(areas.values())) * MM2
    axes.barh(places, values, 0.72, color=[PART_COLOURS[name] for name in areas])
    for place, value in zip(places, values, strict=True):
        text = f" {value:,.{1 if value < 99.95 else 0}f} mm2, {100.0 * value / (total * MM2):.1f} %"
        axes.text(value, place, text, va="center", fontsize=8)
    _named_rows(axes, [PARTS[name] for name in areas], values.max() * 1.75)
    axes.set_title("Area of all dies")
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def _limits(axes: Any, uses: dict[str, float]) -> None:
    """A bar for every limit of the package, with what is beyond it apart."""
    shares, places = 100.0 * np.array(list(uses.values())), np.arange(len(uses))
    axes.barh(places, np.minimum(shares, 100.0), 0.66, color=WITHIN)
    axes.barh(places, np.maximum(shares - 100.0, 0.0), 0.66, 100.0, color=BEYOND, hatch="////", ec="white", lw=0)
    axes.axvline(100.0, color=style.INK, lw=1.2)
    for place, share in zip(places, shares, strict=True):
        # The tolerance keeps rounding from marking a limit that is just met.
        over = share > 100.0 + 1e-4
        # A share inside of its bar is white, and stands beside it where the bar is too short.
        inside = {"x": share - 1.5, "ha": "right", "color": "white"} if 30.0 < share <= 100.0 else {"x": share + 1.5}
        axes.text(y=place, s=f"{share:.0f} %", va="center", fontsize=8, fontweight="bold" if over else None, **inside)
    _named_rows(axes, [LIMITS[name] for name in uses], max(118.0, 1.15 * float(shares.max())))
    axes.set_title("Limits of the package")
    axes.set_xticks([0, 50, 100], ["0", "50 %", "limit: 100 %"])


def _named_rows(axes: Any, names: list[str], right: float) -> None:
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0.0, right)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _package(made: Any, axes: Any, plan: tuple[TileGroup, ...], memory: str) -> None:
    """Dies with their parts, stacks, captions and the scale."""
    boxes = [group.box for group in plan]
    low = min(box.y for box in boxes) * MM
    high = max(box.y + box.height for box in boxes) * MM
    wide = (boxes[-1].x + boxes[-1].width) * MM
    # Sizes in mm from here on: room for two lines of letters.
    line = 0.062 * max(high - low, 0.8 * wide)  # room for two lines of letters
    axes.set(xlim=(-0.01 * wide, 1.01 * wide), ylim=(low - 1.1 * line, high + (1.4 * line)), aspect="equal")
    axes.set_axis_off()
    for group in plan:
        _group(axes, group)
        box = group.box
        kind = " with cores" if group.cores and len(plan) > 1 else "" if group.cores else " without cores"
        each = group.dies[0].area * MM2
        number = f"{len(group.dies)} dies{kind}\n" if len(group.dies) > 1 else f"1 die{kind}\n"
        text = f"{number}{each:,.0f} mm2{' each' * (len(group.dies) > 1)}"
        middle = (box.x + 0.5 * box.width) * MM
        axes.text(middle, (box.y + box.height) * MM + 0.25 * line, text, ha="center", va="bottom", fontsize=9)
    _scale(axes, wide, low - 0.45 * line)
    # Drawn once, as names are fitted to sizes in pixels.
    made.draw_without_rendering()
    for group in plan:
        for name, place in group.parts.items():
            _name(made, axes, place, PARTS[name], f"{place.area * MM2:,.0f} mm2", PART_COLOURS[name])
        for stack in group.stacks:
            _name(made, axes, stack, memory, "", "#ffffff")


def _group(axes: Any, group: TileGroup) -> None:
    patch = style.matplotlib().patches.Rectangle
    for die in group.dies:
        for name, part in group.parts_on(die).items():
            axes.add_patch(patch(*_in_mm(part), fc=PART_COLOURS[name], ec="white", lw=0.6))
        axes.add_patch(patch(*_in_mm(die), fc="none", ec=style.INK, lw=1.2))
    for stack in group.stacks:
        axes.add_patch(patch(*_in_mm(stack), fc="#ffffff", ec=PART_COLOURS["stacks"], lw=1.2))


def _in_mm(place: Rectangle) -> tuple[tuple[float, float], float, float]:
    return (place.x * MM, place.y * MM), place.width * MM, place.height * MM


def _scale(axes: Any, wide: float, y: float) -> None:
    """A bar of a round number of mm."""
    # The longest round number of mm below 40 % of the width.
    length = max((one for one in (50.0, 20.0, 10.0, 5.0, 2.0) if one <= 0.4 * wide), default=1.0)
    axes.plot([0.0, length], [y, y], "|-", color=style.INK, lw=1.4, ms=7)
    axes.text(length, y, f"  {length:g} mm", va="center", fontsize=8.5)


def _name(made: Any, axes: Any, place: Rectangle, name: str, area: str, colour: str) -> None:
    """The name of a part inside of it, with its area where there is room; nothing where there is none for the name."""
    (x, y), width, height = _in_mm(place)
    # The part's corners in pixels, less a margin on both sides.
    low, high = axes.transData.transform([(x, y), (x + width, y + height)])
    room = high - low - 2.0 * MARGIN * made.dpi / 72
    broken = textwrap.fill(name, 11, break_long_words=False)
    # The name with its area first, then without, on one line or broken.
    texts = [f"{name}\n{area}", f"{broken}\n{area}"] if area else []
    texts += [name, broken]
    drawn = axes.text(
        x + 0.5 * width, y + 0.5 * height, "", ha="center", va="center", color=_ink(colour), linespacing=1.1
    )
    for text in dict.fromkeys(texts):
        # The first text that fits in the largest letters, upright if it must be.
        for size in SIZES:
            for turned in (0, 90):
                drawn.set(text=text, fontsize=size, rotation=turned)
                box = drawn.get_window_extent(made.canvas.get_renderer())
                if box.width <= room[0] and box.height <= room[1]:
                    return
    drawn.remove()


def _ink(colour: str) -> str:
    """Dark letters on a light colour, white ones on a dark colour."""
    red, green, blue = style.matplotlib().colors.to_rgb(colour)
    # Brightness as the eye weighs red, green and blue.
    return style.INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
