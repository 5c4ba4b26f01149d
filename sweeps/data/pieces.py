"""Parts of a sweep: shapes of its variables, computed pieces, and boxes of chunks that a grid is cut into."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.struct import Array


@dataclasses.dataclass(frozen=True)
class Output:
    """Shape and type of one variable before any of it is computed."""

    name: str
    dims: tuple[str, ...]  # the axes that it depends on, in the order of the sweep, then `op` of a breakdown
    shape: tuple[int, ...]
    dtype: np.dtype
    ops: tuple[str, ...] = ()  # labels along the op dimension
    complete: bool = True  # False where some structures of the sweep have no answer, so that a blank is left


def blank(dtype: np.dtype) -> float | int | bool:
    """Value where there is no answer: NaN, False, or -1 for codes."""
    return {"f": float("nan"), "b": False}.get(dtype.kind, -1)


@dataclasses.dataclass(frozen=True)
class Piece:
    """A computed part of one variable: `values` belongs at `index` (one slice or position array per dimension)."""

    name: str
    index: tuple[slice | np.ndarray, ...]
    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class Box:
    """A part of a sweep that is computed by itself: chunks of one block, side by side."""

    block: int
    corner: tuple[int, ...]  # its first chunk along every axis
    chunks: tuple[int, ...]  # chunks along every axis
    positions: tuple[np.ndarray, ...]  # along every axis, the positions that are its own
    names: frozenset[str]  # variables that it has values of: those that do not vary beyond it are the first box's

    @property
    def points(self) -> int:
        """Points that no other box has."""
        return math.prod(len(positions) for positions in self.positions)


@dataclasses.dataclass(frozen=True)
class View:
    """A variable over the points of a box: a part of an array on the device, which nothing has copied yet."""

    array: Array
    inside: tuple[tuple[int, int], ...]  # along every dimension of the array, the range that is meant
    over: tuple[bool, ...]  # for every axis, whether the array has a dimension for it

    @property
    def own(self) -> Any:
        """The part that is meant, with a dimension for every axis, of size 1 where the variable does not vary."""
        return part(self.array, self.inside, self.over)

    def host(self) -> np.ndarray:
        """The same in the host's memory; on a CPU without a copy."""
        return part(np.asarray(self.array), self.inside, self.over)


def part(array: Any, inside: tuple[tuple[int, int], ...], over: tuple[bool, ...]) -> Any:
    """A part of an array, with a dimension of size 1 for every axis that it has none for."""
    ranges = iter(inside)
    # None makes an axis of size 1 where the array has none.
    return array[tuple(slice(*next(ranges)) if known else None for known in over)]


def gathered(counts: Sequence[int], most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Boxes of at most `most` chunks each that tile a grid of chunks: first chunk and number of chunks per axis."""
    lengths = part_lengths(list(counts), most, equal=False)
    for place in np.ndindex(*(math.ceil(n / length) for n, length in zip(counts, lengths, strict=True))):
        corner = tuple(i * length for i, length in zip(place, lengths, strict=True))
        # Boxes at the upper ends of the grid may be shorter.
        ends = [min(low + length, n) for low, length, n in zip(corner, lengths, counts, strict=True)]
        yield corner, tuple(end - low for low, end in zip(corner, ends, strict=True))


def corners(box: Box) -> Iterator[tuple[int, ...]]:
    """The places of a box's chunks, in order."""
    for place in np.ndindex(*box.chunks):
        yield tuple(low + i for low, i in zip(box.corner, place, strict=True))


def part_lengths(sizes: list[int], points: int, equal: bool = True) -> list[int]:
    """Positions per part along every axis: the inner axes whole, one axis in parts, those outside it one by one."""
    # From the innermost axis outwards, until the budget of points is spent.
    lengths, budget = [], points
    for size in reversed(sizes):
        length = max(1, min(size, budget))
        if equal:  # equal parts overlap least
            length = math.ceil(size / math.ceil(size / length))
        lengths.append(length)
        # Once an axis is cut into parts, the axes outside it go one position at a time.
        budget = budget // length if length == size else 1
    return lengths[::-1]


def crossed(parts: Sequence[slice | np.ndarray]) -> tuple[Any, ...]:
    """The index of an array at every combination of rising positions along its dimensions."""
    short = tuple(part if isinstance(part, slice) else as_slice(part) for part in parts)
    if all(isinstance(part, slice) for part in short):
        return short
    # Positions with gaps need index arrays, one for every dimension, which `ix_` spreads over all combinations.
    return np.ix_(*(np.arange(part.start, part.stop) if isinstance(part, slice) else part for part in short))


def as_slice(positions: np.ndarray) -> slice | np.ndarray:
    """Rising positions as a slice where all of them are in a row, which copies faster."""
    # n rising positions that span n are consecutive.
    if len(positions) == positions[-1] - positions[0] + 1:
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions
