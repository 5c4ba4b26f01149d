"""Matrix products to time: activations times a cold weight matrix, at one precision."""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import lax

from sweeps.measure.microbench.timing import Arrays, Work

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


def gemm(precision: str, shape: Mapping[str, int]) -> Work:
    """`(m, k) @ (k, n)`; fp32 in full precision, tf32 as the device rounds by default."""
    dtype = DTYPES[precision]
    return Work(
        call=functools.partial(_product, precision),
        state=(jax.ShapeDtypeStruct((shape["m"], shape["k"]), dtype),),
        cold=(jax.ShapeDtypeStruct((shape["k"], shape["n"]), dtype),),
    )


def gemm_amounts(precision: str, shape: Mapping[str, float]) -> tuple[float, float]:
    """FLOP and B of one product, operands and results once."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    size, result = (jnp.dtype(t).itemsize for t in (DTYPES[precision], RESULTS.get(precision, DTYPES[precision])))
    return 2.0 * m * n * k, size * (m * k + k * n) + result * m * n


def _product(precision: str, state: Arrays, cold: Arrays) -> jax.Array:
    exact = lax.Precision.HIGHEST if precision == "fp32" else lax.Precision.DEFAULT
    return jnp.dot(state[0], cold[0], precision=exact, preferred_element_type=RESULTS.get(precision))
