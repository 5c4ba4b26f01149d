"""The precision that JAX computes in: 64-bit mode while it is asked for."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """JAX in 64-bit mode while `dtype` is float64, as it was afterwards."""
    before = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    jax.config.update("jax_enable_x64", dtype == "float64")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
