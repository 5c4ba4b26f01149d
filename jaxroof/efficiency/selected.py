"""Time of attention to listed keys: each query gathers the rows of the cache that were chosen for it."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import (
    Constants,
    Spread,
    Timing,
    clock_cycles,
    factor,
    fixed_time,
    joined,
    on_cores,
    reached,
)
from jaxroof.hardware import Hardware, clock, gpu_cores, matrix_peak
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, positive_part
from jaxroof.numerics.struct import Scalar, number, part, share, static, struct
from jaxroof.op import Kernel, kernel_precision
from jaxroof.units import unit_time

WIDE_BYTES = 2.0
"""B per element as such kernels multiply it; a narrower cache is converted on the way."""


@struct
class SelectedKernel:
    """Constants of one class of kernels of attention to listed keys."""

    launch_cycles: Scalar = clock_cycles("clock cycles per run", "launches inside a graph of it and the kernels around")
    launch_time: Scalar = fixed_time("time per run that no clock shortens")
    matrix: Scalar = reached("share of the matrix peak")
    least_rows: Scalar = number(
        "1", "query heads of a KV head that are multiplied at least", "others are zeros", most=1e4
    )
    padded: Scalar = share("share of a list's empty slots that is multiplied all the same", zero=True)
    short_padded: Scalar | None = share(
        "`padded` where the list has room for all of a sequence", "None: the same", zero=True, default=None
    )
    tail: Scalar = factor("times of one query's time on one core, which no number of cores shortens")
    least_slots: Scalar | None = number(
        "1", "keys that a list is filled up to", "None: to none", most=1e5, default=None
    )
    sequence_cycles: Scalar | None = clock_cycles(
        "clock cycles per sequence, one after the other", "None: none", default=None
    )
    scattered: Scalar = reached("share of HBM bandwidth at which scattered rows are read")
    low_cache: Scalar = factor("time of the products with a cache of 8 bits against one of 16", default=1.0, zero=False)
    low_padded: Scalar | None = share("`padded` with a cache of 8 bits", "None: the same", zero=True, default=None)
    low_rows: Scalar | None = number(
        "1",
        "query heads of a KV head from which a cache of 8 bits is converted before a kernel of 16 bits",
        "None: never",
        most=1e4,
        default=None,
    )
    asynchronous: Constants | None = part(
        "on asynchronous cores without tensor memory", default=None
    )  # in place of those above
    tensor_memory: Constants | None = part("on asynchronous cores with it", default=None)  # the same
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def selected_timing(kernel: SelectedKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run: launch, and products beside the reading of keys.

    slots = max(seen + padded (room - seen), least_slots),  rows = max(heads per KV head, least_rows)
    flops = 2 slots rows (key_width + value_width) per query and KV head
    compute = ((flops of all / peak)^4 + (tail flops of one cores / peak)^4)^(1/4) / matrix
    launch = (launch_cycles + sequence_cycles sequences) / clock + launch_time
    time = launch + hypot(compute, bytes / (scattered HBM))

    Args:
      kernel: constants.
      op: with an `AttentionShape` whose `slots` are the room of a list, and `pairs` over `queries` the mean seen.
      hardware: where it runs.

    Returns:
      Total and the seconds that each resource alone would take; 0 where nothing is launched. Differentiable.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.

    Source: one block of threads per query whose heads fill a matrix instruction, lists padded to their room:
    deepseek-ai/FlashMLA, README (sparse prefill and decoding kernels), 2025; the form is ours.
    """
    kernel = on_cores(kernel, hardware.cores, kernel.asynchronous, kernel.tensor_memory)
    shape, peak = op.shape, matrix_peak(hardware, kernel_precision(op))
    queries = shape.sequences * shape.queries
    some = jnp.where(shape.queries > 0.0, shape.queries, 1.0)
    seen = shape.pairs / some

    # compute: a query's heads are rows of one instruction, however few they are
    group = shape.heads / shape.kv_heads
    rows = maximum(group, kernel.least_rows)
    # A cache of 8 bits has kernels of its own, which may multiply every slot of a list, filled or not.
    missing = 0.0 if op.precision in LOW_PRECISIONS else positive_part(WIDE_BYTES - shape.kv_bytes)
    if kernel.low_rows is not None:
        missing = missing * (group < kernel.low_rows)
    padded = kernel.padded
    if kernel.low_padded is not None:
        padded = padded + missing * (kernel.low_padded - padded)
    if kernel.short_padded is not None:
        padded = jnp.where(shape.keys > shape.slots, padded, kernel.short_padded)
    slots = seen + padded * positive_part(shape.slots - seen)
    if kernel.least_slots is not None:
        slots = maximum(slots, kernel.least_slots)
    slower = 1.0 + missing * (kernel.low_cache - 1.0)
    flops = 2.0 * slots * rows * (shape.key_width + shape.value_width) * slower
    second = 1.0 / (peak * kernel.matrix)
    every = queries * shape.kv_heads * flops * second
    # One query of one KV head is one core's work: with fewer of them than cores the others idle.
    alone = op.kernels * kernel.tail * flops * second * gpu_cores(hardware)
    compute = joined(every, alone)
    times = {"matrix": every}

    # memory: rows that are scattered over pages; those that several queries choose stay in L2
    times["hbm"] = op.bytes * unit_time(hardware, "hbm", kernel.scattered)
    square = compute * compute + times["hbm"] * times["hbm"]
    # Double `where`: the root's slope at 0 is infinite.
    busy = jnp.where(square > 0.0, jnp.sqrt(jnp.where(square > 0.0, square, 1.0)), 0.0)
    cycles = kernel.launch_cycles
    if kernel.sequence_cycles is not None:
        cycles = cycles + shape.sequences * kernel.sequence_cycles
    times["launch"] = op.kernels * (cycles / clock(hardware) + kernel.launch_time)
    return Timing(times["launch"] + busy, times)
