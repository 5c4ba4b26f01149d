"""Cycles, utilisation and energy of a mapped loop nest."""

import math
from typing import NamedTuple

from jaxroof.nests.counts import Accesses, accesses
from jaxroof.nests.structs import Mapping, NestFanout, NestMachine, NestMemory, NestProblem
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum
from jaxroof.numerics.struct import Scalar


class NestCost(NamedTuple):
    """What a mapping costs. `fits` is true where all tiles and copies have room."""

    accesses: dict[tuple[str, str], Accesses]  # by memory and tensor, words per instance
    instances: dict[str, Scalar]  # of each memory that are in use; of a fan-out with transfers: of what is outside
    compute_cycles: Scalar
    cycles: Scalar  # of the slowest of arithmetic and memories
    utilization: Scalar  # share of the arithmetic units in use, while they compute
    access_energies: dict[tuple[str, str], Scalar]  # J by memory and tensor, of all instances
    energies: dict[str, Scalar]  # J of each memory with its leakage, and of "mac"
    energy: Scalar  # J
    time: Scalar  # s
    fits: Scalar

    @property
    def edp(self) -> Scalar:
        """Energy times cycles, J."""
        return self.energy * self.cycles


def nest_cost(problem: NestProblem, machine: NestMachine, mapping: Mapping) -> NestCost:
    """Accesses, cycles and energy of a problem on a machine in one mapping.

    cycles = max of (temporal loops; reads, writes and both over their bandwidths, of each memory and fan-out);
    energy = MACs + accesses of whole blocks + transfers through fan-outs + leakage of instances in use.

    Args:
      problem, machine, mapping: as of `accesses`.

    Returns:
      The costs; scalars, or columns where factors or figures are columns. A density below 1 saves what `Machine.gating`
      and `Machine.skipping` say: energy of the MACs that have a zero operand, or also their cycles.

    Source: cycles, blocks and leakage as Timeloop's reference outputs have them (see `counts`).
    """
    access_counts = accesses(problem, machine, mapping)
    used, steps, instances, fits = 1.0, 1.0, {}, True
    for place, (node, factors) in enumerate(zip(machine.nodes, mapping.factors, strict=True)):
        # From the outermost node inwards: instances of a memory are the copies of all fan-outs above it.
        copies = math.prod(factors.values(), start=1.0)
        if isinstance(node, NestMemory) or place in machine.networks:
            instances[node.name] = used
        if isinstance(node, NestFanout):
            used = used * copies
            fits = jnp.logical_and(fits, copies <= node.size)
        else:
            steps = steps * copies
    # Sparse operands: MACs with a zero are gated (energy) or skipped (energy and cycles).
    zeros = 1.0 - _effective(problem, machine)
    by_tensor: dict[tuple[str, str], Scalar] = {}
    energies: dict[str, Scalar] = {}
    arithmetic = steps * (1.0 - machine.skipping * zeros)
    times = [arithmetic]
    for node, residents in zip(machine.nodes, mapping.kept, strict=True):
        if isinstance(node, NestMemory):
            own = {(node.name, name): access_counts[node.name, name] for name in residents}
            # All tiles that reside in a memory share its capacity.
            fits = jnp.logical_and(fits, sum(each.tile for each in own.values()) <= node.capacity)
            # Ports are separate resources: reads, writes, or both on one port.
            times += _transfer_cycles(node, list(own.values()))
            # Accesses are of one instance; energy is of all.
            spent = {key: instances[node.name] * _access_energy(node, each) for key, each in own.items()}
            by_tensor |= spent
            energies[node.name] = sum(spent.values())
    for network in machine.networks.values():
        energy, bandwidth = (network.transfer_energy or {}), (network.transfer_bandwidth or {})
        spent = {}
        for key in ((network.name, name) for name in problem.tensors if (network.name, name) in access_counts):
            # A word that crosses the network of a fan-out pays for the way.
            moved = access_counts[key]
            spent[key] = instances[network.name] * (moved.reads + moved.updates) * energy.get(key[1], 0.0)
            times += [words / bandwidth[key[1]] for words in (moved.reads, moved.updates) if key[1] in bandwidth]
        by_tensor |= spent
        energies[network.name] = sum(spent.values())
    # Perfectly overlapped (double-buffered) memories: a roofline over all levels.
    cycles = maximum(*times)
    for node in machine.nodes:
        if isinstance(node, NestMemory):
            # Leakage grows with time, so a slow mapping pays for idle memories.
            energies[node.name] = energies[node.name] + node.leakage * instances[node.name] * cycles
    acting = 1.0 - jnp.maximum(machine.gating, machine.skipping) * zeros
    energies["mac"] = machine.mac_energy * acting * steps * used
    return NestCost(
        accesses=access_counts,
        instances=instances,
        compute_cycles=arithmetic,
        cycles=cycles,
        utilization=used / machine.units,
        access_energies=by_tensor,
        energies=energies,
        energy=sum(energies.values()),
        time=cycles / machine.clock,
        fits=fits,
    )


def _effective(problem: NestProblem, machine: NestMachine) -> Scalar:
    """Share of the MACs whose operands are not zero, of those that count; zeros stand at random."""
    share: Scalar = 1.0
    for name, tensor in problem.tensors.items():
        if not tensor.output and name in (machine.gated_by or problem.tensors):
            share = share * tensor.density
    return share


def _transfer_cycles(node: NestMemory, moved: list[Accesses]) -> list[Scalar]:
    """Cycles of the ports of a memory, where their bandwidth is limited."""
    reads = sum(each.reads for each in moved)
    writes = sum(each.fills + each.updates for each in moved)
    ports = (reads, node.read_bandwidth), (writes, node.write_bandwidth), (reads + writes, node.bandwidth)
    return [words / bandwidth for words, bandwidth in ports]


def _access_energy(node: NestMemory, moved: Accesses) -> Scalar:
    """J of the accesses of one instance for one tensor: whole blocks."""
    return (
        # An access moves a whole block, even for one word of it.
        node.read_energy * ceiling(moved.reads / node.block)
        + node.write_energy * ceiling(moved.fills / node.block)
        + node.update_energy * ceiling(moved.updates / node.block)
    )
