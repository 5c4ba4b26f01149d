"""Time of streaming kernels: element-wise work, norms, copies and conversions."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, fixed_time, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum, minimum
from jaxroof.numerics.struct import Scalar, given, number, part, static, struct
from jaxroof.op import SERIAL_SHAPES, Kernel, WindowShape
from jaxroof.units import busy_times

LEAST_KEPT = 64.0
"""Times what L2 holds beyond which it holds nothing, to float32's precision."""


@struct
class StreamKernel:
    """Constants of one class of streaming kernels."""

    launch_cycles: Scalar = clock_cycles("clock cycles per kernel", "launch inside a graph, fill and drain")
    launch_time: Scalar = fixed_time("time per kernel that no clock shortens")
    bandwidth: Scalar = reached("share of HBM bandwidth")
    vector: Scalar = reached("share of the vector and special-function peaks")
    matrix: Scalar = reached("share of the matrix peak")
    core_bytes: Scalar | None = number(
        "B/clock/core",
        "bytes that a core reads and writes per clock cycle",
        "None: never binds",
        most=1e4,
        default=None,
    )
    residency: Scalar | None = reached(
        "share of L2 that holds what the kernels around it share with it", "None: nothing", default=None
    )
    exp: Scalar | None = reached("share of the special-function peak", "None: `vector`", default=None)
    lane_cycles: Scalar | None = clock_cycles(
        "clock cycles of a core per channel of a sequence and `lane_tokens` of its tokens",
        "None: never binds",
        default=None,
    )
    lane_tokens: Scalar = number(
        "1", "tokens that a channel's block of threads works on at once", most=1e6, default=512.0
    )
    wide_waves: Constants | None = part("where 64 threads run together", default=None)  # in place of those above
    asynchronous: Constants | None = part("on asynchronous cores without tensor memory", default=None)  # the same
    tensor_memory: Constants | None = part("on asynchronous cores with it", default=None)  # the same
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def stream_timing(kernel: StreamKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run: its launches, and the slowest of its resources.

    time = kernels (launch_cycles / clock + launch_time) + max(cold bytes / bandwidth, vector, exp, matrix)

    `vector` is the longest of the operations, of the bytes that cores issue at `core_bytes` per cycle, and of
    `lane_cycles` for every channel of a sequence of a short convolution and `lane_tokens` of its tokens, which such
    kernels give a block of threads each.
    """
    kernel = on_cores(kernel, hardware.cores, kernel.asynchronous, kernel.tensor_memory, kernel.wide_waves)
    cold = None if op.bytes is None else _cold_bytes(kernel, op, hardware)
    exp = kernel.vector if kernel.exp is None else kernel.exp
    times = busy_times(
        {"hbm": cold, "vector": op.vector_flops, "exp": op.exps, "matrix": op.matrix_flops},
        {"hbm": kernel.bandwidth, "vector": kernel.vector, "exp": exp, "matrix": kernel.matrix},
        hardware,
        op.precision,
    )
    if op.bytes is not None and kernel.core_bytes is not None:
        # Few cores cannot keep HBM busy: each has a limited number of loads and stores in flight (Little's law).
        issued = op.bytes / (gpu_cores(hardware) * clock(hardware) * kernel.core_bytes)
        times["vector"] = maximum(times["vector"], issued) if "vector" in times else issued
    if kernel.lane_cycles is not None and isinstance(op.shape, WindowShape):
        shape = op.shape
        lanes = shape.sequences * shape.channels * (1.0 + ceiling(shape.tokens / kernel.lane_tokens))
        laned = lanes * (kernel.lane_cycles / (gpu_cores(hardware) * clock(hardware)))
        times["vector"] = maximum(times["vector"], laned) if "vector" in times else laned
    launch = op.kernels * (kernel.launch_cycles / clock(hardware) + kernel.launch_time)
    # Streaming kernels overlap perfectly by themselves: thousands of threads, each with loads in flight.
    return Timing(launch + maximum(*times.values()), {**times, "launch": launch})


def _cold_bytes(kernel: StreamKernel, op: Kernel, hardware: Hardware) -> Scalar:
    """B that HBM moves: all of a large op, few of one that L2 holds. bytes^(1 + p) / (bytes^p + kept^p)

    p = 2. Ops of `SERIAL_SHAPES` move all, but where they run alone in a loop: p = 8, of their `reuse_bytes`.
    """
    l2, moved = hardware.memory.l2, given(op.bytes, "bytes of a streaming kernel")
    if kernel.residency is None or l2 is None:
        return moved
    # Outputs of the kernel before are still in L2 where both are small: near 0 of the bytes move; large ones all do.
    held = kernel.residency * l2.capacity
    if isinstance(op.shape, SERIAL_SHAPES):
        # These have a size of their own, which a least-recently-used cache either holds or does not.
        if op.reuse_bytes is None:
            return moved
        fourth = jnp.square(jnp.square(minimum(op.reuse_bytes / held, LEAST_KEPT)))
        square = fourth * fourth
    else:
        ratio = moved / held
        square = ratio * ratio
    return moved * (square / (1.0 + square))
