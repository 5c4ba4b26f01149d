"""Time of one grouped matrix product: rows spread over the experts of a layer, one weight matrix each."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.tiles import STEP_BYTES, TileCosts, matrix_time, sustained_rate
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, fixed_time, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum
from jaxroof.numerics.struct import Array, Scalar, number, part, share, static, struct
from jaxroof.op import Kernel, ProductShape, kernel_precision, stored_bytes
from jaxroof.units import cached_times

EVEN = 0.05
"""Least span, ln(busiest matrix's rows / idlest's), by which `row_tiles` divides; more even loads count as this one."""

SPAN_RATE = 0.9
"""Constant of `_span`; ours, for an error below 5 % of the span at any ratio."""

RESIDENT_BOUND = 50.0
"""Bound on the fourth power of how often weights fit into L2, beyond which 98 % of them are read from there."""


@struct
class GroupedKernel(TileCosts):
    """Constants of one class of grouped matrix products, the sorting and copying of rows by expert included."""

    launch_cycles: Scalar = clock_cycles(
        "clock cycles per product", "launch of it and of the kernels that sort rows by expert"
    )
    launch_time: Scalar = fixed_time("time per product that no clock shortens")
    matrix_cycles: Scalar = clock_cycles("clock cycles per weight matrix that has rows", "descriptors, prefix sums")
    step_time: Scalar = fixed_time(
        "time per `STEP_BYTES` of inputs that the first tile waits for", "one step after the other"
    )
    bandwidth: Scalar = reached("share of HBM bandwidth")
    cache_bandwidth: Scalar = reached("share of L2 bandwidth")
    contention: Scalar = share(
        "contention of matrix units and memory",
        "0: they add as a hypotenuse; 1: they take turns",
        zero=True,
    )
    weight_residency: Scalar = reached("share of L2 that holds weights from one reading to the next", zero=True)
    activation_residency: Scalar = reached(
        "share of L2 that holds activations between the kernels around the product", zero=True
    )
    copy_cycles: Scalar = clock_cycles(
        "clock cycles of a core per byte of inputs and outputs that kernels around the product copy", unit="clock/B"
    )
    copies: Scalar | None = factor(
        "times that kernels around the product move its inputs and outputs", "None: none", default=None
    )
    overlapped: Scalar | None = share(
        "share by which compute and memory time add as a norm of order 4 where asynchronous",
        "0: as `contention` says",
        zero=True,
        default=None,
    )
    fused: Scalar | None = share(
        "share of the launches that kernels for matrix units with a memory of their own save", zero=True, default=None
    )
    coarse_rows: Scalar | None = number(
        "1", "mean rows per matrix about which tiles get coarse", "None: they never do", most=1e4, default=None
    )
    coarse_lines: Scalar | None = factor(
        "extra fraction of the weights that coarse tiles read", "by half cache lines", default=None
    )
    asynchronous: Constants | None = part(
        "on asynchronous cores without tensor memory", default=None
    )  # in place of those above
    tensor_memory: Constants | None = part("on asynchronous cores with it", default=None)  # the same
    wide_waves: Constants | None = part("where 64 threads run together", default=None)  # the same
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def grouped_timing(kernel: GroupedKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run of `op`, which has a `ProductShape`: 0 where it has no rows.

    time = launch + sqrt(c^2 + h^2 + 2 contention c h + d^2) + copy_cycles activations / (cores clock)
    launch = (launch_cycles + matrix_cycles matrices) / clock + launch_time
    c = matrix_time over the tiles of all matrices,  h = bytes from HBM and L2 at their shares
    d = step_time steps: a tile cannot be done before all of its inputs have arrived, one step after the other

    Kernels that choose tiles by the mean rows of a matrix, as Triton's do, take coarse ones of half as long steps from
    about `coarse_rows` on: with x = (mean rows / coarse_rows)^2, steps count 1 + x / (1 + x) times, and weights are
    read as if they had 1 + coarse_lines x / (1 + x) times their bytes.
    """
    # Engines run other kernels on some classes of cores: each has constants of its own.
    kernel = on_cores(kernel, hardware.cores, kernel.asynchronous, kernel.tensor_memory, kernel.wide_waves)
    shape = op.shape
    sustained = op.reuse_bytes is None
    weights = stored_bytes(shape)
    # Never below 0: the difference of two large sums may round so.
    activations = jnp.maximum(op.bytes - weights, 0.0)
    coarse = _coarse(kernel, shape, hardware)

    # c: tiles of all matrices on the cores
    flops, results = op.matrix_flops, shape.rows * shape.outputs
    precision = kernel_precision(op)
    rate = sustained_rate(kernel, flops, hardware, precision, op.operand_bytes, sustained, results)

    def tiles(rows: float) -> Array:
        return row_tiles(shape, rows)

    core = matrix_time(kernel, hardware, rate, precision, op.operand_bytes, tiles, shape.outputs, shape.inputs)

    # h: weights, more of them where coarse tiles read half lines, and activations
    read = weights if coarse is None else weights * (1.0 + kernel.coarse_lines * coarse)
    # Activations of the expert layer have passed the L2 moments ago: gather, product and scatter follow one another.
    hbm, l2 = _memory_times(kernel, read, activations, op.reuse_bytes, hardware)
    moved = hbm + l2

    # d: steps along the inputs of one tile, one after the other
    delay = kernel.step_time * ceiling(shape.inputs * op.operand_bytes * (1.0 / STEP_BYTES))
    if coarse is not None:
        delay = delay * (1.0 + coarse)

    # Three delays in quadrature: the longest dominates, near ties cost up to sqrt(3) of it.
    body = jnp.sqrt(_together(kernel, core, moved, hardware) + delay * delay)
    # Gather by expert, activation function and weighted scatter around the products, spread over all cores.
    copied = kernel.copy_cycles * activations / (gpu_cores(hardware) * clock(hardware))
    if kernel.copies is not None:
        copied = copied + kernel.copies * sum(_memory_times(kernel, 0.0, activations, None, hardware))
    cycles = kernel.launch_cycles + kernel.matrix_cycles * shape.matrices
    started = cycles / clock(hardware) + kernel.launch_time
    # Fused MoE kernels on such cores sort, multiply and combine in fewer launches.
    if kernel.fused is not None:
        started = started * (1.0 - kernel.fused * hardware.cores.tensor_memory)
    launch = op.kernels * started
    times = {"matrix": op.kernels * core, "hbm": op.kernels * hbm, "l2": op.kernels * (l2 + copied)}
    return Timing(launch + op.kernels * (body + copied), {**times, "launch": launch + op.kernels * delay})


