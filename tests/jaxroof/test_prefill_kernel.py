"""Model of prefill attention kernels: hand-worked times per regime, limits, monotonicity and published figures."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from jaxroof import Cores, Hardware, Links, Memory, MemoryLevel, Power
from jaxroof.deployment import Deployment
from jaxroof.efficiency.prefill import PrefillKernel, TileLoop, attention_tiles, prefill_timing, published
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.layers.sight import Sight, attended_pairs, reachable_past
from jaxroof.op import BOUNDS, AttentionShape, Kernel
from sweeps.ask.axes import leaf_paths, replaced

LOOP = TileLoop(matrix=0.5, serial=1.0, packing=1.0, padding=64.0, tile_cycles=1000.0, low_cache=1.0)
KERNEL = PrefillKernel(
    synchronous=LOOP,
    asynchronous=dataclasses.replace(LOOP, serial=0.0),
    tile_rows=128.0,
    row_step=64.0,
    wide=0.0,
    exp=1.0,
    vector=0.0,
    tail=0.0,
    bandwidth=0.5,
    l2=1.0,
    resident=1.0,
    warm=0.5,
    memory_serial=1.0,
    cache_write=0.0,
    query_copy=0.0,
    launch_cycles=1000.0,
    low_launch=0.0,
)
"""Round numbers: everything takes turns, half of the matrix and HBM peaks, no softmax but exponentials."""


def machine(asynchronous: float = 0.0, exp_rate: float | None = 1e10, l2: bool = True) -> Hardware:
    """100 cores at 1 GHz: 1 PFLOP/s, 2 TB/s, 1 T exp/s."""
    return Hardware(
        matrix={"bf16": 1e15, "fp8": 2e15},
        cores=Cores(count=100.0, vector_flops=5e11, exp_rate=exp_rate, clock=1e9, asynchronous=asynchronous),
        memory=Memory(
            hbm=MemoryLevel(bandwidth=2e12, capacity=80e9),
            l2=MemoryLevel(bandwidth=1e14, capacity=5e7) if l2 else None,
            scratchpad=None,
            register_capacity=None,
        ),
        links=Links(scale_up=None, scale_out=None),
        power=Power(tdp=None),
        price=None,
    )


def attention(
    sequences=1.0, new=4096.0, past=0.0, heads=8.0, kv_heads=8.0, width=128.0, window=None, kv_bytes=2.0, compute="bf16"
) -> Kernel:
    """The op of causal prefill attention."""
    seen = Sight(limit=window, kind=None if window is None else "sliding")
    shape = AttentionShape(
        sequences=sequences,
        queries=new,
        keys=reachable_past(past, seen) + new,
        pairs=attended_pairs(new, past, seen),
        heads=heads,
        kv_heads=kv_heads,
        key_width=width,
        value_width=width,
        kv_bytes=kv_bytes,
    )
    return fused_attention("prefill_attention", Deployment(kv_bytes=kv_bytes, attention_compute=compute), shape, 1.0)


def seconds(op: Kernel, hardware: Hardware, kernel: PrefillKernel = KERNEL) -> float:
    return float(prefill_timing(kernel, op, hardware).total)


def test_long_prompts_are_bound_by_tiles_of_products():
    """8 heads x 4096 rows x (2048.5 + 64) keys = 69.2 M pairs, 0.692 M per core.

    A pair: 512 FLOP at half of 10 TFLOP/s per core = 102.4 ps, and an exponential, 100 ps: 140.1 us in turns.
    256 tiles, 2.56 per core: 1000 sqrt(2.56^2 + 1) cycles = 2.748 us. Launch: 1 us.
    Memory: q, o, k, v of 8 x 4096 x 128 elements, 33.55 MB at 1 TB/s = 33.55 us in turns with the tiles.
    """
    pairs = 8 * 4096 * (2048.5 + 64.0) / 100
    expected = pairs * 202.4e-12 + 1e-6 * np.sqrt(2.56**2 + 1.0) + 1e-6 + 33.554432e-6
    np.testing.assert_allclose(seconds(attention(), machine()), expected, rtol=1e-5)


def test_attention_of_a_function_appends_nothing():
    """Engines move 2 x 4096 x 8 x 256 elements into the cache and half as many queries: 50.3 MB at 1 TB/s."""
    kernel = dataclasses.replace(KERNEL, cache_write=2.0, query_copy=1.0)
    own = attention()
    plain = dataclasses.replace(own, shape=dataclasses.replace(own.shape, appended=False))
    assert seconds(plain, machine(), kernel) == seconds(own, machine())
    np.testing.assert_allclose(seconds(own, machine(), kernel) - seconds(own, machine()), 50.331648e-6, rtol=1e-4)


def test_asynchronous_products_hide_exponentials():
    """As above, but a pair takes hypot(102.4, 100) ps."""
    pairs = 8 * 4096 * (2048.5 + 64.0) / 100
    expected = pairs * np.hypot(102.4e-12, 100e-12) + 1e-6 * np.sqrt(2.56**2 + 1.0) + 1e-6 + 33.554432e-6
    np.testing.assert_allclose(seconds(attention(), machine(asynchronous=1.0)), expected, rtol=1e-5)


def test_short_prompts_are_bound_by_launch_and_one_tile():
    """One query: 64 rows x 1 key per head; 8 tiles on 100 cores: 1 us launch and sqrt(1 + 0.08^2) us for a tile.

    The rest is 8 x 64 pairs / 100 x 202.4 ps = 1.0 ns, and 8 kB at 1 TB/s = 8.2 ns.
    """
    expected = 1e-6 + 1e-6 * np.sqrt(1.0 + 0.08**2) + 512 / 100 * 202.4e-12 + 8192e-12
    np.testing.assert_allclose(seconds(attention(new=1.0), machine()), expected, rtol=1e-5)


def test_many_short_prompts_are_bound_by_memory():
    """1000 sequences of 64 tokens with 64 heads: q, o, k, v of 524 M elements are 4.19 GB, 4.19 ms at 1 TB/s."""
    timing = prefill_timing(KERNEL, attention(sequences=1000.0, new=64.0, heads=64.0, kv_heads=64.0), machine())
    np.testing.assert_allclose(timing.resources["hbm"], 4.194304e-3, rtol=1e-5)
    assert timing.resources["hbm"] == max(timing.resources.values())


def test_the_longest_tile_takes_its_time_on_any_number_of_cores():
    """One head of 4096 tokens: its last tile of 128 rows sees 4096 keys, 0.524 M pairs x 202.4 ps = 106.1 us."""
    kernel = dataclasses.replace(KERNEL, tail=1.0)
    op = attention(heads=1.0, kv_heads=1.0)
    tiles = attention_tiles(kernel, LOOP, op.shape)
    np.testing.assert_allclose(tiles.longest, 128 * 4096, rtol=1e-6)
    many = dataclasses.replace(machine(), cores=dataclasses.replace(machine().cores, count=1e4))
    many = dataclasses.replace(many, matrix={"bf16": 1e17})
    assert seconds(op, many, kernel) > 128 * 4096 * 202.4e-12


def test_a_window_bounds_the_longest_tile():
    """A window of 256 in 4096 tokens: the last tile sees 256 keys and the padding."""
    longest = attention_tiles(KERNEL, LOOP, attention(window=256.0).shape).longest
    np.testing.assert_allclose(longest, 128 * (256 + 64), rtol=1e-2)


def test_a_kernel_may_multiply_what_a_window_hides():
    """4096 tokens with a window of 256: all 2048 keys of a mean row, and the padding ahead, as without the window."""
    kernel = dataclasses.replace(KERNEL, unskipped=1.0)
    whole, windowed = (attention_tiles(kernel, LOOP, attention(window=width).shape) for width in (None, 256.0))
    np.testing.assert_allclose(windowed.longest, whole.longest, rtol=1e-2)
    np.testing.assert_allclose(windowed.pairs, whole.pairs, rtol=0.05)
    half = attention_tiles(dataclasses.replace(kernel, unskipped=0.5), LOOP, attention(window=256.0).shape)
    skipped = attention_tiles(KERNEL, LOOP, attention(window=256.0).shape)
    np.testing.assert_allclose(half.pairs, 0.5 * (windowed.pairs + skipped.pairs), rtol=1e-6)


def test_packed_heads_share_tiles():
    """8 query heads of one key head, 16 tokens: one tile of 128 rows instead of 8 of 64."""
    op = attention(new=16.0, kv_heads=1.0)
    alone = dataclasses.replace(LOOP, packing=0.0)
    np.testing.assert_allclose(attention_tiles(KERNEL, LOOP, op.shape).count, 1.0)
    np.testing.assert_allclose(attention_tiles(KERNEL, alone, op.shape).count, 8.0)
    np.testing.assert_allclose(attention_tiles(KERNEL, alone, op.shape).pairs, 8 * 64 * 16.0)
    np.testing.assert_allclose(attention_tiles(KERNEL, LOOP, op.shape).pairs, 128 * 16.0)


def test_nothing_takes_no_time():
    """Without sequences or tokens nothing is launched; value and gradients are finite."""
    for empty in (attention(sequences=0.0), attention(new=0.0)):
        assert seconds(empty, machine(), published()) == 0.0
        gradient = jax.grad(lambda op: prefill_timing(published(), op, machine()).total)(
            jax.tree.map(jnp.float32, empty)
        )
        assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(gradient))


def test_unknown_rates_do_not_bind():
    """A device without exponential rate or L2 is no slower than one with them."""
    bare = prefill_timing(published(), attention(), machine(exp_rate=None, l2=False))
    assert set(bare.resources) == {"matrix", "vector", "hbm", "launch"}
    assert float(bare.total) < seconds(attention(), machine(), published())


def test_data_that_stays_in_l2_is_faster():
    """1 MB that is read again and again comes at L2's rate."""
    cold = attention(new=64.0)
    warm = dataclasses.replace(cold, reuse_bytes=cold.bytes)
    assert seconds(warm, machine(), published()) < seconds(cold, machine(), published())


