"""Time of decode attention: few new tokens of each sequence against its cache, split over the cores."""

import dataclasses
from typing import NamedTuple

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, fixed_time, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores, threaded
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum, minimum, positive_part
from jaxroof.numerics.struct import Scalar, given, number, part, static, struct
from jaxroof.op import AttentionShape, Kernel
from jaxroof.units import busy_times

PARTIAL_BYTES = 8.0
"""B that one element of a split's result moves through the L2: written and read again as float32."""

WIDE_BYTES = 2.0
"""B of a cached element that the matrix units take as it is; a smaller one is converted first."""

LAUNCHED_TOGETHER = 0.5
"""Runs per kernel: attention over splits and the sum over them are priced as one, `launch_cycles`."""

FULLY_KEPT = 64.0
"""Times that a cache fits into the L2 beyond which nothing of it is read from HBM, to float32's precision."""


@struct
class DecodeKernel:
    """Constants of one class of kernels that split a cache over the cores, in blocks of threads.

    A unit is one KV head of one sequence; the rows of its queries share one reading of its cache.
    """

    launch_cycles: Scalar = clock_cycles(
        "clock cycles of both kernels without work", "launch, and the chain of first loads"
    )
    launch_time: Scalar = fixed_time("time of both kernels that no clock shortens")
    split_cycles: Scalar = clock_cycles(
        "clock cycles more where caches are split in very many parts", "partial results and their sum"
    )
    conversion_cycles: Scalar = clock_cycles(
        "clock cycles more per byte that cached elements are short of 16 bits", "queries follow", unit="clock/B"
    )
    fill: Scalar = factor("blocks per core up to which the caches of few units are split")
    blocks: Scalar = factor("blocks per core that stream as fast as the device can", zero=False)
    split_keys: Scalar = number("1", "keys of the shortest part worth a block", most=1e7)
    block_bytes: Scalar = number("B/clock", "bytes per clock cycle that a block streams while others are missing")
    block_ramp: Scalar = number(
        "B", "bytes of a block's part that are read at that pace", "before it reaches its share of the device's"
    )
    row_tile: Scalar = number(
        "1", "query rows of a unit that share one reading of its cache", "more read it again from the L2", most=1e4
    )
    least_rows: Scalar = number("1", "query rows that a matrix instruction takes at least", most=1e4)
    unit_cycles: Scalar = clock_cycles("clock cycles of a core per unit", "scheduling, page table, fill and drain")
    width_cycles: Scalar = clock_cycles(
        "clock cycles of a core per unit and element of a key and a value",
        "a whole tile is fetched, however few keys it has",
    )
    row_cycles: Scalar = clock_cycles(
        "clock cycles of a core per unit, such element and query row", "load, end of the softmax, store"
    )
    first_share: Scalar = factor(
        "share of a unit's cycles that pass until its core streams, however few units there are"
    )
    single_share: Scalar = factor(
        "share of a unit's cycles that one with one query row takes", "which needs no matrix units"
    )
    narrow_share: Scalar = factor(
        "share of unit and launch cycles that a cache of 8 bits takes", "which has kernels of its own"
    )
    bandwidth: Scalar = reached("share of HBM bandwidth")
    cache_bandwidth: Scalar = reached("share of L2 bandwidth")
    resident: Scalar = reached("share of L2 capacity that keeps a cache which is read again", zero=True)
    matrix: Scalar = reached("share of the matrix peak")
    vector: Scalar = reached("share of the vector and special-function peaks")
    conversions: Scalar = factor("vector operations per cached element and byte that it is short of 16 bits")
    core_flops: Scalar = number(
        "FLOP",
        "vector FLOP per clock cycle of a core that works on one unit at a time",
        "a wider one takes several",
    )
    around_time: Scalar | None = fixed_time(
        "time of small kernels that engines run around both", "tables of them alone lack it", default=None
    )
    slow_bytes: Scalar = factor("times longer that a cached byte of an 8-bit element takes", default=1.0, zero=False)
    asynchronous: Constants | None = part(
        "on asynchronous cores without tensor memory", default=None
    )  # in place of those above
    tensor_memory: Constants | None = part("on asynchronous cores with it", default=None)  # the same
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


class Units(NamedTuple):
    """Independent pieces of one run, shapes (): one per KV head of a sequence and tile of its query rows."""

    count: Scalar  # units
    some: Scalar  # the same, 1 where there are none: safe to divide by
    rows: Scalar  # query rows per KV head
    tiles: Scalar  # tiles of these rows, each of which reads the cache
    widths: Scalar  # elements of a key and a value
    elements: Scalar  # cached elements
    cache_bytes: Scalar  # B of them
    missing_bytes: Scalar  # B that a cached element is short of 16 bits
    single: Scalar  # bool: one query row, which needs no matrix units


