"""Time of one op on one device, and what binds it: the slowest of its resources over a memory hierarchy."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxroof.collectives import collective_algorithm, collective_time
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.op import BOUNDS, Op
from jaxroof.smooth import maximum
from jaxroof.struct import Scalar

ACCUMULATOR_BYTES = 4.0
"""B of one float32 accumulator in registers."""

# Functions of one op are jitted so that a step, which has many ops of few kinds, is traced once per kind.


def resource_times(op: Op, hardware: Hardware, efficiency: Efficiency) -> dict[str, Scalar]:
    """Time in s that each resource needs for one run of `op`, by its name in `BOUNDS`.

    Only resources that the op uses and the hardware has figures for appear. Rates are derated by
    `efficiency` for the op's kind; `launch` is the fixed time of its kernels. A collective has no `launch`: its
    fixed time depends on the algorithm that is chosen, and is part of `link`.

    Args:
      op: what runs, quantities of shape ().
      hardware: where it runs.
      efficiency: how far it falls short of the datasheet.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.

    Source: Williams, Waterman & Patterson, CACM 52(4), 2009, applied to each unit and memory level;
    the traffic of a matrix product through each level is `matrix_traffic`.
    """
    if op.kind == "collective":
        return {"link": op.kernels * collective_time(hardware.links, op, efficiency.collective)}

    derate = getattr(efficiency, op.kind)
    memory, cores = hardware.memory, hardware.cores
    times = {}
    # Quantity times seconds per unit: the reciprocal is the same for all ops of a kind and is computed once for them.
    if op.matrix_flops is not None:
        share = derate.matrix_low if op.precision in LOW_PRECISIONS else derate.matrix
        times["matrix"] = op.matrix_flops * (1.0 / (matrix_peak(hardware, op.precision) * share))
    if op.vector_flops is not None:
        times["vector"] = op.vector_flops * (1.0 / (cores.count * cores.vector_flops * derate.vector))
    if op.exps is not None and cores.exp_rate is not None:
        times["exp"] = op.exps * (1.0 / (cores.count * cores.exp_rate * derate.vector))
    if op.bytes is not None:
        inner = memory.l2 or memory.scratchpad
        moved = matrix_traffic(op, inner and inner.capacity, op.operand_bytes)
        times["hbm"] = moved * (1.0 / (memory.hbm.bandwidth * derate.bandwidth))
        if memory.l2 is not None:
            moved = matrix_traffic(op, memory.scratchpad and memory.scratchpad.capacity, op.operand_bytes)
            times["l2"] = moved * (1.0 / (memory.l2.bandwidth * derate.cache_bandwidth))
        if memory.scratchpad is not None:
            moved = matrix_traffic(op, memory.register_capacity, ACCUMULATOR_BYTES)
            times["scratchpad"] = moved * (1.0 / (cores.count * memory.scratchpad.bandwidth * derate.cache_bandwidth))
    times["launch"] = op.kernels * derate.kernel_time
    return times


@jax.jit
def op_time(op: Op, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
    """Time in s of one run of `op`, shape (): its kernels' fixed time plus the slowest of its resources.

    Differentiable; near a ridge the gradient is shared by the resources that meet there.
    """
    times = resource_times(op, hardware, efficiency)
    launch = times.pop("launch", 0.0)
    return launch + maximum(*times.values())


@jax.jit
def op_algorithm(op: Op, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
    """The algorithm that a collective runs, shape (): an int8 index into `jaxroof.collectives.ALGORITHMS`; else -1."""
    if op.kind != "collective":
        return jnp.int8(-1)
    return collective_algorithm(hardware.links, op, efficiency.collective)


@jax.jit
def op_bound(op: Op, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
    """What takes longest in one run of `op`, shape (): an int8 index into `BOUNDS`.

    `launch` binds where the fixed time exceeds every resource's; in a collective, where the same collective of
    0 B takes more than half as long. An op without work reports `launch`.
    """
    return _longest(_rivals(op, hardware, efficiency, resource_times(op, hardware, efficiency)))


@jax.jit
def op_time_by_bound(op: Op, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
    """`op_time` in s at the place of what binds it and 0 elsewhere, shape (len(BOUNDS),)."""
    times = resource_times(op, hardware, efficiency)
    bound = _longest(_rivals(op, hardware, efficiency, times))
    total = times.pop("launch", 0.0) + maximum(*times.values())
    return jnp.where(jnp.arange(len(BOUNDS), dtype=jnp.int8) == bound, total, 0.0)


def _rivals(op: Op, hardware: Hardware, efficiency: Efficiency, times: dict[str, Scalar]) -> dict[str, Scalar]:
    """The times that compete for binding `op`: its resources', and the fixed time, which a collective has inside."""
    if op.kind != "collective":
        return times
    fixed = resource_times(dataclasses.replace(op, message_bytes=0.0), hardware, efficiency)["link"]
    return {"launch": fixed, "link": times["link"] - fixed}


def _longest(times: dict[str, Scalar]) -> jax.Array:
    """Index into `BOUNDS` of the longest of `times`; the fixed time where none is longer."""
    longest, bound = times["launch"], jnp.int8(BOUNDS.index("launch"))
    for resource, time in times.items():
        bound = jnp.where(time > longest, jnp.int8(BOUNDS.index(resource)), bound)
        longest = jnp.maximum(longest, time)
    return bound


def matrix_traffic(op: Op, capacity: Scalar | None, element_bytes: Scalar | None) -> Scalar:
    """B that one run of `op` moves into a memory level of `capacity` B from the level outside it, shape ().

    traffic = max(operands and results once, 2 m n k b / sqrt(S)),  S = capacity / element_bytes,  b = operand_bytes

    What fits is read once; what does not is re-read for every tile of the largest square that fits.
    The rule is the lower bound that the best blocking attains, so it never charges a kernel for a poor tile.
    Without matrix work or with an unknown capacity the operands are moved once.

    Source: Hong & Kung, STOC 1981; constant 2 and tightness: Smith, Lowery, Langou & van de Geijn,
    arXiv:1702.02017.
    """
    if op.matrix_flops is None or capacity is None:
        return op.bytes
    blocked = op.matrix_flops * op.operand_bytes * jax.lax.rsqrt(capacity / element_bytes)
    return maximum(op.bytes, blocked)


def matrix_peak(hardware: Hardware, precision: str) -> Scalar:
    """Peak of the matrix units in FLOP/s at `precision`; ValueError names what there is when it has none."""
    if precision not in hardware.matrix:
        raise ValueError(
            f"the hardware has no matrix peak for {precision}; it has {', '.join(sorted(hardware.matrix)) or 'none'}"
        )
    return hardware.matrix[precision]
