"""Time of a matrix product by a BLAS library's fp32 kernels: their tiles, rereading of operands, throttled clocks."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, fixed_time, on_cores, reached
from jaxroof.hardware import Cores, Hardware, clock, gpu_cores, matrix_peak
from jaxroof.numerics.arrays import jnp, rsqrt
from jaxroof.numerics.smooth import ceiling, cheapest, maximum, minimum
from jaxroof.numerics.struct import Array, Scalar, number, part, static, struct
from jaxroof.op import Kernel, kernel_precision
from jaxroof.units import unit_rate, unit_time

Tile = tuple[float, float]
"""Rows and outputs of one block of results."""

_SINCE_VOLTA: tuple[Tile, ...] = (
    (128.0, 128.0),
    (64.0, 128.0),
    (32.0, 128.0),
    (128.0, 32.0),
    (64.0, 64.0),
    (32.0, 64.0),
    (32.0, 32.0),
)

_AMD: tuple[Tile, ...] = (
    (144.0, 128.0),
    (64.0, 128.0),
    (128.0, 64.0),
    (96.0, 96.0),
    (64.0, 64.0),
    (32.0, 64.0),
    (64.0, 32.0),
    (32.0, 32.0),
    (16.0, 64.0),
    (64.0, 16.0),
    (16.0, 16.0),
)

TILES = {
    "modern": _SINCE_VOLTA,
    "volta": _SINCE_VOLTA,
    "pascal": ((32.0, 128.0), (128.0, 32.0), (64.0, 64.0)),
    "amd": _AMD,
}
"""Class of cores (`library_classes`) -> tiles of its library for one product, as names of kernels say: cuBLAS 11 and
12's `ampere_sgemm_128x64_tn` has 128 outputs and 64 rows, as has rocBLAS's `MT128x64x16`."""

BATCHED_TILES = {
    "modern": ((128.0, 128.0),),
    "volta": ((64.0, 128.0), (32.0, 128.0), (128.0, 32.0), (64.0, 64.0)),
    "pascal": ((64.0, 128.0),),
    "amd": _AMD,
}
"""The same for many products at once: one kernel serves all shapes on Pascal, and another one since Ampere."""

_EVERY_TILE = sorted({tile for sets in (TILES, BATCHED_TILES) for tiles in sets.values() for tile in tiles})

SPLITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Parts that a kernel may cut the inputs of one product into."""

STEP = 8.0
"""Inputs that a main loop takes at once: dimensions are rounded up to it."""

ALIGNED = 8.0
"""Rows and inputs are read in whole sectors of 32 B where they are multiples of it."""

LONE = 64.0 * 128.0
"""Results of a tile that takes 1 + `SgemmKernel.lone` times as long alone on a core: sets its scale only."""

LARGE = 128.0
"""Edge of the square tile, elements, at which `SgemmKernel.matrix` holds."""

UNIT = 32.0
"""Elements of the edges that `SgemmKernel.small` counts in: sets its scale only."""

REFERENCE_CLOCK, HIGHEST_CLOCK = 1.4e9, 1.6e9
"""Hz at which `SgemmKernel.process_energy` holds, and from which on energy no longer grows: voltage goes with the clock
among the measured devices, of which NVIDIA's reach 1.59 GHz; later processes clock higher at no more voltage."""

LIMIT_SHARE = 0.85
"""Share of the electrical limit that the cores may take; memory, L2 and leakage take the rest."""

LEAST_EXCESS, MOST_EXCESS = 1e-3, 1e4
"""Shares of the electrical limit between which a product's draw is told apart."""

NEVER = 1e6
"""Factor on the time of a tile that a library does not have: finite, and never the least."""


