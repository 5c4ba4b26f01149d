"""One chunk of a sweep as flat points: looked at block by block on the device, fetched only where it matters.

Points are numbered in the order of the whole sweep, so that ties end the same way whatever is computed where.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from sweeps.engine import Box

BLOCK = 512
"""Points of which one bound is computed: small enough that most blocks are ruled out, large enough to be few."""

FLAGS = ("feasible", "legal", "fits")
"""Variables that say which points can be; the first covers the others."""


@dataclasses.dataclass(frozen=True)
class Points:
    """A chunk of a sweep over the axes of `sizes`, with all variables on the device."""

    box: Box
    arrays: Mapping[str, jax.Array]  # one dimension per axis, of size 1 where nothing varies
    sizes: tuple[int, ...]  # of the whole sweep

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along every axis."""
        return tuple(len(positions) for positions in self.box.positions)

    @functools.cached_property
    def mask(self) -> jax.Array:
        """True where a point can be, of the shape that this depends on."""
        wanted = FLAGS[:1] if FLAGS[0] in self.arrays else FLAGS[1:]
        return functools.reduce(jnp.logical_and, [self.arrays[n] for n in wanted if n in self.arrays], jnp.array(True))

    def bounds(self, name: str, higher_is_better: bool) -> np.ndarray:
        """The least key of every block of points: inf where none can be. A key is the metric, or its negative."""
        return np.asarray(_bounds(self.arrays[name], self.mask, self.shape, higher_is_better))

    def firsts(self) -> np.ndarray:
        """Number in the sweep of every block's first point."""
        return self.numbers(np.arange(0, math.prod(self.shape), BLOCK))

    def members(self, blocks: np.ndarray) -> np.ndarray:
        """Places in the chunk of all points of some blocks that can be."""
        places = (blocks[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
        places = places[places < math.prod(self.shape)]
        return places[self._at(self.mask, places)]

    def at(self, name: str, places: np.ndarray) -> np.ndarray:
        """A variable at places of the chunk."""
        return self._at(self.arrays[name], places)

    def keys(self, name: str, higher_is_better: bool, places: np.ndarray) -> np.ndarray:
        """What is better lower, at places of the chunk; inf where it is not a number."""
        values = self.at(name, places)
        return np.where(np.isfinite(values), -values if higher_is_better else values, np.asarray(np.inf, values.dtype))

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """Number in the sweep of every place of the chunk, int64."""
        found = np.zeros(len(places), np.int64)
        along = np.unravel_index(places, self.shape) if self.shape else ()
        for positions, size, where in zip(self.box.positions, self.sizes, along, strict=True):
            found = found * size + positions[where]
        return found

    def flat(self, name: str) -> np.ndarray:
        """A variable at every point that can be, on the host."""
        values = np.broadcast_to(np.asarray(self.arrays[name]), self.shape)
        return values[np.broadcast_to(np.asarray(self.mask), self.shape)]

    def _at(self, array: jax.Array, places: np.ndarray) -> np.ndarray:
        if not self.shape:
            return np.broadcast_to(np.asarray(array), places.shape)
        along = np.unravel_index(places, self.shape)
        sides = array.shape or (1,) * len(self.shape)
        own = tuple(where if side > 1 else np.zeros_like(where) for side, where in zip(sides, along, strict=True))
        if array.ndim == 0:
            return np.broadcast_to(np.asarray(array), places.shape)
        if array.device.platform == "cpu":
            return np.asarray(array)[own]
        length = 1 << max(0, len(places) - 1).bit_length()  # few shapes, few compilations
        padded = tuple(np.pad(where, (0, length - len(where))) for where in own)
        return np.asarray(_gathered(array, padded))[: len(places)]


@functools.partial(jax.jit, static_argnums=(2, 3))
def _bounds(values: jax.Array, mask: jax.Array, shape: tuple[int, ...], higher_is_better: bool) -> jax.Array:
    keys = -values if higher_is_better else values
    infinity = jnp.asarray(jnp.inf, keys.dtype)
    known = jnp.where(mask & jnp.isfinite(keys), keys, infinity)
    flat = jnp.broadcast_to(known.reshape(known.shape or (1,) * len(shape)), shape).reshape(-1)
    return jnp.pad(flat, (0, -flat.size % BLOCK), constant_values=infinity).reshape(-1, BLOCK).min(1)


@jax.jit
def _gathered(array: jax.Array, places: tuple[jax.Array, ...]) -> jax.Array:
    return array[places]