def row_tiles(shape: ProductShape, tile: float) -> Array:
    """Tiles of `tile` rows that the matrices' rows need, shape (): each matrix's number is rounded up.

    Where `largest` is known, the logarithms of the matrices' rows are spread evenly over a span s, as those of a power
    law of exponent 1 are: least = largest e^-s and mean rows = (largest - least) / s. The mean tiles of a matrix are

    1 + (largest / tile - 1) / s - ln(largest / tile) / (2 s)    while the least is below a tile
    rows / tile + 1 / 2                                          where it is not
    """
    scale = 1.0 / tile
    rows = shape.rows / jnp.maximum(shape.matrices, 1e-6)
    if shape.largest is None:
        # Even routing: every matrix has the mean, rounded up to whole tiles, of at least one.
        return shape.matrices * ceiling(maximum(rows * scale, 1.0))
    # Skewed routing, Zipf-like: the span is the log of the ratio of busiest to idlest expert.
    span = _span(jnp.maximum(shape.largest / jnp.maximum(rows, 1e-6), 1.0))
    # Matrices with less than one tile of rows take one; the others follow the integral of the power law.
    over = jnp.maximum(shape.largest * scale, 1.0)
    # Mean over ln(rows) uniform on the span of max(1, rows / tile + 1 / 2), rounding up costing half a tile on average.
    partly = 1.0 + (over - 1.0 - 0.5 * jnp.log(over)) / span
    least = shape.largest * scale * jnp.exp(-span)
    return shape.matrices * jnp.where(least < 1.0, partly, rows * scale + 0.5)


def _span(ratio: Scalar) -> Array:
    """The span s with `ratio` = s / (1 - e^-s), busiest over mean rows: about ratio - e^(0.9 (1 - ratio)), shape ()."""
    return jnp.maximum(ratio - jnp.exp(SPAN_RATE - SPAN_RATE * ratio), EVEN)


