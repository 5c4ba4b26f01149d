"""Time of prefill attention: tiles of queries on the cores, products beside exponentials, keys from memory."""

import dataclasses
from typing import NamedTuple

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, joined, on_cores, reached
from jaxroof.hardware import Cores, Hardware, clock, matrix_peak, tile_clock
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, cheapest, maximum, minimum, positive_part
from jaxroof.numerics.struct import Scalar, number, part, share, static, struct
from jaxroof.numerics.tree import mapped
from jaxroof.op import AttentionShape, Kernel, cached_bytes, cached_width, kernel_precision
from jaxroof.units import unit_time

WIDTH = 256.0
"""Elements of a key and a value together up to which a kernel keeps its full tiles: heads of 128."""

EVEN = 16.0
"""Elements of a head that one matrix instruction takes: 16 of 16 bits. PTX ISA, k of mma and wgmma."""

ACTIVATION_BYTES = 2.0
"""B per element of queries, outputs, and keys and values before they are cached."""


@struct
class TileLoop:
    """Constants that depend on whether matrix units fetch operands by themselves (`Cores.asynchronous`)."""

    matrix: Scalar = reached("share of the matrix peak")
    serial: Scalar = share("share of softmax and products that take turns rather than overlap", zero=True)
    packing: Scalar = share(
        "share of kernels that pack the query heads of one key head into the rows of a tile", zero=True
    )
    padding: Scalar = factor("keys at each masked edge that a tile multiplies for nothing, per query")
    tile_cycles: Scalar = clock_cycles("clock cycles to start and end one tile", "first loads, last stores")
    low_cache: Scalar = factor(
        "time of the products with a cache of 8 bits against one of 16", "in a kernel of 16 bits", zero=False
    )
    low_write: Scalar = factor(
        "how much more new keys and values move before attention for a cache of 8 bits",
        "in a kernel of 16 bits",
        default=0.0,
    )
    width_step: Scalar | None = number(
        "1",
        "elements that widths of heads are rounded up to",
        "None: kernels for every width",
        most=256.0,
        default=None,
    )
    uneven: Scalar | None = factor(
        f"how much longer products take of heads whose width {EVEN:g} does not divide", "None: not at all", default=None
    )
    tensor_memory: Constants | None = part(
        "where accumulators have a memory of their own", default=None
    )  # in place of those above


@struct
class PrefillKernel:
    """Constants of one class of prefill attention kernels."""

    synchronous: TileLoop = part("where threads feed the matrix units")
    asynchronous: TileLoop = part("where matrix units feed themselves")
    tile_rows: Scalar = number("1", "query rows of one tile", most=1e4)
    row_step: Scalar = number("1", "rows that a partial tile is rounded up to", most=1e4)
    wide: Scalar = factor("how much longer products take per `WIDTH` elements of keys and values beyond `WIDTH`")
    exp: Scalar = reached("share of the special-function peak")
    vector: Scalar = factor(
        "vector operations per query-key pair, at the vector peak", "scale, maximum, sum, conversion, rescale"
    )
    tail: Scalar = factor("times of the longest tile's time, which no number of cores shortens")
    bandwidth: Scalar = reached("share of HBM bandwidth")
    l2: Scalar = reached("share of L2 bandwidth at which tiles read keys and values")
    resident: Scalar = reached("share of L2 that data stays in from one run to the next")
    warm: Scalar = reached("share of L2 bandwidth at which such data is read")
    memory_serial: Scalar = share("share of tiles and memory that take turns rather than overlap", zero=True)
    cache_write: Scalar = factor(
        "times that new keys and values move beside attention", "as engines append them to the cache"
    )
    query_copy: Scalar = factor("times that queries move beside attention", "as engines rotate or convert them")
    launch_cycles: Scalar = clock_cycles("clock cycles per run", "launches inside a graph, fill and drain")
    low_launch: Scalar = factor("how much longer launches take with a cache of 8 bits")
    unskipped: Scalar | None = share(
        "share of the keys before a window that are multiplied all the same", "None: none", default=None
    )
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


class Tiles(NamedTuple):
    """The work of one run in tiles of queries, shapes ()."""

    count: Scalar  # tiles
    pairs: Scalar  # query-key pairs that are multiplied, masked ones of partial tiles included
    longest: Scalar  # pairs of the longest tile


class PairTime(NamedTuple):
    """Time in s of one query-key pair on one core, shapes ()."""

    matrix: Scalar
    vector: Scalar
    exp: Scalar | None  # None: exponentials have no rate of their own
    both: Scalar  # of all three, as far as they overlap


