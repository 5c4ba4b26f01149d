"""Loop nests: published access counts, a walk through random nests, gradients."""

import dataclasses
import math
import random

import numpy as np
import pytest

from jaxroof.arrays import jax, jnp
from jaxroof.nests import Fanout, Machine, Mapping, Memory, Problem, Tensor, accesses, nest_cost
from tests.oracle.nests import walked

W, X, Y = ALL = "Weights", "Inputs", "Outputs"
PJ = 1e-12


def convolution(stride=1, **sizes):
    """Two-dimensional, or one-dimensional where Q and S are 1."""
    axes = {
        W: (((1, "C"),), ((1, "M"),), ((1, "R"),), ((1, "S"),)),
        X: (((1, "N"),), ((1, "C"),), ((stride, "P"), (1, "R")), ((stride, "Q"), (1, "S"))),
        Y: (((1, "N"),), ((1, "M"),), ((1, "P"),), ((1, "Q"),)),
    }
    return Problem(
        sizes={name: float(size) for name, size in sizes.items()},
        tensors={name: Tensor(axes=each, output=name == Y) for name, each in axes.items()},
    )


def memory(name, block=1, energies=(0, 0, 0), leakage=0, **figures):
    """A memory with energies in pJ of a read, a fill and an update."""
    read, write, update = (PJ * energy for energy in energies)
    return Memory(
        name=name,
        keeps=ALL,
        block=float(block),
        read_energy=read,
        write_energy=write,
        update_energy=update,
        leakage=PJ * leakage,
        **figures,
    )


def mapping(*nodes):
    """Loops as "P8 Q2", from the outermost, with the tensors that reside in each node."""
    parsed = [[(loop[0], float(loop[1:])) for loop in loops.split()] for loops, _ in nodes]
    return Mapping(
        factors=tuple(dict(loops) for loops in parsed),
        orders=tuple(tuple(name for name, _ in loops) for loops in parsed),
        kept=tuple(tuple(kept) for _, kept in nodes),
    )


BUFFER, MAIN = memory("buffer"), memory("main")
ONE = convolution(M=1, P=16, R=3)
MANY = convolution(M=32, P=16, R=3)
DEEP = convolution(C=32, M=32, P=16, R=3)
RF, GLB = memory("rf"), memory("glb")
DRAM = memory("dram")
PES = Machine(nodes=(DRAM, Fanout(name="pes", size=16.0), GLB, RF))
SERIES = Machine(nodes=(DRAM, GLB, RF))

