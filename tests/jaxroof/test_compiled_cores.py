"""Wide cores that a compiler schedules: widths and times by hand, GPUs as they were, better rates never slower."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency import decode, gemm, grouped, prefill
from jaxroof.efficiency.hull import KINDRED, Hull, hull_distance, kind_difference
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.tiles import ARRAY_SHARE, FILL_CYCLES, matrix_time
from jaxroof.hardware import (
    GPU_CORE_BYTES,
    Cores,
    Hardware,
    Links,
    Memory,
    MemoryLevel,
    Power,
    core_width,
    gpu_cores,
    threaded,
)
from jaxroof.layers.linear import elementwise, linear
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import eager
from jaxroof.op import AttentionShape, Kernel
from sweeps.ask.axes import leaf, replaced

WIDE = Hardware(
    matrix={"bf16": 1e15},
    cores=Cores(count=2.0, vector_flops=2e12, exp_rate=None, clock=1e9, asynchronous=1.0, compiled=1.0),
    memory=Memory(hbm=MemoryLevel(bandwidth=2.8e12, capacity=1e11), l2=None, scratchpad=None, register_capacity=None),
    links=Links(scale_up=None, scale_out=None),
    power=Power(tdp=None),
    price=None,
)
"""1,400 B of HBM per clock and core: each core is as wide as 100 of a GPU's."""

BF16 = WeightFormat(bytes=2.0, compute="bf16")
COMPILED = ("TPU-v6e", "TPU-v7x", "Gaudi2", "Gaudi3", "Trainium1", "Trainium2", "Inferentia2")


def attention(kind: str, sequences: float, queries: float, keys: float) -> Kernel:
    """8 key heads of 128 elements, 4 query heads each."""
    pairs = queries * (keys - 0.5 * (queries - 1.0))
    cached = sequences * keys * 8.0 * 256.0 * 2.0
    return Kernel(
        kind=kind,
        precision="bf16",
        count=1.0,
        kernels=1.0,
        matrix_flops=4.0 * 128.0 * 32.0 * sequences * pairs,
        operand_bytes=2.0,
        exps=32.0 * sequences * pairs,
        bytes=cached,
        shape=AttentionShape(
            sequences=sequences,
            queries=queries,
            keys=keys,
            pairs=pairs,
            heads=32.0,
            kv_heads=8.0,
            key_width=128.0,
            value_width=128.0,
            kv_bytes=2.0,
        ),
    )


def with_leaf(hardware: Hardware, path: str, factor: float) -> Hardware:
    return replaced(hardware, path, factor * leaf(hardware, path))


def test_width_counts_bytes_per_clock():
    assert core_width(WIDE) == pytest.approx(2.8e12 / (2.0 * 1e9) / GPU_CORE_BYTES) == pytest.approx(100.0)
    assert gpu_cores(WIDE) == pytest.approx(200.0)
    # 1.4 B per clock and core is less than a GPU's: a core is still one core
    assert core_width(with_leaf(WIDE, "memory.hbm.bandwidth", 1e-3)) == 1.0
    assert threaded(WIDE) == 0.0


@pytest.mark.parametrize("name", ["H100-SXM", "B200-SXM", "MI300X", "L40S"])
def test_gpus_are_as_they_were(name):
    """What the kernels multiply with is exactly 1, and what they divide by exactly the number of cores."""
    hardware = hwspaces.hardware(name).hardware
    assert hardware.cores.compiled == 0.0
    assert (core_width(hardware), threaded(hardware)) == (1.0, 1.0)
    assert gpu_cores(hardware) == hardware.cores.count


@pytest.mark.parametrize("name", COMPILED)
def test_the_catalogue_says_who_schedules(name):
    assert hwspaces.hardware(name).hardware.cores.compiled == 1.0


def test_units_of_decode_are_spread_over_the_width():
    """64 sequences of 8 heads are 512 units over 200 cores; a compiled core waits for no block and converts nothing."""
    kernel = dataclasses.replace(decode.published(), slow_bytes=2.0)
    op = attention("decode_attention", 64.0, 1.0, 128.0)
    cycles = kernel.unit_cycles + 256.0 * (kernel.width_cycles + kernel.row_cycles * 4.0)
    start = 512.0 / 200.0 * cycles / 1e9
    work = op.bytes / (2.8e12 * kernel.bandwidth)
    launch = 0.5 * (kernel.launch_time + kernel.launch_cycles / 1e9)
    with eager():
        found = float(decode.decode_timing(kernel, op, WIDE).total)
    assert found == pytest.approx(launch + np.hypot(start, work))


