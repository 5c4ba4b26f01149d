"""Networks under JAX's usual promotion of ranks and types, as users trace them."""

import jax
import pytest


@pytest.fixture(autouse=True)
def usual_promotion():
    """JAX as users have it."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