# Exercises 00 to 05 of Accelergy-Project/timeloop-accelergy-exercises, ref-output of each: (reads, fills, updates) of
# one instance. 00 is of workspace/exercises/2020.ispass, all others of 01_accelergy_timeloop_2020_ispass.
EXERCISES = {
    "00": (ONE, Machine(nodes=(BUFFER,)), mapping(("P16 R3", ALL)), {
        ("buffer", W): (48, 0, 0), ("buffer", X): (48, 0, 0), ("buffer", Y): (32, 0, 48),
    }),
    "01 output stationary": (ONE, Machine(nodes=(MAIN, BUFFER)), mapping(("P16", ALL), ("R3", ALL)), {
        ("main", W): (3, 0, 0), ("main", X): (18, 0, 0), ("main", Y): (0, 0, 16),
        ("buffer", W): (48, 3, 0), ("buffer", X): (48, 18, 0), ("buffer", Y): (32, 0, 48),
    }),
    "01 weight stationary": (ONE, Machine(nodes=(MAIN, BUFFER)), mapping(("R3", ALL), ("P16", ALL)), {
        ("main", W): (3, 0, 0), ("main", X): (18, 0, 0), ("main", Y): (0, 0, 16),
        ("buffer", W): (48, 3, 0), ("buffer", X): (48, 18, 0), ("buffer", Y): (32, 0, 48),
    }),
    "02 tiling": (MANY, Machine(nodes=(MAIN, BUFFER)), mapping(("M16 P16", ALL), ("M2 R3", ALL)), {
        ("main", W): (96, 0, 0), ("main", X): (288, 0, 0), ("main", Y): (0, 0, 512),
        ("buffer", W): (1536, 96, 0), ("buffer", X): (1536, 288, 0), ("buffer", Y): (1024, 0, 1536),
    }),
    "03": (MANY, SERIES, mapping(("", ALL), ("M16 P16", ALL), ("M2 R3", ALL)), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (96, 96, 0), ("glb", X): (288, 18, 0), ("glb", Y): (0, 0, 512),
        ("rf", W): (1536, 96, 0), ("rf", X): (1536, 288, 0), ("rf", Y): (1024, 0, 1536),
    }),
    "03 bypass": (MANY, SERIES, mapping(("", ALL), ("M16 P16", (W, X)), ("M2 R3", (Y,))), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (1536, 96, 0), ("glb", X): (1536, 18, 0), ("rf", Y): (1024, 0, 1536),
    }),
    "04 channels in parallel": (DEEP, PES, mapping(("", ALL), ("C16", ()), ("C2 M32 R3", ALL), ("P16", ALL)), {
        ("dram", W): (3072, 0, 0), ("dram", X): (576, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (192, 192, 0), ("glb", X): (1152, 36, 0), ("glb", Y): (512, 0, 1024),
        ("rf", W): (3072, 192, 0), ("rf", X): (3072, 1152, 0), ("rf", Y): (2560, 512, 3072),
    }),
    "04 filters in parallel": (DEEP, PES, mapping(("", ALL), ("M16", ()), ("C32 M2 R3", ALL), ("P16", ALL)), {
        ("dram", W): (3072, 0, 0), ("dram", X): (576, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (192, 192, 0), ("glb", X): (1152, 576, 0), ("glb", Y): (992, 0, 1024),
        ("rf", W): (3072, 192, 0), ("rf", X): (3072, 1152, 0), ("rf", Y): (3040, 992, 3072),
    }),
    "05 null": (MANY, SERIES, mapping(("P2", ALL), ("M4 P2", (W, X)), ("P4 R3 M8", ALL)), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (192, 96, 0), ("glb", X): (78, 18, 0),
        ("rf", W): (1536, 192, 0), ("rf", X): (1536, 78, 0), ("rf", Y): (1024, 0, 1536),
    }),
    "05 free bypass": (MANY, SERIES, mapping(("", ALL), ("M16 P16", (X,)), ("R3 M2", ALL)), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512), ("glb", X): (288, 18, 0),
        ("rf", W): (1536, 96, 0), ("rf", X): (1536, 288, 0), ("rf", Y): (1024, 0, 1536),
    }),
}  # fmt: skip


def counted(problem, machine, nest):
    return {key: tuple(map(float, each[1:])) for key, each in accesses(problem, machine, nest).items()}


@pytest.mark.parametrize("name", EXERCISES)
def test_published_counts_of_the_exercises(name):
    *case, expected = EXERCISES[name]
    assert counted(*case) == expected


CONV1 = convolution(stride=2, C=3, M=32, P=112, Q=112, R=3, S=3)
"""The default problem of the example designs, 10,838,016 MACs."""

EYERISS = Machine(
    nodes=(
        memory("dram", 8, (512, 512, 512)),
        memory("glb", 8, (18.183829, 14.137929, 14.137929), 0.005652, read_bandwidth=16.0, write_bandwidth=16.0),
        Fanout(name="columns", size=14.0),
        Fanout(name="rows", size=12.0),
        memory("ifmap", 2, (0.202442, 0.176713, 0.176713), 0.000101, read_bandwidth=2.0, write_bandwidth=2.0),
        memory("weights", 2, (1.976602, 1.881657, 1.881657), 0.001592, read_bandwidth=2.0, write_bandwidth=2.0),
        memory("psum", 1, (0.2513, 0.2191, 0.2191), 0.000134, read_bandwidth=2.0, write_bandwidth=2.0),
    ),
    mac_energy=0.207692 * PJ,
)
ON_EYERISS = mapping(
    ("P8 Q2 M4", ALL), ("P14 Q4", (X, Y)), ("Q14", ()), ("C3 S3", ()), ("", (X,)), ("R3", (W,)), ("M8", (Y,))
)


