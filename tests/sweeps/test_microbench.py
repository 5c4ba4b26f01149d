"""Grids of a benchmark are complete within the budget, times are of whole kernels, entries load."""

import itertools
import math
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from hwspaces.performance.surface import SurfaceTable
from sweeps.measure.microbench import kernels
from sweeps.measure.microbench.check import FreshShape, fresh_shapes, known_shape
from sweeps.measure.microbench.device import Device, DeviceFigures, hardware_toml, seen_device
from sweeps.measure.microbench.kernels import Heads, decode_amounts, gemm, gemm_amounts, prefill_amounts
from sweeps.measure.microbench.plan import BenchSpace, Cell, Span, positions, timed_grid
from sweeps.measure.microbench.timing import Numbers, TimedWork, TimingProtocol, call_time

QUICK = TimingProtocol(
    cold_bytes=1e5, unroll=2, loop=True, linked=True, sample_time=2e-4, total_time=1e-3, samples=3, long_samples=2
)
QUEUED = TimingProtocol(
    cold_bytes=1e5, unroll=2, loop=False, linked=False, sample_time=2e-4, total_time=1e-3, samples=3, long_samples=2
)


class Machine:
    """A pretended device of 1 TFLOP/s and 100 GB/s on a pretended clock: 0.1 s to set up a shape, ten calls."""

    def __init__(self, precision: str = "fp32", setup: float = 0.1):
        self.now, self.setup, self.shapes, self.precision = 0.0, setup, [], precision

    def clock(self) -> float:
        return self.now

    def measure(self, shape: dict[str, int], expected: float) -> Cell:
        flops, moved = gemm_amounts(self.precision, shape)
        seconds = max(flops / 1e12, moved / 1e11) + 1e-6
        self.shapes.append(tuple(shape.values()))
        self.now += self.setup + 10.0 * seconds
        return Cell(seconds, 0.05, self.setup + 10.0 * seconds)


def products(**changed: Span) -> BenchSpace:
    spans = {"m": Span(1, 4096, 256), "n": Span(256, 8192, 1024), "k": Span(256, 8192, 1024)} | changed
    return BenchSpace(spans, lambda shape: gemm_amounts("fp32", shape), lambda shape: 0.0, 1.0)


def test_positions_are_powers_of_two_and_not_too_far_apart():
    assert positions(1, 4096) == [1, 16, 256, 4096]
    assert positions(256, 8192) == [256, 1024, 8192]  # five octaves in two steps
    assert positions(64, 64 * 16) == [64, 1024]


@pytest.mark.parametrize("budget", [5.0, 20.0, 80.0])
def test_a_grid_is_complete_and_keeps_to_its_budget(budget):
    machine = Machine()
    grid = timed_grid(products(), machine.measure, budget, machine.clock)
    assert grid.seconds.shape == tuple(len(values) for values in grid.axes.values())
    assert np.all(np.isfinite(grid.seconds)) and np.all(grid.seconds > 0)
    assert len(machine.shapes) == len(set(machine.shapes))  # none is timed twice
    assert machine.now <= 1.1 * budget  # the last refinement was affordable by estimate


def test_more_budget_gives_finer_grids_over_the_same_shapes_first():
    sizes, firsts = [], []
    for budget in (10.0, 40.0, 160.0):
        machine = Machine()
        sizes.append(timed_grid(products(), machine.measure, budget, machine.clock).seconds.size)
        firsts.append(machine.shapes[:2])
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert firsts[0] == firsts[1] == firsts[2]


def test_without_any_budget_the_smallest_grid_is_complete():
    machine = Machine()
    grid = timed_grid(products(), machine.measure, 0.0, machine.clock)
    assert all(len(values) >= 2 for values in grid.axes.values())
    assert {tuple(key) for key in itertools.product(*grid.axes.values())} <= set(machine.shapes)


