"""Time of streaming kernels: element-wise work, norms, copies and conversions."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, fixed_time, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar, number, part, static, struct
from jaxroof.op import Kernel
from jaxroof.units import busy_times


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
    wide_waves: Constants | None = part("where 64 threads run together", default=None)  # in place of those above
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def stream_timing(kernel: StreamKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run: its launches, and the slowest of its resources.

    time = kernels (launch_cycles / clock + launch_time) + max(cold bytes / bandwidth, vector, exp, matrix)

    `vector` is the longer of the operations and of the bytes that cores issue at `core_bytes` per cycle.
    """
    kernel = on_cores(kernel, hardware.cores, wide_waves=kernel.wide_waves)
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
    launch = op.kernels * (kernel.launch_cycles / clock(hardware) + kernel.launch_time)
    # Streaming kernels overlap perfectly by themselves: thousands of threads, each with loads in flight.
    return Timing(launch + maximum(*times.values()), {**times, "launch": launch})


def _cold_bytes(kernel: StreamKernel, op: Kernel, hardware: Hardware) -> Scalar:
    """B that HBM moves: all of a large op, few of one that L2 holds. bytes^3 / (bytes^2 + kept^2)"""
    l2 = hardware.memory.l2
    if kernel.residency is None or l2 is None:
        return op.bytes
    # Outputs of the kernel before are still in L2 where both are small: near 0 of the bytes move; large ones all do.
    ratio = op.bytes / (kernel.residency * l2.capacity)
    return op.bytes * (ratio * ratio / (1.0 + ratio * ratio))
