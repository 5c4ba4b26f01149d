"""Hand-worked nests: bandwidths, fan-outs, transfers, compressed and gated tensors."""

import dataclasses

import pytest

from jaxroof.nests import NestFanout, NestMachine, accesses, nest_cost
from jaxroof.numerics.arrays import jax
from tests.nests import ALL, DEEP, MANY, ONE, SERIES, W, X, Y, convolution, mapping, memory, thinned


def test_bandwidth_stretches_time():
    slow = NestMachine(nodes=(memory("dram"), memory("rf", write_bandwidth=0.5)))
    cost = nest_cost(ONE, slow, mapping(("P16", ALL), ("R3", ALL)))
    # Weights 3, inputs 18, sums 48 updates: 69 words at half a word a cycle; 48 cycles of arithmetic.
    assert cost.compute_cycles == 48 and cost.cycles == 138 and cost.utilization == 1.0


def test_copies_that_need_the_same_rows_share_a_read():
    """Rows p + r of 4 x 3 units are 6 different ones, as on the diagonals of Eyeriss; with stride 2 they are 9."""
    machine = NestMachine(nodes=(memory("dram"), NestFanout(name="pes", size=12.0), memory("rf")))
    nest = mapping(("M2", ALL), ("P4 R3", ()), ("", ALL))
    assert accesses(convolution(), machine, nest)["dram", X].reads == 6
    assert accesses(convolution(stride=2), machine, nest)["dram", X].reads == 9
    alone = dataclasses.replace(machine.nodes[1], multicast=False)
    apart = NestMachine(nodes=(machine.nodes[0], alone, machine.nodes[2]))
    assert accesses(convolution(), apart, nest)["dram", X].reads == 12


def test_partial_sums_without_a_tree_are_written_apart():
    nodes = (memory("dram"), NestFanout(name="pes", size=16.0, reduces=False), memory("rf"))
    found = accesses(DEEP, NestMachine(nodes=nodes), mapping(("P16 M32 R3", ALL), ("C16", ()), ("C2", ALL)))
    assert found["dram", Y].updates == 16 * 16 * 32  # 16 copies of 512 sums, each leaves once: R is innermost


def test_transfers_of_a_fanout():
    """4 x 3 units need 6 rows a step, on one bus: 2 steps of M are 12 words in, and 2 x 4 sums out, added over R."""
    figures = {"transfer_energy": {X: 2.0, Y: 0.5}, "transfer_bandwidth": {X: 1.0, Y: 4.0}}
    nodes = (memory("dram"), NestFanout(name="pes", size=12.0, **figures), memory("rf"))
    nest = mapping(("M2", ALL), ("P4 R3", ()), ("", (W, Y)))
    cost = nest_cost(convolution(), NestMachine(nodes=nodes), nest)
    assert tuple(cost.accesses["pes", X]) == (0, 12, 0, 0) and tuple(cost.accesses["pes", Y]) == (0, 0, 0, 8)
    assert cost.access_energies["pes", X] == 24.0 and cost.energies["pes"] == 24.0 + 4.0 and cost.energy == 28.0
    assert cost.compute_cycles == 2 and cost.cycles == 12.0  # inputs at a word a cycle

    def energy(each):
        fanout = dataclasses.replace(nodes[1], transfer_energy={X: each, Y: 0.5})
        return nest_cost(convolution(), NestMachine(nodes=(nodes[0], fanout, nodes[2])), nest).energy

    assert jax.grad(energy)(2.0) == pytest.approx(12.0)


def test_a_bus_within_a_fanout_serves_its_own_copies():
    """2 groups of 3 units: the outer bus has what both need, the inner ones of each group half of it."""
    inner = NestFanout(name="inner", size=3.0, transfer_energy={W: 1.0})
    nodes = (memory("dram"), NestFanout(name="outer", size=2.0, transfer_energy={W: 1.0}), inner, memory("rf"))
    cost = nest_cost(convolution(), NestMachine(nodes=nodes), mapping(("", ALL), ("M2", ()), ("C3", ()), ("R5", ALL)))
    assert cost.accesses["outer", W].reads == 30 and cost.accesses["inner", W].reads == 15
    assert cost.energies["outer"] == 30.0 and cost.energies["inner"] == 30.0


def test_compressed_tensors():
    """Of 18 inputs half are zero: 9 words with 1.5 of storage each; weights without zeros are held as they are."""
    packed = memory("main", compression={X: 1.5, W: 1.5})
    found = accesses(
        thinned(ONE, 0.5), NestMachine(nodes=(packed, memory("buffer"))), mapping(("P16", ALL), ("R3", ALL))
    )
    assert tuple(found["main", X]) == (13.5, 13.5, 0, 0) and found["main", W].reads == 3
    assert found["buffer", X].fills == 18 and found["buffer", X].reads == 48


def test_a_tensor_is_not_gated_by_itself():
    machine = NestMachine(nodes=(memory("buffer", gated_by=(X,)),), mac_energy=1.0, gating=1.0, gated_by=(W,))
    cost = nest_cost(thinned(ONE, 0.25), machine, mapping(("P16 R3", ALL)))
    assert cost.accesses["buffer", X].reads == 48 and cost.accesses["buffer", W].reads == 12
    assert cost.energies["mac"] == 48.0  # only zeros of weights count, and there are none


def test_zeros_cost_no_energy_or_no_time():
    sparse = thinned(MANY, 0.5)
    nest = mapping(("", ALL), ("M16 P16", ALL), ("M2 R3", ALL))
    plain = NestMachine(nodes=SERIES.nodes, mac_energy=1.0)
    gated, skipped = dataclasses.replace(plain, gating=1.0), dataclasses.replace(plain, skipping=1.0)
    assert nest_cost(sparse, plain, nest).energies["mac"] == 1536
    assert nest_cost(sparse, gated, nest).energies["mac"] == 768 and nest_cost(sparse, gated, nest).cycles == 1536
    assert nest_cost(sparse, skipped, nest).energies["mac"] == 768 and nest_cost(sparse, skipped, nest).cycles == 768
