"""Search of mappings: enumeration finds what a loop over everything finds, and the others come close to it."""

import dataclasses
import itertools

import numpy as np
import pytest

from jaxroof.nests import NestFanout, NestMachine, NestMemory, NestProblem, NestTensor, nest_cost
from sweeps.studies.map import found_mapping
from sweeps.studies.map.pool import compiled_scores, scores
from sweeps.studies.map.space import mapping_space
from workloads import nests
from workloads.nests import checks
from workloads.nests.checks import convolution, residents


def machine(capacity=24.0):
    memories = [
        NestMemory(name=name, capacity=room, read_energy=energy, write_energy=energy, update_energy=energy)
        for name, room, energy in (("dram", np.inf, 200.0), ("rf", capacity, 1.0))
    ]
    return NestMachine(nodes=(memories[0], NestFanout(name="units", size=4.0), memories[1]), mac_energy=1.0)


PROBLEM = convolution({"M": 4, "C": 6, "P": 4, "R": 3})
KEPT = residents(PROBLEM, machine(), {}, "test")


def everything(objective):
    """The least objective of all mappings that fit, one after the other, in every order of the outer loops."""
    space = mapping_space(PROBLEM, machine(), KEPT, np.random.default_rng(0))
    best = np.inf
    for picks in itertools.product(*space.options):
        row = np.array(picks)
        if space.fits(row[None])[0]:
            for orders in space.orders:
                cost = nest_cost(PROBLEM, machine(), space.single(row, orders))
                value = {"energy": cost.energy, "cycles": cost.cycles, "edp": cost.energy * cost.cycles}[objective]
                best = min(best, float(value)) if cost.fits else best
    return best


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_enumeration_is_complete(objective):
    found = found_mapping(PROBLEM, machine(), KEPT, objective=objective, method="enumerate")
    value = found.cost.energy * (found.cost.cycles if objective == "edp" else 1.0)
    assert found.complete and found.cost.fits
    assert value == pytest.approx(everything(objective), rel=1e-6)


@pytest.mark.parametrize("method", ["random", "gradient"])
def test_other_methods_come_close(method):
    found = found_mapping(PROBLEM, machine(), KEPT, method=method, objective="energy", mappings=3000)
    assert found.cost.fits and not found.complete
    assert found.cost.energy <= 1.02 * everything("energy")


def test_columns_are_single_mappings():
    space = mapping_space(PROBLEM, machine(), KEPT, np.random.default_rng(0))
    rows = space.drawn(200, np.random.default_rng(1))
    assert len(rows) > 50 and (rows.prod(axis=2) == [4.0, 6.0, 4.0, 3.0]).all()
    for orders in space.orders:
        values = scores(space, rows, orders, "energy")
        for place in range(0, len(rows), 10):
            alone = nest_cost(PROBLEM, machine(), space.single(rows[place], orders))
            assert values[place] == pytest.approx(float(alone.energy), rel=1e-5)


@pytest.mark.parametrize("native", [True, False])
def test_compiled_scores_are_the_same(native, monkeypatch):
    if native:
        pytest.importorskip("llvmlite")
    else:
        monkeypatch.setattr("sweeps.run.compilers.loops_known", lambda: False)
    space = mapping_space(PROBLEM, machine(), KEPT, np.random.default_rng(0))
    rows = space.drawn(200, np.random.default_rng(1))
    for orders in space.orders:
        plain = scores(space, rows, orders, "edp")
        assert compiled_scores(space, orders, "edp")(rows) == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("method", ["random", "enumerate", "gradient"])
def test_limits_of_the_machine_are_kept(method):
    outer, units, inner = machine().nodes
    outer = dataclasses.replace(outer, limits=(("M", 1.0, 2.0), ("P", 2.0, np.inf)), order=("C", "M"))
    units = dataclasses.replace(units, limits=(("C", 2.0, 2.0), ("M", 1.0, 1.0)), least=0.5)
    inner = dataclasses.replace(inner, limits=(("R", np.inf, np.inf),))
    limited = NestMachine(nodes=(outer, units, inner), mac_energy=1.0)
    found = found_mapping(PROBLEM, limited, KEPT, objective="energy", method=method, mappings=3000)
    first, second, last = found.mapping.factors
    assert first.get("M", 1.0) <= 2.0 and first["P"] >= 2.0 and second["C"] == 2.0 and "M" not in second
    assert (
        last["R"] == 3.0 and "R" not in first and found.mapping.orders[0][-2:] in (("C", "M"), ("P", "C"), ("P", "M"))
    )
    assert found.cost.instances["rf"] >= 2.0 and found.cost.energy >= everything("energy")


