"""The cache in blocks and outside of the device: waste, capacity, and what copies take of a step."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import workloads
from jaxroof import Deployment, MemoryLevel, datasheet, decode, kv_capacity_tokens, prefill, sequence_capacity
from jaxroof.memory.capacity import kv_bytes_of_sequence, memory_use
from jaxroof.memory.legality import broken_rule
from jaxroof.memory.paging import mean_wasted_tokens, wasted_tokens
from jaxroof.step.forward import step_ops
from jaxroof.step.step import step_cost, step_time
from tests.hand import EXACT


@pytest.fixture(scope="module")
def hosted(chip):
    """`chip` beside a host with 50 GB/s and 100 GB for it."""
    memory = dataclasses.replace(chip.memory, host=MemoryLevel(bandwidth=5e10, capacity=1e11))
    return dataclasses.replace(chip, memory=memory)


def test_scenario_i3_1(chip):
    """Llama-2-7B on 80 GB: (0.9 * 80e9 - 13.48e9) / (32 x 2 x 4096 x 2 B) = 111.6 k tokens = 6,976 blocks of 16."""
    place = chip, workloads.model("Llama-2-7B").model, Deployment(reserve_bytes=0.0, max_batched_tokens=0.0)
    tokens = float(kv_capacity_tokens(*place))
    assert tokens == pytest.approx(111.6e3, rel=1e-3)
    assert np.floor(tokens / 16) == pytest.approx(6976, abs=1)


@pytest.mark.parametrize(("block", "waste", "mean"), [(8, 7, 3.5), (16, 15, 7.5), (32, 31, 15.5), (128, 127, 63.5)])
def test_scenario_i3_2(block, waste, mean):
    """2,049 tokens need one token of a last block; in the mean over all lengths (block - 1) / 2 are empty."""
    assert float(wasted_tokens(2049.0, float(block))) == waste
    assert float(wasted_tokens(2048.0, float(block))) == 0
    assert float(mean_wasted_tokens(float(block))) == mean
    lengths = jnp.arange(1.0, 4.0 * block + 1.0)
    assert float(jnp.mean(jax.vmap(lambda n: wasted_tokens(n, float(block)))(lengths))) == mean


def test_capacity_against_block_size(dense, chip):
    """Sequences of 100 tokens of 3,200 B: blocks of 30 take 120 tokens, so a sixth less of them fit."""
    exact, blocks = Deployment(), Deployment(block_tokens=30.0)
    assert float(kv_bytes_of_sequence(dense, exact, 100.0)) == 100 * 3200
    assert float(kv_bytes_of_sequence(dense, blocks, 100.0)) == 120 * 3200
    fits = [float(sequence_capacity(chip, dense, deployment, 100.0)) for deployment in (exact, blocks)]
    assert fits[1] == pytest.approx(fits[0] / 1.2, abs=1)
    # one token per block is exact
    assert float(sequence_capacity(chip, dense, Deployment(block_tokens=1.0), 100.0)) == fits[0]


def test_what_is_outside_leaves_room(dense, hosted):
    """A quarter outside: a third more sequences, until the host's 100 GB are full: 100e9 / (0.25 * 320,000)."""
    sequences = {
        share: float(sequence_capacity(hosted, dense, Deployment(offloaded=share), 100.0)) for share in (0.0, 0.25, 0.9)
    }
    assert sequences[0.25] == pytest.approx(sequences[0.0] / 0.75, rel=1e-5)
    assert sequences[0.9] == pytest.approx(1e11 / (0.9 * 320_000), rel=1e-5)
    use = [float(memory_use(hosted, dense, Deployment(offloaded=s), 100.0, 100_000.0)) for s in (0.0, 0.5)]
    usable = 0.9 * 80e9
    assert (use[0] - use[1]) * usable == pytest.approx(0.5 * 100_000 * 320_000, rel=1e-4)


def test_copies_of_a_step(dense, hosted):
    """10 sequences of 5,000 tokens, a quarter outside: 0.25 * 10 * 5000 * 3200 B / 4 layers = 10 MB a layer."""
    deployment = Deployment(offloaded=0.25, prefetched=0.0)
    op = step_ops(dense, deployment, decode(10.0, 5000.0))["cache_copy"]
    assert float(op.message_bytes) == pytest.approx(1e7, rel=EXACT)
    assert float(op.count) == 4
    cost = step_cost(hosted, dense, deployment, decode(10.0, 5000.0), datasheet())
    # 4 x 10 MB at 50 GB/s
    assert float(cost["cache_copy"].time) == pytest.approx(0.8e-3, rel=EXACT)
    # a prompt writes its own and reads what it had: 0.25 * 2 * (700 + 300) * 3200 B
    op = step_ops(dense, deployment, prefill(2.0, 700.0, 300.0))["cache_copy"]
    assert float(op.count * op.message_bytes) == pytest.approx(1.6e6, rel=EXACT)


def test_copies_run_behind_other_layers(dense, hosted):
    """0.8 ms of copies against kernels that take longer: a layer's quarter is left; against shorter ones the rest."""

    def time(step, **given):
        return float(step_time(hosted, dense, Deployment(offloaded=0.25, **given), step, datasheet()))

    step = decode(10.0, 5000.0)
    kernels = float(step_time(hosted, dense, Deployment(), step, datasheet()))
    assert time(step, prefetched=0.0) == pytest.approx(kernels + 0.8e-3, rel=1e-5)
    assert time(step) == pytest.approx(kernels + 0.8e-3 - 0.75 * min(kernels, 0.8e-3), rel=1e-5)
    assert float(step_time(hosted, dense, Deployment(offloaded=0.0), step, datasheet())) == pytest.approx(
        kernels, rel=EXACT
    )


def test_what_cannot_be_outside(dense, chip):
    assert broken_rule(chip, dense, Deployment(offloaded=1.0)) == (
        "offloaded = 1 leaves no cache on the device: below 1"
    )
    for question in (
        lambda: sequence_capacity(chip, dense, Deployment(offloaded=0.5), 100.0),
        lambda: step_time(chip, dense, Deployment(offloaded=0.5), decode(1.0, 10.0), datasheet()),
    ):
        with pytest.raises(ValueError, match="hardware.memory.host is unknown"):
            question()
    with pytest.raises(ValueError, match="hardware.memory.storage is unknown"):
        sequence_capacity(chip, dense, Deployment(offloaded=0.5, offload_to="storage"), 100.0)


def test_gradients(dense, hosted, float64):
    """Finite with nothing and with something outside, in every leaf of device and deployment."""

    def time(hardware, deployment):
        room = sequence_capacity(hardware, dense, deployment, 100.0)
        return step_time(hardware, dense, deployment, decode(10.0, 5000.0), datasheet()) + 1e-9 * room

    slopes = jax.jit(jax.grad(time, argnums=(0, 1)))
    for share in (0.0, 0.25):
        deployment = Deployment(offloaded=jnp.asarray(share), block_tokens=jnp.asarray(16.0))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes(hosted, deployment)))
