"""Time of recurrent states: chunks of a prompt one after another, or one update per decoded token."""

from typing import NamedTuple

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.stream import LEAST_KEPT
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, fixed_time, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum, minimum, positive_part
from jaxroof.numerics.struct import Scalar, number, part, static, struct
from jaxroof.op import Kernel, StateShape, state_pass_bytes
from jaxroof.units import busy_times, cached_times

ALIVE = 3.0
"""Rows of keys and values per state that kernels of one run keep for the next one at a time; ours: keys and values,
what a chunk makes of them, and states by chunk."""


@struct
class StateKernel:
    """Constants of one class of kernels that change recurrent states."""

    launch_cycles: Scalar = clock_cycles("clock cycles of a run without work", "of all kernels that it consists of")
    launch_time: Scalar = fixed_time("time of a run without work that no clock shortens", default=0.0)
    row_cycles: Scalar = clock_cycles(
        "clock cycles per token of the first chunk", "rows of a chunk's triangle are solved one after another"
    )
    step_cycles: Scalar = clock_cycles("clock cycles that one state takes per chunk, one after another")
    states: Scalar = number("1", "states that a core works on at once", most=64.0)
    spill: Scalar = factor("times that rows of keys and values of every state pass memory between kernels")
    copies: Scalar = factor("times that states move in place of once per pass", "as engines gather and scatter them")
    bandwidth: Scalar = reached("share of HBM bandwidth")
    cache_bandwidth: Scalar = reached("share of L2 bandwidth")
    core_bytes: Scalar = number("B/clock/core", "bytes that a core reads and writes per clock cycle", most=1e4)
    resident: Scalar = reached("share of L2 capacity that keeps what is read again", zero=True)
    around_time: Scalar | None = fixed_time(
        "time of launches of small kernels around it in an engine", "tables of it alone lack it", default=None
    )
    asynchronous: Constants | None = part(
        "on asynchronous cores without tensor memory", default=None
    )  # in place of those above
    tensor_memory: Constants | None = part("on asynchronous cores with it", default=None)  # the same
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def state_timing(kernel: StateKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run in s: launches, chunks one after another, and what moves.

    time = launch + row_cycles min(tokens, chunk) / clock + max(serial, moved(streamed)) + moved(copied + spilled)
    serial = ceil(sequences states / (cores states at once)) ceil(tokens / chunk) step_cycles / clock
    moved(bytes) = max(cold / HBM + warm / L2, bytes / (cores clock core_bytes))
    streamed = rows + min(copies, 1) passes x states, copied = max(copies - 1, 0) passes x states
    spilled = spill x tokens x states x (key_width + value_width) x row_bytes

    Chunks of one sequence follow each other, states of heads and sequences run side by side: few of them leave cores
    idle. Kernels that are not fused write what a chunk makes of its keys and values and read it again (`spill`).

    Args:
      kernel: constants.
      op: with a `StateShape`. Where its `reuse_bytes` are None, rows and states come from HBM; else L2 has the share
        that `_kept` says. What is spilled is read again soon, so that L2 has it where it fits.
      hardware: where it runs. Without an L2 all bytes come from HBM.

    Returns:
      Total and the seconds that each resource alone would take, shapes (). 0 where nothing is launched. Differentiable;
      counts have the gradient of the smooth count.

    Source: Yang et al., arXiv:2406.06484, section 3 (chunks in parallel but for their states); Yang & Zhang,
    flash-linear-attention (kernels per pass); the form and its constants are ours.
    """
    kernel = on_cores(kernel, hardware.cores, kernel.asynchronous, kernel.tensor_memory)
    shape: StateShape = op.shape
    cycle, cores = 1.0 / clock(hardware), gpu_cores(hardware)

    # Serial part: rounds of states, and the chunks of each, which wait for the state before.
    rounds = ceiling(shape.sequences * shape.states / (cores * kernel.states))
    chunks = ceiling(shape.tokens / shape.chunk)
    serial = rounds * chunks * kernel.step_cycles * cycle

    # Beside the chunks: rows of tokens, and states once per pass. Before and after: further copies of states, and what
    # kernels of one run write for each other.
    states = shape.passes * state_pass_bytes(shape)
    streamed = op.bytes - states * positive_part(1.0 - kernel.copies)
    row = shape.sequences * shape.tokens * shape.states * (shape.key_width + shape.value_width) * shape.row_bytes
    spilled, copied = kernel.spill * row, positive_part(kernel.copies - 1.0) * states
    # Memory that one kernel frees is what the next one is given.
    alive = minimum(kernel.spill, ALIVE) * row
    kept = 0.0 if op.reuse_bytes is None else _kept(kernel, hardware, op.reuse_bytes + alive)
    beside = _moved(kernel, hardware, streamed, kept)
    apart = _moved(kernel, hardware, spilled, _kept(kernel, hardware, alive))
    apart = _Moved(*(a + b for a, b in zip(apart, _moved(kernel, hardware, copied, kept), strict=True)))
    work = {"matrix": op.matrix_flops, "vector": op.vector_flops, "exp": op.exps}
    times = busy_times(work, dict.fromkeys(work, 1.0), hardware, op.precision)

    rows = kernel.row_cycles * minimum(shape.tokens, shape.chunk)
    launch = kernel.launch_time + (kernel.launch_cycles + rows) * cycle
    if kernel.around_time is not None and op.reuse_bytes is None:
        launch = launch + kernel.around_time
    launch = op.kernels * launch
    total = launch + maximum(serial, beside.time) + apart.time
    # No unit is faster than its datasheet's figure.
    total = maximum(total, *times.values())
    times["vector"] = maximum(times.get("vector", 0.0), serial, beside.issued + apart.issued)
    return Timing(total, {**times, "hbm": beside.hbm + apart.hbm, "l2": beside.l2 + apart.l2, "launch": launch})


class _Moved(NamedTuple):
    """Time in s of bytes, shapes ()."""

    time: Scalar
    hbm: Scalar
    l2: Scalar
    issued: Scalar  # by the cores


def _moved(kernel: StateKernel, hardware: Hardware, moved: Scalar, kept: Scalar) -> _Moved:
    """Time in s of `moved` B of which L2 has the share `kept`; cores issue no more than `core_bytes` per cycle."""
    hbm, l2 = cached_times(hardware, kernel.bandwidth, kernel.cache_bandwidth, moved, moved * kept)
    issued = moved / (gpu_cores(hardware) * clock(hardware) * kernel.core_bytes)
    return _Moved(maximum(hbm + l2, issued), hbm, l2, issued)


def _kept(kernel: StateKernel, hardware: Hardware, touched: Scalar) -> Scalar:
    """Share that is still in L2 after `touched` B: 1 / (1 + (touched / (resident capacity))^8); 0 without an L2."""
    if hardware.memory.l2 is None:
        return 0.0
    # Guarded: a kernel with no residency keeps nothing, and its gradient stays finite.
    capacity = jnp.maximum(kernel.resident * hardware.memory.l2.capacity, 1.0)
    # A sharp transition, as of a least-recently-used cache that is read cyclically.
    fourth = jnp.square(jnp.square(minimum(touched / capacity, LEAST_KEPT)))
    return 1.0 / (1.0 + fourth * fourth)
