"""Loops and branches of traced functions: trips, slices, loops in one kernel."""

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