def test_eyeriss_like():
    """workspace/example_designs/.../eyeriss_like/ref_outputs/default_problem, stats and map @67b75f2, ERT @ac42b26."""
    cost = nest_cost(CONV1, EYERISS, ON_EYERISS)
    assert {key: tuple(map(float, each)) for key, each in cost.accesses.items()} == {
        ("dram", W): (864, 13824, 0, 0),
        ("dram", X): (151875, 157296, 0, 0),
        ("dram", Y): (401408, 0, 0, 401408),
        ("glb", X): (9831, 1354752, 157296, 0),
        ("glb", Y): (6272, 0, 0, 401408),
        ("ifmap", X): (3, 86016, 10752, 0),
        ("weights", W): (24, 86016, 1536, 0),
        ("psum", Y): (8, 57344, 0, 86016),
    }
    assert cost.cycles == 86016 and cost.utilization == 0.75 and cost.fits
    femtojoules = {"dram": 3380.86, "weights": 1006.69, "psum": 386.77, "glb": 375.27, "mac": 207.69, "ifmap": 112.37}
    for name, expected in femtojoules.items():
        assert cost.energies[name] / CONV1.macs == pytest.approx(expected * 1e-15, abs=0.005e-15), name  # as printed
    assert cost.energy == pytest.approx(59.28e-6, rel=1e-4)
    assert cost.energy / CONV1.macs == pytest.approx(5469.65e-15, rel=1e-6)


def test_simba_like():
    """workspace/example_designs/.../simba_like/ref_outputs/default_problem, stats and map @67b75f2."""
    machine = Machine(nodes=(
        memory("dram"), memory("glb"), Fanout(name="pes", size=16.0), memory("inputs"),
        Fanout(name="lanes", size=4.0), memory("weights"), memory("sums"), memory("registers"),
    ))  # fmt: skip
    nest = mapping(
        ("Q28", ALL), ("P4", (X, Y)), ("C3 M4", ()), ("Q4", (X,)), ("M4", ()), ("R3 P4 S3", (W,)), ("M2 P7", (Y,)),
        ("", (W,)),
    )  # fmt: skip
    cost = nest_cost(CONV1, machine, nest)
    assert cost.cycles == 225792 and cost.utilization == 0.75
    assert counted(CONV1, machine, nest) == {
        ("dram", W): (864, 0, 0), ("dram", X): (151875, 0, 0), ("dram", Y): (0, 0, 401408),
        ("glb", X): (170100, 151875, 0), ("glb", Y): (802816, 0, 1204224), ("inputs", X): (225792, 56700, 0),
        ("weights", W): (32256, 18, 0), ("sums", Y): (200704, 50176, 225792), ("registers", W): (225792, 32256, 0),
    }  # fmt: skip


STATIONARY = Machine(nodes=(
    memory("dram"), memory("glb"), Fanout(name="pes", size=256.0), memory("spad"), memory("weight"), memory("input"),
    memory("output"),
))  # fmt: skip


def test_simple_output_stationary():
    """workspace/example_designs/.../simple_output_stationary/ref_outputs/default_problem @67b75f2."""
    nest = mapping(
        ("P2 Q8 M2", ALL), ("Q14 R3", (W, X)), ("M16", ()), ("C3 P4 S3", (Y,)), ("P14", (W,)), ("", (X,)), ("", (Y,))
    )
    assert nest_cost(CONV1, STATIONARY, nest).cycles == 677376
    assert counted(CONV1, STATIONARY, nest) == {
        ("dram", W): (13824, 0, 0), ("dram", X): (157296, 0, 0), ("dram", Y): (0, 0, 401408),
        ("glb", W): (774144, 13824, 0), ("glb", X): (677376, 157296, 0), ("spad", Y): (652288, 0, 677376),
        ("weight", W): (677376, 48384, 0), ("input", X): (677376, 677376, 0), ("output", Y): (652288, 652288, 677376),
    }  # fmt: skip


def test_simple_weight_stationary():
    """workspace/example_designs/.../simple_weight_stationary/ref_outputs/default_problem @67b75f2."""
    nest = mapping(
        ("Q14", ALL), ("S3 P2 M8", ALL), ("M4 C3", ()), ("R3 Q2 P2", (W,)), ("P28 Q4", (W,)), ("", (X,)), ("", (Y,))
    )
    assert nest_cost(CONV1, STATIONARY, nest).cycles == 903168
    assert counted(CONV1, STATIONARY, nest) == {
        ("dram", W): (864, 0, 0), ("dram", X): (151875, 0, 0), ("dram", Y): (0, 0, 401408),
        ("glb", W): (24192, 864, 0), ("glb", X): (2709504, 151875, 0), ("glb", Y): (3211264, 0, 3612672),
        ("spad", W): (2016, 2016, 0), ("weight", W): (903168, 2016, 0), ("input", X): (903168, 903168, 0),
        ("output", Y): (802816, 802816, 903168),
    }  # fmt: skip


