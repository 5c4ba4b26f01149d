"""Measured tables in front of a model: exact at measured shapes, continuous, and the model's physics beyond."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.interpolate import RegularGridInterpolator

from hwspaces.performance.scattered import grid_axes, gridded
from hwspaces.performance.surface import SurfaceTable
from hwspaces.performance.surface_efficiency import with_surfaces
from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import KindEfficiency, datasheet
from jaxroof.efficiency.hull import SHAPE, FittedRange, Hull
from jaxroof.efficiency.surface import Surfaces, shape_excesses, surface_distance, surface_of
from jaxroof.hardware import clock
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat
from jaxroof.op import BOUNDS, Kernel
from jaxroof.roofline import op_bound, op_extrapolation, op_spread, op_time, op_timing

BF16 = WeightFormat(bytes=2.0, compute="bf16")
ROWS, OUTPUTS, INPUTS = [1.0, 16.0, 17.0, 256.0], [512.0, 4096.0], [1024.0, 2048.0, 8192.0]


@pytest.fixture(scope="module")
def derated():
    kernels = KindEfficiency(
        matrix=0.7, matrix_low=0.6, vector=0.5, bandwidth=0.8, cache_bandwidth=0.6, kernel_time=2e-6
    )
    kinds = ("linear", "experts", "prefill_attention", "decode_attention", "elementwise")
    return dataclasses.replace(datasheet(), **dict.fromkeys(kinds, kernels))


@pytest.fixture(scope="module")
def products() -> SurfaceTable:
    """Times of 5 to 50 us without a pattern."""
    seconds = np.random.default_rng(1).uniform(5e-6, 5e-5, (4, 2, 3))
    axes = {"m": np.array(ROWS), "n": np.array(OUTPUTS), "k": np.array(INPUTS)}
    return SurfaceTable("gemm", "linear", "bf16", axes, seconds, {})


@pytest.fixture(scope="module")
def surface(products, derated, chip):
    return with_surfaces(derated, [products], chip, "test")


def product(m, n, k, weights=BF16) -> Kernel:
    return linear(m, k, n, weights, 2.0, 1.0)


def product_times(m, n, k, hardware, efficiency) -> np.ndarray:
    def seconds(m, n, k):
        return op_time(product(m, n, k), hardware, efficiency)

    columns = [np.asarray(values, np.float32) for values in np.broadcast_arrays(m, n, k)]
    return np.asarray(jax.jit(jax.vmap(seconds))(*columns), float)


def test_between_and_beyond_measured_shapes_by_hand(chip):
    """At 2 TB/s, 1 MB takes 0.5 us at best and 4 MB 2 us: the ratios are 2 and 4, and sqrt(8) half-way, at 2 MB."""
    table = SurfaceTable("copy", "elementwise", "bf16", {"bytes": np.array([1e6, 4e6])}, np.array([1e-6, 8e-6]), {})

    def seconds(size: float, interpolation: str = "linear") -> float:
        efficiency = with_surfaces(datasheet(), [table], chip, "test", interpolation)
        return float(op_time(Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=size), chip, efficiency))

    assert seconds(1e6) == pytest.approx(1e-6, rel=1e-5)
    assert seconds(2e6) == pytest.approx(1e-6 * math.sqrt(8), rel=1e-5)
    assert seconds(4e6) == pytest.approx(8e-6, rel=1e-5)
    assert seconds(16e6) == pytest.approx(8e-6 * 4, rel=1e-5)  # beyond: 8 us at peak, ratio of the edge
    assert seconds(1e5) == pytest.approx(0.05e-6 * 2, rel=1e-5)
    assert seconds(1.9e6, "nearest") == pytest.approx(0.95e-6 * 2, rel=1e-5)
    assert seconds(2.1e6, "nearest") == pytest.approx(1.05e-6 * 4, rel=1e-5)


def test_measured_shapes_take_what_was_measured(products, surface, chip):
    grid = np.meshgrid(ROWS, OUTPUTS, INPUTS, indexing="ij")
    times = product_times(*(axis.ravel() for axis in grid), chip, surface)
    np.testing.assert_allclose(times, products.seconds.ravel(), rtol=1e-5)  # float32


def test_interpolation_is_that_of_jax(products, surface, derated, chip):
    """An independent multilinear interpolation of the same ratios."""
    grid = np.meshgrid(ROWS, OUTPUTS, INPUTS, indexing="ij")
    base = product_times(*(axis.ravel() for axis in grid), chip, derated).reshape(products.seconds.shape)
    axes = [np.log2(axis) for axis in (ROWS, OUTPUTS, INPUTS)]
    oracle = RegularGridInterpolator(axes, np.log(products.seconds / base))
    generator = np.random.default_rng(2)
    points = [2.0 ** generator.uniform(axis[0], axis[-1], 300) for axis in axes]
    ratio = np.exp(np.asarray(oracle(np.log2(np.stack(points, axis=1)).astype(np.float32)), float))
    times = product_times(*points, chip, surface)
    np.testing.assert_allclose(times, ratio * product_times(*points, chip, derated), rtol=2e-4)  # float32 logarithms


def test_neighbours_of_a_border_have_nearly_the_same_time(surface, derated, chip):
    for m in (1.0, 16.0, 17.0, 256.0):
        below, above = product_times([m * (1 - 1e-5), m * (1 + 1e-5)], 700.0, 3000.0, chip, surface)
        assert above == pytest.approx(below, rel=2e-3)  # 16 to 17 rows are steep: a factor of ten over 6 %


def test_other_kernels_run_on_the_model_below(surface, derated, chip):
    fp8 = WeightFormat(bytes=1.0, compute="fp8")
    packed = WeightFormat(bytes=0.5, compute="bf16", dequantised=True)
    for op in (
        product(32.0, 512.0, 1024.0, fp8),
        product(32.0, 512.0, 1024.0, packed),
        dataclasses.replace(product(32.0, 512.0, 1024.0), shape=None),
        dataclasses.replace(product(32.0, 512.0, 1024.0), kind="experts"),
    ):
        assert op_time(op, chip, surface) == op_time(op, chip, derated)
    assert surface_of(surface.linear, product(32.0, 512.0, 1024.0)) is not None


def test_half_precisions_share_their_tables(products, derated, chip):
    efficiency = with_surfaces(derated, [dataclasses.replace(products, precision="fp16")], with_halves(chip), "test")
    assert surface_of(efficiency.linear, product(1.0, 512.0, 1024.0)) is not None


def with_halves(chip):
    return dataclasses.replace(chip, matrix={**chip.matrix, "fp16": 1e15})


def test_no_work_takes_no_time(surface, chip):
    op = product(0.0, 512.0, 1024.0)
    assert op_time(op, chip, surface) == 0.0
    assert BOUNDS[int(op_bound(op, chip, surface))] == "launch"


def test_resources_are_scaled_with_the_time(surface, derated, chip):
    op = product(64.0, 512.0, 1024.0)
    own, below = (op_timing(op, chip, efficiency) for efficiency in (surface, derated))
    ratio = float(own.total / below.total)
    for name, time in below.resources.items():
        assert float(own.resources[name]) == pytest.approx(ratio * float(time), rel=1e-5)
    assert op_bound(op, chip, surface) == op_bound(op, chip, derated)


def test_values_and_gradients_are_finite_everywhere(surface, chip):
    generator = np.random.default_rng(3)
    points = [2.0 ** generator.uniform(-3, 22, 500).astype(np.float32) for _ in range(3)]
    points[0][:3] = 0.0, 1.0, 256.0

    def seconds(m, n, k, hardware):
        return op_time(product(m, n, k), hardware, surface)

    found = jax.jit(jax.vmap(jax.value_and_grad(seconds, (0, 1, 2, 3)), in_axes=(0, 0, 0, None)))(*points, chip)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))


def test_faster_hardware_is_never_slower(surface, chip):
    generator = np.random.default_rng(4)
    points = [2.0 ** generator.uniform(0, 14, 300) for _ in range(3)]
    before = product_times(*points, chip, surface)
    for faster in (
        dataclasses.replace(chip, matrix={name: 1.5 * peak for name, peak in chip.matrix.items()}),
        with_bandwidth(chip, 1.5),
    ):
        assert np.all(product_times(*points, faster, surface) <= before * (1 + 1e-6))


def with_bandwidth(chip, factor: float):
    hbm = dataclasses.replace(chip.memory.hbm, bandwidth=factor * chip.memory.hbm.bandwidth)
    return dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, hbm=hbm))


def test_rates_twice_as_high_and_fixed_times_half_as_long_halve_the_time(surface, chip):
    memory = chip.memory
    doubled = dataclasses.replace(
        chip,
        matrix={name: 2.0 * peak for name, peak in chip.matrix.items()},
        cores=dataclasses.replace(chip.cores, vector_flops=2 * chip.cores.vector_flops),
        memory=dataclasses.replace(
            memory,
            **{
                level: dataclasses.replace(getattr(memory, level), bandwidth=2.0 * getattr(memory, level).bandwidth)
                for level in ("hbm", "l2", "scratchpad")
            },
        ),
    )
    base = dataclasses.replace(surface.linear.base, kernel_time=surface.linear.base.kernel_time / 2)
    halved = dataclasses.replace(surface, linear=dataclasses.replace(surface.linear, base=base))
    points = [2.0 ** np.random.default_rng(5).uniform(0, 14, 100) for _ in range(3)]
    times = product_times(*points, chip, surface)
    np.testing.assert_allclose(product_times(*points, doubled, halved), times / 2, rtol=1e-4)


def test_in_64_bits(float64, surface, products, chip):
    time = op_time(product(jnp.asarray(17.0), 4096.0, 2048.0), chip, surface)
    assert time.dtype == jnp.float64
    assert float(time) == pytest.approx(products.seconds[2, 1, 1], rel=1e-5)  # the table itself is float32


def heads(count: float, kv: float) -> Attention:
    return Attention(heads=count, kv_heads=kv, head_dim=128.0, value_dim=128.0, window=None, qkv=BF16, output=BF16)


def decode(count: float, kv: float, sequences: float, keys: float, drafts: float = 0.0) -> Kernel:
    deployment = Deployment(drafts=drafts) if drafts else Deployment()
    batch = Decode(sequences=sequences, context=sequences * keys)
    return decode_attention(heads(count, kv), deployment, batch, 1.0)["decode_attention"]


@pytest.fixture(scope="module")
def decoding(derated, chip):
    """Two configurations of heads on different grids, ten times apart."""
    tables = [
        SurfaceTable(
            f"decode{count}",
            "decode_attention",
            "bf16",
            {"sequences": np.array([1.0, 64.0]), "keys": np.array(keys)},
            np.full((2, len(keys)), seconds),
            {"head_dim": 128.0, "heads": count, "kv_heads": 8.0, "kv_bytes": 2.0},
        )
        for count, keys, seconds in ((8.0, [128.0, 1024.0, 8192.0], 1e-5), (64.0, [128.0, 2048.0], 1e-4))
    ]
    return with_surfaces(derated, tables, chip, "test")


def test_heads_are_interpolated_between_tables(decoding, chip):
    assert len(decoding.decode_attention.tables) == 1
    for count, keys, seconds in ((8.0, 1024.0, 1e-5), (64.0, 2048.0, 1e-4), (8.0, 8192.0, 1e-5), (64.0, 128.0, 1e-4)):
        assert float(op_time(decode(count, 8.0, 64.0, keys), chip, decoding)) == pytest.approx(seconds, rel=1e-4)
    times = [float(op_time(decode(count, 8.0, 64.0, 1024.0), chip, decoding)) for count in (8.0, 16.0, 32.0, 64.0)]
    assert times == sorted(times) and times[0] * 1.5 < times[1] < times[2] < times[3] / 1.5


def test_prefill_is_found_by_sequences_and_queries(derated, chip):
    axes = {"sequences": np.array([1.0, 4.0]), "queries": np.array([128.0, 4096.0])}
    labels = {"head_dim": 128.0, "heads": 32.0, "kv_heads": 8.0, "kv_bytes": 2.0, "copies": 1.0}
    seconds = np.array([[1e-5, 9e-4], [3e-5, 4e-3]])
    efficiency = with_surfaces(
        derated, [SurfaceTable("p", "prefill_attention", "bf16", axes, seconds, labels)], chip, "test"
    )
    batch = Prefill(sequences=4.0, tokens=4.0 * 4096.0, past=0.0)
    op = prefill_attention(heads(32.0, 8.0), Deployment(), batch, 1.0)["prefill_attention"]
    assert float(op_time(op, chip, efficiency)) == pytest.approx(4e-3, rel=1e-4)


def test_octaves_beyond_the_tables(surface, decoding, chip):
    """Half of the octaves beyond 256 rows or below 1024 inputs, and of those to the nearest heads; none inside."""
    linear_entry, entry = surface.linear, decoding.decode_attention

    def octaves(entry, op) -> list[float]:
        return [float(found) for found in surface_distance(entry, op, chip)]

    assert octaves(linear_entry, product(16.0, 1000.0, 5000.0)) == [0.0]
    assert octaves(linear_entry, product(1024.0, 1000.0, 5000.0)) == pytest.approx([SHAPE * 2.0])
    assert octaves(linear_entry, product(1024.0, 1000.0, 128.0)) == pytest.approx([SHAPE * 3.0])
    assert octaves(linear_entry, product(16.0, 1000.0, 5000.0, WeightFormat(bytes=1.0, compute="fp8"))) == []
    assert octaves(entry, decode(8.0, 8.0, 2.0, 4096.0)) == [0.0]
    assert octaves(entry, decode(8.0, 1.0, 2.0, 4096.0))[0] > 0.0
    assert octaves(entry, decode(8.0, 8.0, 2.0, 4096.0, drafts=3.0)) == pytest.approx([SHAPE * 2.0])


def test_another_device_is_beyond_the_tables_unless_the_model_below_has_seen_it(surface, chip):
    """Four times the bandwidth on the same cores and peak: two octaves from the measured device."""
    hbm = dataclasses.replace(chip.memory.hbm, bandwidth=4.0 * chip.memory.hbm.bandwidth)
    faster = dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, hbm=hbm))
    op = product(16.0, 1000.0, 5000.0)
    assert float(op_extrapolation(op, chip, surface)) == 0.0
    assert float(op_extrapolation(op, faster, surface)) == pytest.approx(2.0, abs=0.02)
    rate = faster.memory.hbm.bandwidth / (faster.cores.count * clock(faster))
    seen = Hull(ranges=(FittedRange("core_bytes_per_clock", rate / 2.0, rate),))
    base = dataclasses.replace(surface.linear.base, hull=seen)
    known = dataclasses.replace(surface, linear=dataclasses.replace(surface.linear, base=base))
    assert float(op_extrapolation(op, faster, known)) == 0.0


def test_errors_are_those_of_the_model_below(surface, chip):
    assert isinstance(surface.linear, Surfaces)
    assert op_spread(product(1.0, 512.0, 1024.0), surface) is None


def test_missing_shapes_of_a_grid_are_between_their_neighbours():
    """Half-way between 1 and 3; beyond the last measured one, something of the nearest, an octave or more away."""
    axes = [np.array([0.0, 1.0]), np.array([0.0, 2.0, 4.0])]
    points = np.array([[0.0, 0.0], [0.0, 4.0], [1.0, 0.0], [1.0, 2.0]])
    values, gaps = gridded(points, np.array([1.0, 3.0, 2.0, 3.0]), axes)
    np.testing.assert_allclose(values[:, :2], [[1.0, 2.0], [2.0, 3.0]])
    assert 2.5 < values[1, 2] <= 3.0
    np.testing.assert_allclose(gaps, [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def test_scattered_products_join_over_all_dimensions(derated, chip):
    """A list of matrices: measured shapes take what was measured, others lie between; far from all is flagged."""
    shapes = np.array([[m, n, k] for n, k in ((512, 1024), (4096, 512), (2048, 8192)) for m in (1, 64)], float)
    seconds = np.linspace(1e-5, 6e-5, 6)
    table = SurfaceTable("list", "linear", "bf16", dict(zip("mnk", shapes.T, strict=True)), seconds, {}, listed=True)
    efficiency = with_surfaces(derated, [table], chip, "test")
    np.testing.assert_allclose(product_times(*shapes.T, chip, efficiency), seconds, rtol=1e-4)
    (surface,) = efficiency.linear.tables

    def outside(*sizes) -> dict[str, float]:
        return {name: float(octaves) for name, octaves in shape_excesses(surface, product(*sizes)).items() if octaves}

    assert outside(8.0, 4096.0, 512.0) == {}
    assert outside(8.0, 4096.0, 8192.0)["between"] == pytest.approx(1.0, abs=0.01)
    assert outside(8.0, 4096.0, 65536.0)["k"] == pytest.approx(3.0)
    ratios = np.exp(surface.values)
    assert np.all(np.isfinite(ratios)) and ratios.min() > 0.0


def test_positions_of_a_long_axis_are_thinned_to_the_limit():
    points = np.random.default_rng(7).uniform(0.0, 10.0, (500, 3))
    axes = grid_axes(points, 1000)
    assert 500 < np.prod([len(axis) for axis in axes]) <= 1000
    for axis, column in zip(axes, points.T, strict=True):
        assert (axis[0], axis[-1]) == (column.min(), column.max()) and np.all(np.diff(axis) > 0)


def test_tables_survive_a_round_trip_and_are_structure(surface):
    leaves, structure = jax.tree.flatten(surface)
    assert jax.tree.unflatten(structure, leaves) == surface
    assert all(np.ndim(leaf) == 0 for leaf in leaves)