def points(n: int) -> tuple[Kernel, Hardware]:
    """Random ops and machines, leaves of shape (n,)."""
    random = np.random.default_rng(5)

    def draw(low, high):
        return jnp.asarray(np.exp(random.uniform(np.log(low), np.log(high), n)), jnp.float32)

    def one(sequences, new, past, kv_heads, group, width, window, tokens):
        op = attention(sequences, new, past, kv_heads * group, kv_heads, width, window)
        return dataclasses.replace(op, reuse_bytes=op.bytes * tokens)

    ops = jax.vmap(one)(
        draw(0.5, 300), draw(1, 2e5), draw(1, 1e6), draw(0.5, 64), draw(1, 64), draw(32, 300), draw(16, 1e6), draw(1, 9)
    )
    base = jax.tree.map(lambda leaf: jnp.full(n, leaf, jnp.float32), machine())
    machines = jax.tree.map(lambda leaf: leaf * draw(0.2, 5), base)
    share = jnp.asarray(random.uniform(0, 1, n), jnp.float32)
    return ops, dataclasses.replace(machines, cores=dataclasses.replace(machines.cores, asynchronous=share))


OPS, MACHINES = points(3000)


def totals(ops: Kernel, machines: Hardware) -> jax.Array:
    return jax.jit(jax.vmap(lambda op, hardware: prefill_timing(published(), op, hardware).total))(ops, machines)


