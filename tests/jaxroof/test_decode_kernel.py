"""Decode attention: one hand-worked value per regime, bandwidth on every device of the catalogue, and properties."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from jaxroof.deployment import Deployment
from jaxroof.efficiency.decode import DecodeKernel, decode_timing, published, published_latent
from jaxroof.hardware import Hardware
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.op import BOUNDS, AttentionShape, Kernel

PLAIN = DecodeKernel(
    launch_cycles=0.0,
    launch_time=0.0,
    split_cycles=0.0,
    conversion_cycles=0.0,
    fill=1.0,
    blocks=2.0,
    split_keys=100.0,
    block_bytes=10.0,
    block_ramp=1e30,
    row_tile=64.0,
    least_rows=16.0,
    unit_cycles=0.0,
    width_cycles=0.0,
    row_cycles=0.0,
    first_share=1.0,
    single_share=1.0,
    narrow_share=1.0,
    bandwidth=0.5,
    cache_bandwidth=0.5,
    resident=1.0,
    matrix=0.5,
    vector=0.5,
    conversions=0.0,
    core_flops=1e9,
)
"""Shares of a half and no fixed costs: a test adds the one that it is about."""

ENGINES = {
    "trtllm": {
        "launch_cycles": 11100.0, "launch_time": 2e-6, "split_cycles": 9100.0, "fill": 1.13, "blocks": 2.66,
        "split_keys": 61.0, "block_bytes": 13.1, "block_ramp": 8.25e5, "unit_cycles": 5750.0, "width_cycles": 7.8,
        "row_cycles": 0.98, "first_share": 0.49, "single_share": 0.34, "narrow_share": 0.36, "bandwidth": 0.836,
        "cache_bandwidth": 0.34, "matrix": 0.6,
    },
    "vllm": {
        "launch_cycles": 10500.0, "launch_time": 5.35e-6, "split_cycles": 4590.0, "fill": 1.0, "blocks": 2.58,
        "split_keys": 230.0, "block_bytes": 13.6, "block_ramp": 8e5, "unit_cycles": 4770.0, "width_cycles": 10.2,
        "row_cycles": 0.245, "first_share": 0.395, "bandwidth": 0.848, "cache_bandwidth": 0.29, "matrix": 0.6,
    },
    "sglang": {
        "launch_cycles": 11900.0, "launch_time": 5.6e-7, "split_cycles": 5530.0, "fill": 0.975, "blocks": 2.62,
        "split_keys": 157.0, "block_bytes": 11.9, "block_ramp": 8.2e5, "unit_cycles": 2900.0, "width_cycles": 13.1,
        "row_cycles": 0.053, "first_share": 0.625, "bandwidth": 0.85, "cache_bandwidth": 0.4, "matrix": 0.6,
    },
}  # fmt: skip
"""Fitted constants, rounded: what the shape of the model may do on devices that nobody has fitted."""


def attention(
    sequences=1.0, keys=1000.0, heads=8.0, kv_heads=1.0, width=100.0, queries=1.0, kv_bytes=2.0, latent=False, to="bf16"
) -> Kernel:
    key_width = width + 64.0 if latent else width
    shape = AttentionShape(
        sequences=sequences,
        queries=queries,
        keys=keys,
        pairs=keys * queries,
        heads=heads,
        kv_heads=kv_heads,
        key_width=key_width,
        value_width=width,
        kv_bytes=kv_bytes,
        latent=latent,
    )
    return fused_attention("decode_attention", Deployment(attention_compute=to), shape, 1.0)


def seconds(op: Kernel, hardware: Hardware, **constants) -> float:
    return float(decode_timing(dataclasses.replace(PLAIN, **constants), op, hardware).total)


@pytest.fixture(scope="module")
def device(chip) -> Hardware:
    """100 cores at 1 GHz, 2 TB/s, L2 of 10 TB/s and 50 MB, 1 PFLOP/s."""
    return dataclasses.replace(chip, cores=dataclasses.replace(chip.cores, clock=1e9))


def test_a_long_cache_streams_from_memory(device):
    # 400 units fill 200 slots. Cache: 400 * 10,000 keys * 200 elements * 2 B = 1.6 GB; queries and outputs:
    # 400 * 8 heads * 200 * 2 B = 1.28 MB. At half of 2 TB/s: 1.60128 ms.
    op = attention(sequences=400.0, keys=10_000.0)
    assert seconds(op, device) == pytest.approx(1.60128e-3, rel=1e-5)


def test_a_cache_that_is_read_again_comes_from_the_l2(device):
    # 400 * 100 keys * 400 B = 16 MB + 1.28 MB, at half of 10 TB/s, since (50 / 17.28)^8 = 4900 times fits.
    op = attention(sequences=400.0, keys=100.0)
    warm = dataclasses.replace(op, reuse_bytes=op.bytes)
    assert seconds(warm, device) == pytest.approx(17.28e6 / 5e12, rel=1e-3)
    assert seconds(op, device) == pytest.approx(17.28e6 / 1e12, rel=1e-6)


def test_many_short_caches_cost_their_starts(device):
    # 1000 units on 100 cores at 1 GHz, each 4000 + 200 * (10 + 0.5 * 8 rows) = 6800 cycles: 68 us;
    # the cache takes 1000 * 1 key * 400 B + 3.2 MB = 3.6 MB: 3.6 us.
    op = attention(sequences=1000.0, keys=1.0)
    time = seconds(op, device, unit_cycles=4000.0, width_cycles=10.0, row_cycles=0.5)
    assert time == pytest.approx(np.hypot(68e-6, 3.6e-6), rel=1e-5)


def test_one_sequence_waits_for_few_blocks(device):
    # 1 unit of 1000 keys is split in 10 parts of 100 keys: 40 kB each at 10 B per cycle: 4 us, less 10 of 200 slots:
    # 3.8 us. The cache's 400 kB + 3.2 kB take 0.4032 us, and partial results 8 B * 0.9 * 10 * 8 rows * 100 values
    # = 57.6 kB of L2 at 5 TB/s: 0.01152 us.
    op = attention()
    assert seconds(op, device) == pytest.approx(np.hypot(3.8e-6, 0.41472e-6), rel=1e-5)
    # Of parts of 40 kB, those beyond a ramp of 10 kB keep to 40 / (1 + 4) = 8 kB.
    assert seconds(op, device, block_ramp=1e4) == pytest.approx(np.hypot(0.76e-6, 0.41472e-6), rel=1e-5)


def test_many_rows_bind_the_matrix_units(device):
    # 128 rows on one latent head of 512 + 64: two tiles. 400 * 10,000 * 128 * 2 * 1088 = 1.114 PFLOP at 0.1 PFLOP/s.
    op = attention(sequences=400.0, keys=10_000.0, heads=128.0, width=512.0, latent=True)
    assert seconds(op, device, matrix=0.1) == pytest.approx(400 * 1e4 * 128 * 2 * 1088 / 1e14, rel=1e-5)


def test_launches_are_cycles_and_seconds(device):
    # 1 us + (2000 + half of 1000, as the cache is split in two) cycles of 1 ns = 3.5 us
    op = attention(sequences=50.0, keys=1e5)
    constants = {"launch_cycles": 2000.0, "launch_time": 1e-6, "split_cycles": 1000.0}
    more = seconds(op, device, **constants) - seconds(op, device)
    assert more == pytest.approx(3.5e-6, rel=1e-3)


def test_nothing_runs_without_sequences(device):
    op = attention(sequences=0.0, keys=0.0)
    for kernel in (published(), published_latent()):
        timing, slopes = jax.value_and_grad(lambda k, op=op: decode_timing(k, op, device).total)(kernel)
        assert float(timing) == 0.0
        assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(slopes))


def kernels() -> dict[str, DecodeKernel]:
    return {"published": published()} | {
        name: dataclasses.replace(published(), **constants) for name, constants in ENGINES.items()
    }


def of_catalogue(name: str) -> tuple[Hardware, str]:
    device = hwspaces.hardware(name).hardware
    for precision in ("bf16", "fp16", "fp32"):
        if precision in device.matrix:
            return device, precision
    raise AssertionError(f"{name} has no matrix figure for a 16-bit cache")


@pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())
def test_a_large_cold_cache_reaches_most_of_every_devices_bandwidth(kernel):
    """2 and 4 GB of cache are read at 75 to 90 % of the datasheet's bandwidth, whatever the cores and their clock.

    Of accelerators that serve: vector units of a phone take longer over padded products than its memory over the cache.
    """
    for name in hwspaces.rented_names():
        device, precision = of_catalogue(name)
        for sequences, keys, heads, kv_heads in ((64.0, 8192.0, 32.0, 8.0), (8.0, 131072.0, 32.0, 8.0)):
            op = attention(sequences, keys, heads, kv_heads, 128.0, to=precision)
            share = op.bytes / device.memory.hbm.bandwidth / float(decode_timing(kernel, op, device).total)
            assert 0.75 < share < 0.9, (name, sequences, share)


def random_points(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    draw = np.random.default_rng(0)
    power = lambda low, high: 2.0 ** draw.uniform(low, high, n)  # noqa: E731
    kv_heads = power(0, 6)
    return {
        "sequences": np.where(draw.random(n) < 0.05, 0.0, power(-1, 13)),
        "keys": np.where(draw.random(n) < 0.05, 0.0, power(0, 24)),
        "heads": kv_heads * power(0, 7),
        "kv_heads": kv_heads,
        "width": power(4, 10),
        "queries": power(0, 4),
        "kv_bytes": draw.choice([0.5, 1.0, 2.0, 4.0], n),
    }, draw.choice([1e-3, 1.0, 1e6], n)


@pytest.mark.parametrize("latent", [False, True])
def test_values_and_slopes_are_finite_everywhere(device, latent):
    points, reuse = random_points(1000)

    def total(kernel, hardware, point, again):
        op = attention(**point, latent=latent)
        return decode_timing(kernel, dataclasses.replace(op, reuse_bytes=again * op.bytes), hardware).total

    value, slopes = jax.vmap(jax.value_and_grad(total, argnums=(0, 1, 2)), in_axes=(None, None, 0, 0))(
        published(), device, {k: jnp.asarray(v, jnp.float32) for k, v in points.items()}, jnp.asarray(reuse)
    )
    assert np.all(np.isfinite(value))
    for leaf in jax.tree.leaves(slopes):
        assert np.all(np.isfinite(leaf))


def test_half_a_gigabyte_suffices_on_present_gpus():
    """537 MB in 64 long parts: launch and ramp cost more the faster a device is, up to 8 TB/s."""
    op = attention(8.0, 16384.0, 32.0, 8.0, 128.0)
    for name, low in (
        ("L40S", 0.8),
        ("A100-SXM-80GB", 0.75),
        ("H100-SXM", 0.75),
        ("H200-SXM", 0.7),
        ("B200-SXM", 0.65),
    ):
        device = hwspaces.hardware(name).hardware
        for kernel in kernels().values():
            share = op.bytes / device.memory.hbm.bandwidth / float(decode_timing(kernel, op, device).total)
            assert low < share < 0.9, (name, share)


def test_better_rates_are_never_slower(device):
    points, _ = random_points(2000)
    points = {k: jnp.asarray(v, jnp.float32) for k, v in points.items()}
    for kernel in kernels().values():
        times = lambda chip, kernel=kernel: jax.vmap(  # noqa: E731
            lambda point: decode_timing(kernel, attention(**point), chip).total
        )(points)
        before = times(device)
        for path in _rates():
            assert np.all(times(_scaled(device, path, 1.5)) <= before * (1 + 1e-5)), path


def test_twice_the_rates_and_half_the_fixed_times_take_half_as_long(device):
    points, _ = random_points(500)
    points = {k: jnp.asarray(v, jnp.float32) for k, v in points.items()}
    kernel, twice = published(), device
    for path in _rates():
        twice = _scaled(twice, path, 2.0)
    faster = dataclasses.replace(kernel, launch_time=0.5 * kernel.launch_time)
    slow = jax.vmap(lambda point: decode_timing(kernel, attention(**point), device).total)(points)
    fast = jax.vmap(lambda point: decode_timing(faster, attention(**point), twice).total)(points)
    np.testing.assert_allclose(fast, 0.5 * slow, rtol=1e-5)


def test_unknown_levels_do_not_bind(device):
    memory = dataclasses.replace(device.memory, l2=None, scratchpad=None, register_capacity=None)
    cores = dataclasses.replace(device.cores, exp_rate=None, clock=None)
    bare = dataclasses.replace(device, memory=memory, cores=cores)
    timing = decode_timing(published(), attention(sequences=100.0), bare)
    assert np.isfinite(float(timing.total))
    assert set(timing.resources) == {"hbm", "matrix", "vector", "launch"}
    assert set(decode_timing(published(), attention(), device).resources) <= set(BOUNDS)


def _rates() -> tuple[str, ...]:
    return ("matrix", "hbm", "l2", "vector_flops", "exp_rate", "clock")


def _scaled(hardware: Hardware, path: str, factor: float) -> Hardware:
    """`hardware` with one kind of rate times `factor`."""
    if path == "matrix":
        return dataclasses.replace(hardware, matrix={k: factor * v for k, v in hardware.matrix.items()})
    if path in ("hbm", "l2"):
        level = getattr(hardware.memory, path)
        level = dataclasses.replace(level, bandwidth=factor * level.bandwidth)
        return dataclasses.replace(hardware, memory=dataclasses.replace(hardware.memory, **{path: level}))
    cores = dataclasses.replace(hardware.cores, **{path: factor * getattr(hardware.cores, path)})
    return dataclasses.replace(hardware, cores=cores)