def test_exercise_06():
    """exercises/timeloop/06-mapper-convlayer-eyeriss, ref-output @0d5bb48: a layer of VGG, batch of 16; M is its K.

    It is of an earlier program, which also counts fetches of partial sums at their first visit: these are left out.
    """
    problem = convolution(N=16, M=512, C=256, P=56, Q=56, R=3, S=3)
    nest = mapping(
        ("Q14 N8 M4 C32", ALL), ("M2 N2 P56", (X, Y)), ("M4 Q4", ()), ("M2 C2 S3", ()), ("", (X,)), ("R3 C4", (W,)),
        ("M8", (Y,)),
    )  # fmt: skip
    cost = nest_cost(problem, EYERISS, nest)
    assert cost.compute_cycles == 308281344 and cost.instances["psum"] == 192
    found = counted(problem, EYERISS, nest)
    assert found["dram", W][0] == 132120576 and found["dram", X][0] == 79822848 and found["dram", Y][2] == 25690112
    assert found["glb", X] == (319291392, 79822848, 0) and found["glb", Y] == (796393472, 0, 822083584)
    assert found["ifmap", X] == (308281344, 13303808, 0) and found["weights", W] == (308281344, 2752512, 0)
    assert found["psum", Y][::2] == (307478528, 308281344)


def test_bandwidth_stretches_time():
    slow = Machine(nodes=(memory("dram"), memory("rf", write_bandwidth=0.5)))
    cost = nest_cost(ONE, slow, mapping(("P16", ALL), ("R3", ALL)))
    # Weights 3, inputs 18, sums 48 updates: 69 words at half a word a cycle; 48 cycles of arithmetic.
    assert cost.compute_cycles == 48 and cost.cycles == 138 and cost.utilization == 1.0


@pytest.mark.parametrize("seed", range(150))
def test_counts_are_those_of_a_walk(seed):
    draw = random.Random(seed)
    stride = draw.choice([1, 1, 2, 3])
    problem = convolution(stride=stride, C=1, M=1, P=1, Q=1, R=1, S=1)
    nodes = (memory("dram"), memory("glb"), Fanout(name="pes", size=64.0), memory("rf"), memory("reg"))
    rows = []
    budget = 1
    for node in nodes:
        loops = []
        for name in draw.sample("CMPQRS", 6):
            count = draw.choice([1, 1, 2, 2, 3])
            if isinstance(node, Fanout) and name in "RS":
                continue  # with P and Q in one fan-out: the test below
            if count > 1 and budget * count <= 1500:
                budget *= count
                loops.append(f"{name}{count}")
        kept = [] if isinstance(node, Fanout) else [each for each in ALL if node.name == "dram" or draw.random() < 0.7]
        rows.append((" ".join(loops), kept))
    machine, nest = Machine(nodes=nodes), mapping(*rows)
    found = walked(problem, machine, nest)
    for key, each in accesses(problem, machine, nest).items():
        assert {"reads": each.reads, "fills": each.fills, "updates": each.updates} == pytest.approx(found[key]), key


def test_copies_that_need_the_same_rows_share_a_read():
    """Rows p + r of 4 x 3 units are 6 different ones, as on the diagonals of Eyeriss; with stride 2 they are 9."""
    machine = Machine(nodes=(memory("dram"), Fanout(name="pes", size=12.0), memory("rf")))
    nest = mapping(("M2", ALL), ("P4 R3", ()), ("", ALL))
    assert accesses(convolution(), machine, nest)["dram", X].reads == 6
    assert accesses(convolution(stride=2), machine, nest)["dram", X].reads == 9
    alone = dataclasses.replace(machine.nodes[1], multicast=False)
    apart = Machine(nodes=(machine.nodes[0], alone, machine.nodes[2]))
    assert accesses(convolution(), apart, nest)["dram", X].reads == 12


def test_partial_sums_without_a_tree_are_written_apart():
    nodes = (memory("dram"), Fanout(name="pes", size=16.0, reduces=False), memory("rf"))
    found = accesses(DEEP, Machine(nodes=nodes), mapping(("P16 M32 R3", ALL), ("C16", ()), ("C2", ALL)))
    assert found["dram", Y].updates == 16 * 16 * 32  # 16 copies of 512 sums, each leaves once: R is innermost


