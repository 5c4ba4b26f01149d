"""Time of matrix products on the cores: the tiles that fit, their waves, and the cost of each."""

from collections.abc import Callable
from typing import Any

from jaxroof.efficiency.timing import clock_cycles, factor, fixed_time, reached
from jaxroof.hardware import Hardware, clock, matrix_peak, threaded, tile_clock
from jaxroof.numerics.arrays import is_traced, jnp, rsqrt
from jaxroof.numerics.smooth import ceiling, cheapest, cheapest_of, maximum, minimum
from jaxroof.numerics.struct import Array, Scalar, number, share, struct

TILES = (
    (16.0, 64.0),
    (16.0, 128.0),
    (32.0, 64.0),
    (64.0, 64.0),
    (64.0, 128.0),
    (128.0, 64.0),
    (128.0, 128.0),
    (64.0, 256.0),
    (128.0, 192.0),
    (128.0, 256.0),
    (256.0, 128.0),
)
"""Rows and outputs of the tiles that a kernel chooses from: those that cuBLAS and CUTLASS instantiate."""

VECTOR_TILES = ((1.0, 64.0), (2.0, 64.0), (4.0, 64.0), (8.0, 64.0))
"""The same of few rows, which only vector units multiply without padding."""

STEP_BYTES = 128.0
"""B of one operand's row that one step along the inputs loads: the widest swizzle of shared memory, CUTLASS."""

STAGES = 2.0
"""Steps whose operands are in the scratchpad at least: one that is used and one that arrives."""

ACCUMULATOR_BYTES = 4.0
"""B of one float32 accumulator."""

NEGLIGIBLE = 1e-3
"""Share of the electrical limit that is not worth telling from nothing."""

STORED = 128.0 * 128.0
"""Results of a tile whose storing takes `TileCosts.store_cycles`: sets its scale only."""

ARRAY_SHARE = 0.85
"""Share of `TileCosts.matrix` of the peak that systolic arrays under a compiler reach in long products; ours: TPU v7
and v6e reach 82 to 90 % of their peaks in the largest ones (AI-Hypercomputer/tpu-recipes, microbenchmarks)."""

VECTOR_SHARE = 0.78
"""Share of `TileCosts.matrix` of the peak that products reach on vector units, whose lanes also load operands; ours:
LLaMA 7B in fp16 on an M1 Max, 512 tokens in 0.854 s (ggml-org/llama.cpp, discussion Performance of llama.cpp on Apple
Silicon M-series). Other GPUs of that series judge it: `tests/evidence/test_small_devices.py`."""

FED = 4096.0
"""16-bit FLOP per clock of a core whose operands its scratchpad just delivers where matrix units read both from there;
Hopper's: 128 B per clock, products of 64 x 256 and 16 inputs. Of an H20, whose units do a quarter, a quarter waits."""

FILL_CYCLES = 512.0
"""Clock cycles that such an array takes to fill and drain: twice its edge, 256 elements on TPU v6e and v7 (Google Cloud
TPU documentation)."""

UNIT = 32.0
"""Edge of a tile, elements, at which `TileCosts.small` counts twice its value: sets its scale only."""


@struct
class TileCosts:
    """Constants of how a class of kernels works through tiles: what structs of such kernels inherit."""

    matrix: Scalar = reached("share of the matrix peak that a large tile reaches in its main loop")
    tile_cycles: Scalar = clock_cycles("clock cycles of a tile outside its main loop", "first operands in, results out")
    overlap: Scalar = share(
        "share of `tile_cycles` that asynchronous matrix units hide behind the next tile's main loop", zero=True
    )
    small: Scalar = factor("extra time of the main loop of a tile of m x n", "small * 32 (1 / m + 1 / n)")
    softness: Scalar = share(
        "share of an idle core's time in the last wave that is lost", "1: waves end together", zero=True
    )
    energy: Scalar = number("J/FLOP", "energy per 16-bit matrix FLOP", "of a core of `energy_rate`", most=1e-6)
    energy_rate: Scalar = number(
        "FLOP/s", "16-bit rate of one core at which `energy` holds", "wider matrix units take less energy per FLOP"
    )
    power: Scalar = reached("share of the electrical limit that matrix units may take")
    onset_time: Scalar = fixed_time("time of a kernel after which half of the electrical limit is felt")
    idle_power: Scalar | None = number(
        "W", "power of one core beside its products, at full clock", "None: none", zero=True, most=1e4, default=None
    )
    store_cycles: Scalar | None = clock_cycles(
        "clock cycles that `STORED` results of a tile take beside `tile_cycles`", default=None
    )
    software: Scalar | None = factor(
        "extra share of the main loop where matrix units are not asynchronous", default=None
    )
    promotion: Scalar | None = factor(
        "extra share of the main loop where matrix units have no memory for results",
        "registers scale and add blocks",
        default=None,
    )
    step_cycles: Scalar | None = clock_cycles(
        "clock cycles of one `STEP_BYTES` step of a tile at least", "None: no such bound", default=None
    )


