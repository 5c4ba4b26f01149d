"""Squarified treemap: a rectangle cut into parts of given areas that are as near to squares as they can be."""

from collections.abc import Mapping
from typing import NamedTuple


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
    scale = place.area / sum(area for _, area in left)
    sizes = [(name, scale * area) for name, area in left]
    found: dict[str, Rectangle] = {}
    while sizes:
        side = min(place.width, place.height)
        count = 1
        while count < len(sizes) and _worst(sizes[: count + 1], side) <= _worst(sizes[:count], side):
            count += 1
        row, sizes = sizes[:count], sizes[count:]
        place = _laid(row, place, found)
    return found


def _worst(row: list[tuple[str, float]], side: float) -> float:
    """Largest ratio of sides in a row that takes all of `side`."""
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
    if upright:
        return Rectangle(place.x + depth, place.y, place.width - depth, place.height)
    return Rectangle(place.x, place.y, place.width, place.height - depth)
