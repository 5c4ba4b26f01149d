"""Model of kernels with recurrent states: every term by hand, L2, what it must not do, and its gradient."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency.kernels import Kernels, class_of
from jaxroof.efficiency.recurrence import StateKernel, state_timing
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.op import Kernel, StateShape, StreamsShape, WindowShape

KERNEL = StateKernel(
    launch_cycles=0.0,
    launch_time=10e-6,
    row_cycles=100.0,
    step_cycles=4000.0,
    states=2.0,
    spill=0.0,
    copies=1.0,
    bandwidth=0.8,
    cache_bandwidth=0.5,
    core_bytes=1e4,
    resident=1.0,
)


@pytest.fixture(scope="module")
def h100():
    return hwspaces.hardware("H100-SXM").hardware


def chunked(sequences: float, tokens: float, states: float, **more) -> Kernel:
    """States of 128 x 128 in float32; queries, keys, values and outputs of 128 at 2 B."""
    shape = StateShape(
        sequences=sequences,
        tokens=tokens,
        states=states,
        key_width=128.0,
        value_width=128.0,
        state_bytes=4.0,
        row_bytes=2.0,
        passes=2.0,
        chunk=64.0,
    )
    rows = 4.0 * 128.0 * 2.0 * sequences * tokens * states
    return Kernel(
        kind="prefill_attention",
        precision="bf16",
        count=1.0,
        kernels=1.0,
        matrix_flops=0.0,
        operand_bytes=2.0,
        vector_flops=0.0,
        exps=0.0,
        bytes=rows + 2.0 * sequences * states * 65536.0,
        shape=shape,
        **more,
    )


def total(kernel, op, hardware) -> float:
    return float(state_timing(kernel, op, hardware).total)


def test_few_states_wait_for_their_chunks(h100):
    # one sequence of 32 heads on 132 cores: 1 round of 16 chunks of 4000 cycles at 1.83 GHz, beside 37.7 MB; 64 rows
    op = chunked(1.0, 1024.0, 32.0)
    serial = 16 * 4000 / 1.83e9
    moved = (1024 * 32 * 1024 + 2 * 32 * 65536) / (0.8 * 3.35e12)
    assert moved < serial
    assert total(KERNEL, op, h100) == pytest.approx(10e-6 + 64 * 100 / 1.83e9 + serial, rel=1e-6)
    # 264 states fill the cores with two each; one more takes a second round
    for states, rounds in ((264.0, 1), (265.0, 2)):
        op = chunked(1.0, 64.0, states)
        slow = dataclasses.replace(KERNEL, step_cycles=4e5)
        assert total(slow, op, h100) == pytest.approx(10e-6 + 6400 / 1.83e9 + rounds * 4e5 / 1.83e9, rel=1e-6)


def test_many_states_wait_for_memory(h100):
    # 64 sequences of one token: 64 x 32 states of 64 KB in and out, and a row of 1 KB each
    op = chunked(64.0, 1.0, 32.0)
    moved = 64 * 32 * (2 * 65536 + 1024) / (0.8 * 3.35e12)
    assert total(KERNEL, op, h100) == pytest.approx(10e-6 + 100 / 1.83e9 + moved, rel=1e-6)
    # engines that gather and scatter states move them twice as often: the second time apart from the rest
    twice = dataclasses.replace(KERNEL, copies=2.0)
    more = 64 * 32 * 2 * 65536 / (0.8 * 3.35e12)
    assert total(twice, op, h100) - total(KERNEL, op, h100) == pytest.approx(more, rel=1e-6)
    # cores that issue 2 B per cycle are slower than HBM
    narrow = dataclasses.replace(KERNEL, core_bytes=2.0)
    issued = 64 * 32 * (2 * 65536 + 1024) / (132 * 1.83e9 * 2)
    assert total(narrow, op, h100) == pytest.approx(10e-6 + 100 / 1.83e9 + issued, rel=1e-6)


def test_kernels_per_pass_spill_rows(h100):
    # 8 times the 512 B of keys and values of 8192 tokens and 64 heads, which no L2 of 50 MB holds
    op = chunked(1.0, 8192.0, 64.0)
    passes = dataclasses.replace(KERNEL, spill=8.0)
    spilled = 8 * 512 * 8192 * 64 / (0.8 * 3.35e12)
    assert total(passes, op, h100) - total(KERNEL, op, h100) == pytest.approx(spilled, rel=1e-3)
    # of 64 tokens L2 holds three rows per token and head, so that what is spilled comes from there
    small = chunked(1.0, 64.0, 8.0)
    gained = total(passes, small, h100) - total(KERNEL, small, h100)
    assert 0.0 < gained < 8 * 512 * 64 * 8 / (0.8 * 3.35e12)


def test_states_that_are_used_again_stay_in_l2(h100):
    op = chunked(4.0, 1.0, 32.0)
    alone = dataclasses.replace(op, reuse_bytes=op.bytes)
    assert total(KERNEL, alone, h100) < total(KERNEL, op, h100)
    large = chunked(512.0, 1.0, 32.0)
    assert total(KERNEL, dataclasses.replace(large, reuse_bytes=large.bytes), h100) == pytest.approx(
        total(KERNEL, large, h100), rel=1e-3
    )


def test_no_faster_than_the_datasheet_and_nothing_without_launch(h100):
    fast = dataclasses.replace(KERNEL, launch_time=0.0, row_cycles=0.0, step_cycles=1.0)
    op = dataclasses.replace(chunked(1.0, 64.0, 1.0), matrix_flops=float(h100.matrix["bf16"]))
    assert total(fast, op, h100) == pytest.approx(1.0, rel=1e-6)
    none = dataclasses.replace(chunked(0.0, 0.0, 32.0), kernels=0.0)
    assert total(KERNEL, none, h100) == 0.0


def test_gradients_are_finite_and_no_resource_harms(h100):
    kernel = dataclasses.replace(KERNEL, spill=8.0, copies=1.5)

    def time(hbm, l2, sequences, tokens):
        memory = h100.memory
        levels = {"hbm": dataclasses.replace(memory.hbm, bandwidth=hbm * memory.hbm.bandwidth)}
        levels["l2"] = dataclasses.replace(memory.l2, bandwidth=l2 * memory.l2.bandwidth)
        device = dataclasses.replace(h100, memory=dataclasses.replace(memory, **levels))
        op = chunked(sequences, tokens, 32.0)
        op = dataclasses.replace(op, kernels=jnp.where(tokens > 0.0, 1.0, 0.0), reuse_bytes=op.bytes)
        return state_timing(kernel, op, device).total

    sequences, tokens = jnp.array([0.0, 1.0, 3.0, 64.0]), jnp.array([0.0, 1.0, 100.0, 32768.0])
    slopes = jax.jit(jax.vmap(jax.grad(time, argnums=(0, 1, 2, 3)), (None, None, 0, 0)))(1.0, 1.0, sequences, tokens)
    assert np.all(np.isfinite(slopes))
    assert np.all(slopes[0] <= 0.0) and np.all(slopes[1] <= 0.0) and np.all(slopes[3][1:] >= 0.0)


def test_classes_of_serial_kernels():
    state = chunked(1.0, 64.0, 8.0)
    gated = dataclasses.replace(state, shape=dataclasses.replace(state.shape, channelwise=True))
    stream = StreamKernel(launch_cycles=0.0, launch_time=0.0, bandwidth=1.0, vector=1.0, matrix=1.0)
    every = Kernels(
        wide=stream, plain=stream, states=KERNEL, gated=KERNEL, window=stream, update=stream, streams=stream
    )
    window = dataclasses.replace(state, shape=WindowShape(sequences=1.0, tokens=1.0, channels=1.0))
    update = dataclasses.replace(state, shape=WindowShape(sequences=1.0, tokens=1.0, channels=1.0, update=True))
    mixed = dataclasses.replace(state, shape=StreamsShape(rows=1.0, streams=4.0, width=1.0))
    ops = (state, gated, window, update, mixed)
    assert [class_of(every, op) for op in ops] == ["states", "gated", "window", "update", "streams"]
    # what a file lacks runs on the next more general one
    fewer = Kernels(wide=stream, plain=stream, states=KERNEL, window=stream)
    assert [class_of(fewer, op) for op in ops] == ["states", "states", "window", "window", "plain"]
    assert {class_of(Kernels(wide=stream), op) for op in ops} == {"wide"}


def test_blocks_of_a_convolution_by_hand(h100):
    """8 sequences of 1024 channels and 1500 tokens: 1 + 3 pieces of 512 tokens per channel, 100 cycles each."""
    kernel = StreamKernel(
        launch_cycles=0.0, launch_time=0.0, bandwidth=1.0, vector=1.0, matrix=1.0, lane_cycles=100.0, lane_tokens=512.0
    )
    shape = WindowShape(sequences=8.0, tokens=1500.0, channels=1024.0)
    op = Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=1.0, shape=shape)
    assert float(stream_timing(kernel, op, h100).total) == pytest.approx(8 * 1024 * 4 * 100 / (132 * 1.83e9), rel=1e-6)
