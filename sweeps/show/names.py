"""Names beside the markers of a picture, placed so that they cover neither markers, lines nor one another."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from sweeps.show import style

GAPS = (3, 7, 12, 18, 26, 36, 48, 62, 78)
ANGLES = tuple(np.radians((0, 180, 90, 270, 45, 315, 135, 225, 20, 340, 160, 200, 65, 295, 115, 245)))
"""Places of a name around its marker: points between them, and directions; the most readable first."""

LED = 6
"""Points of distance from which a thin line leads from a marker to its name."""

COVERED, STRUCK, CROSSED, ASTRAY, OUTSIDE = 3.0, 0.4, 30.0, 25.0, 1e9
"""What a bad place costs, in points of distance: per point^2 of a marker or name, and of a line, that it covers; per
marker or name that its thin line crosses; for standing as near to another's marker; for leaving the axes. By eye."""


@dataclasses.dataclass(frozen=True)
class Spot:
    """A marker that gets a name."""

    x: float  # data coordinates
    y: float
    radius: float  # points
    name: str  # empty: only kept clear of
    group: int  # spots of one group share a name


def named(made: Any, axes: Any, spots: list[Spot]) -> None:
    """Write the name of every spot beside it, in the order given; the first ones have the best choice."""
    # Boxes of texts are known only after drawing; from here on all sizes are pixels.
    made.draw_without_rendering()
    renderer, scale = made.canvas.get_renderer(), made.dpi / 72
    inside = np.ravel(axes.get_window_extent(renderer).get_points())
    places = np.array([axes.transData.transform((spot.x, spot.y)) for spot in spots]).reshape(-1, 2)
    groups = np.array([spot.group for spot in spots])
    solid = [_around(place, spot.radius * scale) for place, spot in zip(places, spots, strict=True)]
    solid += [np.ravel(text.get_window_extent(renderer).get_points()) for text in axes.texts]
    solid += [np.ravel(axes.get_legend().get_window_extent(renderer).get_points())] if axes.get_legend() else []
    lines = _along(axes, scale)
    for spot, place in zip(spots, places, strict=True):
        if not spot.name:
            continue
        at = {"xytext": (0, 0), "textcoords": "offset points", "fontsize": 8, "color": style.INK, "zorder": 5}
        text = axes.annotate(spot.name, (spot.x, spot.y), **at)
        box = text.get_window_extent(renderer)
        own = _around(place, spot.radius * scale)
        # A name may touch its own marker, which is taken out of the others.
        others = np.array([other for other in solid if not np.array_equal(other, own)] or np.zeros((0, 4)))
        # Markers of other groups, near which the name would be read as theirs.
        strange = places[groups != spot.group]
        size = np.array([box.width, box.height])
        gap, corner = _best(place, spot.radius, size, others, lines, strange, inside, scale)
        # Annotations are offset in points: pixels over pixels per point.
        text.xyann = tuple((corner - place) / scale)
        placed = np.array([*corner, *(corner + size)])
        solid.append(placed + np.array([-2, -1, 2, 1]) * scale)
        # A distant name is led to its marker by a line, which ends at the nearest edge of the name.
        if gap > LED:
            ends = axes.transData.inverted().transform([place, np.clip(place, placed[:2], placed[2:])])
            axes.plot(*ends.T, color=style.QUIET, lw=0.5, zorder=2.5)


def _best(
    place: np.ndarray,
    radius: float,
    size: np.ndarray,
    solid: np.ndarray,
    lines: np.ndarray,
    strange: np.ndarray,
    inside: np.ndarray,
    scale: float,
) -> tuple[float, np.ndarray]:
    """The cheapest place of a name: its distance from the marker in points, and its lower left corner in pixels."""
    best = (np.inf, 0.0, place)
    for gap in GAPS:
        for angle in ANGLES:
            toward = np.array([np.cos(angle), np.sin(angle)])
            # The name stands beside the marker in this direction: its near edge touches the circle of this radius.
            corner = place + toward * (radius + gap) * scale - (0.5 - 0.5 * toward) * size
            box = np.array([*corner, *(corner + size)])
            # Areas are in pixels, and cost by point^2.
            cost = gap + (COVERED * _overlap(box, solid) + STRUCK * _overlap(box, lines)) / scale**2
            # Nearer to a marker of another group than to its own.
            if (_distance(strange, box) < _distance(place, box) - (radius - 3) * scale).any():
                cost += ASTRAY
            if gap > LED:
                cost += CROSSED * _crossed(place, np.clip(place, box[:2], box[2:]), radius * scale, solid)
            if (box[:2] < inside[:2]).any() or (box[2:] > inside[2:]).any():
                cost += OUTSIDE
            # The first of equal places stays: distances and angles are listed by preference.
            if cost < best[0]:
                best = (cost, gap, corner)
    return best[1:]


def _around(place: np.ndarray, radius: float) -> np.ndarray:
    return np.array([*(place - 0.8 * radius), *(place + 0.8 * radius)])


def _along(axes: Any, scale: float) -> np.ndarray:
    """Small boxes along every line of the picture."""
    boxes = [np.zeros((0, 4))]
    for line in axes.lines:
        corners = axes.transData.transform(line.get_xydata())
        for start, end in itertools.pairwise(corners):
            steps = int(np.hypot(*(end - start)) / (3 * scale)) + 2
            # Boxes of three points, at most three points apart: they cover the line without gaps.
            at = start + np.linspace(0, 1, steps)[:, None] * (end - start)
            boxes.append(np.hstack([at - 1.5 * scale, at + 1.5 * scale]))
    return np.vstack(boxes)


def _distance(places: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Distance of points, shape (..., 2), to a box."""
    return np.linalg.norm(places - np.clip(places, box[:2], box[2:]), axis=-1)


def _overlap(box: np.ndarray, others: np.ndarray) -> float:
    """Area that a box shares with others, shape (n, 4)."""
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    return float((np.maximum(width, 0) * np.maximum(height, 0)).sum())


def _crossed(start: np.ndarray, end: np.ndarray, radius: float, others: np.ndarray) -> int:
    """Boxes that a line from a marker runs through."""
    length = max(float(np.hypot(*(end - start))), 1e-9)
    at = start + np.linspace(min(radius / length, 1.0), 1.0, 16)[:, None] * (end - start)
    within = (at[:, None] > others[:, :2]) & (at[:, None] < others[:, 2:])
    return int(within.all(axis=2).any(axis=0).sum())
