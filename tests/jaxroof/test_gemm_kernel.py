"""Dense products by tiles and splits: worked values per regime, gradients, monotony and units."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.efficiency.gemm import gemm_timing, published
from jaxroof.efficiency.kernels import Kernels, class_of
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.tiles import matrix_time, misfit, waves
from jaxroof.hardware import Cores, Hardware, Links, Memory, MemoryLevel, Power
from jaxroof.layers.linear import Matrix, linear, quantize
from jaxroof.model import WeightFormat
from tests.uncompiled import uncompiled

BF16 = WeightFormat(bytes=2.0, compute="bf16")
FP8 = WeightFormat(bytes=1.0, compute="fp8")

DEVICE = Hardware(
    matrix={"bf16": 1e15, "fp8": 2e15},
    cores=Cores(count=100.0, vector_flops=5e11, exp_rate=3e10, clock=2e9, asynchronous=0.0),
    memory=Memory(
        hbm=MemoryLevel(bandwidth=4e12, capacity=1e11),
        l2=MemoryLevel(bandwidth=1e13, capacity=5e7),
        scratchpad=MemoryLevel(bandwidth=2e11, capacity=2.3e5),
        register_capacity=262144.0,
    ),
    links=Links(scale_up=None, scale_out=None),
    power=Power(tdp=None),
    price=None,
)

IDEAL = dataclasses.replace(
    published(),
    matrix=1.0,
    tile_cycles=0.0,
    store_cycles=0.0,
    small=0.0,
    launch_cycles=0.0,
    bandwidth=1.0,
    contention=0.0,
    ramp_cycles=0.0,
    idle_power=0.0,
    activation_residency=1e-6,
    step_cycles=None,
)


def time(m, n, k, hardware=DEVICE, kernel=IDEAL, weights=BF16, reuse=None):
    op = dataclasses.replace(linear(m, k, n, weights, 2.0, 1.0), reuse_bytes=reuse)
    return gemm_timing(kernel, op, hardware)


def test_large_product_runs_at_the_peak():
    # 12800 x 12800: 100 x 50 tiles of 128 x 256 are 50 whole waves on 100 cores, so c = 2 m n k / peak = 1.342 ms;
    # bytes 2 (2 m k + m n) with k = 4096: 537 MB at 4 TB/s are 0.134 ms; (1.342^4 + 0.134^4)^(1/4) = 1.342 ms.
    assert float(time(12800.0, 12800.0, 4096.0).total) == pytest.approx(1.3422e-3, rel=3e-4)


def test_few_rows_run_at_the_memory_rate():
    # 8192 x 8192 weights, one row: 134.25 MB / 4 TB/s = 33.56 us. The best tile is the smallest, 16 x 64: 128 tiles
    # are 1.28 waves, 1.28 + 0.7 x 0.72 = 1.784, of 2 x 16 x 64 x 8192 / 1e13 = 1.68 us each, c = 3.0 us; hidden.
    assert float(time(1.0, 8192.0, 8192.0).total) == pytest.approx(33.56e-6, rel=2e-4)


def test_weights_that_the_cache_still_holds_come_from_it():
    cold, warm = time(1.0, 1024.0, 1024.0), time(1.0, 1024.0, 1024.0, reuse=2.1e6)
    assert float(warm.total) < float(cold.total)
    # 2.1 MB of 47.5 MB: all but (1/22.6)^8 of the weights; their rate is hypot(4, 0.4 x 10) = 5.66 TB/s.
    assert float(warm.resources["l2"]) == pytest.approx(2 * 1024**2 / 5.657e12, rel=1e-3)
    assert float(warm.resources["hbm"]) < 0.01 * float(cold.resources["hbm"])


def test_launch_and_tile_are_counted_in_cycles():
    kernel = dataclasses.replace(IDEAL, launch_cycles=4000.0, tile_cycles=1000.0)
    # One tile of 16 x 64 and k = 64: 4000 cycles + 1000 cycles at 2 GHz = 2.5 us; the rest is 14 ns.
    assert float(time(1.0, 64.0, 64.0, kernel=kernel).total) == pytest.approx(2.5e-6, rel=0.01)


def test_power_denies_part_of_the_peak():
    # 1e13 FLOP/s of one core against 2.55e12: 1.05 pJ x sqrt(0.255) = 0.5302 pJ; 1e15 x 0.5302e-12 = 530.2 W. A limit
    # of (530.2 + 100 x 0.5) / 0.85 W, of which 100 cores take 0.5 W each, leaves 2^(-1/4) of the rate.
    device = dataclasses.replace(DEVICE, power=Power(tdp=580.2 / 0.85))
    kernel = dataclasses.replace(IDEAL, energy=1.05e-12, idle_power=0.5)
    free, capped = time(12800.0, 12800.0, 4096.0), time(12800.0, 12800.0, 4096.0, device, kernel)
    ratio = float(capped.resources["matrix"] / free.resources["matrix"])
    assert ratio == pytest.approx(2**0.25, rel=1e-3)


def test_memory_and_its_overlap_ramp_up():
    # One row: t = 33.56 us and 33.56 us of ramp at 2 GHz make h = 33.56 (1 + 1 / 2) = 50.34 us.
    kernel = dataclasses.replace(IDEAL, ramp_cycles=67120.0)
    assert float(time(1.0, 8192.0, 8192.0, kernel=kernel).total) == pytest.approx(50.34e-6, rel=1e-3)
    slower = dataclasses.replace(kernel, contention=3.0)
    assert float(time(1.0, 8192.0, 8192.0, kernel=slower).total) > 50.35e-6


def test_results_and_rows_take_cycles_of_a_core():
    # 12800^2 results are 100 tiles of 128 x 128 per core, each 1e4 cycles at 2 GHz: 500 us.
    # Rows: 12800 x 1000 cycles / (100 x 2 GHz) = 64 us.
    plain = float(time(12800.0, 12800.0, 4096.0).total)
    stored = time(12800.0, 12800.0, 4096.0, kernel=dataclasses.replace(IDEAL, store_cycles=1e4))
    assert float(stored.total) - plain == pytest.approx(100 * 5e-6, rel=1e-2)
    rows = time(12800.0, 12800.0, 4096.0, kernel=dataclasses.replace(IDEAL, row_cycles=1000.0))
    assert float(rows.total) - plain == pytest.approx(64e-6, rel=1e-3)


def test_rows_without_scales_take_no_cycles():
    kernel = dataclasses.replace(IDEAL, row_cycles=1000.0, software_row_cycles=1000.0)
    op = linear(12800.0, 4096.0, 12800.0, BF16, 2.0, 1.0)
    plain = dataclasses.replace(op, shape=dataclasses.replace(op.shape, row_scales=False))
    assert float(gemm_timing(kernel, plain, DEVICE).total) == float(gemm_timing(IDEAL, op, DEVICE).total)


def test_software_scaling_costs_only_chips_without_asynchronous_units():
    kernel = dataclasses.replace(IDEAL, software=0.5, row_cycles=0.0, software_row_cycles=1000.0)
    device = dataclasses.replace(DEVICE, cores=dataclasses.replace(DEVICE.cores, asynchronous=1.0))
    plain, aided, unaided = (
        float(time(12800.0, 12800.0, 4096.0, *case).total) for case in ((device,), (device, kernel), (DEVICE, kernel))
    )
    assert aided == pytest.approx(plain, rel=1e-6)
    assert unaided == pytest.approx(1.5 * plain + 64e-6, rel=1e-3)


def test_a_step_of_few_rows_takes_the_loads_time():
    # 65536 inputs of 2 B are 1024 steps of 128 B; 8 parts of 128 steps, each 2000 cycles at 2 GHz: 128 us.
    # 1024 outputs in 8 parts are at most 64 tiles of 128: one wave. The parts' sums and the bytes take less beside it.
    slow = dataclasses.replace(IDEAL, step_cycles=2000.0, split_cycles=0.0, split_traffic=0.0)
    assert float(time(1.0, 1024.0, 65536.0, kernel=slow).resources["matrix"]) == pytest.approx(128e-6, rel=1e-3)
    # A step of a large tile, 2 * 128 * 256 * 64 FLOP at 10 TFLOP/s of a core, is 420 ns: 100 cycles do not bind.
    short = dataclasses.replace(IDEAL, step_cycles=100.0)
    plain, found = (float(time(12800.0, 12800.0, 4096.0, kernel=each).total) for each in (IDEAL, short))
    assert found == pytest.approx(plain, rel=1e-6)


def test_promotion_and_packing_of_scales_depend_on_the_tensor_memory():
    # A main loop that is 1.25 times as long without it; 1000 cycles at 2 GHz more with it: 0.5 us.
    kernel = dataclasses.replace(IDEAL, promotion=0.25, packing_cycles=1000.0)
    device = dataclasses.replace(DEVICE, cores=dataclasses.replace(DEVICE.cores, tensor_memory=1.0))
    plain, aided, unaided = (
        float(time(12800.0, 12800.0, 4096.0, *case).total) for case in ((DEVICE,), (device, kernel), (DEVICE, kernel))
    )
    assert aided == pytest.approx(plain + 0.5e-6, rel=1e-6)
    assert unaided == pytest.approx(1.25 * plain, rel=1e-3)


def test_classes_of_low_precisions():
    fp4 = linear(1.0, 64.0, 64.0, WeightFormat(bytes=0.5625, compute="fp4"), 2.0, 1.0)
    fp8 = linear(1.0, 64.0, 64.0, FP8, 2.0, 1.0)
    blocks = linear(1.0, 64.0, 64.0, WeightFormat(bytes=1.0, compute="fp8", scaled=True), 2.0, 1.0)
    every = Kernels(wide=IDEAL, narrow=IDEAL, scaled=IDEAL, block4=IDEAL)
    assert [class_of(every, op) for op in (fp4, fp8, blocks)] == ["block4", "narrow", "scaled"]
    # Without evidence of 4 bits, constants of 8 bits price them.
    fewer = dataclasses.replace(every, block4=None)
    assert [class_of(fewer, op) for op in (fp4, fp8, blocks)] == ["narrow", "narrow", "scaled"]
    assert class_of(Kernels(wide=IDEAL), fp4) == "wide"


def test_waves():
    assert float(waves(0.3, 0.7)) == 1.0
    assert float(waves(2.0, 0.7)) == 2.0
    assert float(waves(2.5, 0.7)) == pytest.approx(2.85)


def test_tiles_that_do_not_fit_are_slow():
    assert float(misfit(128.0, 256.0, DEVICE)) == 1.0
    small = dataclasses.replace(DEVICE.memory, register_capacity=131072.0)
    assert float(misfit(128.0, 256.0, dataclasses.replace(DEVICE, memory=small))) == 16.0


def test_capacity_beyond_what_tiles_need_has_no_gradient():
    """128 x 256 float32 accumulators are exactly half of 256 KiB: more is of no use, and 1 B less costs 4 / 256 KiB."""

    def slowdown(capacity):
        memory = dataclasses.replace(DEVICE.memory, register_capacity=capacity)
        return misfit(128.0, 256.0, dataclasses.replace(DEVICE, memory=memory))

    assert float(jax.grad(slowdown)(262144.0)) == 0.0
    assert float(jax.grad(slowdown)(262143.0)) == pytest.approx(-4.0 / 262144.0, rel=1e-4)


def test_no_work_takes_no_time():
    timing = time(0.0, 4096.0, 4096.0, kernel=published())
    assert float(timing.total) == 0.0
    assert all(float(value) == 0.0 for value in timing.resources.values())


def test_unknown_levels_do_not_bind():
    memory = Memory(hbm=DEVICE.memory.hbm, l2=None, scratchpad=None, register_capacity=None)
    cores = dataclasses.replace(DEVICE.cores, clock=None, exp_rate=None)
    device = dataclasses.replace(DEVICE, memory=memory, cores=cores)
    assert np.isfinite(float(time(100.0, 4096.0, 4096.0, device, published(), reuse=1e9).total))


def _points(count):
    random = np.random.default_rng(0)
    sizes = np.round(np.exp(random.uniform(0.0, np.log(2e5), (3, count)))).astype(np.float32)
    sizes[0, :20], sizes[1, 20:30], sizes[2, 30:40] = 0.0, 1.0, 1.0
    return jnp.asarray(sizes)


def test_values_and_gradients_are_finite():
    device = dataclasses.replace(DEVICE, power=Power(tdp=700.0))

    def total(size, device, kernel):
        return time(size[0], size[1], size[2], device, kernel, reuse=6.0 * size[1] * size[2]).total

    values, slopes = uncompiled(jax.vmap(jax.value_and_grad(total, (0, 1, 2)), (1, None, None)))(
        _points(2000), device, dataclasses.replace(published(), spread=None)
    )
    assert np.all(np.isfinite(values)) and np.all(np.asarray(values) >= 0.0)
    assert all(np.all(np.isfinite(slope)) for slope in jax.tree.leaves(slopes))


def test_constants_of_the_compiler_do_not_overflow():
    # All but the rows constant: a compiler that merges powers of them must not leave float32.
    device = dataclasses.replace(DEVICE, power=Power(tdp=700.0))
    values = jax.jit(jax.vmap(lambda m: time(m, 4096.0, 4096.0, device, published()).total))(_points(100)[0])
    assert np.all(np.isfinite(values))


RATES = ("matrix.bf16", "memory.hbm.bandwidth", "memory.l2.bandwidth", "cores.clock", "power.tdp")


def test_more_is_never_slower():
    device = dataclasses.replace(DEVICE, power=Power(tdp=700.0))

    def scaled(factors):
        def leaf(position, value):
            name = jax.tree_util.keystr(position, simple=True, separator=".")
            return value * factors[RATES.index(name)] if name in RATES else value

        return jax.tree_util.tree_map_with_path(leaf, device)

    def total(size, factors):
        return time(size[0], size[1], size[2], scaled(factors), published(), reuse=6.0 * size[1] * size[2]).total

    times = jax.jit(jax.vmap(total, (1, None)))
    sizes = _points(1000)
    usual = np.asarray(times(sizes, jnp.ones(len(RATES))))
    for rate in range(len(RATES)):
        more = times(sizes, jnp.ones(len(RATES)).at[rate].set(1.5))
        assert np.all(np.asarray(more) <= usual * (1 + 1e-5)), RATES[rate]


def test_more_of_the_same_cores_are_not_slower_for_few_tiles():
    """Far beyond the limit of power, which cores without a tile do not share."""

    def few(share):
        cores = dataclasses.replace(DEVICE.cores, count=DEVICE.cores.count * share)
        matrix = {precision: peak * share for precision, peak in DEVICE.matrix.items()}
        device = dataclasses.replace(DEVICE, cores=cores, matrix=matrix, power=Power(tdp=50.0))
        return float(time(64.0, 2048.0, 4096.0, device, published()).total)

    assert few(2.0) <= few(1.0) * 1.0001 and few(4.0) <= few(2.0) * 1.0001


def test_rates_twice_as_high_halve_the_time():
    device = dataclasses.replace(DEVICE, power=Power(tdp=700.0))
    # Capacities and counts stay; rates, power and the constants with units of time or power double or halve.
    memory = dataclasses.replace(
        device.memory,
        hbm=dataclasses.replace(device.memory.hbm, bandwidth=8e12),
        l2=dataclasses.replace(device.memory.l2, bandwidth=2e13),
    )
    fast = dataclasses.replace(
        device,
        matrix={"bf16": 2e15},
        cores=dataclasses.replace(device.cores, clock=4e9),
        memory=memory,
        power=Power(tdp=1400.0),
    )
    slow_kernel = published()
    fast_kernel = dataclasses.replace(
        slow_kernel,
        energy_rate=2.0 * slow_kernel.energy_rate,
        onset_time=0.5 * slow_kernel.onset_time,
        idle_power=2.0 * slow_kernel.idle_power,
    )
    for size in ((1.0, 4096.0, 4096.0), (300.0, 4096.0, 8192.0), (8192.0, 8192.0, 8192.0)):
        before = time(*size, device, slow_kernel, reuse=1e8).total
        after = time(*size, fast, fast_kernel, reuse=1e8).total
        assert float(after) == pytest.approx(0.5 * float(before), rel=1e-5)


def test_quantiser_is_bound_by_cores_or_memory():
    op = quantize(8192.0, Matrix(8192.0, 1.0, FP8), 2.0, 1.0)
    kernel = StreamKernel(launch_cycles=0.0, launch_time=2e-6, bandwidth=0.5, vector=1.0, matrix=1.0, core_bytes=5.0)
    # 3 x 8192^2 = 201.3 MB: at 5 B x 100 cores x 2 GHz = 1 TB/s 201.3 us, at half of 4 TB/s 100.7 us; 2 us to launch.
    assert float(stream_timing(kernel, op, DEVICE).total) == pytest.approx(203.3e-6, rel=1e-3)
    fast = dataclasses.replace(kernel, core_bytes=50.0)
    assert float(stream_timing(fast, op, DEVICE).total) == pytest.approx(102.7e-6, rel=1e-3)
    # L2 keeps 50 MB: of 201.3 MB, 4.027^2 / (1 + 4.027^2) = 94.2 % come from memory.
    kept = dataclasses.replace(fast, residency=1.0)
    assert float(stream_timing(kept, op, DEVICE).total) == pytest.approx(2e-6 + 0.9419 * 100.66e-6, rel=1e-3)


def test_a_tile_that_outputs_fill_in_part_takes_its_whole_time():
    # 100 tiles of 128 rows on 100 cores, and two columns of 256: one output of the second is as long as all of them.
    def of(outputs):
        rate, tiles = 1e15, ((128.0, 256.0),)
        made = matrix_time(IDEAL, DEVICE, rate, "bf16", 2.0, lambda m: 12800.0 / m, outputs, 4096.0, tiles=tiles)
        return float(made)

    assert of(257.0) == pytest.approx(of(512.0), rel=1e-6)
    assert of(512.0) == pytest.approx(2.0 * of(256.0), rel=1e-6)


@pytest.mark.parametrize("shape", [(1.0, 4096.0, 4096.0), (17.0, 300.0, 9000.0), (5000.0, 6144.0, 4096.0)])
def test_programs_take_the_same_tile_as_arithmetic_at_once(shape):
    """JAX traces tiles and splits as axes, NumPy goes through them one by one."""

    def total(bandwidth):
        hbm = dataclasses.replace(DEVICE.memory.hbm, bandwidth=bandwidth)
        device = dataclasses.replace(DEVICE, memory=dataclasses.replace(DEVICE.memory, hbm=hbm))
        return time(*shape, hardware=device, kernel=published()).total

    with jax.enable_x64(True):
        assert float(jax.jit(total)(4e12)) == pytest.approx(float(total(4e12)), rel=1e-13)


def test_a_program_of_a_product_is_small():
    """Of 33 candidates: hundreds of equations, not one set for each."""

    def equations(jaxpr):
        inner = (p for e in jaxpr.eqns for p in e.params.values())
        return len(jaxpr.eqns) + sum(equations(getattr(p, "jaxpr", p)) for p in inner if hasattr(p, "eqns"))

    traced = jax.make_jaxpr(lambda m: time(m, 4096.0, 4096.0, kernel=published()).total)(512.0)
    assert equations(traced.jaxpr) < 300


def test_a_scratchpad_feeds_fewer_multipliers_in_a_smaller_share_of_their_time():
    """A main loop of 128 x 256 tiles is 1 + 0.3 32 (1/128 + 1/256) = 1.1125 times as long as its products on Hopper's
    4,096 FLOP per clock, and 1 + 0.1125 / 4 with a quarter of the multipliers; threads feed units for as long as ever.
    """
    costs = dataclasses.replace(published(), tile_cycles=0.0, store_cycles=0.0, step_cycles=None)
    found = []
    for flops, asynchronous in ((4096.0, 1.0), (1024.0, 1.0), (1024.0, 0.0)):
        peak = flops * DEVICE.cores.count * DEVICE.cores.clock
        cores = dataclasses.replace(DEVICE.cores, asynchronous=asynchronous)
        device = dataclasses.replace(DEVICE, matrix={"bf16": peak}, cores=cores)
        tile = {"outputs": 256.0, "inputs": 4096.0, "tiles": ((128.0, 256.0),)}
        # a row of 100 tiles, one for every core
        time = matrix_time(costs, device, peak, "bf16", 2.0, lambda m: 12800.0 / m, **tile)
        found.append(float(time) * peak / (2.0 * 12800.0 * 256.0 * 4096.0))
    assert found == pytest.approx([1.1125, 1.028125, 1.1125], rel=1e-6)
