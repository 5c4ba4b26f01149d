"""Streaming kernels to time: a norm, a copy, and memory read in order, in strides and by random pages."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sweeps.measure.microbench.gemm import DTYPES
from sweeps.measure.microbench.timing import Arrays, Work

HIDDEN = 4096
"""Elements of a row of the norm."""

STRIDE, PART = 256, 16
"""float32 elements from one part to the next in a strided reading, and of a part: 64 B of every KiB."""

PAGE = 4096
"""float32 elements of a page: 16 KiB, such as 16 tokens of 8 heads of 64 elements at 16 bits."""

CHAINS, LENGTH = 8, 16
"""Independent chains of multiply-adds per element of the kernel that the vector units bind, and links of each."""


class Reading(NamedTuple):
    """One way to move memory."""

    work: Work
    bytes: float  # that a call moves


def elementwise(precision: str, shape: Mapping[str, int]) -> Work:
    """Residual add and RMSNorm of rows that the kernel before it has just written: two read, two written."""
    dtype = DTYPES[precision]
    rows = max(1, shape["bytes"] // (4 * HIDDEN * jnp.dtype(dtype).itemsize))
    array = jax.ShapeDtypeStruct((rows, HIDDEN), dtype)
    return Work(call=_norm, state=(array, array), feeds=True)


def copy(precision: str, shape: Mapping[str, int]) -> Work:
    """A copy of cold memory times a number, which no compiler leaves out: half of the bytes read."""
    dtype = DTYPES[precision]
    size = max(1, shape["bytes"] // (2 * jnp.dtype(dtype).itemsize))
    return Work(call=_scaled, state=_flag(), cold=(jax.ShapeDtypeStruct((size,), dtype),))


def amounts(shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP, which bind nothing, and B."""
    return 0.0, float(shape["bytes"])


def readings(total: int) -> dict[str, list[Reading]]:
    """Name of a bandwidth -> ways to reach it; the fastest counts.

    Args:
      total: B of the array that is read; more than any cache holds.
    """
    rows = max(1, total // (4 * PAGE))
    pages = jax.ShapeDtypeStruct((rows, PAGE), jnp.float32)
    table = (jnp.arange(rows, dtype=jnp.int32) * _coprime(rows)) % rows
    read = [_reading(call, pages, 4.0 * rows * PAGE) for call in (_columns, _lanes, _product)]
    return {
        "sequential_bandwidth": read,
        "strided_bandwidth": [_reading(_strided, pages, 4.0 * rows * (PAGE // STRIDE) * PART)],
        "gather_bandwidth": [
            _reading(functools.partial(_gathered, table), pages, 8.0 * rows * PAGE),
            _reading(functools.partial(_gathered_sum, table), pages, 4.0 * rows * PAGE),
        ],
        "copy_bandwidth": [_reading(_scaled, pages, 8.0 * rows * PAGE)],
    }


def vector(elements: int) -> tuple[Work, float]:
    """A chain of multiply-adds on float32 elements that stay in a cache, and its FLOP."""
    array = jax.ShapeDtypeStruct((elements,), jnp.float32)
    return Work(call=_polynomials, state=(array,), feeds=True), 2.0 * CHAINS * LENGTH * elements


def _reading(call: Callable[[Arrays, Arrays], jax.Array], cold: jax.ShapeDtypeStruct, moved: float) -> Reading:
    return Reading(Work(call=call, state=_flag(), cold=(cold,)), moved)


def _flag() -> tuple[jax.ShapeDtypeStruct, ...]:
    return (jax.ShapeDtypeStruct((1,), jnp.float32),)


def _norm(state: Arrays, cold: Arrays) -> Arrays:
    inputs, residual = state
    total = inputs + residual
    wide = total.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=1, keepdims=True) + jnp.float32(1e-5))
    return (wide * scale).astype(inputs.dtype), total


def _scaled(state: Arrays, cold: Arrays) -> jax.Array:
    return _marked(cold[0], state)


def _columns(state: Arrays, cold: Arrays) -> jax.Array:
    return jnp.max(_marked(cold[0], state), axis=0)


def _lanes(state: Arrays, cold: Arrays) -> jax.Array:
    return jnp.max(_marked(cold[0], state), axis=1)


def _product(state: Arrays, cold: Arrays) -> jax.Array:
    return cold[0] @ jnp.broadcast_to(state[0], (cold[0].shape[1],))


def _strided(state: Arrays, cold: Arrays) -> jax.Array:
    parts = cold[0].reshape(-1, STRIDE)[:, :PART]
    return jnp.max(_marked(parts, state), axis=0)


def _gathered(table: jax.Array, state: Arrays, cold: Arrays) -> jax.Array:
    return _marked(cold[0].at[table].get(mode="promise_in_bounds"), state)


def _gathered_sum(table: jax.Array, state: Arrays, cold: Arrays) -> jax.Array:
    return jnp.max(_gathered(table, state, cold), axis=0)


def _marked(values: jax.Array, state: Arrays) -> jax.Array:
    """The values times a number that the call before gave."""
    return values * state[0].astype(values.dtype).reshape((1,) * values.ndim)


def _polynomials(state: Arrays, cold: Arrays) -> Arrays:
    values = [state[0] * jnp.float32(0.01 * (chain + 1)) for chain in range(CHAINS)]
    for _ in range(LENGTH):
        values = [value * jnp.float32(0.9) + jnp.float32(0.1) for value in values]
    return (sum(values[1:], values[0]),)


def _coprime(rows: int) -> int:
    """A step that visits every row once, far from the one before."""
    step = int(rows * 0.618) | 1
    while rows > 1 and math.gcd(step, rows) > 1:
        step += 2
    return max(1, step)
