"""Tables of a compiled program: whatever depends on few axes, at all of their positions, by the program's own loops."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sweeps.run.native.loops import Loops
from sweeps.run.native.nests import Dims, Nest

MOST_ENTRIES = 1 << 23
"""Numbers in all tables together: some ten MB, so that their extremes over parts of the axes take no time."""


def tabled(loops: Loops, sizes: Sequence[int]) -> list[Nest]:
    """Loops over so few positions that tables of all of their results are small, the smallest first.

    Args:
      sizes: positions along every axis of the loops.
    """
    chosen, entries = [], 0
    for nest in sorted(loops.nests, key=lambda nest: math.prod(sizes[axis] for axis in nest.dims)):
        entries += len(nest.writes) * math.prod(sizes[axis] for axis in nest.dims)
        # The rest would be as much work as the sweep itself.
        if entries > MOST_ENTRIES:
            break
        chosen.append(nest)
    # What a table is made of has no more axes than the table, so that it is there too.
    return chosen


def computed(
    loops: Loops, nests: Iterable[Nest], columns: dict[int, np.ndarray], sizes: Sequence[int]
) -> dict[int, np.ndarray]:
    """Arrays of everything that some loops write, over whole axes: the very bits that any call of the program gives.

    Args:
      columns: values of every input of the loops: of a single number, shape ().
      sizes: positions along every axis.
    """
    rows = [max(size, loops.lanes) for size in sizes]
    lengths = np.array([size for pair in zip(sizes, rows, strict=True) for size in pair], np.int64)
    table = np.zeros(len(loops.slots), np.int64)
    arrays: dict[int, np.ndarray] = {}
    for node in loops.inputs:
        if node in loops.slots:
            column = np.atleast_1d(np.ascontiguousarray(columns[node], loops.graph.dtype))
            # Loops load whole vectors.
            arrays[node] = np.concatenate([column, np.repeat(column[-1:], max(0, loops.lanes - len(column)))])
            table[loops.slots[node]] = arrays[node].ctypes.data
    wanted = list(nests)
    results = {}
    for nest, function in zip(loops.nests, loops.functions, strict=True):
        if nest not in wanted:
            continue
        for node in nest.writes:
            shape = [rows[axis] if axis == nest.dims[-1] else sizes[axis] for axis in nest.dims]
            arrays[node] = np.empty(shape, loops.graph.types[loops.graph.kinds[node]])
            table[loops.slots[node]] = arrays[node].ctypes.data
            results[node] = arrays[node][..., : sizes[nest.dims[-1]]] if nest.dims else arrays[node]
        function(table.ctypes.data, lengths.ctypes.data)
    # Columns are kept until here: the loops have read from their addresses.
    del arrays
    return results


class Extremes:
    """The least and the largest value of a table over every part of its axes.

    Args:
      values: the table, over `dims`.
      dims: numbers of its axes.
      dtype: of floats that bounds are computed in.
    """

    def __init__(self, values: np.ndarray, dims: Dims, dtype: np.dtype):
        self.dims = dims
        self.low, self.high = map(np.ascontiguousarray, _outward(values, dtype))
        self.shape = values.shape

    @classmethod
    def of(cls, dims: Dims, low: np.ndarray, high: np.ndarray) -> "Extremes":
        """Extremes that are there already."""
        made = cls.__new__(cls)
        # In one piece, so that a place is found by its number.
        made.dims, made.low, made.high = dims, np.ascontiguousarray(low), np.ascontiguousarray(high)
        made.shape = low.shape
        return made

    def joined(self, axis: int, firsts: np.ndarray) -> "Extremes":
        """The same over larger parts of an axis, each of which begins at one of `firsts`."""
        if axis not in self.dims:
            return self
        place = self.dims.index(axis)
        return Extremes.of(
            self.dims,
            np.minimum.reduceat(self.low, firsts, place),
            np.maximum.reduceat(self.high, firsts, place),
        )

    def cut(self, ranges: Sequence[tuple[int, int]]) -> "Extremes":
        """The same inside of a range along every axis."""
        part: tuple[Any, ...] = tuple(slice(*ranges[axis]) for axis in self.dims)
        return Extremes.of(self.dims, self.low[part], self.high[part])


def _outward(values: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of values in a type of floats; where there is no number, any."""
    if values.dtype == dtype:
        none = np.isnan(values)
        return (np.where(none, -np.inf, values), np.where(none, np.inf, values)) if none.any() else (values, values)
    floats = values.astype(dtype)
    if values.dtype.kind != "i" or not (np.abs(values.astype(np.int64)) > 1 << 24).any():
        return floats, floats
    return np.nextafter(floats, dtype.type(-np.inf)), np.nextafter(floats, dtype.type(np.inf))