def sustained_rate(
    costs: TileCosts,
    flops: Scalar,
    hardware: Hardware,
    precision: str,
    operand_bytes: Scalar,
    sustained: bool,
    results: Scalar | None = None,
) -> Scalar:
    """FLOP/s of all cores in the main loop of a large tile: a share of the peak, less what electrical power denies.

    rate = peak matrix (1 - u busy (1 - (1 + excess^4)^(-1/4))),  u = t / (t + onset_time),  t = flops / (peak matrix)
    excess = (peak matrix energy per FLOP + idle_power cores) / (power tdp): what is too much slows all of it
    busy = min(1, tiles of `STORED` results / cores): cores that have no tile draw nothing
    energy per FLOP = energy (operand_bytes / 2) sqrt(energy_rate / 16-bit peak of one core)

    Args:
      flops: of the product.
      sustained: the device has run at full load before, as in serving: u = 1.
      results: elements of the product; None: every core is busy.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the precision.
    """
    rate = matrix_peak(hardware, precision) * costs.matrix
    if hardware.power.tdp is None:
        return rate
    # In units of 16-bit operands: fp8 takes half the energy of bf16 per FLOP, fp32 twice.
    width = 0.5 * operand_bytes
    core_rate = matrix_peak(hardware, precision) * width / hardware.cores.count
    # A wider core amortises its control and operand delivery over more multipliers: energy per FLOP ~ 1 / sqrt(width).
    energy = costs.energy * width * rsqrt(core_rate / costs.energy_rate)
    # The bound keeps compilers from taking constants such as energy to the fourth power, which float32 does not hold.
    drawn = rate * energy
    if costs.idle_power is not None:
        drawn = drawn + costs.idle_power * hardware.cores.count
    excess = jnp.maximum(drawn / (costs.power * hardware.power.tdp), NEGLIGIBLE)
    fourth = (excess * excess) * (excess * excess)
    # min(1, 1 / excess) with a rounded corner. Power above the limit lowers the clock until it fits.
    capped = rsqrt(jnp.sqrt(1.0 + fourth))
    if results is None and sustained:
        return rate * capped
    denied = 1.0 - capped
    if results is not None:
        # Idle cores draw nothing: the product's tiles over the cores bound its power.
        denied = denied * minimum(1.0, results * (1.0 / STORED) / hardware.cores.count)
    if not sustained:
        # Boards average power over a window: a kernel alone that is shorter than `onset_time` ends before it is
        # throttled.
        denied = denied * (flops / (flops + rate * costs.onset_time))
    return rate * (1.0 - denied)


