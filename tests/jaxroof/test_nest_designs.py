"""Published outputs of example designs of Timeloop: counts, cycles and energies."""

import dataclasses
import math

import pytest

from jaxroof.nests import NestFanout, NestMachine, nest_cost
from tests.nests import ALL, CONV1, EYERISS, ON_EYERISS, PJ, W, X, Y, convolution, counted, mapping, memory, thinned


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
    assert cost.energy == pytest.approx(59.28e-6, rel=1e-4) and cost.edp == cost.energy * 86016
    assert cost.energy / CONV1.macs == pytest.approx(5469.65e-15, rel=1e-6)


def test_eyeriss_like_gating():
    """example_designs/sparseloop/04.2.1-eyeriss-like-gating @67b75f2: CONV3 of AlexNet, density 0.275."""
    problem = thinned(convolution(N=4, C=256, M=384, P=13, Q=13, R=3, S=3), 0.275)
    nodes = list(EYERISS.nodes)
    nodes[5] = dataclasses.replace(nodes[5], gated_by=(X,))
    machine = NestMachine(nodes=tuple(nodes), mac_energy=0.315 * PJ, gating=1.0)
    nest = mapping(
        ("M6 C64", ALL), ("N4 P13", (X, Y)), ("Q13", ()), ("M4 S3", ()), ("", (X,)), ("R3 C4", (W,)), ("M16", (Y,))
    )
    found = counted(problem, machine, nest)
    assert found["ifmap", X] == (3833856, 92160, 0) and found["psum", Y] == (3828864, 314496, 3833856)
    reads, fills, _ = found["weights", W]
    assert math.ceil(reads) == 1054311 and fills == 73728
    energy = nest_cost(problem, machine, nest).energies["mac"]
    assert energy == pytest.approx(51808813.24 * PJ, rel=1e-7)  # 164,472,423 of 598,081,536 MACs


def test_simba_like():
    """workspace/example_designs/.../simba_like/ref_outputs/default_problem, stats and map @67b75f2."""
    machine = NestMachine(nodes=(
        memory("dram"), memory("glb"), NestFanout(name="pes", size=16.0), memory("inputs"),
        NestFanout(name="lanes", size=4.0), memory("weights"), memory("sums"), memory("registers"),
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


STATIONARY = NestMachine(nodes=(
    memory("dram"), memory("glb"), NestFanout(name="pes", size=256.0), memory("spad"), memory("weight"), memory(
        "input"
    ),
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