def prefill_timing(kernel: PrefillKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run: launch, tiles beside memory, and what the engine moves before.

    pair = matrix (+) hypot(exp, vector),                        s per multiplied pair on one core
    compute = ((pairs pair / cores)^4 + (tail longest pair)^4)^(1/4)
    time = launch + tile_cycles max(tiles / cores, 1) / tile_clock + max(compute, l2) (+) hbm + appended
    a (+) b = sqrt(a^2 + b^2 + 2 serial a b): max and sum are its limits

    Args:
      kernel: constants.
      op: an op with an `AttentionShape`; with `reuse_bytes` what fits into L2 is read from there.
      hardware: where it runs. Without an exponential rate or an L2 they do not bind.

    Returns:
      Total and the seconds that each resource alone would take. 0 where nothing is launched.
      Differentiable; the number of tiles has the gradient of the smooth count.

    Source: form ours. Tiles, masks and packing: Dao, arXiv:2307.08691 (FlashAttention-2); overlap of softmax with
    asynchronous products: Shah et al., arXiv:2407.08608 (FlashAttention-3).
    """
    cores, memory, shape = hardware.cores, hardware.memory, op.shape
    loop = _loop(kernel, cores)
    tiles = attention_tiles(kernel, loop, shape)
    peak = matrix_peak(hardware, kernel_precision(op))
    # Such kernels multiply in 16 bits and dequantise keys and values on the way in.
    # B that a cached element is short of 16 bits, where the kernel computes in 16 bits.
    missing = 0.0 if op.precision in LOW_PRECISIONS else positive_part(ACTIVATION_BYTES - shape.kv_bytes)

    # compute = ((pairs pair / cores)^4 + (tail longest pair)^4)^(1/4)
    pair = _pair_time(kernel, loop, op, cores, peak, missing)
    # Perfect balance over cores is the mean; the longest tile, which cores cannot share, is the other bound.
    share = tiles.pairs / cores.count
    compute = pair.both * joined(share, kernel.tail * tiles.longest)
    times = {"matrix": share * pair.matrix, "vector": share * pair.vector}
    if pair.exp is not None:
        times["exp"] = share * pair.exp

    # max(compute, l2) (+) hbm + appended: tiles read keys and values from L2, which may still hold the rest as well
    byte = unit_time(hardware, "hbm", kernel.bandwidth)
    appended_bytes = _appended_bytes(kernel, shape, 1.0 + missing * loop.low_write)
    if memory.l2 is not None:
        times["l2"] = _l2_bytes(kernel, tiles, shape) * unit_time(hardware, "l2", kernel.l2)
        # Every tile of queries streams all of its keys through the L2: with many queries that binds before HBM does.
        compute = maximum(compute, times["l2"])
        if op.reuse_bytes is not None:
            warm = _resident(op.reuse_bytes, kernel.resident * memory.l2.capacity)
            # Linear between the time of a byte from HBM and of one from L2, by the share that is still there.
            byte = byte + warm * (unit_time(hardware, "l2", kernel.warm) - byte)
    moved, appended = op.bytes * byte, appended_bytes * byte
    times["hbm"] = moved + appended

    # launch, and the start and end of the tiles that one core works through
    cycles = op.kernels * kernel.launch_cycles * (1.0 + missing * kernel.low_launch)
    # Cores work through their tiles one after the other, each with a prologue and an epilogue; one tile at least.
    filled = loop.tile_cycles * _both(tiles.count / cores.count, minimum(tiles.count, 1.0), 0.0)
    times["launch"] = cycles / clock(hardware) + filled / tile_clock(hardware, peak, op.operand_bytes)
    return Timing(times["launch"] + _both(compute, moved, kernel.memory_serial) + appended, times)


def _pair_time(
    kernel: PrefillKernel, loop: TileLoop, op: Kernel, cores: Cores, peak: Scalar, missing: Scalar
) -> PairTime:
    """Time in s of one query-key pair on one core: products beside the slower of exponentials and vector work.

    pair = matrix (+) hypot(exp, vector)

    Args:
      peak: FLOP/s of all cores.
      missing: B that a cached element is short of the 16 bits in which the kernel computes.
    """
    widths = _padded_width(loop, op.shape.key_width) + _padded_width(loop, op.shape.value_width)
    # Heads wider than 128 need more registers per row: tiles shrink, and operands are re-read more often.
    wide = 1.0 + kernel.wide * positive_part(widths / WIDTH - 1.0)
    flops = 2.0 * widths * wide * (1.0 + missing * (loop.low_cache - 1.0))
    # Two products per pair: query times key over the key's width, probability times value over the value's.
    matrix = flops * (cores.count / (peak * loop.matrix))
    vector = kernel.vector / cores.vector_flops
    exp = None if cores.exp_rate is None else 1.0 / (cores.exp_rate * kernel.exp)
    # Online softmax (FlashAttention): running maximum and sum are kept and rescaled on vector units, and exponentials
    # run on special-function units beside them.
    softmax = vector if exp is None else _both(vector, exp, 0.0)
    # Tensor cores and softmax alternate on two tiles (ping-pong scheduling) as far as `serial` is below 1.
    return PairTime(matrix, vector, exp, _both(matrix, softmax, loop.serial))


def _padded_width(loop: TileLoop, width: Scalar) -> Scalar:
    """Elements of a head that products take time for: rounded up, and more where instructions do not divide it."""
    padded = width if loop.width_step is None else loop.width_step * ceiling(width / loop.width_step)
    if loop.uneven is None:
        return padded
    odd = jnp.where(jnp.mod(jnp.asarray(width), EVEN) > 0.0, 1.0, 0.0)
    return padded * (1.0 + loop.uneven * odd)


def _appended_bytes(kernel: PrefillKernel, shape: AttentionShape, writes: Scalar) -> Scalar:
    """B that engines move before attention: new keys and values into the cache, queries to be rotated or converted.

    None in functions (`AttentionShape.appended`), where these are kernels of their own.

    Args:
      writes: times that new keys and values move against those of a cache of 16 bits.
    """
    if not shape.appended:
        return 0.0
    # No more new keys than there are: cross-attention may have fewer keys than queries.
    new = ACTIVATION_BYTES * shape.sequences * minimum(shape.keys, shape.queries)
    written = shape.kv_heads * cached_width(shape) * kernel.cache_write * writes
    copied = shape.heads * (shape.key_width + shape.value_width) * kernel.query_copy
    return new * (written + copied)


def _l2_bytes(kernel: PrefillKernel, tiles: Tiles, shape: AttentionShape) -> Scalar:
    """B from L2: every tile reads the keys and values of its pairs, and the whole cache passes once."""
    # One reading of the keys by each tile of `tile_rows` queries: pairs / rows is the number of key visits.
    return tiles.pairs / kernel.tile_rows * cached_width(shape) * shape.kv_bytes + cached_bytes(shape)


def attention_tiles(kernel: PrefillKernel, loop: TileLoop, shape: AttentionShape) -> Tiles:
    """Tiles of queries that `shape` is cut into, and the query-key pairs that they multiply.

    A tile has `tile_rows` rows, queries of one head or of all that share a key head; the last one is rounded up to
    `row_step`. Each row multiplies `padding` keys beyond either edge of its sight, or all there are. The keys that
    the last query sees: of q queries that see a mean of m of k keys, the window hides (q - w)^2 / 2 pairs before it.
    """
    queries = shape.queries
    group = shape.heads / shape.kv_heads

    def tiles_of(rows: Scalar) -> Scalar:
        """Tiles of `rows` rows: of one query head, or in part of all that share a key head, if these are fewer."""
        # Without packing each query head has tiles of its own.
        alone = shape.heads * ceiling(queries / rows)
        # With packing (GQA) the heads of a group lie in the rows of one tile: fewer, fuller tiles where queries are
        # few.
        packed = cheapest(alone, shape.kv_heads * ceiling(queries * group / rows))
        return shape.sequences * (alone + loop.packing * (packed - alone))

    # Rows are rounded up to the instruction's, not to the tile: a partial tile multiplies fewer rows.
    count = tiles_of(kernel.tile_rows)
    rows = kernel.row_step * tiles_of(kernel.row_step)

    # Keys of a mean row: those that it sees, and masked ones up to `padding` before the window and after the diagonal.
    seen = shape.pairs / jnp.where(queries > 0.0, queries, 1.0)
    # Mean number of keys that the causal mask hides after a query: half of the other new tokens.
    ahead = 0.5 * positive_part(queries - 1.0) if shape.causal else 0.0
    # Keys before the window, cached but out of sight; 0 without a window.
    behind = positive_part(shape.keys - seen - ahead)
    keys = seen + minimum(behind, loop.padding)
    if kernel.unskipped is not None:
        keys = keys + kernel.unskipped * positive_part(behind - loop.padding)
    if shape.causal:
        keys = keys + minimum(ahead, loop.padding)

    # Keys of the last tile, which sees most: all but those that its window hides, q - w of them.
    square = 2.0 * queries * behind
    hidden = jnp.where(square > 0.0, jnp.sqrt(jnp.where(square > 0.0, square, 1.0)), 0.0)
    if kernel.unskipped is not None:
        hidden = hidden * (1.0 - kernel.unskipped)
    longest = minimum(positive_part(shape.keys - hidden) + loop.padding, shape.keys)
    # Mean rows per tile times the most keys of a row: pairs of the tile that ends last.
    height = rows / jnp.where(count > 0.0, count, 1.0)
    return Tiles(count, rows * keys, height * longest)


def _loop(kernel: PrefillKernel, cores: Cores) -> TileLoop:
    """Constants at this degree of `Cores.asynchronous`, linear between 0 and 1."""
    asynchronous = on_cores(kernel.asynchronous, cores, tensor_memory=kernel.asynchronous.tensor_memory)
    ends = (dataclasses.replace(loop, tensor_memory=None) for loop in (kernel.synchronous, asynchronous))
    # The switch is data: constants are interpolated between the two kinds of kernels rather than selected.
    return mapped(lambda s, a: s + cores.asynchronous * (a - s), *ends)


def _both(first: Scalar, second: Scalar, serial: Scalar) -> Scalar:
    """Time of two terms that partly overlap: sqrt(a^2 + b^2 + 2 serial a b).

    In ratios, as squares of short times leave the range of floats.
    """
    # Factor out the longer term: the squares of 1e-20 s would underflow in float32, and 0 / 0 is avoided by the guard.
    longer = jnp.maximum(first, second)
    ratio = jnp.minimum(first, second) / jnp.where(longer > 0.0, longer, 1.0)
    return longer * jnp.sqrt(1.0 + ratio * (ratio + 2.0 * serial))


def _resident(touched: Scalar, capacity: Scalar) -> Scalar:
    """Share of data that is still in a cache of `capacity` B after `touched` B: 1 / (1 + (touched / capacity)^4)."""
    # A sharp transition near `touched` = `capacity`, as of a least-recently-used cache that is read cyclically.
    square = jnp.square(touched / capacity)
    return 1.0 / (1.0 + square * square)


def published() -> PrefillKernel:
    """Constants that no table was fitted for: published kernels and microbenchmarks."""
    synchronous = TileLoop(
        matrix=0.73,  # FlashAttention-2, arXiv:2307.08691, abstract: 50 to 73 % of A100's peak
        serial=0.5,  # ours: half of softmax hidden behind the other warps of a core
        packing=0.5,  # ours: FlashInfer packs query heads, FlashAttention-2 does not
        padding=64.0,  # half a tile of 128 rows; FlashAttention-2, section 3.3
        tile_cycles=4000.0,  # ours: a few loads of DRAM latency each (400 to 800 cycles) before and after products
        low_cache=1.0,  # no published figure
    )
    asynchronous = TileLoop(
        matrix=0.85,  # FlashAttention-3, arXiv:2407.08608, abstract: 75 % of H100's peak, softmax included
        serial=0.15,  # ours: FlashAttention-3 overlaps softmax of one tile with products of another
        packing=1.0,  # FlashAttention-3 and trtllm-gen pack query heads
        padding=64.0,
        tile_cycles=6000.0,  # ours: as above, with the descriptors and barriers of asynchronous copies
        low_cache=1.0,
    )
    return PrefillKernel(
        synchronous=synchronous,
        asynchronous=asynchronous,
        tile_rows=128.0,  # FlashAttention-2, section 3.3, and FlashAttention-3: blocks of 128 queries
        row_step=64.0,  # PTX ISA: m of wgmma
        wide=0.1,  # ours: FlashAttention-2 and 3 halve their blocks of keys at heads of 256
        exp=1.0,
        vector=6.0,  # scale and subtract (2), maximum, sum, two conversions
        tail=0.8,  # ours: the longest tile starts first
        bandwidth=0.85,  # large copies reach 85 to 92 % of HBM
        l2=0.9,  # ours: tiles in flight hide the rest
        resident=0.7,  # ours
        warm=0.3,  # ours: small copies are bound by latency
        memory_serial=0.1,  # ours
        cache_write=2.0,  # each new key and value is read and written once
        query_copy=0.0,
        launch_cycles=18000.0,  # ours: attention and the cache's append, 5 us each
        low_launch=0.1,  # ours
    )