def test_transfers_of_a_fanout():
    """4 x 3 units need 6 rows a step, on one bus: 2 steps of M are 12 words in, and 2 x 4 sums out, added over R."""
    figures = {"transfer_energy": {X: 2.0, Y: 0.5}, "transfer_bandwidth": {X: 1.0, Y: 4.0}}
    nodes = (memory("dram"), Fanout(name="pes", size=12.0, **figures), memory("rf"))
    nest = mapping(("M2", ALL), ("P4 R3", ()), ("", (W, Y)))
    cost = nest_cost(convolution(), Machine(nodes=nodes), nest)
    assert tuple(cost.accesses["pes", X]) == (0, 12, 0, 0) and tuple(cost.accesses["pes", Y]) == (0, 0, 0, 8)
    assert cost.access_energies["pes", X] == 24.0 and cost.energies["pes"] == 24.0 + 4.0 and cost.energy == 28.0
    assert cost.compute_cycles == 2 and cost.cycles == 12.0  # inputs at a word a cycle
    slope = jax.grad(
        lambda each: (
            nest_cost(
                convolution(),
                Machine(nodes=(nodes[0], dataclasses.replace(nodes[1], transfer_energy={X: each, Y: 0.5}), nodes[2])),
                nest,
            ).energy
        )
    )(2.0)
    assert slope == pytest.approx(12.0)  # fmt: skip


def test_a_bus_within_a_fanout_serves_its_own_copies():
    """2 groups of 3 units: the outer bus has what both need, the inner ones of each group half of it."""
    inner = Fanout(name="inner", size=3.0, transfer_energy={W: 1.0})
    nodes = (memory("dram"), Fanout(name="outer", size=2.0, transfer_energy={W: 1.0}), inner, memory("rf"))
    cost = nest_cost(convolution(), Machine(nodes=nodes), mapping(("", ALL), ("M2", ()), ("C3", ()), ("R5", ALL)))
    assert cost.accesses["outer", W].reads == 30 and cost.accesses["inner", W].reads == 15
    assert cost.energies["outer"] == 30.0 and cost.energies["inner"] == 30.0


def test_compressed_tensors():
    """Of 18 inputs half are zero: 9 words with 1.5 of storage each; weights without zeros are held as they are."""
    tensors = {name: dataclasses.replace(each, density=0.5 if name == X else 1.0) for name, each in ONE.tensors.items()}
    packed = memory("main", compression={X: 1.5, W: 1.5})
    found = accesses(
        dataclasses.replace(ONE, tensors=tensors), Machine(nodes=(packed, BUFFER)), mapping(("P16", ALL), ("R3", ALL))
    )
    assert tuple(found["main", X]) == (13.5, 13.5, 0, 0) and found["main", W].reads == 3
    assert found["buffer", X].fills == 18 and found["buffer", X].reads == 48


def test_a_tensor_is_not_gated_by_itself():
    tensors = {
        name: dataclasses.replace(each, density=0.25 if name == X else 1.0) for name, each in ONE.tensors.items()
    }
    machine = Machine(nodes=(memory("buffer", gated_by=(X,)),), mac_energy=1.0, gating=1.0, gated_by=(W,))
    cost = nest_cost(dataclasses.replace(ONE, tensors=tensors), machine, mapping(("P16 R3", ALL)))
    assert cost.accesses["buffer", X].reads == 48 and cost.accesses["buffer", W].reads == 12
    assert cost.energies["mac"] == 48.0  # only zeros of weights count, and there are none


def test_structs_are_trees():
    """What JAX takes apart and puts together again is the same, and static parts are structure."""
    for one in (CONV1, EYERISS, ON_EYERISS):
        leaves, structure = jax.tree.flatten(one)
        assert jax.tree.unflatten(structure, leaves) == one and all(isinstance(leaf, float) for leaf in leaves)


def test_costs_are_proportional_to_their_rates():
    """All energies twice: energy twice; all bandwidths half where they bind: cycles twice."""
    names = ("read_energy", "write_energy", "update_energy", "leakage")
    nodes = [
        dataclasses.replace(node, **{name: 2.0 * getattr(node, name) for name in names})
        if isinstance(node, Memory)
        else node
        for node in EYERISS.nodes
    ]
    double = dataclasses.replace(EYERISS, nodes=tuple(nodes), mac_energy=2.0 * EYERISS.mac_energy)
    energies = [float(nest_cost(CONV1, machine, ON_EYERISS).energy) for machine in (EYERISS, double)]
    assert energies[1] == pytest.approx(2.0 * energies[0], rel=1e-12)
    cycles = []
    for bandwidth in (0.25, 0.125):
        nodes = (EYERISS.nodes[0], dataclasses.replace(EYERISS.nodes[1], read_bandwidth=bandwidth), *EYERISS.nodes[2:])
        cycles.append(float(nest_cost(CONV1, dataclasses.replace(EYERISS, nodes=nodes), ON_EYERISS).cycles))
    assert cycles == [4 * 1354752, 8 * 1354752]


