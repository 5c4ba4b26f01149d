"""A block of Llama and its gradient beside the ops that the project's own step and training have for them."""

import jax
import pytest
from functions import F32, HIDDEN, LLAMA, array, llama, total

import hwspaces
import sweeps
from jaxroof.jobs.step import step_batch
from jaxroof.numerics.arrays import eager
from jaxroof.op import Collective
from jaxroof.roofline import op_time
from jaxroof.step.overlap import overlapped_ops
from jaxroof.training.backward import backward_ops
from workloads.traced.function import traced

PER_LAYER = 32.0
"""Layers of Llama-3.1-8B: how often a step runs an op of a block."""


SCENARIO = sweeps.case("step", "H100-SXM", "Llama-3.1-8B", workload={"prefill": 2048}).scenario


def block_ops():
    """Ops of a block as a step has them."""
    step = overlapped_ops(SCENARIO.model, SCENARIO.deployment, step_batch(SCENARIO.workload, SCENARIO.model))
    return {n: op for n, op in step.items() if float(op.count) == PER_LAYER and not isinstance(op, Collective)}


def traced_ops(function):
    return traced(function, LLAMA, array(1, 2048, HIDDEN), policy="framework").ops(matrix=SCENARIO.hardware.matrix)


def seconds(op, constants):
    with eager():
        return float(op_time(op, SCENARIO.hardware, constants))


@pytest.mark.parametrize("efficiency", ["datasheet", "derated", "kernel", "learned"])
def test_a_block_of_llama_takes_as_long_as_in_a_step(efficiency):
    """0.4 % differ at the border of blocks: here the first norm adds no residual, and the last kernel does."""
    constants = hwspaces.efficiency(efficiency).efficiency
    block, found = block_ops(), traced_ops(llama)
    expected = sum(seconds(op, constants) for op in block.values())
    ours = sum(float(op.count) * seconds(op, constants) for op in found.values())
    assert ours == pytest.approx(expected, rel=0.02)
    products = sorted(float(op.matrix_flops) for op in block.values() if op.matrix_flops is not None)
    assert sorted(float(op.matrix_flops) for op in found.values() if op.matrix_flops is not None) == products
    (one,) = (op for op in found.values() if op.kind == "prefill_attention")
    other = block["prefill_attention"]
    assert (one.bytes, one.exps, one.vector_flops) == (other.bytes, other.exps, other.vector_flops)
    assert one.shape.pairs == other.shape.pairs and one.shape.kv_heads == other.shape.kv_heads


def test_the_gradient_of_a_block_is_that_of_training():
    """As `jaxroof.training` has it, but for gradients of weights, which add to what is there in training: 3 %."""
    constants = hwspaces.efficiency("learned").efficiency
    found = traced_ops(jax.value_and_grad(lambda *each: llama(*each).astype(F32).sum(), (0, 1)))
    block = block_ops()
    with eager():
        both = block | backward_ops(block)
    expected = sum(seconds(op, constants) for op in both.values())
    ours = sum(float(op.count) * seconds(op, constants) for op in found.values())
    assert total(found, "matrix_flops") == sum(float(op.matrix_flops or 0.0) for op in both.values())
    assert ours == pytest.approx(expected, rel=0.03)
