"""Energy of ops and steps on one device: operations, and bytes of memory and links."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxroof.collectives.choice import sent_bytes
from jaxroof.hardware import Hardware
from jaxroof.memory.traffic import level_traffic, matrix_traffic
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.op import AnyOp, Collective, Copy, Kernel, Ops
from jaxroof.tracing import over_runs, totals, traced_once

BESIDE = "beside "
"""What the name of the work of a memory beside device memory begins with, before the memory's own name."""


def op_work(op: AnyOp, hardware: Hardware) -> dict[str, Scalar]:
    """Work of one run of `op` that takes energy, by the fields of `Energy`: FLOP, exponentials and B, shapes ().

    Bytes into each memory level are those of `jaxroof.memory.traffic` under every efficiency. What an op does not do,
    and a level or tier that the hardware does not have, is left out.
    """
    return _core_work(op, hardware) | _other_work(op, hardware)


def _core_work(op: AnyOp, hardware: Hardware) -> dict[str, Scalar]:
    """Of it what the cores do, at their voltage."""
    if not isinstance(op, Kernel):
        return {}
    work = {}
    # Arithmetic and on-chip memories share the cores' supply: their energy falls with the square of the voltage.
    if op.matrix_flops is not None:
        work["matrix"] = op.matrix_flops
    if op.vector_flops is not None:
        work["vector"] = op.vector_flops
    if op.exps is not None:
        work["exp"] = op.exps
    # Each level's bytes are those that its inner neighbour draws from it, as in the roofline.
    inner = {name: moved for name, moved in level_traffic(op, hardware).items() if name != "hbm"}
    return work | inner


def _other_work(op: AnyOp, hardware: Hardware) -> dict[str, Scalar]:
    """Of it what memory and links do, which have voltages of their own."""
    if isinstance(op, Collective):
        # SerDes of links have a supply of their own; what a device sends it pays for, not what it receives.
        return sent_bytes(hardware.links, op)
    if not isinstance(op, Kernel) or op.bytes is None:
        return {}
    # DRAM cells and PHYs keep their voltage when the cores' is lowered. Where the L2 is unknown, cores fetch operands
    # for themselves, as the energies of memory were fitted: time has the bound of a shared tile, which is lower.
    inner = hardware.memory.l2 or hardware.memory.scratchpad
    work = {"hbm": matrix_traffic(op, inner and inner.capacity, op.operand_bytes)}
    # Memories beside it have energies of their own, or take what a byte of it takes.
    return work | {f"{BESIDE}{memory}": moved for memory, moved in (op.beside_bytes or {}).items()}


def power_known(hardware: Hardware) -> bool:
    """Whether energy, static power and the electrical limit are all known: structure, not data."""
    return hardware.energy is not None and hardware.power.static is not None and hardware.power.tdp is not None


class Joules(NamedTuple):
    """Energy at full clock of one device beside static power, J, shapes ()."""

    core: Scalar  # spent at the cores' voltage: arithmetic, L2 and scratchpad
    other: Scalar  # spent at voltages of their own: memory and links

    @property
    def total(self) -> Scalar:
        """Of both."""
        return self.core + self.other

    def times(self, factor: Scalar) -> "Joules":
        """Those of `factor` such steps."""
        return Joules(self.core * factor, self.other * factor)


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
    # Work times energy per unit: time does not enter, and static power is added where power is asked for.
    return _core_energy(op, hardware) + _other_energy(op, hardware)


@traced_once
def _core_energy(op: AnyOp, hardware: Hardware) -> Array:
    return sum(_joules(_core_work(op, hardware), op, hardware).values(), start=jnp.zeros(()))


@traced_once
def _other_energy(op: AnyOp, hardware: Hardware) -> Array:
    return sum(_joules(_other_work(op, hardware), op, hardware).values(), start=jnp.zeros(()))


def _joules(work: dict[str, Scalar], op: AnyOp, hardware: Hardware) -> dict[str, Scalar]:
    costs, joules = given(hardware.energy, "energy per operation of the hardware"), {}
    precision = op.precision if isinstance(op, Kernel) else None
    besides = {f"{BESIDE}{memory}": level.energy for memory, level in (hardware.memory.beside or {}).items()}
    for name, amount in work.items():
        if name == "matrix":
            each = costs.matrix.get(precision or "")
        elif name in besides:
            each = costs.hbm if besides[name] is None else besides[name]
        else:
            each = getattr(costs, name)
        if each is None:
            at = f" at {precision}" if name == "matrix" else ""
            raise ValueError(f"hardware.energy has no figure for {name}{at}")
        joules[name] = amount * each
    return joules


def core_energies(ops: Ops, hardware: Hardware) -> dict[str, Scalar]:
    """Energy in J that every op of one step spends at the cores' voltage over all its runs on one device, by name."""
    kernels = _with_cores(ops)
    return over_runs(_core_energy, kernels, hardware)


def other_energies(ops: Ops, hardware: Hardware) -> dict[str, Scalar]:
    """Energy in J that every op of one step spends on memory and links over all its runs on one device, by name."""
    priced = _priced(ops)
    return over_runs(_other_energy, priced, hardware)


def joules_of(ops: Ops, hardware: Hardware) -> Joules:
    """Energy of one run of a step's ops, on hardware of which `power_known`."""
    return joules_of_steps([ops], hardware)[0]


def joules_of_steps(steps: Sequence[Ops], hardware: Hardware) -> list[Joules]:
    """The same of several steps: in a trace, their ops of a kind are one array."""
    core = totals(_core_energy, [_with_cores(ops) for ops in steps], hardware)
    other = totals(_other_energy, [_priced(ops) for ops in steps], hardware)
    return [Joules(*parts) for parts in zip(core, other, strict=True)]


def _with_cores(ops: Ops) -> Ops:
    """Ops that take energy at the cores' voltage."""
    return {name: op for name, op in ops.items() if isinstance(op, Kernel)}


def _priced(ops: Ops) -> Ops:
    """Ops that take energy of memory or links: not copies to host memory, whose link has no energy figure."""
    return {name: op for name, op in ops.items() if not isinstance(op, Copy)}


def joules_by_part(ops: Ops, hardware: Hardware) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Energy in J of one step on one device beside static power, by the fields of `Energy` that it is spent on.

    Those of the cores' voltage, then those of memory and links.
    """
    core: dict[str, Scalar] = {}
    other: dict[str, Scalar] = {}
    for op in ops.values():
        for energies, work in ((core, _core_work(op, hardware)), (other, _other_work(op, hardware))):
            for name, joules in _joules(work, op, hardware).items():
                energies[name] = energies.get(name, 0.0) + op.count * joules
    return core, other
