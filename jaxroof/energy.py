"""Energy of ops and steps on one device: operations, bytes, static power, and the limit of power."""

from jaxroof.arrays import jnp
from jaxroof.collectives.volume import sent_bytes
from jaxroof.hardware import Hardware
from jaxroof.op import AnyOp, Collective, Copy, Kernel, Ops
from jaxroof.roofline import ACCUMULATOR_BYTES, matrix_traffic
from jaxroof.smooth import maximum, positive_part
from jaxroof.struct import Array, Scalar
from jaxroof.traced_once import traced_once

LEAST_HEADROOM = 0.01
"""Share of TDP that is left for kernels at least, where static power takes all of it: keeps every time finite."""


def op_work(op: AnyOp, hardware: Hardware) -> dict[str, Scalar]:
    """Work of one run of `op` that takes energy, by the fields of `Energy`: FLOP, exponentials and B, shapes ().

    Bytes into each memory level are those of `jaxroof.roofline.matrix_traffic` under every efficiency. What an op does
    not do, and a level or tier that the hardware does not have, is left out.
    """
    if isinstance(op, Collective):
        return sent_bytes(hardware.links, op)
    return {} if isinstance(op, Copy) else _kernel_work(op, hardware)


def _kernel_work(op: Kernel, hardware: Hardware) -> dict[str, Scalar]:
    memory, work = hardware.memory, {}
    if op.matrix_flops is not None:
        work["matrix"] = op.matrix_flops
    if op.vector_flops is not None:
        work["vector"] = op.vector_flops
    if op.exps is not None:
        work["exp"] = op.exps
    if op.bytes is not None:
        inner = memory.l2 or memory.scratchpad
        work["hbm"] = matrix_traffic(op, inner and inner.capacity, op.operand_bytes)
        if memory.l2 is not None:
            work["l2"] = matrix_traffic(op, memory.scratchpad and memory.scratchpad.capacity, op.operand_bytes)
        if memory.scratchpad is not None:
            work["scratchpad"] = matrix_traffic(op, memory.register_capacity, ACCUMULATOR_BYTES)
    return work


def power_known(hardware: Hardware) -> bool:
    """Whether energy, static power and the electrical limit are all known: structure, not data."""
    return hardware.energy is not None and hardware.power.static is not None and hardware.power.tdp is not None


@traced_once
def op_energy(op: AnyOp, hardware: Hardware) -> Array:
    """Energy in J of one run of `op` on one device beside static power, shape ().

    energy = matrix FLOP x J/FLOP of its precision + vector FLOP x J/FLOP + exponentials x J
             + sum over memory levels of B x J/B + sum over link tiers of B sent x J/B

    Args:
      op: what runs, quantities of shape ().
      hardware: with `energy`; the efficiency has no say.

    Raises:
      ValueError: while tracing, when `hardware.energy` lacks the op's precision or a tier of links.
    """
    costs = hardware.energy
    joules = jnp.zeros(())
    for name, amount in op_work(op, hardware).items():
        if name == "matrix":
            each = costs.matrix.get(op.precision)
        else:
            each = getattr(costs, name)
        if each is None:
            at = f" at {op.precision}" if name == "matrix" else ""
            raise ValueError(f"hardware.energy has no figure for {name}{at}")
        joules = joules + amount * each
    return joules


def energies_of(ops: Ops, hardware: Hardware) -> dict[str, Scalar]:
    """Energy in J of every op of one step over all its runs on one device beside static power, by name."""
    return {name: op.count * op_energy(op, hardware) for name, op in ops.items()}


def limited_time(time: Scalar, energy: Scalar, hardware: Hardware) -> Array:
    """Time in s that a step takes when the device may not draw more than its TDP on average, shape ().

    time' = max(time, energy / headroom),  headroom = max(tdp - static, LEAST_HEADROOM tdp)

    The average is over the step, as controllers of power average over milliseconds. Where static power leaves less
    than `LEAST_HEADROOM` of the limit, kernels still get that share of it, so the time stays finite.

    Args:
      time: s without a limit.
      energy: J on one device in that time, beside static power.
      hardware: where `power_known`; else the time is as it was.
    """
    if not power_known(hardware):
        return jnp.asarray(time)
    power = hardware.power
    headroom = maximum(positive_part(power.tdp - power.static), LEAST_HEADROOM * power.tdp)
    # The reciprocal is the same for all points of a grid that share a device.
    return maximum(time, energy * (1.0 / headroom))
