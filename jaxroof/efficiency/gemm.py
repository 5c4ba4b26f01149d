"""Time of one dense matrix product: the best of a few tiles and splits, weights from device memory or from L2."""

import dataclasses

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.tiles import TileCosts, matrix_time, sustained_rate
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores
from jaxroof.numerics.arrays import is_traced, jnp
from jaxroof.numerics.smooth import ceiling, cheapest, cheapest_of
from jaxroof.numerics.struct import Array, Scalar, given, part, static, struct
from jaxroof.op import Kernel, kernel_precision, stored_bytes
from jaxroof.units import cached_times, unit_time

RESIDENT_BOUND = 50.0
"""Bound on the square of how often weights fit into L2: beyond it all of them stay there, to float32's precision."""

SPLITS = (1.0, 4.0, 8.0)
"""Parts that a kernel may cut the inputs into, so that few tiles still fill all cores."""

PARTIAL_BYTES = 4.0
"""B of a partial sum, float32."""


@struct
class GemmKernel(TileCosts):
    """Constants of one class of matrix products."""

    launch_cycles: Scalar = clock_cycles("clock cycles per kernel", "launch inside a graph, fill and drain")
    bandwidth: Scalar = reached("share of HBM bandwidth")
    cache_bandwidth: Scalar = reached("share of L2 bandwidth")
    contention: Scalar = factor(
        "contention of matrix units and memory in short kernels", "0: a norm of order 4, 1: of order 2, 7: a sum"
    )
    ramp_cycles: Scalar = clock_cycles("clock cycles in which memory and its overlap with the matrix units get going")
    weight_residency: Scalar = reached("share of L2 that holds weights from one reading to the next", zero=True)
    activation_residency: Scalar = reached(
        "share of L2 that holds activations between the kernels around the product", zero=True
    )
    split_cycles: Scalar = clock_cycles("clock cycles of adding up partial sums")
    split_traffic: Scalar = factor("times that a partial sum's bytes pass device memory")
    row_cycles: Scalar | None = clock_cycles(
        "clock cycles of one core per row", "a block of its own that prepares it; None: none", default=None
    )
    fetch: Scalar | None = factor(
        "extra fraction of `bandwidth` that asynchronous cores reach", "None: none", default=None
    )
    software_row_cycles: Scalar | None = clock_cycles(
        "further clock cycles per row where matrix units are not asynchronous", "None: none", default=None
    )
    packing_cycles: Scalar | None = clock_cycles(
        "clock cycles of a kernel that lays scales out for a tensor memory", "None: none", default=None
    )
    step_bandwidth: Scalar | None = reached(
        "share of HBM bandwidth in steps, where one product's weights follow another's", "None: as alone", default=None
    )
    winograd: Scalar | None = reached(
        "share of a product's rate that those of minimal filtering reach", "None: unused", default=None
    )
    tensor_memory: Constants | None = part("on cores with a tensor memory", default=None)  # in place of those above
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def gemm_timing(kernel: GemmKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run of `op`, which has a `ProductShape`.

    time = launch_cycles / clock + (c^4 + h^4 + 2 q c^2 h^2)^(1/4) + row_cycles rows / (cores clock)
    c = min over splits s: matrix_time at s + [s > 1] partial sums
    h = t + t r / (t + r),  t = bytes from HBM and L2 at their shares,  r = ramp_cycles / clock
    q = contention r / (r + c + h)

    The last term is of rows with scales of their own (`ProductShape.row_scales`).
    """
    # Some constants hold in steps alone: kernels that are timed by themselves, with known `reuse_bytes`, keep the
    # general ones.
    if op.reuse_bytes is None:
        kernel = on_cores(kernel, hardware.cores, tensor_memory=kernel.tensor_memory)
        if kernel.step_bandwidth is not None:
            kernel = dataclasses.replace(kernel, bandwidth=kernel.step_bandwidth)

    # h: bytes from HBM and L2, and a ramp r until all loads are in flight
    hbm, l2 = _memory_times(kernel, op, hardware)
    ramp = kernel.ramp_cycles / clock(hardware)
    moved = hbm + l2
    # t r / (t + r): short kernels wait as long again as they load, long ones lose r at most: pipelines fill once.
    moved = moved + moved * (ramp / (moved + ramp))

    # c and h beside each other, contending while pipelines fill
    matrix = _matrix_time(kernel, op, hardware)
    # A norm of order 4 is close to the maximum: long kernels overlap compute and memory nearly fully, as the roofline
    # says.
    best = _together(matrix, moved, kernel.contention * ramp / (ramp + matrix + moved))
    if kernel.row_cycles is not None and op.shape.row_scales:
        cores = gpu_cores(hardware) * clock(hardware)
        # Quantisation of activations: each row's largest element is found and its scale applied, by a block of its own.
        best = best + op.shape.rows * (_row_cycles(kernel, hardware) / cores)
    cycles = kernel.launch_cycles
    if kernel.packing_cycles is not None:
        # Scales of blocks have to be laid out for the tensor memory by one more kernel.
        cycles = cycles + kernel.packing_cycles * hardware.cores.tensor_memory
    launch = op.kernels * cycles / clock(hardware)
    return Timing(
        launch + op.kernels * best,
        {"matrix": op.kernels * matrix, "hbm": op.kernels * hbm, "l2": op.kernels * l2, "launch": launch},
    )


def _matrix_time(kernel: GemmKernel, op: Kernel, hardware: Hardware) -> Array:
    """c: time in s on the cores, by the best of `SPLITS` of the inputs; partial sums of splits are added up."""
    shape = op.shape
    sustained = op.reuse_bytes is None
    flops, results = op.matrix_flops, shape.rows * shape.outputs
    precision = kernel_precision(op)
    rate = sustained_rate(kernel, flops, hardware, precision, op.operand_bytes, sustained, results)
    # Rows per matrix: a batched product rounds each matrix's rows up to whole tiles.
    rows = shape.rows / jnp.maximum(shape.matrices, 1.0)

    def row_tiles(tile: float) -> Array:
        return shape.matrices * ceiling(rows * (1.0 / tile))

    # Split-K: more tiles fill idle cores when m and n are small and k is long, but each split writes a float32 partial
    # result that has to be summed.
    adding = kernel.split_cycles / clock(hardware)
    partial_sum = shape.rows * shape.outputs * (PARTIAL_BYTES * kernel.split_traffic * unit_time(hardware, "hbm"))

    def candidate(splits: Scalar, of_tiles: Scalar) -> Scalar:
        """Time with the inputs in so many parts; `of_tiles` is the same number beside an axis of tiles."""
        sizes = shape.outputs, shape.inputs, of_tiles
        core = matrix_time(kernel, hardware, rate, precision, op.operand_bytes, row_tiles, *sizes)
        return core + jnp.where(splits > 1.0, adding + splits * partial_sum, 0.0)

    if is_traced():
        splits = jnp.asarray(SPLITS, dtype=float)
        return cheapest_of(candidate(splits, splits[None]))
    return cheapest(*(candidate(splits, splits) for splits in SPLITS))


def _together(matrix: Scalar, moved: Scalar, contention: Scalar) -> Array:
    """Time of matrix units and memory that run at once: (c^4 + h^4 + 2 q c^2 h^2)^(1/4), q = contention, shape ().

    A norm of order 4 at q = 0 and of order 2 at q = 1; about the sum at q = 7.
    """
    # Squares first: c^4 of microseconds is 1e-24, still in the range of float32, where eighth powers would not be.
    matrix, moved = matrix * matrix, moved * moved
    return jnp.sqrt(jnp.sqrt(matrix * matrix + moved * moved + 2.0 * contention * matrix * moved))


def _row_cycles(kernel: GemmKernel, hardware: Hardware) -> Scalar:
    """Cycles of one core that prepare one row."""
    if kernel.software_row_cycles is None:
        return kernel.row_cycles
    return kernel.row_cycles + kernel.software_row_cycles * (1.0 - hardware.cores.asynchronous)


def _memory_times(kernel: GemmKernel, op: Kernel, hardware: Hardware) -> tuple[Scalar, Scalar]:
    """Time in s of bytes from HBM, and of those that L2 still holds from an earlier kernel or reading.

    Of activations the share kept^2 / (kept^2 + bytes^2) is in L2, kept = activation_residency times its capacity; of
    weights fit^8 / (1 + fit^8), fit = weight_residency capacity / reuse_bytes.
    """
    shape, memory = op.shape, hardware.memory
    weights = stored_bytes(shape)
    moved = given(op.bytes, "bytes of a matrix product")
    activations = moved - weights
    bandwidth = kernel.bandwidth
    if kernel.fetch is not None:
        bandwidth = bandwidth * (1.0 + kernel.fetch * hardware.cores.asynchronous)
    if memory.l2 is None:
        return cached_times(hardware, bandwidth, kernel.cache_bandwidth, moved, 0.0)
    kept = kernel.activation_residency * memory.l2.capacity
    warm = activations * (kept * kept / (kept * kept + moved * moved))
    if op.reuse_bytes is not None:
        # What is touched between two readings of the same weights evicts them as it nears the L2's capacity.
        fit = kernel.weight_residency * memory.l2.capacity / jnp.maximum(op.reuse_bytes, 1.0)
        square = jnp.minimum(fit * fit, RESIDENT_BOUND)
        eighth = (square * square) * (square * square)
        warm = warm + weights * (eighth / (1.0 + eighth))
    return cached_times(hardware, bandwidth, kernel.cache_bandwidth, moved, warm)


def published() -> GemmKernel:
    """Constants that are not fitted to tables of kernels: micro-architecture and published microbenchmarks."""
    return GemmKernel(
        matrix=0.95,  # NVIDIA, CUTLASS 3.x README, peak figures: 90 to 95 % of the clock-limited peak for large tiles
        tile_cycles=1500.0,  # two HBM latencies of 480 to 660 cycles, Luo et al., arXiv:2402.13499, and the stores
        store_cycles=1500.0,  # ours: 32 KiB of results, shared memory twice at 128 B per clock, to L2 at 32 B
        overlap=0.6,  # warp-specialised persistent kernels hide the epilogue and most of the fill
        small=0.3,  # both operands of a 128 x 128 tile at 128 B per clock of shared memory beside the main loop
        softness=0.7,  # between 1, a wave that is always full length, and 0.5, an even mix of lengths
        energy=0.75e-12,  # (0.85 x 350 - 142 x 0.7) W over 0.73 x 362 TFLOP/s of L40S, the latter share ours
        idle_power=0.7,  # ours: about 100 W of a large GPU with its clocks up, spread over its cores
        energy_rate=2.55e12,  # 16-bit FLOP/s of one core of L40S, datasheet
        power=0.85,  # of the limit; memory, L2 and leakage take the rest
        onset_time=3e-4,  # tens of repetitions of a kernel fill the window over which boards average power
        launch_cycles=4400.0,  # 2.2 to 2.5 us in a CUDA graph near 1.8 GHz, NVIDIA's figures of graph launches
        bandwidth=0.82,  # STREAM-like readings reach 80 to 92 % of HBM's datasheet
        fetch=0.06,  # ours: such readings are 85 to 92 % on Hopper, 80 to 87 % on GPUs before it
        cache_bandwidth=0.4,  # L2 read rates of one kernel pass: half of the slices are far, Luo et al.
        contention=3.0,  # ours: between a hypotenuse and a sum while pipelines fill
        ramp_cycles=2000.0,  # ours: three to four HBM latencies until all loads are in flight
        weight_residency=0.95,  # ours: set-associative caches keep most of a working set that nearly fits
        activation_residency=0.6,
        split_cycles=2800.0,  # one more kernel, or a grid-wide wait, of two HBM round trips and a launch
        step_cycles=100.0,  # ours: L2 latency of 200 to 270 cycles, Luo et al., with two to three stages in flight
        split_traffic=0.67,  # partial sums are written and read once, most of them in L2
    )