@struct
class SgemmKernel:
    """Constants of fp32 products whose operands threads bring, most of them on vector units."""

    matrix: Scalar = reached("share of the peak in the main loop of a tile of `LARGE` x `LARGE`")
    small: Scalar = factor("extra time of the main loop of a tile of m x n", "small * 32 (1 / m + 1 / n - 2 / LARGE)")
    tile_cycles: Scalar = clock_cycles("clock cycles of a tile outside its main loop")
    lone: Scalar = factor(
        "extra time of a main loop whose core has no other tile, by `LONE`", "few threads do not fill a core"
    )
    bandwidth: Scalar = reached("share of HBM bandwidth")
    kept: Scalar = reached("share of L2 that holds operands from one wave to the next", zero=True)
    flight: Scalar = factor("tiles of one core that read at once", zero=False)
    unaligned: Scalar = factor("extra time of readings whose rows or inputs are no multiples of `ALIGNED`")
    single: Scalar = factor("extra share of the main loop that reads such operands one by one", "through registers")
    stored: Scalar = factor("extra share of stored results", "where outputs are no such multiple")
    split_cycles: Scalar = clock_cycles("clock cycles of adding up partial sums")
    split_traffic: Scalar = factor("times that a partial sum passes device memory")
    launch_cycles: Scalar = clock_cycles("clock cycles of a kernel between others in a stream")
    process_energy: Scalar = factor(
        "energy drawn per energy of arithmetic in `Hardware.energy`", "at `REFERENCE_CLOCK`"
    )
    idle_power: Scalar = number("W", "power of one core beside its products", zero=True, most=1e4)
    onset_time: Scalar = fixed_time("time of a kernel after which half of the electrical limit is felt")
    scattered: Scalar = factor("extra time of readings on Pascal", "whose kernels take a sector of each row at once")
    far: Scalar = factor("further such time where the rows in flight are many times L2's capacity")
    reach: Scalar = factor("times of L2's capacity at which half of `far` is felt", zero=False)
    wide_waves: Constants | None = part("where 64 threads run together", default=None)  # in place of those above
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def sgemm_timing(kernel: SgemmKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run of `op`, which has a `ProductShape`.

    time = launch + min over tiles: sqrt(c^2 + h^2)
    c: main loops and fixed cycles of all waves, the best of `SPLITS` where there is one matrix
    h: results, written once, and operands, read once, and again by every wave as far as L2 has lost them
    """
    kernel = on_cores(kernel, hardware.cores, wide_waves=kernel.wide_waves)
    # Batched products have kernels and tiles of their own in cuBLAS.
    many = jnp.where(op.shape.matrices > 1.0, 1.0, 0.0)
    classes = library_classes(hardware.cores)
    rate = _sustained_rate(kernel, op, hardware)
    hbm = unit_rate(hardware, "hbm") * kernel.bandwidth
    written = _written_bytes(kernel, op, classes) / hbm
    times, parts = [], []
    # All tiles of all libraries are priced, and those that this one lacks are made too slow to be chosen: the class of
    # cores is data, so the list cannot depend on it.
    for tile in _EVERY_TILE:
        core = _core_time(kernel, op, hardware, rate, tile)
        moved = _read_bytes(kernel, op, hardware, tile, classes) / hbm + written
        has = many * _has(tile, BATCHED_TILES, classes) + (1.0 - many) * _has(tile, TILES, classes)
        lacking = 1.0 + NEVER * (1.0 - has)
        # Threads load operands and multiply in turn on the same issue slots: compute and memory add as a hypotenuse,
        # not as a maximum.
        times.append(jnp.sqrt(core * core + moved * moved) * lacking)
        parts.append(core * lacking)
    launch = op.kernels * kernel.launch_cycles / clock(hardware)
    return Timing(
        launch + op.kernels * cheapest(*times),
        {"matrix": op.kernels * cheapest(*parts), "hbm": op.bytes / hbm, "launch": launch},
    )


def library_classes(cores: Cores) -> dict[str, Scalar]:
    """1 for the class of cores whose kernels a BLAS library runs on these, 0 for the others, by names of `TILES`.

    AMD's wavefronts have 64 threads. Of NVIDIA's GPUs, copies pass registers before Ampere, and before Volta address
    arithmetic takes turns with vector operations as well: Pascal.
    """
    amd = cores.wide_waves
    pascal = (1.0 - amd) * (0.0 if cores.shared_issue is None else cores.shared_issue)
    volta = (1.0 - amd) * cores.register_copies * (1.0 - pascal)
    return {"amd": amd, "pascal": pascal, "volta": volta, "modern": 1.0 - amd - pascal - volta}


def _has(tile: Tile, tiles: dict[str, tuple[Tile, ...]], classes: dict[str, Scalar]) -> Scalar:
    """1 where the library of the cores has the tile, 0 elsewhere."""
    return sum(share for name, share in classes.items() if tile in tiles[name])


def _rows(op: Kernel) -> Array:
    """Rows of one of the products."""
    return op.shape.rows / jnp.maximum(op.shape.matrices, 1.0)


def _grid(op: Kernel, tile: Tile) -> tuple[Array, Array]:
    """Tiles of one product along its rows and along its outputs."""
    m, n = tile
    return ceiling(_rows(op) * (1.0 / m)), ceiling(op.shape.outputs * (1.0 / n))


def _unaligned(*sizes: Scalar) -> Array:
    """1 where any of the numbers is no multiple of `ALIGNED`, 0 elsewhere, shape ()."""
    # The sum of the rounded sizes exceeds that of the sizes exactly where any one of them is not aligned.
    padded = ALIGNED * sum(ceiling(size * (1.0 / ALIGNED)) for size in sizes)
    return jnp.where(padded > sum(sizes), 1.0, 0.0)


def _core_time(kernel: SgemmKernel, op: Kernel, hardware: Hardware, rate: Scalar, tile: Tile) -> Array:
    """c: time in s of all tiles on the cores, by the best split of their inputs, shape ().

    waves fixed + max(waves, 1 + lone LONE / (m n)) main,  waves = ceil(tiles splits / cores)
    main = 2 inputs m n (1 + small 32 (1/m + 1/n - 2/128)) cores / rate
    """
    m, n = tile
    down, across = _grid(op, tile)
    # Wave quantisation: tiles run in whole waves over all cores, and the last wave takes as long as a full one.
    tiles = op.shape.matrices * down * across
    cores = gpu_cores(hardware)
    cycle = 1.0 / clock(hardware)
    # Ratio of operand loads to products: a tile of m x n loads m + n per 2 m n FLOP, so small tiles starve the units.
    edges = kernel.small * UNIT * (1.0 / m + 1.0 / n - 2.0 / LARGE)
    element = 2.0 * m * n * (1.0 + edges) * cores / rate
    alone = 1.0 + kernel.lone * (LONE / (m * n))
    # Split-K writes one partial result per split, which a last kernel adds up.
    partial = op.shape.rows * op.shape.outputs * op.shape.output_bytes * kernel.split_traffic
    partial = partial * unit_time(hardware, "hbm", kernel.bandwidth)
    # Batched kernels have no split of inputs.
    never = jnp.where(op.shape.matrices > 1.0, 1.0 + NEVER, 1.0)
    times = []
    for splits in SPLITS:
        main = element * (STEP * ceiling(op.shape.inputs / (splits * STEP)))
        waves = ceiling(maximum(1.0, tiles * (splits / cores)))
        # A core alone with one small tile cannot hide its latencies behind another one: at least `alone` times the main
        # loop.
        time = main * maximum(waves, alone) + waves * (kernel.tile_cycles * cycle)
        if splits > 1.0:
            time = (time + kernel.split_cycles * cycle + splits * partial) * never
        times.append(time)
    return cheapest(*times)


def _read_bytes(kernel: SgemmKernel, op: Kernel, hardware: Hardware, tile: Tile, classes: dict[str, Scalar]) -> Array:
    """Bytes of both operands that pass HBM, and as many more as its time is longer, shape ().

    bytes = (once + again) (1 + unaligned) (1 + scattered + far r^2 / (1 + r^2)),  r = wave / (reach L2)
    again = (waves x wave - once) wave / (wave + kept L2)
    wave: B of the different rows and columns that all tiles in flight read; the last factor is Pascal's
    """
    shape, (m, n) = op.shape, tile
    down, across = _grid(op, tile)
    # Tiles that run at the same time, over all cores; those in one row or column of tiles share an operand.
    flight = gpu_cores(hardware) * kernel.flight
    # The grid is walked along outputs first; what is left of the tiles in flight covers further rows, then further
    # matrices.
    columns = minimum(across, flight)
    panels = minimum(down, maximum(flight / across, 1.0))
    products = minimum(jnp.maximum(shape.matrices, 1.0), maximum(flight / (across * down), 1.0))
    # Different operand bytes of one wave: shared rows and columns are counted once, the L2 serves the others.
    wave = (columns * n + panels * m) * products * shape.inputs * op.operand_bytes
    once = shape.matrices * (_rows(op) + shape.outputs) * shape.inputs * op.operand_bytes
    # Every wave brings its own rows and columns; subtracting the first reading leaves the re-readings.
    again = jnp.maximum(wave * (shape.matrices * down * across / (columns * panels * products)) - once, 0.0)
    slow = 1.0 + kernel.unaligned * _unaligned(_rows(op), shape.inputs) * (1.0 - classes["amd"])
    if hardware.memory.l2 is not None:
        l2 = hardware.memory.l2.capacity
        # A re-reading hits where the wave's footprint is small against the L2.
        again = again * (wave / (wave + kernel.kept * l2))
        ratio = wave / (kernel.reach * l2)
        beyond = kernel.far * (ratio * ratio / (1.0 + ratio * ratio))
        one = jnp.where(shape.matrices > 1.0, 0.0, 1.0)
        # Pascal's kernels take one sector of many rows at once: the larger the footprint, the more of the rows' other
        # sectors the L2 has lost before they are used.
        slow = slow * (1.0 + classes["pascal"] * one * (kernel.scattered + beyond))
    return (once + again) * slow


def _written_bytes(kernel: SgemmKernel, op: Kernel, classes: dict[str, Scalar]) -> Array:
    """Bytes of the results, and as many more as rows of no multiple of `ALIGNED` take longer, shape ()."""
    shape = op.shape
    pieces = _unaligned(shape.outputs) * (1.0 - classes["amd"])
    return shape.rows * shape.outputs * shape.output_bytes * (1.0 + kernel.stored * pieces)


def _sustained_rate(kernel: SgemmKernel, op: Kernel, hardware: Hardware) -> Scalar:
    """FLOP/s of all cores in a main loop: a share of the peak, less what electrical power denies.

    excess = (peak J per FLOP (clock / REFERENCE_CLOCK)^2 issued + idle_power cores) / (LIMIT_SHARE tdp)
    rate = peak matrix / issued (1 - u busy (1 - (1 + excess^8)^(-1/8))),  u = t / (t + onset_time),  t = flops / peak
    issued: instructions over those of a main loop without single loads; each takes a slot and energy
    """
    single = _unaligned(_rows(op), op.shape.inputs) * hardware.cores.register_copies
    # Before copies to shared memory were asynchronous, unaligned operands are loaded word by word: more instructions.
    issued = 1.0 + kernel.single * single
    peak = matrix_peak(hardware, kernel_precision(op))
    best = peak * kernel.matrix / issued
    if hardware.power.tdp is None or hardware.energy is None:
        return best
    # P ~ f V^2 with V about proportional to f: energy per FLOP goes with the square of the clock.
    voltage = minimum(clock(hardware), HIGHEST_CLOCK) / REFERENCE_CLOCK
    drawn = peak * hardware.energy.matrix[kernel_precision(op)] * kernel.process_energy * (voltage * voltage * issued)
    excess = (drawn + kernel.idle_power * hardware.cores.count) / (LIMIT_SHARE * hardware.power.tdp)
    excess = jnp.minimum(jnp.maximum(excess, LEAST_EXCESS), MOST_EXCESS)  # float32 holds their eighth powers
    square = excess * excess
    fourth = square * square
    # min(1, 1 / excess) with a rounded corner: a product that would draw twice the limit runs at half the rate.
    capped = rsqrt(jnp.sqrt(jnp.sqrt(1.0 + fourth * fourth)))
    # Idle cores draw little: a product that leaves most of them without a tile is not throttled.
    busy = minimum(1.0, op.shape.rows * op.shape.outputs * (1.0 / LONE) / hardware.cores.count)
    # Power limits act on an average over milliseconds: short kernels end before they are felt.
    denied = (1.0 - capped) * busy * (op.matrix_flops / (op.matrix_flops + peak * kernel.onset_time))
    return best * (1.0 - denied)
