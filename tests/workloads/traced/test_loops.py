"""Loops and branches of traced functions: trips, slices, loops in one kernel."""

import jax
import jax.numpy as jnp
import pytest
from functions import F32, array, converging, counted, either, layers, state_space, total

from workloads.traced.function import traced


def test_a_scan_is_its_body_as_often_as_it_runs():
    rolled = traced(layers, array(64, 128), array(12, 128, 128)).ops()

    def unrolled(x, weights):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    flat = traced(unrolled, array(64, 128), [array(128, 128)] * 12).ops()
    assert [(op.count, op.bytes, op.matrix_flops) for op in rolled.values()] == [
        (op.count, op.bytes, op.matrix_flops) for op in flat.values()
    ]


def test_loops_that_count_and_loops_that_do_not_say():
    (op,) = traced(counted, array(64, 64)).ops().values()
    assert op.count == 10

    with pytest.raises(ValueError, match="does not say how often it runs: give trips=N"):
        traced(converging, array(64, 64))
    found = traced(converging, array(64, 64), trips=7.0).ops()
    assert [op.count for op in found.values() if op.kind == "linear"] == [7.0]


def bounded(x):
    """Halved until it is small, 50 times at most."""

    def more(state):
        return (state[0] < 50) & (jnp.abs(state[1]).max() > 1e-3)

    return jax.lax.while_loop(more, lambda state: (state[0] + 1, 0.5 * state[1] @ state[1]), (0, x))[1]


def test_a_loop_with_a_bound_counts_as_if_it_ran_to_it():
    found = traced(bounded, array(64, 64))
    assert [op.count for op in found.ops().values() if op.kind == "linear"] == [50.0]
    assert found.notes == ("a while loop counts as if it ran to its bound, 50 times: give trips=N",)
    found = traced(bounded, array(64, 64), trips=7.0)
    assert [op.count for op in found.ops().values() if op.kind == "linear"] == [7.0] and not found.notes


def test_a_step_of_a_recurrence_is_no_softmax():
    """An exponential and a sum, but nothing is divided by it."""
    names = traced(state_space, array(2, 16, 32, dtype=F32), array(32, 8, dtype=F32), *[array(2, 16, 8, dtype=F32)] * 2)
    assert all("softmax" not in kernel.name for kernel in names.kernels)
    (softmax,) = traced(lambda x: jax.nn.softmax(x, -1), array(64, 32, dtype=F32)).kernels
    assert softmax.name == "softmax"


def test_a_loop_of_light_work_may_be_one_kernel():
    """Decay and its exponential of 32 x 8 states for 16 steps; x, both projections and results move once."""
    arguments = array(2, 16, 32, dtype=F32), array(32, 8, dtype=F32), *[array(2, 16, 8, dtype=F32)] * 2
    step_by_step = traced(state_space, *arguments).ops()
    assert sum(float(op.count) for op in step_by_step.values()) == 16
    (op,) = traced(state_space, *arguments, fused_loops=True).ops().values()
    assert op.count == 1 and op.exps == 16 * 32 * 8
    assert op.bytes == 4 * (2 * 2 * 16 * 32 + 32 * 8 + 2 * 2 * 16 * 8)


def test_the_heaviest_branch_of_a_cond_is_counted():
    found = traced(either, array(dtype=bool), array(64, 64))
    assert total(found.ops(), "matrix_flops") == 2 * 2 * 64**3
    assert found.notes == ("of a cond the branch with most work is counted",)
