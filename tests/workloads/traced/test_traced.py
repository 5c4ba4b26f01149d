"""Traces of functions: arguments, results, equal ops, notes, speed."""

import time

import jax.numpy as jnp
from functions import array, masked, total

from workloads.traced.function import traced


def test_what_is_computed_twice_is_one_kernel_but_where_it_is_meant():
    def twice(x):
        return jnp.exp(x).sum(0) * jnp.exp(x).max(0)

    def exponentials(policy):
        return total(traced(twice, array(64, 64), policy=policy).ops(), "exps")

    assert exponentials("framework") == 64 * 64 and exponentials("eager") == 2 * 64 * 64


def test_equal_ops_are_one():
    def stacked(x, weights):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    found = traced(stacked, array(64, 64), [array(64, 64)] * 30)
    assert [float(op.count) for op in found.ops().values()] == [30.0, 30.0]


def test_what_is_no_array_is_static():
    """A layer with its activation, and how often it runs, as models of Equinox have them; the same comes out."""

    def run(layer, x, times):
        for _ in range(times):
            x = layer["activation"](x @ layer["weight"])
        return layer | {"weight": x}

    layer = {"weight": array(64, 64), "activation": jnp.tanh}
    ops = traced(run, layer, array(64, 64), 3).ops()
    assert total(ops, "matrix_flops") == 3 * 2 * 64**3


def test_what_is_written_into_arguments_is_a_result():
    """As modules with state have it: a dictionary's entry here."""

    def step(state, x):
        state["weight"] = state["weight"] - x.T @ x
        return x.sum()

    ops = traced(step, {"weight": array(64, 64)}, array(32, 64)).ops()
    assert sum(float(op.matrix_flops or 0.0) for op in ops.values()) == 2 * 32 * 64 * 64


def test_a_mask_that_is_an_argument_is_said():
    found = traced(masked, *[array(2, 64, 4, 32)] * 3, array(2, 64, dtype=bool), policy="framework")
    assert "under a mask that is an input" in found.notes[0]


def test_a_thousand_primitives_are_traced_quickly():
    def long(x):
        for i in range(250):
            x = jnp.tanh(x @ x) + x * (2.0 + i)
        return x

    begun = time.perf_counter()
    found = traced(long, array(64, 64), policy="compiler")
    assert time.perf_counter() - begun < 20.0  # 0.3 s on a free core: a bound on what grows with the square
    assert sum(float(op.count) for op in found.ops().values()) == 250
