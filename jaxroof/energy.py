"""Energy of ops and steps on one device: operations, and bytes of memory and links."""

from jaxroof.arrays import jnp
from jaxroof.collectives.volume import sent_bytes
from jaxroof.hardware import Hardware
from jaxroof.op import AnyOp, Collective, Copy, Kernel, Ops
from jaxroof.roofline import ACCUMULATOR_BYTES, matrix_traffic
from jaxroof.struct import Array, Scalar
from jaxroof.traced_once import traced_once

CORE = ("matrix", "vector", "exp", "l2", "scratchpad")
"""Fields of `Energy` that are spent at the cores' voltage; memory and links have voltages of their own."""


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
    """Energy in J of one run of `op` on one device beside static power, at full clock, shape ().

    energy = matrix FLOP x J/FLOP of its precision + vector FLOP x J/FLOP + exponentials x J
             + sum over memory levels of B x J/B + sum over link tiers of B sent x J/B

    Args:
      op: what runs, quantities of shape ().
      hardware: with `energy`; the efficiency has no say.

    Raises:
      ValueError: while tracing, when `hardware.energy` lacks the op's precision or a tier of links.
    """
    return sum(_joules(op, hardware).values(), start=jnp.zeros(()))


@traced_once
def op_core_energy(op: AnyOp, hardware: Hardware) -> Array:
    """What of `op_energy` is spent at the cores' voltage, in J, shape ()."""
    return sum((joules for name, joules in _joules(op, hardware).items() if name in CORE), start=jnp.zeros(()))


def _joules(op: AnyOp, hardware: Hardware) -> dict[str, Scalar]:
    costs, joules = hardware.energy, {}
    for name, amount in op_work(op, hardware).items():
        if name == "matrix":
            each = costs.matrix.get(op.precision)
        else:
            each = getattr(costs, name)
        if each is None:
            at = f" at {op.precision}" if name == "matrix" else ""
            raise ValueError(f"hardware.energy has no figure for {name}{at}")
        joules[name] = amount * each
    return joules


def energies_of(ops: Ops, hardware: Hardware) -> dict[str, Scalar]:
    """Energy in J of every op of one step over all its runs on one device beside static power, by name."""
    return {name: op.count * op_energy(op, hardware) for name, op in ops.items()}


def energies_by_part(ops: Ops, hardware: Hardware) -> dict[str, Scalar]:
    """Energy in J of one step on one device beside static power, by the fields of `Energy` that it is spent on.

    The sum is that of `energies_of`.
    """
    found: dict[str, Scalar] = {}
    for op in ops.values():
        for name, joules in _joules(op, hardware).items():
            found[name] = found.get(name, 0.0) + op.count * joules
    return found


def core_energies_of(ops: Ops, hardware: Hardware) -> dict[str, Scalar]:
    """What of `energies_of` is spent at the cores' voltage, in J, of the ops that spend any."""
    return {name: op.count * op_core_energy(op, hardware) for name, op in ops.items() if isinstance(op, Kernel)}
