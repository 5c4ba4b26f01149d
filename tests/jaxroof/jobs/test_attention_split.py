"""Attention and feed-forward in pools of their own: parts of a layer, what they hide, and what cannot be split."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxroof import Deployment, datasheet, decode, step_times
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.splits import attention_split_cost
from tests.hand import EXACT
from tests.uncompiled import uncompiled


@pytest.fixture(scope="module")
def pool(chip):
    memory = dataclasses.replace(chip.memory, l2=None, scratchpad=None, register_capacity=None)
    return Pool(hardware=dataclasses.replace(chip, memory=memory), deployment=Deployment(), efficiency=datasheet())


@pytest.fixture(scope="module")
def cost(dense):
    """`attention_split_cost` of `dense` with 5,000 tokens of context, compiled once for all tests of one structure."""
    return jax.jit(lambda here, there, batch, parts: attention_split_cost(here, there, dense, batch, 5000.0, parts))


def test_halves_of_a_layer_are_those_of_a_step(dense, pool, cost):
    """One micro-batch: both halves and what is outside are the step's; activations of 64 x 1000 x 2 B at 50 GB/s."""
    found = cost(pool, pool, 64.0, 1.0)
    step = step_times(pool.hardware, dense, Deployment(), decode(64.0, 5000.0), datasheet())
    layers = 4 * (float(found.attention) + float(found.feedforward))
    assert layers + float(found.outside) == pytest.approx(float(sum(step.values())), rel=1e-5)
    names = ("up_proj", "down_proj", "activation", "feedforward_norm")
    halves = sum(float(time) for name, time in step.items() if name in names)
    assert 4 * float(found.feedforward) == pytest.approx(halves, rel=1e-4)
    # two hops of 5 us
    assert float(found.send) == pytest.approx(64 * 2000 / 5e10 + 1e-5, rel=1e-5)
    assert float(found.tpot) == pytest.approx(layers + 8 * float(found.send) + float(found.outside), rel=1e-5)


def test_micro_batches_keep_the_busier_pool_at_work(pool, cost):
    """With many, a layer takes m times its longest part, whose pool then never waits."""
    found = cost(pool, pool, 6400.0, 64.0)
    longest = max(float(found.attention), float(found.feedforward), float(found.send))
    assert float(found.tpot) == pytest.approx(4 * 64 * longest + float(found.outside), rel=1e-5)
    assert max(float(found.attention_use), float(found.feedforward_use)) <= 1 + EXACT


def test_attention_replicas_fill_one_feedforward(pool, cost):
    """Three attention replicas send to one: its weights are read once for three times the tokens."""
    three = dataclasses.replace(pool, deployment=Deployment(dp=3.0))
    one, more = cost(pool, pool, 8.0, 2.0), cost(three, pool, 8.0, 2.0)
    assert float(more.attention) == float(one.attention)
    assert float(one.feedforward) < float(more.feedforward) < 1.5 * float(one.feedforward)


def test_what_cannot_be_split(dense, pool):
    halves = dataclasses.replace(dense, blocks=(dataclasses.replace(dense.blocks[0], feedforward=None),))
    with pytest.raises(ValueError, match="cannot be split: a layer has only one of them"):
        attention_split_cost(pool, pool, halves, 8.0, 100.0, 1.0)


def test_gradients(pool, cost, float64):
    slopes = uncompiled(jax.grad(lambda there: cost(pool, there, 64.0, 2.0).tpot))(pool)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert float(slopes.hardware.memory.hbm.bandwidth) <= 0.0
