"""Time of grouped matrix products: one hand-worked value per regime, and what holds in all of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency.grouped import GroupedKernel, grouped_timing, published, row_tiles
from jaxroof.hardware import Cores, Hardware, Links, Memory, MemoryLevel, Power
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat
from jaxroof.op import ProductShape
from tests.uncompiled import uncompiled

BF16 = WeightFormat(bytes=2.0, compute="bf16")

IDEAL = GroupedKernel(
    matrix=1.0,
    tile_cycles=0.0,
    overlap=0.0,
    small=0.0,
    softness=0.0,
    energy=1e-12,
    energy_rate=1e12,
    power=1.0,
    onset_time=1e-3,
    launch_cycles=1000.0,
    launch_time=2e-6,
    matrix_cycles=10.0,
    step_time=0.0,
    bandwidth=1.0,
    cache_bandwidth=1.0,
    contention=0.0,
    weight_residency=1.0,
    activation_residency=1.0,
    copy_cycles=0.0,
)


def device(bandwidth=1e12, l2=None) -> Hardware:
    """100 cores of 10 TFLOP/s at 1 GHz."""
    return Hardware(
        matrix={"bf16": 1e15},
        cores=Cores(count=100.0, vector_flops=1e11, exp_rate=None, clock=1e9),
        memory=Memory(
            hbm=MemoryLevel(bandwidth=bandwidth, capacity=1e11), l2=l2, scratchpad=None, register_capacity=None
        ),
        links=Links(scale_up=None, scale_out=None),
        power=Power(tdp=None),
        price=None,
    )


def product(rows, matrices, inputs=1024.0, outputs=1024.0, largest=None, reuse=None):
    op = linear(rows, inputs, outputs, BF16, 2.0, 1.0, "experts", matrices)
    shape = dataclasses.replace(op.shape, largest=largest)
    return dataclasses.replace(op, shape=shape, reuse_bytes=reuse)


def test_few_rows_stream_the_touched_matrices():
    # 8 matrices of 2 MiB and 8 rows of 4 KiB: 16.81 us. Launch: 2 us + (1000 + 8 * 10) / 1 GHz = 3.08 us.
    # 8 * 16 tiles of 16 x 64 on 100 cores: 1.28 * 2 * 16 * 64 * 1024 / 10 TFLOP/s = 0.27 us.
    timing = grouped_timing(IDEAL, product(8.0, 8.0), device())
    moved, core = 8 * (2 * 1024**2 + 4096) / 1e12, 1.28 * 2 * 16 * 64 * 1024 / 1e13
    assert timing.total == pytest.approx(3.08e-6 + (moved**2 + core**2) ** 0.5, rel=1e-5)
    assert timing.resources["hbm"] == pytest.approx(16.81e-6, rel=1e-3)


def test_many_rows_run_at_the_peak():
    # 2 * 8192 * 4096^2 / 1 PFLOP/s = 274.9 us; weights and rows, 403 MB at 100 TB/s, take 4.0 us beside it.
    timing = grouped_timing(IDEAL, product(8192.0, 8.0, 4096.0, 4096.0), device(bandwidth=1e14))
    assert timing.resources["matrix"] == pytest.approx(2 * 8192 * 4096**2 / 1e15, rel=1e-5)
    assert timing.total == pytest.approx(274.9e-6 + 3.08e-6, rel=1e-3)


def test_a_tile_waits_for_its_inputs_one_step_after_the_other():
    # 1024 inputs of 2 B are 16 steps of 128 B: 16 * 0.25 us = 4 us; memory and cores take next to nothing.
    kernel = dataclasses.replace(IDEAL, step_time=0.25e-6)
    timing = grouped_timing(kernel, product(1.0, 1.0, outputs=64.0), device(bandwidth=1e15))
    assert timing.total == pytest.approx(3.01e-6 + 4e-6, rel=1e-2)
    assert timing.resources["launch"] == pytest.approx(7.01e-6, rel=1e-5)


def test_copies_of_rows_take_the_cores_time():
    # 1 MiB rows of 4 KiB copied at 0.1 cycles per B on 100 cores of 1 GHz: 2^20 * 4096 * 1e-12 s = 4.29 ms.
    kernel = dataclasses.replace(IDEAL, copy_cycles=0.1)
    op = product(2.0**20, 8.0)
    more = grouped_timing(kernel, op, device()).total - grouped_timing(IDEAL, op, device()).total
    assert more == pytest.approx(2**20 * 4096 * 0.1 / 1e11, rel=1e-3)


def test_weights_that_fit_the_cache_are_read_from_it():
    l2 = MemoryLevel(bandwidth=1e13, capacity=1e9)
    cold = grouped_timing(IDEAL, product(8.0, 8.0), device(l2=l2)).total
    warm = grouped_timing(IDEAL, product(8.0, 8.0, reuse=16e6), device(l2=l2)).total
    assert warm < 0.5 * cold


def test_coarse_tiles_take_shorter_steps_and_read_half_lines():
    # Mean rows 8 against coarse_rows 4: x = 4, 0.8 of the way. 8 matrices of 2 MiB at 1 TB/s: 16.8 us, times 1.4;
    # 16 steps of 0.25 us, times 1.8.
    kernel = dataclasses.replace(IDEAL, step_time=0.25e-6)
    coarse = dataclasses.replace(kernel, coarse_rows=4.0, coarse_lines=0.5)
    op = product(64.0, 8.0)
    fine, found = (grouped_timing(each, op, device()).resources for each in (kernel, coarse))
    assert found["hbm"] - fine["hbm"] == pytest.approx(0.4 * 8 * 2 * 1024**2 / 1e12, rel=1e-4)
    assert found["launch"] - fine["launch"] == pytest.approx(0.8 * 16 * 0.25e-6, rel=1e-4)


def test_memory_and_asynchronous_matrix_units_overlap():
    # c and h add as a hypotenuse where threads feed the matrix units, and as a norm of order 4 where these fetch.
    op, plain = product(2048.0, 8.0, 2048.0, 2048.0), device(bandwidth=3e12)
    cores = dataclasses.replace(plain.cores, asynchronous=1.0)
    fetching = dataclasses.replace(plain, cores=cores)
    kernel = dataclasses.replace(IDEAL, overlapped=1.0)
    c, h = (float(grouped_timing(kernel, op, plain).resources[name]) for name in ("matrix", "hbm"))
    launch = 2e-6 + 1080e-9
    assert grouped_timing(kernel, op, plain).total == pytest.approx(launch + (c**2 + h**2) ** 0.5, rel=1e-5)
    assert grouped_timing(kernel, op, fetching).total == pytest.approx(launch + (c**4 + h**4) ** 0.25, rel=1e-5)


def test_a_tensor_memory_saves_launches_and_coarse_tiles():
    # A quarter of 2 us + (1000 + 8 * 10) / 1 GHz = 3.08 us: 0.77 us. Coarse tiles' half lines: 0.4 * 16.8 us.
    plain = device()
    holding = dataclasses.replace(plain, cores=dataclasses.replace(plain.cores, tensor_memory=1.0))
    kernel = dataclasses.replace(IDEAL, fused=0.25, coarse_rows=4.0, coarse_lines=0.5)
    op = product(64.0, 8.0)
    before, after = (grouped_timing(kernel, op, each).resources for each in (plain, holding))
    assert before["launch"] - after["launch"] == pytest.approx(0.77e-6, rel=1e-5)
    assert before["hbm"] - after["hbm"] == pytest.approx(0.4 * 8 * 2 * 1024**2 / 1e12, rel=1e-4)


def test_copies_of_rows_take_the_memorys_time():
    # 2^20 rows of 4 KiB once more at 1 TB/s: 4.29 ms.
    kernel = dataclasses.replace(IDEAL, copies=1.0)
    op = product(2.0**20, 8.0)
    more = grouped_timing(kernel, op, device()).total - grouped_timing(IDEAL, op, device()).total
    assert more == pytest.approx(2**20 * 4096 / 1e12, rel=1e-3)


def test_tiles_of_equal_rows_are_rounded_up_and_of_unequal_ones_on_average():
    def tiles(rows, matrices, tile, largest=None):
        shape = ProductShape(
            rows=rows, outputs=1.0, inputs=1.0, matrices=matrices, weight_bytes=2.0, output_bytes=2.0, largest=largest
        )
        return float(row_tiles(shape, tile))

    assert tiles(65.0 * 8, 8.0, 64.0) == 16.0
    # Slow oracle: 4001 matrices whose rows are spread evenly in their logarithms.
    for ratio in (30.0, 300.0):
        loads = 900.0 * np.exp(-np.linspace(0.0, np.log(ratio), 4001))
        for tile in (16.0, 64.0, 256.0):
            exact = np.sum(np.ceil(loads / tile))
            assert tiles(np.sum(loads), 4001.0, tile, 900.0) == pytest.approx(exact, rel=0.08)


def test_a_tile_that_every_matrix_needs_has_no_slope_in_its_rows():
    """20 rows of a matrix on tiles of 64: one tile, and no second one near; 100 rows: the slope of 100 / 64."""

    def tiles(rows):
        shape = ProductShape(rows=rows, outputs=1.0, inputs=1.0, matrices=8.0, weight_bytes=2.0, output_bytes=2.0)
        return row_tiles(shape, 64.0)

    assert float(tiles(160.0)) == 8.0 and float(jax.grad(tiles)(160.0)) == pytest.approx(0.0, abs=1e-9)
    assert float(tiles(800.0)) == 16.0 and float(jax.grad(tiles)(800.0)) == pytest.approx(1.0 / 64.0, rel=1e-4)


def test_no_rows_take_no_time():
    timing = grouped_timing(published(), product(0.0, 0.0), device())
    assert float(timing.total) == 0.0
    assert all(float(time) == 0.0 for time in timing.resources.values())


COARSE = dataclasses.replace(published(), coarse_rows=4.0, coarse_lines=0.5)

DEVICES = ("h100_sxm", "l40s", "B200", "mi300x")


def points(count):
    draws = np.random.default_rng(0)
    experts = 2.0 ** draws.uniform(0, 9, count)
    rows = np.where(draws.random(count) < 0.1, 0.0, 2.0 ** draws.uniform(0, 20, count))
    touched = np.minimum(experts, rows)
    largest = rows / np.maximum(touched, 1.0) * draws.uniform(1, 20, count)
    sides = 2.0 ** draws.uniform(5, 15, (2, count))
    return [jnp.asarray(each, jnp.float32) for each in (rows, touched, sides[0], sides[1], largest)]


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("spread", [False, True])
def test_times_and_gradients_are_finite(name, spread):
    hardware = hwspaces.hardware(name).hardware

    def seconds(kernel, hardware, rows, touched, inputs, outputs, largest):
        op = product(rows, touched, inputs, outputs, largest if spread else None)
        return grouped_timing(kernel, op, hardware).total

    both = uncompiled(
        jax.vmap(jax.value_and_grad(seconds, argnums=tuple(range(7))), in_axes=(None, None, 0, 0, 0, 0, 0))
    )
    memory = dataclasses.replace(hardware, links=None, price=None)
    floats = jax.tree.map(jnp.float32, (COARSE if spread else published(), memory))
    times, gradients = both(*floats, *points(400))
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((times, gradients)))
    assert bool(jnp.all(times >= 0.0))


@pytest.mark.parametrize("path", ["bandwidth", "matrix", "clock", "l2"])
def test_a_faster_device_is_never_slower(path):
    hardware = dataclasses.replace(hwspaces.hardware("h100_sxm").hardware, links=None, price=None)
    memory = hardware.memory
    faster = {
        "bandwidth": dataclasses.replace(
            hardware,
            memory=dataclasses.replace(
                memory, hbm=dataclasses.replace(memory.hbm, bandwidth=1.5 * memory.hbm.bandwidth)
            ),
        ),
        "l2": dataclasses.replace(
            hardware,
            memory=dataclasses.replace(memory, l2=dataclasses.replace(memory.l2, bandwidth=1.5 * memory.l2.bandwidth)),
        ),
        "matrix": dataclasses.replace(hardware, matrix={name: 1.5 * x for name, x in hardware.matrix.items()}),
        "clock": dataclasses.replace(hardware, cores=dataclasses.replace(hardware.cores, clock=1.5 * 1.83e9)),
    }[path]

    @jax.jit
    def times(hardware, points):
        def one(rows, touched, inputs, outputs, largest):
            op = product(rows, touched, inputs, outputs, largest, reuse=touched * inputs * outputs * 2.0)
            return grouped_timing(COARSE, op, hardware).total

        return jax.vmap(one)(*points)

    chosen = points(400)
    assert bool(jnp.all(times(faster, chosen) <= times(hardware, chosen) * (1.0 + 1e-5)))


def test_twice_the_rates_and_half_the_latencies_halve_the_time():
    hardware = dataclasses.replace(hwspaces.hardware("h100_sxm").hardware, links=None, price=None)
    memory, cores, kernel = hardware.memory, hardware.cores, published()
    double = Hardware(
        matrix={name: 2.0 * peak for name, peak in hardware.matrix.items()},
        cores=dataclasses.replace(
            cores, vector_flops=2.0 * cores.vector_flops, exp_rate=2.0 * cores.exp_rate, clock=2.0 * cores.clock
        ),
        memory=dataclasses.replace(
            memory,
            hbm=dataclasses.replace(memory.hbm, bandwidth=2.0 * memory.hbm.bandwidth),
            l2=dataclasses.replace(memory.l2, bandwidth=2.0 * memory.l2.bandwidth),
        ),
        links=None,
        power=Power(tdp=2.0 * hardware.power.tdp),
        price=None,
    )
    halved = dataclasses.replace(
        kernel,
        launch_time=0.5 * kernel.launch_time,
        step_time=0.5 * kernel.step_time,
        onset_time=0.5 * kernel.onset_time,
        energy_rate=2.0 * kernel.energy_rate,
    )
    for rows, touched in ((4.0, 4.0), (500.0, 64.0), (50000.0, 128.0)):
        op = product(rows, touched, 4096.0, 1536.0, 4.0 * rows / touched, reuse=1e9)
        slow, fast = grouped_timing(kernel, op, hardware).total, grouped_timing(halved, op, double).total
        assert float(fast) == pytest.approx(0.5 * float(slow), rel=1e-5)


def test_threads_that_feed_the_matrix_units_get_in_the_way_of_memory():
    # c^2 + h^2 + 2 x 0.1 c h.
    op, plain = product(2048.0, 8.0, 2048.0, 2048.0), device(bandwidth=3e12)
    kernel = dataclasses.replace(IDEAL, contention=0.1)
    c, h = (float(grouped_timing(kernel, op, plain).resources[name]) for name in ("matrix", "hbm"))
    launch = 2e-6 + 1080e-9
    expected = launch + (c * c + h * h + 0.2 * c * h) ** 0.5
    assert grouped_timing(kernel, op, plain).total == pytest.approx(expected, rel=1e-6)


def test_mean_tiles_of_a_power_law():
    # Busiest of 640 rows, 64 on average: a span of 10 - e^-8.1 = 9.9997. In tiles of 64 rows the busiest has 10:
    # 1 + (10 - 1 - ln(10) / 2) / 9.9997 = 1.78491 tiles a matrix, of four matrices.
    shape = ProductShape(
        rows=256.0, outputs=1.0, inputs=1.0, matrices=4.0, weight_bytes=2.0, output_bytes=2.0, largest=640.0
    )
    assert float(row_tiles(shape, 64.0)) == pytest.approx(4 * 1.78491, rel=1e-4)
