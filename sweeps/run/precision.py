"""JAX while it computes here: in 64-bit mode where that is asked for, and with its programs kept."""

import contextlib
import os
import sys
from collections.abc import Iterator

from jaxroof.numerics.arrays import jax, jax_setting
from sweeps.run.compile_cache import kept_programs

VARIABLE = "JAX_ENABLE_X64"
"""Of the environment: what JAX reads when it is imported."""


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """JAX in 64-bit mode while `dtype` is float64, and its programs kept (`sweeps.run.compile_cache`).

    Afterwards it is as it was; it need not be imported, before or inside.
    """
    with kept_programs(), _mode(dtype == "float64"):
        yield


@contextlib.contextmanager
def _mode(wanted: bool) -> Iterator[None]:
    # JAX is not imported yet and will read its environment variable.
    if "jax" not in sys.modules:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(wanted)
        try:
            yield
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
            # JAX was imported in between: it gets the setting that it would have had outside, by its own rule.
            if "jax" in sys.modules:
                jax.config.update("jax_enable_x64", (before or "").lower() in ("1", "true", "yes", "on", "y", "t"))
        return
    usual = jax_setting("jax_enable_x64")
    jax.config.update("jax_enable_x64", wanted)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", usual)