def test_columns_of_factors_are_single_mappings():
    factors = np.array([1.0, 2.0, 4.0, 8.0])
    nest = mapping(("P4 M16", ALL), ("M2 P1", ALL), ("P4 R3", ALL))
    both = dataclasses.replace(
        nest, factors=({"P": 4.0, "M": 32.0 / factors}, {"M": factors, "P": 1.0}, nest.factors[2])
    )
    columns = nest_cost(MANY, SERIES, both)
    for row, count in enumerate(factors):
        single = ({"P": 4.0, "M": 32.0 / count}, {"M": count, "P": 1.0}, nest.factors[2])
        alone = nest_cost(MANY, SERIES, dataclasses.replace(nest, factors=single))
        for key, each in alone.accesses.items():
            assert [np.broadcast_to(column, 4)[row] for column in columns.accesses[key]] == list(each)
        assert np.broadcast_to(columns.cycles, 4)[row] == alone.cycles


def test_gradients_are_those_of_differences():
    """Words that move on Eyeriss, by the logarithms of four relaxed factors."""
    logs = np.log([8.0, 2.0, 4.0, 4.0])

    def moved(log):
        p, q, m, inner = jnp.exp(log)
        factors = ({"P": p, "Q": q, "M": m}, {"P": 112.0 / p, "Q": inner}, *ON_EYERISS.factors[2:])
        found = accesses(CONV1, EYERISS, dataclasses.replace(ON_EYERISS, factors=factors))
        return jnp.log(sum(each.reads + each.fills + each.updates for each in found.values()))

    with jax.enable_x64(True):
        gradient = jax.grad(moved)(logs)
        for place in range(4):
            nudge = 1e-6 * np.eye(4)[place]
            measured = (jax.jit(moved)(logs + nudge) - jax.jit(moved)(logs - nudge)) / 2e-6
            assert gradient[place] == pytest.approx(float(measured), abs=1e-7), place
        assert math.isfinite(float(gradient.sum()))


def test_eyeriss_like_gating():
    """example_designs/sparseloop/04.2.1-eyeriss-like-gating @67b75f2: CONV3 of AlexNet, density 0.275."""
    whole = convolution(N=4, C=256, M=384, P=13, Q=13, R=3, S=3)
    inputs = dataclasses.replace(whole.tensors[X], density=0.275)
    problem = Problem(sizes=whole.sizes, tensors=whole.tensors | {X: inputs})
    nodes = list(EYERISS.nodes)
    nodes[5] = dataclasses.replace(nodes[5], gated_by=(X,))
    machine = Machine(nodes=tuple(nodes), mac_energy=0.315 * PJ, gating=1.0)
    nest = mapping(
        ("M6 C64", ALL), ("N4 P13", (X, Y)), ("Q13", ()), ("M4 S3", ()), ("", (X,)), ("R3 C4", (W,)), ("M16", (Y,))
    )
    found = counted(problem, machine, nest)
    assert found["ifmap", X] == (3833856, 92160, 0) and found["psum", Y] == (3828864, 314496, 3833856)
    reads, fills, _ = found["weights", W]
    assert math.ceil(reads) == 1054311 and fills == 73728
    energy = nest_cost(problem, machine, nest).energies["mac"]
    assert energy == pytest.approx(51808813.24 * PJ, rel=1e-7)  # 164,472,423 of 598,081,536 MACs


def test_zeros_cost_no_energy_or_no_time():
    sparse = Problem(sizes=MANY.sizes, tensors={
        name: dataclasses.replace(tensor, density=0.5 if name == X else 1.0) for name, tensor in MANY.tensors.items()
    })  # fmt: skip
    nest = mapping(("", ALL), ("M16 P16", ALL), ("M2 R3", ALL))
    plain = Machine(nodes=SERIES.nodes, mac_energy=1.0)
    gated, skipped = dataclasses.replace(plain, gating=1.0), dataclasses.replace(plain, skipping=1.0)
    assert nest_cost(sparse, plain, nest).energies["mac"] == 1536
    assert nest_cost(sparse, gated, nest).energies["mac"] == 768 and nest_cost(sparse, gated, nest).cycles == 1536
    assert nest_cost(sparse, skipped, nest).energies["mac"] == 768 and nest_cost(sparse, skipped, nest).cycles == 768