def test_values_and_gradients_are_finite():
    """Over random shapes and machines, in single precision."""
    timing = jax.vmap(lambda op, hardware: prefill_timing(published(), op, hardware))(OPS, MACHINES)
    for leaf in jax.tree.leaves(timing):
        assert bool(jnp.all(jnp.isfinite(leaf) & (leaf >= 0.0)))
    assert set(timing.resources) <= set(BOUNDS)
    for resource in timing.resources.values():
        assert bool(jnp.all(resource <= timing.total * 1.001))
    gradient = jax.vmap(jax.grad(lambda op, hardware: prefill_timing(published(), op, hardware).total, (0, 1)))
    for leaf in jax.tree.leaves(gradient(OPS, MACHINES)):
        assert bool(jnp.all(jnp.isfinite(leaf)))


RATES = ("matrix.bf16", "cores.vector_flops", "cores.exp_rate", "cores.clock", "memory.hbm.bandwidth")
RATES += ("memory.l2.bandwidth",)


@pytest.mark.parametrize("path", (*RATES, "memory.l2.capacity"))
def test_more_of_a_rate_is_never_slower(path):
    """By a factor of 1.3, on every random point."""
    value = MACHINES
    for name in path.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    faster = totals(OPS, replaced(MACHINES, path, value * 1.3))
    # A warm cache may be slower than HBM where L2's rate is small: only a device whose L2 is slower than its HBM.
    ok = faster <= totals(OPS, MACHINES) * (1.0 + 1e-5)
    if path == "memory.l2.capacity":
        ok |= MACHINES.memory.l2.bandwidth * published().warm < MACHINES.memory.hbm.bandwidth
    assert bool(jnp.all(ok))


