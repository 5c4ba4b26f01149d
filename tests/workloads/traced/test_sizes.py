"""Symbolic sizes of traced functions: ops as functions of them, sizes as values, sizes that fusion is decided at."""

import jax
import jax.numpy as jnp
import numpy as np
from functions import F32, HIDDEN, LLAMA, array, llama

import sweeps
from workloads.traced.function import traced


def test_symbolic_sizes_are_functions():
    b, s = jax.export.symbolic_shape("b, s")
    every = traced(llama, LLAMA, array(b, s, HIDDEN), policy="framework", sizes={"b": 2.0, "s": 512.0})
    one = traced(llama, LLAMA, array(2, 512, HIDDEN), policy="framework")
    assert every.symbols == ("b", "s")
    assert list(every.ops({"b": 2.0, "s": 512.0}).values()) == list(one.ops().values())
    assert every.peak_bytes({"b": 2.0, "s": 512.0}) == one.peak_bytes()
    columns = every.ops({"b": np.array([1.0, 2.0]), "s": np.array([128.0, 512.0])})
    for (name, column), alone in zip(columns.items(), one.ops().values(), strict=True):
        assert np.broadcast_to(column.bytes, 2)[1] == alone.bytes, name


def test_fusion_that_would_differ_at_the_ends_of_a_grid_is_said():
    """A row of 65,536 numbers is reduced and worked on in one kernel, a longer one in two."""
    (width,) = jax.export.symbolic_shape("width")
    asked = sweeps.from_function(lambda x: x - x.mean(-1, keepdims=True), array(64, width), sizes={"width": 1024})
    assert asked.notes("H100-SXM", {"width": [1024, 4096]}) == (
        "fusion is decided at width = 1,024; the same at width = 4,096",
    )
    (note,) = asked.notes("H100-SXM", {"width": [1024, 1048576]})
    assert note.startswith("fusion is decided at width = 1,024; at width = 1,048,576 it would be 2 kernels instead of")
    assert asked.notes("H100-SXM", {"width": [1024]}) == ()
    assert asked.decided_at(width=1048576).answer("H100-SXM", width=1048576).metrics["kernels"] == 2
    assert asked.sweep("H100-SXM", {"width": [1024, 4096]}).attrs["notes"].startswith("fusion is decided at width")


def test_symbolic_expressions():
    (b,) = jax.export.symbolic_shape("b", constraints=["mod(b, 4) == 0"])

    def halves(x):
        return jnp.concatenate([x[: x.shape[0] // 4] * 2.0, x[x.shape[0] // 4 :]]) @ x.T

    ops = traced(halves, array(b, 64), sizes={"b": 16.0}).ops({"b": 32.0})
    assert [float(op.matrix_flops) for op in ops.values() if op.kind == "linear"] == [2 * 32 * 64 * 32]


def test_symbolic_sizes_as_values():
    """A mean divides by its size; a causal mask of 8 newest tokens begins at the number of cached ones."""
    s, k = jax.export.symbolic_shape("s, k")
    found = traced(lambda x: jax.device_put(x).mean(0), array(s, 64, dtype=F32), sizes={"s": 32.0})
    assert sum(float(op.bytes) for op in found.ops({"s": 1024.0}).values()) == 4 * (1024 * 64 + 64)

    def newest(q, keys, values):
        new, every = q.shape[1], keys.shape[1]
        seen = jnp.arange(every)[None] <= jnp.arange(new)[:, None] + (every - new)
        scores = jnp.where(seen, jnp.einsum("bqhd,bkhd->bhqk", q, keys), -1e30)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), values)

    sizes = array(1, s, 4, 32), array(1, k, 4, 32), array(1, k, 4, 32)
    (op,) = traced(newest, *sizes, sizes={"s": 16.0, "k": 48.0}).ops({"s": 64.0, "k": 256.0}).values()
    assert op.shape.pairs == 64 * 192 + 64 * 65 / 2


def test_ops_over_different_symbols_are_apart():
    """Two products that are alike where both sizes are."""
    n, e = jax.export.symbolic_shape("n, e")
    found = traced(lambda nodes, edges, w: (nodes @ w, edges @ w), array(n, 64), array(e, 64), array(64, 64))
    ops = found.ops({"n": 100.0, "e": 700.0}).values()
    assert sorted(float(op.matrix_flops) for op in ops) == [2 * 100 * 64 * 64, 2 * 700 * 64 * 64]