def test_padded_sizes():
    """5 rows on 4 units: alone, 5 is prime and 1 unit works 5 times; padded to 8, or 6, more of them work."""
    problem = convolution({"M": 1, "C": 1, "P": 5, "R": 1})
    alone = found_mapping(problem, machine(), KEPT, objective="cycles", mappings=1000)
    padded = found_mapping(problem, machine(), KEPT, objective="cycles", mappings=1000, pad=0.6)
    assert alone.cost.cycles == 5.0 and padded.cost.cycles == 2.0
    assert np.prod([factors.get("P", 1.0) for factors in padded.mapping.factors]) in (6.0, 8.0)


def test_limits_that_no_factors_keep():
    outer, units, inner = machine().nodes
    limited = NestMachine(nodes=(outer, dataclasses.replace(units, limits=(("R", 2.0, 2.0),)), inner))
    with pytest.raises(ValueError, match="R = 3 has no factors that the architecture allows"):
        found_mapping(PROBLEM, limited, KEPT, mappings=2000)


def test_many_mappings_are_compiled(monkeypatch):
    monkeypatch.setattr("sweeps.studies.map.search.COMPILED", 1000)
    monkeypatch.setattr("sweeps.studies.map.pool.COMPILED_CHUNK", 8192)
    found = found_mapping(PROBLEM, machine(), KEPT, objective="energy", mappings=3000)
    assert found.cost.energy == pytest.approx(everything("energy"), rel=1e-6)


def test_tensors_pass_a_memory_that_costs_more_than_it_saves():
    """A level between them whose accesses cost as much as DRAM's: with bypass no tensor stays there."""
    outer, units, inner = machine().nodes
    useless = dataclasses.replace(outer, name="useless", read_energy=190.0, write_energy=190.0, update_energy=190.0)
    three = dataclasses.replace(machine(), nodes=(outer, useless, units, inner))
    kept = residents(PROBLEM, three, {}, "test")
    stays = found_mapping(PROBLEM, three, kept, objective="energy", mappings=5000)
    passes = found_mapping(PROBLEM, three, kept, objective="energy", mappings=5000, bypass=True)
    assert stays.mapping.kept == kept and passes.mapping.kept[1] == ()
    assert passes.cost.energy == pytest.approx(everything("energy"), rel=0.02)
    assert passes.cost.energy < 0.6 * stays.cost.energy


REFERENCE = {
    "eyeriss_like": {"DRAM": "P8 Q2 M4", "shared_glb": "P14 Q4", "PE_columns": "Q14", "PE_rows": "C3 S3",
                     "weights_spad": "R3", "psum_spad": "M8"},
    "simba_like": {"DRAM": "Q28", "GlobalBuffer": "P4", "PEs": "C3 M4", "PEInputBuffer": "Q4", "buffers": "M4",
                   "PEWeightBuffer": "R3 P4 S3", "PEAccuBuffer": "M2 P7"},
}  # fmt: skip
"""Mappings of the default problem that Timeloop's mapper found for two example designs: reference outputs @67b75f2."""


@pytest.mark.parametrize("name", REFERENCE)
def test_a_search_beats_the_mapper_of_the_reference(name):
    entry = nests.architecture(name).value
    problem = convolution({"N": 1, "M": 32, "C": 3, "P": 112, "Q": 112, "R": 3, "S": 3}, stride=2)
    loops = {node: checks.parsed_loops(text, node) for node, text in REFERENCE[name].items()}
    theirs = nest_cost(problem, entry, checks.built_mapping(problem, entry, loops, {}, name))
    mine = found_mapping(problem, entry, residents(problem, entry, {}, name), mappings=30_000).cost
    assert mine.fits and mine.energy * mine.cycles <= 0.8 * theirs.energy * theirs.cycles


def test_a_large_machine_and_problem_end():
    """As many dimensions, tensors and nodes as files may have: nothing grows with the product of all choices."""
    names = [f"D{number}" for number in range(16)]
    tensors = {
        f"T{number}": NestTensor(axes=tuple(((1, name),) for name in names[number::7]), output=number == 0)
        for number in range(8)
    }
    problem = NestProblem(sizes=dict.fromkeys(names, 8.0), tensors=tensors)
    nodes = tuple(NestMemory(name=f"N{number}", read_energy=1.0 / (number + 1)) for number in range(12))
    kept = residents(problem, NestMachine(nodes=nodes), {}, "test")
    found = found_mapping(problem, NestMachine(nodes=nodes), kept, mappings=10_000)
    assert found.cost.fits and not found.complete


def test_a_machine_too_small():
    with pytest.raises(ValueError, match="no mapping of .* fits"):
        found_mapping(PROBLEM, machine(capacity=2.0), KEPT, mappings=2000)


def test_seeds_repeat():
    one, two = (found_mapping(PROBLEM, machine(), KEPT, mappings=2000, seed=3) for _ in range(2))
    assert one.mapping.factors == two.mapping.factors and one.evaluated == two.evaluated
