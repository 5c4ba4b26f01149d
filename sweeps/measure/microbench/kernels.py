"""Kernels to time: matrix products, attention, element-wise ops and copies, and memory read in several ways."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.measure.microbench.timing import Arrays, TimedWork

DTYPES = {
    "bf16": jnp.bfloat16,
    "fp16": jnp.float16,
    "fp32": jnp.float32,
    "tf32": jnp.float32,
    "fp8": jnp.float8_e4m3fn,
    "int8": jnp.int8,
}
"""Precision of the products -> type of both operands."""

RESULTS = {"fp8": jnp.bfloat16, "int8": jnp.int32}
"""Precision -> type of the product where it is not the operands'."""

ATTENTION_PRECISIONS = ("bf16", "fp16", "fp32")
"""Precisions that JAX's attention takes."""

HIDDEN = 4096
"""Elements of a row of the norm."""

STRIDE, PART = 256, 16
"""float32 elements from one part to the next in a strided reading, and of a part: 64 B of every KiB."""

PAGE = 4096
"""float32 elements of a page: 16 KiB, such as 16 tokens of 8 heads of 64 elements at 16 bits."""

CHAINS, LENGTH = 8, 16
"""Independent chains of multiply-adds per element of the kernel that the vector units bind, and links of each."""


def gemm(precision: str, shape: Mapping[str, int]) -> TimedWork:
    """`(m, k) @ (k, n)`; fp32 in full precision, tf32 as the device rounds by default."""
    dtype = DTYPES[precision]
    # Activations are warm, as the kernel before has written them; weights come from memory.
    return TimedWork(
        call=functools.partial(_matmul, precision),
        state=(jax.ShapeDtypeStruct((shape["m"], shape["k"]), dtype),),
        cold=(jax.ShapeDtypeStruct((shape["k"], shape["n"]), dtype),),
    )