def _together(kernel: GroupedKernel, core: Scalar, moved: Scalar, hardware: Hardware) -> Array:
    """Square of the time of matrix units and memory that run at once, shape ().

    c^2 + h^2 + 2 contention c h with threads that feed the matrix units; where these fetch by themselves, from there
    to sqrt(c^4 + h^4) by the share `overlapped`.
    """
    matrix, memory = core * core, moved * moved
    # contention 1 is the sum (units take turns), 0 the hypotenuse (partial overlap).
    taken = matrix + memory + 2.0 * kernel.contention * core * moved
    if kernel.overlapped is None:
        return taken
    share = kernel.overlapped * hardware.cores.asynchronous
    # Linear in the square between the two cases, so that `overlapped` may be fitted between 0 and 1.
    return taken + share * (jnp.sqrt(matrix * matrix + memory * memory) - taken)


def _coarse(kernel: GroupedKernel, shape: ProductShape, hardware: Hardware) -> Array | None:
    """x / (1 + x), x = (mean rows / coarse_rows)^2: 0 at few rows per matrix, 1 at many; None without `coarse_rows`.

    0 where matrix units have a memory of their own: other kernels run there.
    """
    if kernel.coarse_rows is None:
        return None
    # A sigmoid in log rows: heuristics of Triton's kernels switch block sizes at a threshold that depends on the shape.
    ratio = shape.rows / (jnp.maximum(shape.matrices, 1e-6) * kernel.coarse_rows)
    return (1.0 - hardware.cores.tensor_memory) * (ratio * ratio / (1.0 + ratio * ratio))


def _memory_times(
    kernel: GroupedKernel, weights: Scalar, activations: Scalar, reuse: Scalar | None, hardware: Hardware
) -> tuple[Scalar, Scalar]:
    """Time in s of bytes from HBM, and of those that L2 still holds from an earlier kernel or reading.

    Of activations the share kept^2 / (kept^2 + bytes^2) is in L2, kept = activation_residency times its capacity; of
    weights fit^4 / (1 + fit^4), fit = weight_residency capacity / reuse_bytes.
    """
    memory, total = hardware.memory, weights + activations
    if memory.l2 is None:
        return cached_times(hardware, kernel.bandwidth, kernel.cache_bandwidth, total, 0.0)
    # Saturating share: activations below the kept capacity hit, those far above it miss.
    kept = kernel.activation_residency * memory.l2.capacity
    warm = activations * (kept * kept / (kept * kept + total * total))
    if reuse is not None:
        # Weights of all experts pass between two readings of one, so the ratio of capacity to that working set decides.
        fit = kernel.weight_residency * memory.l2.capacity / jnp.maximum(reuse, 1.0)
        fourth = jnp.minimum((fit * fit) * (fit * fit), RESIDENT_BOUND)
        warm = warm + weights * (fourth / (1.0 + fourth))
    return cached_times(hardware, kernel.bandwidth, kernel.cache_bandwidth, total, warm)


def published() -> GroupedKernel:
    """Constants from published figures alone; no table of kernels was fitted. Fields without a source are ours."""
    return GroupedKernel(
        matrix=0.8,  # cuBLAS and CUTLASS reach 75 to 80 % in large products: NVIDIA/cutlass, README, performance
        tile_cycles=1500.0,  # first load, 500 to 800 cycles to HBM, and stores: Luo et al., arXiv:2402.13499
        small=0.3,  # a 128 x 128 tile loses 15 % of a large one's rate
        softness=0.7,
        energy=1.0e-12,  # J per FLOP: A100's 400 W over 312 TFLOP/s, less what memory takes
        energy_rate=2.9e12,  # its 16-bit FLOP/s of one core
        power=0.85,
        onset_time=1e-3,  # power management acts within milliseconds
        overlap=0.0,  # ours: sorted rows leave no time of tiles to hide
        launch_cycles=9000.0,  # two or three kernels of 2 us: NVIDIA, Getting Started with CUDA Graphs
        launch_time=0.5e-6,
        matrix_cycles=10.0,
        step_time=0.25e-6,  # HBM latency of 0.5 to 0.8 us with three stages in flight: arXiv:2402.13499
        bandwidth=0.88,  # STREAM on GPUs: 85 to 92 %, BabelStream
        cache_bandwidth=0.7,
        contention=0.1,
        weight_residency=0.8,
        activation_residency=0.5,
        copy_cycles=1.0 / 16.0,  # two passes of 32 B per clock and core, half of what L2 gives: arXiv:2402.13499
    )