def test_a_grid_keeps_to_the_memory():
    machine, limit = Machine(), 2e8
    space = products()._replace(bytes=lambda shape: gemm_amounts("fp32", shape)[1], limit=limit)
    grid = timed_grid(space, machine.measure, 1000.0, machine.clock)
    assert gemm_amounts("fp32", {axis: values[-1] for axis, values in grid.axes.items()})[1] <= limit


def test_amounts_by_hand():
    # 2 x 4 x 8 x 16 FLOP; 4 B of 4 x 16 + 16 x 8 + 4 x 8 elements
    assert gemm_amounts("fp32", {"m": 4, "n": 8, "k": 16}) == (1024.0, 896.0)
    # int8 operands, int32 results: 64 + 128 + 4 x 32 B
    assert gemm_amounts("int8", {"m": 4, "n": 8, "k": 16})[1] == 320.0
    # 3 queries see 1 + 2 + 3 keys; 4 FLOP per pair, head and element; q and o of 4 heads, k and v of 2, 8 wide, bf16
    assert prefill_amounts("bf16", Heads(4, 2, 8), {"sequences": 2, "queries": 3}) == (
        4.0 * 2 * 6 * 4 * 8,
        2.0 * 3 * (2 * 4 + 2 * 2) * 8 * 2,
    )
    assert decode_amounts("bf16", Heads(4, 2, 8), {"sequences": 2, "keys": 5}) == (
        4.0 * 2 * 5 * 4 * 8,
        2.0 * (2 * 5 * 2 + 2 * 4) * 8 * 2,
    )


@pytest.mark.parametrize("how", [QUICK, QUEUED], ids=["loop", "queue"])
def test_a_product_takes_some_time_and_its_result_is_not_left_out(how):
    """Sixteen times the work takes longer, however calls are repeated: none is hoisted or narrowed to one element."""
    numbers = Numbers(0)
    small, large = (call_time(gemm("fp32", {"m": m, "n": 256, "k": 256}), numbers, how) for m in (16, 1024))
    assert 0.0 < small.seconds < large.seconds
    assert small.samples >= 3 and small.spread >= 0.0 and small.dispatch > 0.0


def test_a_copy_is_no_faster_than_its_first_element():
    """A copy of 64 MiB against one of 64 KiB: what is handed on whole cannot be skipped."""
    numbers = Numbers(0)
    small, large = (call_time(kernels.copy("fp32", {"bytes": size}), numbers, QUICK) for size in (1 << 16, 1 << 26))
    assert large.seconds > 10.0 * small.seconds  # a thousand times the bytes; the factor leaves room for overheads


def test_every_kernel_computes_finite_numbers():
    numbers, heads = Numbers(1), Heads(4, 2, 8)
    from sweeps.measure.microbench.run import work

    shapes = {
        "gemm": {"m": 3, "n": 8, "k": 16},
        "prefill": {"sequences": 2, "queries": 5},
        "decode": {"sequences": 2, "keys": 7},
        "elementwise": {"bytes": 1 << 17},
        "copy": {"bytes": 1 << 12},
    }
    for family, shape in shapes.items():
        for precision in ("bf16", "fp32"):
            kernel = work(family, precision, heads, "xla", shape)
            state, cold = tuple(map(numbers.array, kernel.state)), tuple(map(numbers.array, kernel.cold))
            result = kernel.call(state, cold)
            assert all(bool(jnp.all(jnp.isfinite(array))) for array in jax.tree.leaves(result)), family
            if kernel.feeds:
                assert [(a.shape, a.dtype) for a in result] == [(a.shape, a.dtype) for a in kernel.state]


def test_every_way_to_read_memory_and_the_vector_chain_run():
    ways = [way for listed in kernels.readings(1 << 20).values() for way in listed]
    assert set(kernels.readings(1 << 20)) == set(hwspaces.performance.surface.BANDWIDTHS)
    chain, flops = kernels.vector(1024)
    assert flops == 2 * 8 * 16 * 1024
    for kernel in [way.work for way in ways] + [chain]:
        assert call_time(kernel, Numbers(0), QUICK).seconds > 0.0


