"""One chunk of a sweep as flat points: looked at block by block on the device, fetched only where it matters.

Points are numbered in the order of the whole sweep, so that ties end the same way whatever is computed where.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.arrays import jitted
from jaxroof.numerics.struct import Array
from sweeps.data.pieces import Box, View, part

BLOCK = 128
"""Points of which one bound is computed: small enough that most blocks are ruled out, large enough to be few."""

FLAG = "feasible"
"""The variable that says which points can be."""


@dataclasses.dataclass(frozen=True)
class Points:
    """A chunk of a sweep over the axes of `sizes`, with all variables on the device."""

    box: Box
    arrays: Mapping[str, View]
    sizes: tuple[int, ...]  # of the whole sweep

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along every axis."""
        return tuple(len(positions) for positions in self.box.positions)

    def bounds(self, name: str, higher_is_better: bool) -> np.ndarray:
        """The least key of every block of points: inf where none can be. A key is the metric, or its negative."""
        values, mask = self.arrays[name], self.arrays[FLAG]
        if isinstance(values.array, np.ndarray) and isinstance(mask.array, np.ndarray):
            return self._host_bounds(name, higher_is_better)
        static = (values.inside, values.over), (mask.inside, mask.over)
        return np.asarray(_bounds(values.array, mask.array, *static, self.shape, higher_is_better))

    def _host_bounds(self, name: str, higher_is_better: bool) -> np.ndarray:
        """The same on the host: one look at the values, and a second one at blocks of which some points cannot be."""
        values, (some, all_) = _rows(self.arrays[name].host(), self.shape), self._possible
        found = -values.max(1) if higher_is_better else values.min(1)
        found[~some] = np.inf
        unclear = np.flatnonzero(some & ~(all_ & np.isfinite(found)))
        keys = lower_better(values[unclear], higher_is_better)
        found[unclear] = np.where(self._mask[unclear], keys, np.asarray(np.inf, keys.dtype)).min(1)
        return found

    @functools.cached_property
    def _mask(self) -> np.ndarray:
        """Rows of the points of every block, whether each can be."""
        return _rows(self.arrays[FLAG].host(), self.shape)

    @functools.cached_property
    def _possible(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every block, whether any of its points can be, and whether all of them can."""
        return np.asarray(self._mask.any(1)), np.asarray(self._mask.all(1))

    def firsts(self) -> np.ndarray:
        """Number in the sweep of every block's first point."""
        return self.numbers(np.arange(0, math.prod(self.shape), BLOCK))

    def members(self, blocks: np.ndarray) -> np.ndarray:
        """Places in the chunk of all points of some blocks that can be."""
        places = blocks[:, None] * BLOCK + np.arange(BLOCK)
        inside = places < math.prod(self.shape)
        if isinstance(self.arrays[FLAG].array, np.ndarray):
            return places[inside & self._mask[blocks]]
        return places[inside][self.at(FLAG, places[inside])]

    def at(self, name: str, places: np.ndarray) -> np.ndarray:
        """A variable at places of the chunk."""
        view = self.arrays[name]
        if not self.shape:
            return np.broadcast_to(view.host(), places.shape)
        along = np.unravel_index(places, self.shape)
        if isinstance(view.array, np.ndarray) or view.array.device.platform == "cpu":
            own = tuple(where if varies else 0 for varies, where in zip(view.over, along, strict=True))
            return np.broadcast_to(view.host()[own], places.shape)
        own = [low + along[i] for (low, _), i in zip(view.inside, np.flatnonzero(view.over), strict=True)]
        length = 1 << max(0, len(places) - 1).bit_length()  # few shapes, few compilations
        padded = tuple(np.pad(where, (0, length - len(where))) for where in own)
        return np.broadcast_to(np.asarray(_gathered(view.array, padded)), length)[: len(places)]

    def keys(self, name: str, higher_is_better: bool, places: np.ndarray) -> np.ndarray:
        """Sort key of the chunk's places, lower is better; inf where it is not a number."""
        return lower_better(self.at(name, places), higher_is_better)

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """Number in the sweep of every place of the chunk, int64."""
        found = np.zeros(len(places), np.int64)
        along = np.unravel_index(places, self.shape) if self.shape else ()
        for positions, size, where in zip(self.box.positions, self.sizes, along, strict=True):
            found = found * size + positions[where]
        return found

    def flat(self, name: str) -> np.ndarray:
        """A variable at every point that can be, on the host."""
        mask = self.arrays[FLAG].host()
        outer = max((i + 1 for i, size in enumerate(mask.shape) if size > 1), default=0)  # axes that decide
        chosen = np.broadcast_to(mask.reshape(mask.shape[:outer]), self.shape[:outer])
        return np.broadcast_to(self.arrays[name].host(), self.shape)[chosen].reshape(-1)


def _rows(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values at all points as rows of a block each; the last one ends with the last point again and again."""
    flat = np.broadcast_to(values, shape).reshape(-1)
    return (np.pad(flat, (0, -flat.size % BLOCK), mode="edge") if flat.size % BLOCK else flat).reshape(-1, BLOCK)


def sizes_and_types(plan: Any) -> tuple[tuple[int, ...], dict[str, np.dtype]]:
    """Points along every axis of a sweep, and the types of its variables; breakdowns by op are left out."""
    types = {name: output.dtype for name, output in plan.outputs.items() if not output.ops}
    return tuple(axis.size for axis in plan.axes), types


def lower_better(values: np.ndarray, higher_is_better: bool) -> np.ndarray:
    """Values, or their negatives, as what is better lower; inf where one is not a number."""
    return np.where(np.isfinite(values), -values if higher_is_better else values, np.asarray(np.inf, values.dtype))


@functools.partial(jitted, static_argnums=(2, 3, 4, 5))
def _bounds(
    values: Array,
    mask: Array,
    of_values: tuple[Any, Any],
    of_mask: tuple[Any, Any],
    shape: tuple[int, ...],
    higher_is_better: bool,
) -> Array:
    keys = part(-values if higher_is_better else values, *of_values)
    infinity = jnp.asarray(jnp.inf, keys.dtype)
    known = jnp.where(part(mask, *of_mask) & jnp.isfinite(keys), keys, infinity)
    flat = jnp.broadcast_to(known, shape).reshape(-1)
    return jnp.pad(flat, (0, -flat.size % BLOCK), constant_values=infinity).reshape(-1, BLOCK).min(1)


@jitted
def _gathered(array: Array, places: tuple[Array, ...]) -> Array:
    return array[places]
