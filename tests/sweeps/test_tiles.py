"""Columns of points in tiles: the same numbers and gradients as a plain map, one kernel, and refused lengths."""

import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.smooth import maximum
from sweeps.run.tiles import compiled, tiled

ROOT = pathlib.Path(__file__).parents[2]


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


def test_columns_of_several_types():
    with pytest.raises(ValueError, match="columns are of types float32, int32; all must be of one"):
        tiled(lambda point: point["a"] * point["b"], 32)({"a": np.ones(64, np.float32), "b": np.ones(64, np.int32)})


UNREAD = """
import jax, numpy as np
from sweeps.run.tiles import tiled

def chosen(point):  # XLA decides it, after JAX has lowered a program that reads both
    return jax.lax.select(jax.numpy.full((), True), point["a"] * 2.0, point["b"])

found = jax.jit(tiled(chosen))({"a": np.ones(256, np.float32), "b": np.ones(256, np.float32)})
print(found.sum(), found.shape)
"""


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the mark is of XLA's CPU compiler")
def test_columns_that_xla_finds_unread():
    """In a process of its own, which XLA would end."""
    found = subprocess.run([sys.executable, "-c", UNREAD], capture_output=True, text=True, cwd=ROOT)
    assert (found.returncode, found.stdout.split()) == (0, ["512.0", "(256,)"]), found.stderr


@pytest.mark.parametrize("points", [32, 48, 256])
def test_what_tiles_cannot_have_is_mapped_plainly(points):
    """A sort, for which XLA has no kernel in a marked call; one tile; and points that do not fill tiles."""

    def smaller(point):
        return jnp.sort(jnp.stack([point["work"], point["rate"]]))[0]

    columns = {name: column[:points] for name, column in COLUMNS.items()}
    found = compiled(smaller, columns, 32)(columns)
    np.testing.assert_array_equal(found, np.minimum(columns["work"], columns["rate"]))
