"""The precision that JAX computes in: 64-bit mode while it is asked for."""

import contextlib
import os
import sys
from collections.abc import Iterator

from jaxroof.arrays import jax

VARIABLE = "JAX_ENABLE_X64"
"""Of the environment: what JAX reads when it is imported."""


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """JAX in 64-bit mode while `dtype` is float64, as it was afterwards; it need not be imported, before or inside."""
    wanted = dtype == "float64"
    if "jax" not in sys.modules:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(wanted)
        try:
            yield
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
            if "jax" in sys.modules:
                jax.config.update("jax_enable_x64", (before or "").lower() in ("1", "true", "yes", "on", "y", "t"))
        return
    usual = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    jax.config.update("jax_enable_x64", wanted)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", usual)
