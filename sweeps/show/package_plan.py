"""Places of dies, their parts and memory stacks in a picture of a device's package, to scale.

Sizes follow from areas. Places do not: dies are square, parts fill them as a treemap, stacks stand around the dies that
have their PHYs, and dies without cores stand apart from those with cores.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from jaxroof.chip.area import dies, memory_stacks, package_known, parts_by_die
from jaxroof.hardware import Hardware


class Rectangle(NamedTuple):
    """A rectangle by its lower left corner, any unit of length."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        """Its area in the square of that unit."""
        return self.width * self.height

    def moved(self, x: float, y: float) -> "Rectangle":
        """The same one further right and up."""
        return self._replace(x=self.x + x, y=self.y + y)


def squarified(areas: Mapping[str, float], place: Rectangle) -> dict[str, Rectangle]:
    """Rectangle of every part inside of `place`, largest first; parts without area are left out.

    Parts are laid in rows along the shorter side of what is left of the place. A row takes one more part as long as the
    worst ratio of sides in it falls.

    Args:
      areas: of every part by name; scaled to those of `place` where their sum is another.

    Source: Bruls, Huizing and van Wijk, Squarified treemaps, Data Visualization 2000.
    """
    left = sorted(((name, area) for name, area in areas.items() if area > 0), key=lambda item: -item[1])
    if not left:
        return {}
    # Areas are scaled so that all parts fill the place.
    scale = place.area / sum(area for _, area in left)
    sizes = [(name, scale * area) for name, area in left]
    rectangles: dict[str, Rectangle] = {}
    while sizes:
        # A row stands along the shorter side of what is left, which keeps its rectangles near squares.
        side = min(place.width, place.height)
        count = 1
        while count < len(sizes) and _worst(sizes[: count + 1], side) <= _worst(sizes[:count], side):
            count += 1
        row, sizes = sizes[:count], sizes[count:]
        place = _laid(row, place, rectangles)
    return rectangles


def _worst(row: list[tuple[str, float]], side: float) -> float:
    """Largest ratio of sides in a row that takes all of `side`."""
    # Depth of the row: its area over the side that it takes.
    depth = sum(area for _, area in row) / side
    return max(max(area / depth**2, depth**2 / area) for _, area in row)


def _laid(row: list[tuple[str, float]], place: Rectangle, found: dict[str, Rectangle]) -> Rectangle:
    """Put a row along the shorter side of `place`; returns what is left of it."""
    total = sum(area for _, area in row)
    upright = place.width >= place.height  # the row is a column at the left
    depth = total / (place.height if upright else place.width)
    at = 0.0
    for name, area in row:
        length = area / depth
        if upright:
            found[name] = Rectangle(place.x, place.y + place.height - at - length, depth, length)
        else:
            found[name] = Rectangle(place.x + at, place.y + place.height - depth, length, depth)
        at += length
    # What the row leaves: the rectangle to its right, or the one below it.
    if upright:
        return Rectangle(place.x + depth, place.y, place.width - depth, place.height)
    return Rectangle(place.x, place.y, place.width, place.height - depth)


GAP, APART = 0.5e-3, 6e-3
"""m between dies and stacks, and between dies with cores and dies without, in the picture."""


@dataclasses.dataclass(frozen=True)
class TileGroup:
    """Dies of one kind, all alike, and the stacks around them; lengths in m."""

    cores: bool  # whether they have cores
    dies: tuple[Rectangle, ...]
    parts: dict[str, Rectangle]  # by the keys of `area_parts`, on the first die
    stacks: tuple[Rectangle, ...]  # of memory

    def moved(self, x: float, y: float) -> "TileGroup":
        """The same ones further right and up."""
        return TileGroup(
            self.cores,
            tuple(die.moved(x, y) for die in self.dies),
            {name: part.moved(x, y) for name, part in self.parts.items()},
            tuple(stack.moved(x, y) for stack in self.stacks),
        )

    def parts_on(self, die: Rectangle) -> dict[str, Rectangle]:
        """Parts on one of the dies."""
        first = self.dies[0]
        return {name: part.moved(die.x - first.x, die.y - first.y) for name, part in self.parts.items()}

    @property
    def box(self) -> Rectangle:
        """The smallest rectangle around all of it."""
        return _box((*self.dies, *self.stacks))


def package_plan(hardware: Hardware) -> tuple[TileGroup, ...]:
    """Dies with cores and, where there are any, dies without, from left to right.

    Stacks have their sizes where `hardware.package` is known and they stand in it, and are left out elsewhere.

    Raises:
      ValueError: when the hardware's silicon is unknown.
    """
    parts = [{name: float(area) for name, area in areas.items()} for areas in parts_by_die(hardware)]
    there = [kind for kind in zip(parts, die_counts(hardware), (True, False), strict=True) if sum(kind[0].values()) > 0]
    # With two kinds the dies with cores stand in a column.
    groups = [_group(areas, count, cores, upright=cores and len(there) > 1) for areas, count, cores in there]
    # Memory belongs to the last kind: the dies without cores where there are any.
    groups[-1] = dataclasses.replace(groups[-1], stacks=_stacks(hardware, _box(groups[-1].dies)))
    placed, right = [], 0.0
    # Groups from left to right, centred on one horizontal line.
    for group in groups:
        box = group.box
        placed.append(group.moved(right - box.x, -box.y - 0.5 * box.height))
        right += box.width + APART
    return tuple(placed)


def die_counts(hardware: Hardware) -> tuple[int, int]:
    """Dies with cores, and dies without.

    As many as the areas need, `jaxroof.chip.area.dies`; where limits of the package are known as many as the design
    has, which may be larger than one exposure covers.
    """
    silicon = hardware.silicon
    if silicon is not None and package_known(hardware):
        least = silicon.dies, silicon.shared_dies
    else:
        least = tuple(kind.count for kind in dies(hardware))
    first, second = (max(1, round(float(count))) for count in least)
    return first, second


def _group(areas: dict[str, float], number: int, cores: bool, upright: bool) -> TileGroup:
    """Equal square dies in rows, the first at the upper left; more rows than columns where `upright`."""
    # Side of one square die: all dies of the kind are alike.
    side = math.sqrt(sum(areas.values()) / number)
    # Rows and columns change places for an upright group.
    columns = -(-number // _columns(number)) if upright else _columns(number)
    places = [
        Rectangle((side + GAP) * (i % columns), -(side + GAP) * (i // columns), side, side) for i in range(number)
    ]
    return TileGroup(cores, tuple(places), squarified(areas, places[0]), ())


def _columns(number: int) -> int:
    """Dies side by side: about as many as there are rows, or somewhat more where that fills the last row."""
    least = math.ceil(math.sqrt(number))
    return next((columns for columns in range(least, 2 * least + 1) if number % columns == 0), least)


def _stacks(hardware: Hardware, around: Rectangle) -> tuple[Rectangle, ...]:
    """Memory stacks around a rectangle of dies: at its longer sides first, then at the others, then further out."""
    package = hardware.package
    if package is None or not float(package.stack_footprint) > 0.0:
        return ()
    left, edge = round(float(memory_stacks(hardware))), float(package.stack_edge)
    # A stack is as deep as its footprint over the edge that it has along the die.
    depth = float(package.stack_footprint) / edge
    stacks: list[Rectangle] = []
    # Rings of stacks, each around what stands there already.
    while left > 0:
        upright = around.height >= around.width  # the longer sides stand
        for side, least in ((upright, 1), (not upright, 0)):
            # Stacks for which both sides together have room; the longer sides take one each at least.
            room = 2 * max(least, int((around.height if side else around.width) / edge))
            number = min(left, room)
            left -= number
            # Both sides take half of them, the first one the odd stack.
            stacks += _beside(around, side, -(-number // 2), edge, depth, False)
            stacks += _beside(around, side, number // 2, edge, depth, True)
        around = _box((around, *stacks))
    return tuple(stacks)


def _beside(around: Rectangle, upright: bool, number: int, edge: float, depth: float, beyond: bool) -> list[Rectangle]:
    """Stacks at one side of a rectangle, in its middle: at the left or top, or `beyond` it."""
    if upright:
        x = around.x + around.width + GAP if beyond else around.x - GAP - depth
        low = around.y + 0.5 * (around.height - number * edge)
        return [Rectangle(x, low + i * edge, depth, edge) for i in range(number)]
    y = around.y - GAP - depth if beyond else around.y + around.height + GAP
    low = around.x + 0.5 * (around.width - number * edge)
    return [Rectangle(low + i * edge, y, edge, depth) for i in range(number)]


def _box(places: tuple[Rectangle, ...]) -> Rectangle:
    left, bottom = min(place.x for place in places), min(place.y for place in places)
    right = max(place.x + place.width for place in places)
    top = max(place.y + place.height for place in places)
    return Rectangle(left, bottom, right - left, top - bottom)