def gemm_amounts(precision: str, shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP and B of one product, operands and results once."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    size, result = (jnp.dtype(t).itemsize for t in (DTYPES[precision], RESULTS.get(precision, DTYPES[precision])))
    return 2.0 * m * n * k, size * (m * k + k * n) + result * m * n


class Heads(NamedTuple):
    """Heads of one attention layer on one device."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128


def prefill(precision: str, heads: Heads, implementation: str, shape: Mapping[str, int]) -> TimedWork:
    """Every query of `sequences` prompts of `queries` tokens attends to the tokens up to its own."""
    rows, dtype = (shape["sequences"], shape["queries"]), DTYPES[precision]
    keys = jax.ShapeDtypeStruct((*rows, heads.kv_heads, heads.head_dim), dtype)
    queries = jax.ShapeDtypeStruct((*rows, heads.heads, heads.head_dim), dtype)
    return TimedWork(call=functools.partial(_prefill, implementation), state=(queries, keys, keys))


def decode(precision: str, heads: Heads, implementation: str, shape: Mapping[str, int]) -> TimedWork:
    """One query of each of `sequences` attends to `keys` cached tokens, which no cache holds yet."""
    sequences, dtype = shape["sequences"], DTYPES[precision]
    cache = jax.ShapeDtypeStruct((sequences, shape["keys"], heads.kv_heads, heads.head_dim), dtype)
    queries = jax.ShapeDtypeStruct((sequences, 1, heads.heads, heads.head_dim), dtype)
    return TimedWork(call=functools.partial(_decode, implementation), state=(queries,), cold=(cache, cache))


def prefill_amounts(precision: str, heads: Heads, shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP of the pairs that are seen, and B of queries, keys, values and results."""
    queries = shape["queries"]
    # Causal attention: of a prompt of n tokens, n (n + 1) / 2 pairs of query and key are seen.
    tokens, pairs = shape["sequences"] * queries, shape["sequences"] * queries * (queries + 1.0) / 2.0
    size = jnp.dtype(DTYPES[precision]).itemsize
    row_bytes = 2.0 * (heads.heads + heads.kv_heads) * heads.head_dim * size
    # Two products per pair, with keys and with values, each of 2 FLOP per element of a head.
    return 4.0 * pairs * heads.heads * heads.head_dim, row_bytes * tokens


def decode_amounts(precision: str, heads: Heads, shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP, and B of the cache, queries and results."""
    sequences, keys = shape["sequences"], shape["keys"]
    size = jnp.dtype(DTYPES[precision]).itemsize
    moved = sequences * (2.0 * keys * heads.kv_heads + 2.0 * heads.heads) * heads.head_dim * size
    return 4.0 * sequences * keys * heads.heads * heads.head_dim, moved


def implementations(platform: str, precision: str) -> tuple[str, ...]:
    """Implementations of `jax.nn.dot_product_attention`; the faster one that works is timed."""
    # cuDNN's fused attention takes 16-bit elements alone.
    return ("cudnn", "xla") if platform in ("gpu", "cuda") and precision != "fp32" else ("xla",)


class MemoryReading(NamedTuple):
    """One way to move memory."""

    work: TimedWork
    bytes: float  # that a call moves


def elementwise(precision: str, shape: Mapping[str, int]) -> TimedWork:
    """Residual add and RMSNorm of rows that the kernel before it has just written: two read, two written."""
    dtype = DTYPES[precision]
    # Four arrays of the norm's shape make up the bytes.
    rows = max(1, shape["bytes"] // (4 * HIDDEN * jnp.dtype(dtype).itemsize))
    array = jax.ShapeDtypeStruct((rows, HIDDEN), dtype)
    return TimedWork(call=_norm, state=(array, array), feeds=True)


def copy(precision: str, shape: Mapping[str, int]) -> TimedWork:
    """A copy of cold memory times a number, which no compiler leaves out: half of the bytes read."""
    dtype = DTYPES[precision]
    size = max(1, shape["bytes"] // (2 * jnp.dtype(dtype).itemsize))
    return TimedWork(call=_scaled, state=_flag(), cold=(jax.ShapeDtypeStruct((size,), dtype),))


def stream_amounts(shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP, which bind nothing, and B."""
    return 0.0, float(shape["bytes"])


def readings(total: int) -> dict[str, list[MemoryReading]]:
    """Name of a bandwidth -> ways to reach it; the fastest counts.

    Args:
      total: B of the array that is read; more than any cache holds.
    """
    rows = max(1, total // (4 * PAGE))
    pages = jax.ShapeDtypeStruct((rows, PAGE), jnp.float32)
    # Every page once, in an order without neighbours.
    table = (jnp.arange(rows, dtype=jnp.int32) * _coprime(rows)) % rows
    # float32: 4 B per element that is read, 8 B where a result of the same size is written.
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


def vector(elements: int) -> tuple[TimedWork, float]:
    """A chain of multiply-adds on float32 elements that stay in a cache, and its FLOP."""
    array = jax.ShapeDtypeStruct((elements,), jnp.float32)
    return TimedWork(call=_polynomials, state=(array,), feeds=True), 2.0 * CHAINS * LENGTH * elements


def _matmul(precision: str, state: Arrays, cold: Arrays) -> jax.Array:
    # The default lets a device round float32 operands to tf32.
    exact = jax.lax.Precision.HIGHEST if precision == "fp32" else jax.lax.Precision.DEFAULT
    return jnp.dot(state[0], cold[0], precision=exact, preferred_element_type=RESULTS.get(precision))


def _prefill(implementation: str, state: Arrays, cold: Arrays) -> jax.Array:
    queries, keys, values = state
    with jax.numpy_dtype_promotion("standard"):  # inside, JAX adds float32 to narrower types
        return jax.nn.dot_product_attention(queries, keys, values, is_causal=True, implementation=implementation)  # type: ignore[call-overload]  # it refuses other names itself


def _decode(implementation: str, state: Arrays, cold: Arrays) -> jax.Array:
    (queries,), (keys, values) = state, cold
    with jax.numpy_dtype_promotion("standard"):
        return jax.nn.dot_product_attention(queries, keys, values, implementation=implementation)  # type: ignore[call-overload]  # as above


def _reading(call: Callable[[Arrays, Arrays], jax.Array], cold: jax.ShapeDtypeStruct, moved: float) -> MemoryReading:
    return MemoryReading(TimedWork(call=call, state=_flag(), cold=(cold,)), moved)


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
    # The indices are inside: a check of each would take time of its own.
    return _marked(cold[0].at[table].get(mode="promise_in_bounds"), state)


def _gathered_sum(table: jax.Array, state: Arrays, cold: Arrays) -> jax.Array:
    return jnp.max(_gathered(table, state, cold), axis=0)


def _marked(values: jax.Array, state: Arrays) -> jax.Array:
    """The values times a number that the call before gave."""
    return values * state[0].astype(values.dtype).reshape((1,) * values.ndim)


def _polynomials(state: Arrays, cold: Arrays) -> Arrays:
    # Chains that differ from the beginning cannot be merged; their values approach 1 and never overflow.
    values = [state[0] * jnp.float32(0.01 * (chain + 1)) for chain in range(CHAINS)]
    for _ in range(LENGTH):
        values = [value * jnp.float32(0.9) + jnp.float32(0.1) for value in values]
    return (sum(values[1:], values[0]),)


def _coprime(rows: int) -> int:
    """A step that visits every row once, far from the one before."""
    # Near the golden section, consecutive visits are far apart; without a common divisor all rows are visited.
    step = int(rows * 0.618) | 1
    while rows > 1 and math.gcd(step, rows) > 1:
        step += 2
    return max(1, step)