def test_the_pages_of_a_gather_are_a_permutation():
    for rows in (1, 2, 6, 97, 1024):
        step = kernels._coprime(rows)
        assert sorted((np.arange(rows) * step) % rows) == list(range(rows))


def test_a_kernel_that_feeds_itself_is_timed():
    array = jax.ShapeDtypeStruct((256,), jnp.float32)
    kernel = TimedWork(call=lambda state, cold: (jnp.tanh(state[0]),), state=(array,), feeds=True)
    assert call_time(kernel, Numbers(0), QUICK, expected=1.0).seconds > 0.0


def test_the_device_is_known():
    device = seen_device()
    assert device.platform == jax.devices()[0].platform and device.count == len(jax.devices())
    assert device.versions["jax"] == jax.__version__ and device.cache_bytes > 0


def test_a_measured_entry_loads_with_its_sources(tmp_path):
    device = Device('A "CPU"', "cpu", 4, 64e9, 32e6, 8, 3e9, {}, None)
    figures = DeviceFigures(
        matrix={"fp32": 2e11, "bf16": 1e11},
        vector=1.6e11,
        bandwidths={"sequential_bandwidth": 4e10, "copy_bandwidth": 3e10},
        links=(1e10, 60e-6),
    )
    path = tmp_path / "device.toml"
    path.write_text(hardware_toml(device, figures, "2026-11-21"))
    tomllib.loads(path.read_text())
    entry = hwspaces.hardware(path)
    assert entry.hardware.matrix == {"fp32": 2e11, "bf16": 1e11}
    assert math.isclose(entry.hardware.cores.vector_flops, 1.6e11 / 8)
    assert entry.hardware.memory.hbm.bandwidth == 4e10 and entry.hardware.memory.hbm.capacity == 64e9
    assert entry.hardware.memory.l2 is None and entry.hardware.cores.clock == 3e9
    assert math.isclose(entry.hardware.links.scale_up.latency, 60e-6 / 6)  # a ring of four takes six steps
    measured = [source for path, source in entry.sources.items() if path.startswith(("matrix", "memory.hbm.b"))]
    assert all("measured by jaxroof bench on 2026-11-21" in source for source in measured)


def test_an_entry_needs_products_and_bandwidth():
    device = Device("CPU", "cpu", 1, 64e9, 32e6, 8, 3e9, {}, None)
    with pytest.raises(ValueError, match="gemm and bandwidth"):
        hardware_toml(device, DeviceFigures({}, None, {}, None), "2026-11-21")


def test_fresh_shapes_are_inside_and_known_ones_on_the_grid():
    axes = {"m": np.array([1.0, 16.0, 256.0]), "n": np.array([256.0, 4096.0]), "k": np.array([512.0, 2048.0])}
    table = SurfaceTable("gemm_fp32", "linear", "fp32", axes, np.ones((3, 2, 2)), {})
    random = np.random.default_rng(0)
    for shape in fresh_shapes(table, 50, random):
        assert all(axes[axis][0] <= value <= axes[axis][-1] for axis, value in shape.items())
        assert any(value not in axes[axis] for axis, value in shape.items())
    assert known_shape(table, {"m": 5, "n": 1025, "k": 600}) == {"m": 16, "n": 4096, "k": 512}


def test_a_drift_of_the_machine_is_told_from_errors():
    """Everything takes twice as long today; the fresh shape was predicted a quarter too long beside that."""
    times = {"measured": 2.0, "predicted": 1.25, "plain": 1.0, "near_measured": 4.0, "near_predicted": 2.0}
    row = FreshShape("gemm_fp32", {"m": 3}, **times)
    assert math.isclose(row.error, -0.375) and math.isclose(row.drift, -0.5) and math.isclose(row.corrected, 0.25)