def test_twice_the_rates_take_half_the_time():
    """The form has no time of its own: everything is an amount over a rate."""
    doubled = MACHINES
    for path in RATES:
        value = MACHINES
        for name in path.split("."):
            value = value[name] if isinstance(value, dict) else getattr(value, name)
        doubled = replaced(doubled, path, 2.0 * value)
    np.testing.assert_allclose(totals(OPS, doubled), 0.5 * totals(OPS, MACHINES), rtol=1e-4)  # float32


def test_more_tokens_take_longer():
    """Up to the padding of tiles: by a factor of 1.5, from prompts longer than a tile."""
    lengths = jnp.asarray(128.0 * 1.5 ** np.arange(14.0), jnp.float32)
    times = jax.vmap(lambda new: prefill_timing(published(), attention(new=new), machine()).total)(lengths)
    assert bool(jnp.all(times[1:] > times[:-1]))


@pytest.mark.parametrize(
    ("device", "tokens", "width", "low", "high"),
    [
        # FlashAttention-2, arXiv:2307.08691, abstract: 50 to 73 % of A100's 312 TFLOP/s.
        ("A100", 16384.0, 128.0, 0.5 * 312e12, 0.73 * 312e12),
        # FlashAttention-3, arXiv:2407.08608, abstract: up to 740 TFLOP/s on H100; masked tiles leave causal ones below.
        ("H100-SXM", 16384.0, 128.0, 0.7 * 740e12, 740e12),
        ("H100-SXM", 16384.0, 256.0, 0.7 * 740e12, 740e12),
        # FlashAttention-4, together.ai/blog/flashattention-4: up to 1605 TFLOP/s on B200, 1.3 times cuDNN 9.13.
        ("B200", 16384.0, 128.0, 0.7 * 1605e12, 1605e12),
    ],
)
def test_published_rates(device, tokens, width, low, high):
    """Two causal prompts of 16k tokens, in bf16: below the best that is published, and not far."""
    hardware = hwspaces.hardware(device).hardware
    op = attention(sequences=2.0, new=tokens, heads=2048.0 / width, kv_heads=2048.0 / width, width=width)
    assert low < float(op.matrix_flops) / seconds(op, hardware, published()) < high


def test_round_trip():
    """The struct is a pytree with a leaf per constant."""
    leaves, structure = jax.tree.flatten(KERNEL)
    assert jax.tree.unflatten(structure, leaves) == KERNEL
    assert len(leaves) == len(list(leaf_paths(KERNEL))) == 29