def matrix_time(
    costs: TileCosts,
    hardware: Hardware,
    rate: Scalar,
    precision: str,
    operand_bytes: Scalar,
    row_tiles: Callable[[Any], Scalar],
    outputs: Scalar,
    inputs: Scalar,
    splits: Any = 1.0,
    tiles: tuple[tuple[float, float], ...] = TILES,
) -> Array:
    """Time in s of a product on the cores, by the best of `tiles`, shape ().

    time = min over tiles: waves(x) * (2 m n inputs (1 + small 32 (1/m + 1/n)) cores / rate + fixed)
    x = row_tiles(m) ceil(outputs / n) splits / cores,  inputs: of one split, a whole number of steps
    fixed = (tile_cycles + store_cycles m n / STORED) (1 - overlap asynchronous) / tile_clock
    small shrinks with a core's 16-bit FLOP per clock below `FED` where asynchronous units read the scratchpad.
    A main loop in software is 1 + software (1 - asynchronous) times as long, one whose results pass registers
    1 + promotion (1 - tensor_memory). A main loop of few rows and outputs lasts step_cycles / clock per step at least:
    the next operands are asked for as the last ones are used. A systolic array under a compiler (`Cores.compiled`) has
    neither of the last two; it runs at `ARRAY_SHARE` whatever the tile, small = 0, fixed = FILL_CYCLES / tile_clock.
    Vector units (`Cores.vector_products`) may take `VECTOR_TILES` too, at small = 0 and `VECTOR_SHARE`.

    Args:
      rate: FLOP/s of all cores at `precision`, `sustained_rate`.
      row_tiles: tiles of that many rows that the product has along its rows, over all matrices.
      outputs, inputs: n and k of one matrix.
      splits: kernels' parts of the inputs, each a tile of its own; while JAX traces an array of several numbers, shape
        (1, n), of which each has a time in the result, shape (n,).
    """
    step, threads = STEP_BYTES / operand_bytes, threaded(hardware)
    # time of one element of a tile in one step, the same for all tiles and splits
    cores = hardware.cores.count * (threads + (1.0 - threads) / ARRAY_SHARE)
    element_time, small = 2.0 * step * cores / rate, costs.small * UNIT * threads
    # Asynchronous units read both operands from the scratchpad at its pace, whatever they multiply meanwhile: one with
    # fewer multipliers than its scratchpad feeds waits for a smaller share of its time.
    multiplied = (
        matrix_peak(hardware, precision) * (0.5 * operand_bytes / FED) / (hardware.cores.count * clock(hardware))
    )
    small = small * (1.0 - hardware.cores.asynchronous * threads * (1.0 - minimum(multiplied, 1.0)))
    if hardware.cores.vector_products is not None:
        vectors = hardware.cores.vector_products
        tiles, small = (*VECTOR_TILES, *tiles), small * (1.0 - vectors)
        element_time = element_time * (1.0 + vectors * (1.0 / VECTOR_SHARE - 1.0))
    if costs.software is not None:
        # Without asynchronous copies, address arithmetic and loads of the same threads take issue slots from the
        # products.
        element_time = element_time * (1.0 + costs.software * (1.0 - hardware.cores.asynchronous))
    if costs.promotion is not None:
        # Accumulators in registers: block scales are applied by vector units between products.
        element_time = element_time * (1.0 + costs.promotion * threads * (1.0 - hardware.cores.tensor_memory))
    tick = 1.0 / tile_clock(hardware, matrix_peak(hardware, precision), operand_bytes)
    # Persistent kernels load the next tile while the last one's results are stored: part of the fixed time is hidden.
    cycle = (1.0 - costs.overlap * hardware.cores.asynchronous) * threads * tick
    fixed_time = costs.tile_cycles * cycle + FILL_CYCLES * (1.0 - threads) * tick
    store_time = 0.0 if costs.store_cycles is None else costs.store_cycles * cycle
    # In units of `element_time`, as `main` is: the latency of one step's loads, over the stages in flight.
    least = None if costs.step_cycles is None else costs.step_cycles * threads * tick / element_time
    # A split's inputs are rounded up to whole steps; the remainder is multiplied as zeros.
    loop_time = element_time * ceiling(inputs / (splits * step))
    per_core = splits / hardware.cores.count

    def candidate(m: Scalar, n: Scalar, rows: Scalar, columns: Scalar) -> Scalar:
        """Time of the product by tiles of m x n, of which it has so many along its rows and outputs."""
        # Work of m n plus the loads of m + n per step: larger tiles re-use operands more (arithmetic intensity of a
        # tile).
        main = (m * n + small * (m + n)) * misfit(m, n, hardware, tiles[0])
        if least is not None:
            main = maximum(main, least)
        # Fixed time of each tile beside its main loop: first loads, epilogue.
        tile_time = main * loop_time + (fixed_time + store_time * (m * n / STORED))
        # Wave quantisation: tiles per core, rounded up in part.
        return waves(rows * columns, costs.softness) * tile_time

    # Tile quantisation: a partial tile at the edge of the result takes as long as a full one.
    if is_traced():
        # One candidate for each place of an axis: a program of few equations, whichever their number.
        m, n = (jnp.asarray(side, dtype=float) for side in zip(*tiles, strict=True))
        if jnp.ndim(splits):
            m, n = m[:, None], n[:, None]
        return cheapest_of(candidate(m, n, row_tiles(m) * per_core, ceiling(outputs * (1.0 / n))))
    rows = {m: row_tiles(m) * per_core for m, _ in tiles}
    columns = {n: ceiling(outputs * (1.0 / n)) for _, n in tiles}
    return cheapest(*(candidate(m, n, rows[m], columns[n]) for m, n in tiles))


def waves(tiles_per_core: Scalar, softness: Scalar) -> Array:
    """Times that a core works through a tile, shape (): at least 1, and a last wave that is partly empty.

    Cores that are done early leave power and bandwidth to the others: a wave costs `softness` of its idle part.
    """
    # Idle part of the last wave, from 0 up to one tile per core.
    idle = ceiling(tiles_per_core) - tiles_per_core
    return maximum(1.0, tiles_per_core + softness * idle)


def misfit(m: Scalar, n: Scalar, hardware: Hardware, least: tuple[float, float] = TILES[0]) -> Scalar:
    """Slowdown of a tile that registers or scratchpad do not hold: 1 where it fits, then (needed / there)^4.

    Steep enough that such a tile is not chosen while a smaller one fits. Where not even the `least` tile does, it takes
    needed / there times as long, in shallower steps. A tile that fits exactly, as the largest ones do by design, gains
    nothing from more capacity: the gradient is 0 there and where there is room, and that of the power beyond.
    """
    over, smallest = _excess(m, n, hardware), _excess(*least, hardware)
    return (over * over) * (over * over) / (smallest * smallest * smallest)


def _excess(m: Scalar, n: Scalar, hardware: Hardware) -> Scalar:
    """Times that a tile needs what registers or scratchpad hold, shape (): 1 where it fits.

    Accumulators may take half of the registers.
    """
    registers, scratchpad = hardware.memory.register_capacity, hardware.memory.scratchpad
    over: Scalar = 1.0
    if registers is not None:
        # float32 accumulators of m x n, twice: the operands' fragments and addresses need the other half.
        over = jnp.maximum(2.0 * ACCUMULATOR_BYTES * m * n / registers, over)
    if scratchpad is not None:
        # Double buffering: `STAGES` slices of m rows and n columns.
        over = jnp.maximum(STAGES * STEP_BYTES * (m + n) / scratchpad.capacity, over)
    return jnp.where(over > 1.0, over, 1.0)  # at 1 exactly a maximum would have half of the slope
