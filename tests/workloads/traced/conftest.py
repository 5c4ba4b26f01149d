"""Functions under JAX's usual promotion of ranks and types, as users write them; their module is beside the tests."""

import pathlib
import sys

import jax
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def usual_promotion():
    """JAX as users have it."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
