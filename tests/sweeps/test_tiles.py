"""Columns of points in tiles: the same numbers and gradients as a plain map, one kernel, and refused lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.smooth import maximum
from sweeps.tiles import tiled


def cost(point: dict[str, jax.Array]) -> jax.Array:
    return maximum(point["work"] / point["rate"], 2.0, point["work"] * 0.1) + jnp.log(point["rate"])


COLUMNS = {
    "work": np.random.default_rng(0).uniform(1.0, 30.0, 256).astype(np.float32),
    "rate": np.random.default_rng(1).uniform(1.0, 9.0, 256).astype(np.float32),
}


def test_same_as_a_plain_map():
    gradient = jax.value_and_grad(cost)
    found = jax.jit(tiled(gradient, 32))(COLUMNS)
    expected = jax.jit(jax.vmap(gradient))(COLUMNS)
    # 16th powers of float32 ratios, whose products may be taken in another order
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), found, expected)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the mark is of XLA's CPU compiler")
def test_one_kernel():
    """The compiled program is one call: XLA still knows the mark, and still leaves a marked call alone."""
    text = jax.jit(tiled(jax.value_and_grad(cost), 32)).lower(COLUMNS).compile().as_text()
    entry = text[text.index("ENTRY") :]
    assert entry.count(" call(") == 1 and entry.count(" while(") == 0 and entry.count('xla_cpu_small_call="true"') == 1


def test_points_that_do_not_fill_tiles():
    with pytest.raises(ValueError, match="points = 256 must be a multiple of the tile, 100"):
        tiled(cost, 100)(COLUMNS)
