"""Attention kernels to time: causal prefill of new prompts, and decoding against a cold cache."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sweeps.measure.microbench.gemm import DTYPES
from sweeps.measure.microbench.timing import Arrays, Work

PRECISIONS = ("bf16", "fp16", "fp32")
"""Precisions that JAX's attention takes."""


class Heads(NamedTuple):
    """Heads of one attention layer on one device."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128


def prefill(precision: str, heads: Heads, implementation: str, shape: Mapping[str, int]) -> Work:
    """Every query of `sequences` prompts of `queries` tokens attends to the tokens up to its own."""
    rows, dtype = (shape["sequences"], shape["queries"]), DTYPES[precision]
    keys = jax.ShapeDtypeStruct((*rows, heads.kv_heads, heads.head_dim), dtype)
    queries = jax.ShapeDtypeStruct((*rows, heads.heads, heads.head_dim), dtype)
    return Work(call=functools.partial(_prefill, implementation), state=(queries, keys, keys))


def decode(precision: str, heads: Heads, implementation: str, shape: Mapping[str, int]) -> Work:
    """One query of each of `sequences` attends to `keys` cached tokens, which no cache holds yet."""
    sequences, dtype = shape["sequences"], DTYPES[precision]
    cache = jax.ShapeDtypeStruct((sequences, shape["keys"], heads.kv_heads, heads.head_dim), dtype)
    queries = jax.ShapeDtypeStruct((sequences, 1, heads.heads, heads.head_dim), dtype)
    return Work(call=functools.partial(_decode, implementation), state=(queries,), cold=(cache, cache))


def prefill_amounts(precision: str, heads: Heads, shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP of the pairs that are seen, and B of queries, keys, values and results."""
    queries = shape["queries"]
    tokens, pairs = shape["sequences"] * queries, shape["sequences"] * queries * (queries + 1.0) / 2.0
    size = jnp.dtype(DTYPES[precision]).itemsize
    return 4.0 * pairs * heads.heads * heads.head_dim, _row_bytes(heads, size) * tokens


def decode_amounts(precision: str, heads: Heads, shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP, and B of the cache, queries and results."""
    sequences, keys = shape["sequences"], shape["keys"]
    size = jnp.dtype(DTYPES[precision]).itemsize
    moved = sequences * (2.0 * keys * heads.kv_heads + 2.0 * heads.heads) * heads.head_dim * size
    return 4.0 * sequences * keys * heads.heads * heads.head_dim, moved


def implementations(platform: str, precision: str) -> tuple[str, ...]:
    """Implementations of `jax.nn.dot_product_attention`; the faster one that works is timed."""
    return ("cudnn", "xla") if platform in ("gpu", "cuda") and precision != "fp32" else ("xla",)


def _prefill(implementation: str, state: Arrays, cold: Arrays) -> jax.Array:
    with jax.numpy_dtype_promotion("standard"):  # inside, JAX adds float32 to narrower types
        return jax.nn.dot_product_attention(*state, is_causal=True, implementation=implementation)  # type: ignore[call-overload]


def _decode(implementation: str, state: Arrays, cold: Arrays) -> jax.Array:
    with jax.numpy_dtype_promotion("standard"):
        return jax.nn.dot_product_attention(*state, *cold, implementation=implementation)  # type: ignore[call-overload]


def _row_bytes(heads: Heads, size: int) -> float:
    return 2.0 * (heads.heads + heads.kv_heads) * heads.head_dim * size