def test_streams_of_a_wide_core():
    """1 MB at 10 B per clock and core: 200 cores of 1 GHz take 0.5 us, less than HBM's 0.36 us / 0.5."""
    kernel = StreamKernel(
        launch_cycles=1000.0, launch_time=1e-6, bandwidth=0.5, vector=0.5, matrix=0.5, core_bytes=10.0
    )
    with eager():
        timing = stream_timing(
            kernel, elementwise(5e5, reads=1.0, writes=1.0, element_bytes=1.0, flops=0.0, count=1.0), WIDE
        )
    assert float(timing.resources["vector"]) == pytest.approx(1e6 / (200.0 * 1e9 * 10.0))
    assert float(timing.total) == pytest.approx(2e-6 + 1e6 / (0.5 * 2.8e12))


def test_arrays_fill_and_drain():
    """One tile of 128 x 256 on one of two cores, 1,024 inputs: 67 MFLOP at half of 0.85 PFLOP/s, and the array's fill.

    A core of 5e5 FLOP per cycle is as large as 30.5 of the largest GPU's, whose clock is 1 GHz.
    """
    tile = ((128.0, 256.0),)
    with eager():
        found = float(
            matrix_time(gemm.published(), WIDE, 1e15, "bf16", 2.0, lambda rows: 128.0 / rows, 256.0, 1024.0, tiles=tile)
        )
    main = 2.0 * 128.0 * 256.0 * 1024.0 * 2.0 / (ARRAY_SHARE * 1e15)
    assert found == pytest.approx(main + FILL_CYCLES / (1e9 * (1e15 / 2.0 / 1e9 / 16384.0)))


RATES = ("memory.hbm.bandwidth", "cores.clock", "cores.vector_flops", "matrix.bf16")

OPS = {
    "product": (gemm.gemm_timing, gemm.published(), linear(300.0, 4096.0, 6000.0, BF16, 2.0, 1.0)),
    "small product": (gemm.gemm_timing, gemm.published(), linear(4.0, 512.0, 700.0, BF16, 2.0, 1.0)),
    "experts": (
        grouped.grouped_timing,
        grouped.published(),
        linear(100.0, 2048.0, 1500.0, BF16, 2.0, 1.0, "experts", 60.0),
    ),
    "prefill": (prefill.prefill_timing, prefill.published(), attention("prefill_attention", 2.0, 900.0, 900.0)),
    "decode": (decode.decode_timing, decode.published(), attention("decode_attention", 64.0, 1.0, 500.0)),
    "short decode": (decode.decode_timing, decode.published(), attention("decode_attention", 1.0, 1.0, 30.0)),
}


@pytest.mark.parametrize("path", RATES)
@pytest.mark.parametrize("what", OPS)
def test_a_better_rate_is_never_slower(what, path):
    """Around the width of 1 and far above; 1e-9 is rounding."""
    timing, kernel, op = OPS[what]
    with eager():
        for bandwidth in (0.005, 0.02, 1.0):
            hardware = with_leaf(WIDE, "memory.hbm.bandwidth", bandwidth)
            times = [float(timing(kernel, op, with_leaf(hardware, path, by)).total) for by in (1.0, 1.1, 2.0, 8.0)]
            assert all(after <= before * (1.0 + 1e-9) for before, after in itertools.pairwise(times)), times


@pytest.mark.parametrize("what", ["decode", "short decode", "experts"])
def test_more_cores_are_never_slower(what):
    """The longest tile of prefill is left out: it is on one core, whose share of the peak falls, on GPUs too."""
    timing, kernel, op = OPS[what]
    with eager():
        times = [float(timing(kernel, op, with_leaf(WIDE, "cores.count", by)).total) for by in (1.0, 2.0, 64.0, 300.0)]
    assert all(after <= before * (1.0 + 1e-9) for before, after in itertools.pairwise(times)), times


@pytest.mark.parametrize("what", OPS)
def test_gradients_are_finite_and_values_are_those_of_numpy(what):
    timing, kernel, op = OPS[what]
    value, slope = jax.value_and_grad(lambda hardware: timing(kernel, op, hardware).total)(WIDE)
    assert all(np.all(np.isfinite(each)) for each in jax.tree.leaves(slope))
    with eager():
        assert float(value) == pytest.approx(float(timing(kernel, op, WIDE).total), rel=1e-5)


def test_evidence_of_gpus_is_far_from_compiled_cores():
    """Cores of another kind are `KINDRED` octaves away, and those of the same kind none."""
    op = linear(300.0, 4096.0, 6000.0, BF16, 2.0, 1.0)
    of_gpus, of_wide = Hull(ranges=()), Hull(ranges=(), compiled=True)
    assert float(hull_distance(of_gpus, op, WIDE)) == KINDRED and float(hull_distance(of_wide, op, WIDE)) == 0.0
    assert float(kind_difference(of_wide, hwspaces.hardware("H100-SXM").hardware)) == 1.0