class Splits(NamedTuple):
    """Units cut along their caches into blocks of threads, shapes ()."""

    per_unit: Scalar  # parts of one cache, at least 1; not a whole number
    share: Scalar  # 1 - 1 / per_unit: 0 where nothing is split
    blocks: Scalar  # blocks that stream at once
    slots: Scalar  # blocks that saturate the device


def decode_timing(kernel: DecodeKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run in s: launches, and three terms that partly overlap.

    time = launch + sqrt(work^2 + start^2 + wait^2)

    work: the slowest of cache and queries from HBM and L2, products, exponentials and conversions; rows are padded to
    a matrix instruction where matrix units multiply.
    start: max(units / cores, first_share) times the cycles that a unit costs however short its cache is; cores that a
    compiler schedules count as `gpu_cores`, whose copies run ahead: they lose no `wait` and no `slow_bytes`.
    wait: the time that is lost where blocks are too few to saturate the device,
    part / (1 + part / block_ramp) (1 - blocks / slots) / (clock block_bytes), part = cache / blocks,
    blocks = min(units max(min(fill cores / units, keys / split_keys), 1), slots), slots = blocks per core times cores.
    It grows no further with long parts, so that a cache of GB streams at `bandwidth` wherever cores are many or few.
    Engines whose attention converts 8-bit caches on the way take `slow_bytes` times the root for them. In serving,
    where the op has no `reuse_bytes`, vector units take `around_time` more.

    Args:
      kernel: constants.
      op: with an `AttentionShape`. Where its `reuse_bytes` are None, all of its bytes come from HBM; else the share
        1 / (1 + (L2 capacity resident / reuse_bytes)^8), and L2 has the rest.
      hardware: levels that are None do not bind.

    Returns:
      `total` and `resources` of shape (). Zero without `kernels`. Differentiable; no better rate makes it longer.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.

    Source: splits of the cache: Dao, Haziza, Massa & Sizov, Flash-Decoding, 2023; rows of one KV head in one tile:
    Shah et al., arXiv:2407.08608, and Ye et al., arXiv:2501.01005; the form and its constants are ours.
    """
    # Class of cores first: Hopper's and Blackwell's kernels have other tiles and pipelines.
    kernel = on_cores(kernel, hardware.cores, kernel.asynchronous, kernel.tensor_memory)
    cycle = 1.0 / clock(hardware)
    units = _units(kernel, op.shape)
    splits = _splits(kernel, units, op.shape.keys, hardware.cores.count)
    # A cache of 8 bits may need other cycles per unit and launch, and more time for its bytes.
    # 0 at 16 bits, 1 at 8 bits or less: the terms below are switched on by it.
    eight = minimum(units.missing_bytes, 1.0)
    narrow = 1.0 - (1.0 - kernel.narrow_share) * eight
    slow = 1.0 + (kernel.slow_bytes - 1.0) * eight

    # work, start and wait partly overlap: the root of their squares
    times = _resource_times(kernel, op, hardware, units, splits)
    # Times of both levels add: bytes that come from HBM pass the L2 on their way as well.
    moved = times["hbm"] + times["l2"] if "l2" in times else times["hbm"]
    work = maximum(moved, *(times[name] for name in ("matrix", "vector", "exp") if name in times))
    start = _start_time(kernel, units, narrow, hardware)
    # Cores under a compiler prefetch by DMA ahead of use, so that too few pieces in flight cost them nothing.
    wait = _wait_time(kernel, units.cache_bytes, splits, cycle * threaded(hardware))
    square = work * work + start * start + wait * wait
    # Double `where`: the square root's slope at 0 is infinite, and would make the gradient of an empty run nan.
    overlapped = slow * jnp.where(square > 0.0, jnp.sqrt(jnp.where(square > 0.0, square, 1.0)), 0.0)
    times = {name: slow * time for name, time in times.items()}

    # launch: splits add partial results and their sum, 8-bit caches the conversion of queries
    # A single query row runs on vector units in both formats, so its launch is that of 16 bits.
    cycles = kernel.launch_cycles * jnp.where(units.single, 1.0, narrow) + kernel.split_cycles * splits.share
    cycles = cycles + kernel.conversion_cycles * units.missing_bytes
    launch = LAUNCHED_TOGETHER * op.kernels * (kernel.launch_time + cycles * cycle)
    total = launch + overlapped

    # small kernels around, which run however early they are launched
    if kernel.around_time is not None and op.reuse_bytes is None:
        around = LAUNCHED_TOGETHER * op.kernels * kernel.around_time
        total, times = total + around, {**times, "vector": times.get("vector", 0.0) + around}
    return Timing(total, {**times, "launch": launch})


def _units(kernel: DecodeKernel, shape: AttentionShape) -> Units:
    """The units of one run and the size of their caches."""
    # Grouped-query attention: the query heads of one KV head are stacked as rows and share one reading of its cache.
    rows = shape.queries * shape.heads / shape.kv_heads
    tiles = ceiling(rows / kernel.row_tile)
    readings = shape.sequences * shape.kv_heads
    widths = shape.key_width + shape.value_width
    count = readings * tiles
    # Latent attention caches one vector per token, whose first elements are the values: nothing is read twice.
    elements = readings * shape.keys * (shape.key_width if shape.latent else widths)
    return Units(
        count=count,
        some=jnp.where(count > 0.0, count, 1.0),
        rows=rows,
        tiles=tiles,
        widths=widths,
        elements=elements,
        cache_bytes=elements * shape.kv_bytes,
        missing_bytes=positive_part(WIDE_BYTES - shape.kv_bytes),
        single=rows <= 1.0,
    )


def _splits(kernel: DecodeKernel, units: Units, keys: Scalar, cores: Scalar) -> Splits:
    """Parts that caches are cut into: enough to fill the cores, none shorter than `split_keys`."""
    slots = cores * kernel.blocks
    # Flash-decoding: the cache of one unit is cut until all cores are busy; shorter parts than `split_keys` would cost
    # more in partial sums than they save.
    per_unit = maximum(minimum(cores * kernel.fill / units.some, keys / kernel.split_keys), 1.0)
    return Splits(per_unit, 1.0 - 1.0 / per_unit, minimum(units.some * per_unit, slots), slots)


def _resource_times(
    kernel: DecodeKernel, op: Kernel, hardware: Hardware, units: Units, splits: Splits
) -> dict[str, Scalar]:
    """Time in s that each resource alone would take for the cache, the products, conversions and exponentials."""
    shape, cores, memory = op.shape, hardware.cores, hardware.memory
    # HBM first: everything that did not stay in the L2 since the last reading of this cache.
    cold = _cold_share(kernel, op, hardware)
    work: dict[str, Scalar | None] = {"hbm": op.bytes * cold}
    if memory.l2 is not None:
        # Beside what stayed there, L2 is read once more by every further tile of rows, and holds the splits' results.
        rows = units.rows / units.tiles
        partial = PARTIAL_BYTES * splits.share * splits.per_unit * units.some * rows * shape.value_width
        work["l2"] = op.bytes * (1.0 - cold) + units.cache_bytes * (units.tiles - 1.0) + partial
    # A matrix instruction multiplies 8 to 64 rows at once: with fewer, the others are zeros at full price.
    padding = maximum(kernel.least_rows / units.rows, 1.0) if cores.vector_products is None else 1.0
    work["matrix"] = given(op.matrix_flops, "FLOP of an attention kernel") * padding
    # Dequantisation on vector units: each narrow element is converted to 16 bits before it is multiplied.
    work["vector"] = kernel.conversions * units.elements * units.missing_bytes
    work["exp"] = given(op.exps, "exponentials of an attention kernel") * padding
    shares = {"hbm": kernel.bandwidth, "l2": kernel.cache_bandwidth, "matrix": kernel.matrix}
    return busy_times(work, shares | dict.fromkeys(("vector", "exp"), kernel.vector), hardware, op.precision)


def _start_time(kernel: DecodeKernel, units: Units, narrow: Scalar, hardware: Hardware) -> Scalar:
    """Time in s that units cost however short their caches are: the cores work through them one after the other.

    Args:
      narrow: share of a unit's cycles that remains with the cache's precision and these cores.
    """
    # Per unit: a chain of dependent loads (page table, query, first keys), then tiles whose size goes with widths and
    # rows.
    cycles = kernel.unit_cycles + units.widths * (kernel.width_cycles + kernel.row_cycles * units.rows / units.tiles)
    cycles = cycles * jnp.where(units.single, kernel.single_share, narrow)
    # A GPU's core with wide vector units takes several units at a time, as if its clock were faster.
    pace = maximum(clock(hardware), threaded(hardware) * hardware.cores.vector_flops / kernel.core_flops)
    # At least `first_share` of a round passes, even if there are fewer units than cores: latency, not throughput.
    rounds = jnp.where(units.count > 0.0, maximum(units.count / gpu_cores(hardware), kernel.first_share), 0.0)
    return rounds * cycles / pace


def _wait_time(kernel: DecodeKernel, cache_bytes: Scalar, splits: Splits, cycle: Scalar) -> Scalar:
    """Time in s that too few blocks lose against a saturated device.

    Only the first bytes of a part, about `block_ramp`, are read at the slow pace of a block on its own.
    """
    # Little's law from the other side: with too few blocks there are too few bytes in flight to cover the latency of
    # HBM.
    part = cache_bytes / splits.blocks
    slow_part = part / (1.0 + part / kernel.block_ramp)
    return slow_part * positive_part(1.0 - splits.blocks / splits.slots) * cycle / kernel.block_bytes


def _cold_share(kernel: DecodeKernel, op: Kernel, hardware: Hardware) -> Scalar:
    """Share of the bytes that come from HBM: 1 / (1 + fits^8), fits = times that the kept cache fits into L2."""
    if op.reuse_bytes is None or hardware.memory.l2 is None:
        return 1.0
    # An L2 that holds the cache several times over serves all of it, one that is smaller next to none: a steep sigmoid,
    # as least-recently-used eviction of a cyclic reading would give, softened.
    fits = hardware.memory.l2.capacity * kernel.resident / jnp.where(op.reuse_bytes > 0.0, op.reuse_bytes, 1.0)
    fourth = minimum(fits, FULLY_KEPT) ** 4
    return 1.0 / (1.0 + fourth * fourth)


def published() -> DecodeKernel:
    """Constants of no fit: published figures where there are any, micro-architecture, and round numbers of ours."""
    return DecodeKernel(
        launch_cycles=8000.0,  # ours: two kernels of six dependent loads each, about 650 cycles of DRAM latency
        launch_time=3e-6,  # ours: two nodes of a CUDA graph
        split_cycles=4000.0,  # ours: six more such loads: partial results out, and in again
        conversion_cycles=3000.0,  # ours: a small kernel that converts the queries, less its launch's overlap
        fill=1.0,  # FlashAttention's heuristic: as many parts as fill the cores once
        blocks=2.0,  # FlashAttention-2: blocks of 128 threads with 100 KB, two to a core
        split_keys=128.0,  # FlashAttention: the tile of keys is the shortest part
        block_bytes=16.0,  # 16 KB in flight (a stage of 64 keys of 128) over a loaded latency of 1000 cycles
        block_ramp=1e6,  # ours
        row_tile=64.0,  # rows of a warpgroup's matrix instruction: CUDA PTX ISA, wgmma
        least_rows=16.0,  # CUDA PTX ISA, mma.m16n8k16
        unit_cycles=4000.0,  # ours: six dependent loads: page table, query, key, value, output, next unit
        width_cycles=8.0,  # a tile of 128 keys at 2 B over 32 B per cycle of a core's L2 port
        row_cycles=0.2,  # a query of 2 B and an output of 4 B over the same port
        first_share=1.0,  # no published figure
        single_share=1.0,  # no published figure
        narrow_share=1.0,  # no published figure
        bandwidth=0.86,  # large reads reach 85 to 92 % of HBM, BabelStream; 3000 of 3350 GB/s, FlashMLA, README, 2025
        cache_bandwidth=0.5,  # ours: half of what the ports could take
        resident=1.0,  # ours: the datasheet's capacity
        matrix=0.65,  # FlashMLA, README, April 2025: 660 of 989 TFLOP/s
        vector=0.8,  # ours
        conversions=1.0,  # packed conversions of two elements: CUDA PTX ISA, cvt.rn.f16x2.e4m3x2
        core_flops=512.0,  # twice an SM of 128 lanes of fused multiply-add
    )


def published_latent() -> DecodeKernel:
    """The same for latent attention: `published` with its wider tile; rows fill instructions of 64."""
    return dataclasses.replace(
        published(),
        blocks=1.5,  # ours: a tile of 64 latent vectors takes 72 KB, and two to three stages fill a core
        least_rows=64.0,  # CUDA PTX ISA, wgmma
        width_cycles=4.0,  # a tile of 64 keys
        row_cycles=0.1,  # its query and output pass once, and widths count keys that values are part of
        tensor_memory={"row_tile": 128.0},  # CUDA PTX ISA, tcgen05.mma
    )
