"""Timeloop's files: exercise 04, constraints, earlier subtrees, and refusals in one line."""

import math

import pytest

from jaxroof.nests import nest_cost
from tests.trace_files import refused, written
from workloads import nests
from workloads.nests.checks import residents

ARCHITECTURE = """
architecture:
  version: 0.4
  nodes:
  - !Container
    name: chip
  - !Component
    name: main
    class: DRAM
    attributes: {width: 256, datawidth: 8}
  - !Container
    name: units
    spatial: {meshX: 16}
  - !Component
    name: buffer
    class: SRAM
    attributes: {depth: 32768, width: 64, datawidth: 8}
  - !Component
    name: registers
    class: regfile
    attributes: {depth: 64, width: 8, datawidth: 8}
  - !Component
    name: unit
    class: intmac
"""

PROBLEM = """
problem:
  version: 0.4
  shape:
    name: conv1d
    dimensions: [C, K, R, P]
    coefficients: [{name: Stride, default: 1}]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[K]], [[R]]]}
    - {name: Inputs, projection: [[[C]], [[R], [P, Stride]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read_write: true}
  instance: {C: 32, K: 32, R: 3, P: 16}
"""

MAPPING = """
mapping:
- {target: main, type: temporal, factors: "R=1,P=1,K=1,C=1", permutation: PRKC}
- {target: units, type: spatial, factors: [R=1, P=1, K=1, C=16], permutation: PRKC}
- {target: inter_units_spatial, type: temporal, factors: C1 K1 R1 P1}
- {target: buffer, type: temporal, factors: "R=3,P=1,K=32,C=2", permutation: PRKC}
- {target: registers, type: temporal, factors: "R=1,P=16,K=1,C=1", permutation: RPKC}
"""

ENERGIES = """
ERT_summary:
  table_summary:
  - name: top.main[1..1]
    actions: [{name: read, energy: 2048}, {name: write, energy: 2048}, {name: update, energy: 2048}]
  - name: top.buffer[1..16]
    actions:
    - {name: read, average_energy: 20, max_energy: 43.353054}
    - {name: write, energy: 30.878292}
    - {name: update, energy: 30.878292}
    - {name: leak, energy: 0.007972}
  - name: top.registers[1..16]
    actions:
    - {name: read, energy: 0.42564}
    - {name: write, energy: 0.42564}
    - {name: update, energy: 0.42564}
    - {name: leak, energy: 0.000861}
  - name: top.unit[1..16]
    actions: [{name: compute, energy: 0.845}]
"""


@pytest.fixture
def timeloop(tmp_path):
    texts = {"arch": ARCHITECTURE, "problem": PROBLEM, "mapping": MAPPING, "energies": ENERGIES}
    return {name: written(tmp_path, f"{name}.yaml", text) for name, text in texts.items()}


def read(paths):
    """Problem, machine and mapping of the files."""
    problem = nests.timeloop_problem(paths["problem"])
    machine = nests.timeloop_architecture(paths["arch"], paths["energies"])
    return problem, machine, nests.timeloop_mapping(paths["mapping"], problem, machine)


def test_timeloop_files_of_exercise_04(timeloop):
    """01_accelergy_timeloop_2020_ispass/timeloop/04-model-conv1d+oc-3levelspatial, cp: stats and ERT @82b6304."""
    cost = nest_cost(*read(timeloop))
    assert cost.cycles == 3072 and cost.utilization == 1.0 and cost.fits
    assert tuple(cost.accesses["buffer", "Inputs"]) == (36, 1152, 36, 0)
    assert tuple(cost.accesses["registers", "Outputs"]) == (16, 2560, 512, 3072)
    # Printed energies of the reference, pJ: MACC 41533.44; RegisterFile 22228.62 + 28766.45 + 41842.11 and 42.32 of
    # leakage; GlobalBuffer 28504.84 + 102355.70 + 107632.27 and 391.84; MainMemory 196608 + 36864 + 32768.
    printed = {"mac": 41533.44, "registers": 92879.50, "buffer": 238884.65, "main": 266240.0}
    for name, energy in printed.items():
        assert cost.energies[name] == pytest.approx(energy * 1e-12, rel=1e-4), name


def test_without_an_energy_table_energies_are_zero(timeloop):
    machine = nests.timeloop_architecture(timeloop["arch"])
    assert machine.mac_energy == 0.0 and machine.units == 16


CONSTRAINED = """
    constraints:
      min_parallelism: 0.5
      spatial: {permutation: [C, K], factors: [P=1, R=1], split: 1, no_reuse: true}
"""

TARGETS = """
architecture_constraints:
  targets:
  - {target: buffer, type: temporal, factors: "P=1 K<=8 R=0", permutation: RK}
  - {target: registers, type: bypass, bypass: [Weights]}
"""


def test_constraints_of_timeloop(timeloop, tmp_path):
    constrained = ARCHITECTURE.replace("meshX: 16}", "meshX: 16}" + CONSTRAINED.rstrip()) + TARGETS
    machine = nests.timeloop_architecture(written(tmp_path, "constrained.yaml", constrained))
    _, units, buffer, registers = machine.nodes
    assert units.limits == (("P", 1.0, 1.0), ("R", 1.0, 1.0)) and units.least == 0.5
    assert not units.multicast and not units.reduces
    assert buffer.limits == (("P", 1.0, 1.0), ("K", 1.0, 8.0), ("R", math.inf, math.inf)) and buffer.order == ("K", "R")
    problem = nests.timeloop_problem(timeloop["problem"])
    assert registers.passes == ("Weights",) and residents(problem, machine, {}, "test")[3] == ("Inputs", "Outputs")


def test_constraints_of_a_memory_with_copies(tmp_path):
    """Spatial ones are for the fan-out of its copies, temporal ones for itself."""
    copies = "spatial: {meshX: 4}\n    constraints: {temporal: {factors: C=2}, spatial: {factors: K=4}}"
    text = ARCHITECTURE.replace("class: SRAM", f"class: SRAM\n    {copies}")
    _, _, fanout, buffer, _ = nests.timeloop_architecture(written(tmp_path, "copies.yaml", text)).nodes
    assert (fanout.name, fanout.size, fanout.limits) == ("buffer_spatial", 4.0, (("K", 4.0, 4.0),))
    assert buffer.limits == (("C", 2.0, 2.0),)


def test_aliases_stand_for_what_they_name(timeloop, tmp_path):
    shared = ARCHITECTURE.replace("attributes: {depth: 32768, width: 64, datawidth: 8}", "attributes: *words")
    shared = shared.replace(
        "attributes: {depth: 64, width: 8, datawidth: 8}", "attributes: {<<: *words, depth: 64, width: 8}"
    )
    shared = "words: &words {depth: 32768, width: 64, datawidth: 8}\n" + shared.lstrip()
    found = nests.timeloop_architecture(written(tmp_path, "shared.yaml", shared))
    assert found == nests.timeloop_architecture(timeloop["arch"])


def test_aliases_that_stand_for_too_much_are_refused(tmp_path):
    """Nine in each of nine lists: a few hundred bytes for a billion values."""
    lists = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    assert "more than 100,000 values, those of aliases counted" in refused(
        nests.timeloop_problem, written(tmp_path, "laughs.yaml", lists)
    )
    assert "an alias is inside of what it names" in refused(
        nests.timeloop_problem, written(tmp_path, "circle.yaml", "problem: &a {b: *a}\n")
    )
    assert "has a control character" in refused(
        nests.timeloop_problem, written(tmp_path, "escape.yaml", 'problem: "\\e[31m"\n')
    )


EARLIER = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local: [{name: DRAM, class: DRAM, attributes: {datawidth: 8}}]
    subtree:
    - name: "PE[0..15]"
      local:
      - {name: spad, class: regfile, attributes: {depth: 64, width: 8, datawidth: 8}}
      - {name: "mac[0..3]", class: intmac}
mapping:
- {target: DRAM, type: temporal, factors: C4 K8 R1 P1, permutation: KC}
- {target: DRAM, type: spatial, factors: C8 K2 R1 P1, permutation: CK}
- {target: spad, type: temporal, factors: C1 K1 R3 P16, permutation: RP}
- {target: spad, type: spatial, factors: C1 K2 R1 P1, permutation: K}
"""

SPATIAL = """
mapspace_constraints:
  targets:
  - {target: DRAM, type: spatial, factors: R=1}
  - {target: inter_spad_spatial, type: spatial, factors: K=2}
"""


def test_earlier_subtrees(tmp_path):
    """Ranges from 0 count what is in each of the outer ones; a fan-out without a name is below the memory outside."""
    path = written(tmp_path, "earlier.yaml", EARLIER + PROBLEM)
    problem, machine = nests.timeloop_problem(path), nests.timeloop_architecture(path)
    assert [node.name for node in machine.nodes] == ["DRAM", "below_DRAM", "spad", "below_spad"] and machine.units == 64
    cost = nest_cost(problem, machine, nests.timeloop_mapping(path, problem, machine))
    assert cost.instances["spad"] == 16 and cost.utilization == 0.5


def test_spatial_constraints_of_a_memory_are_for_the_fanout_below_it(tmp_path):
    path = written(tmp_path, "earlier.yaml", EARLIER + PROBLEM + SPATIAL)
    _, below_memory, _, below_spad = nests.timeloop_architecture(path).nodes
    assert below_memory.limits == (("R", 1.0, 1.0),) and below_spad.limits == (("K", 2.0, 2.0),)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("problem", "K: 32", "K: many", "problem.instance.K: 'many' must be a whole number"),
        ("problem", "[[K]], [[P]]", "[[K]], [[Z]]", "Outputs: Z is no dimension; there are C, K, R, P"),
        ("problem", "problem:", "workload:", "it has no problem"),
        ("problem", "name: Stride", "name: [Stride]", "coefficients: name: ['Stride'] must be a name"),
        ("problem", "projection: [[[K]], [[P]]]", "projection: 7", "Outputs: projection: must be a list of axes"),
        ("arch", "!Component", "!Wire", "not YAML: could not determine a constructor"),
        ("arch", "meshX: 16", "meshX: 0", "units: spatial.meshX: 0 must be a whole number"),
        ("arch", "class: intmac", "size: 3", "unit: there is no size; known: "),
        (
            "arch",
            "meshX: 16}",
            "meshX: 16}\n    constraints: {spatial: {no_link_transfer: [Inputs]}}",
            "there is no no_link",
        ),
        ("arch", "meshX: 16}", "meshX: 16}\n    constraints: {spatial: {no_reuse: [Inputs]}}", "read for all tensors"),
        (
            "arch",
            "meshX: 16}",
            "meshX: 16}\n    constraints: {temporal: {factors: C2}}",
            "for a memory, not for a fan-out",
        ),
        ("arch", "meshX: 16}", "meshX: 16}\n    constraints: {skew: 1}", "constraints: there is no skew"),
        (
            "arch",
            "class: SRAM",
            "class: SRAM\n    constraints: {spatial: {factors: C=4}}",
            "are for a fan-out, not for a",
        ),
        (
            "arch",
            "class: SRAM",
            "class: SRAM\n    constraints: {min_parallelism: 1}",
            "are for a fan-out, not for a memory",
        ),
        ("mapping", "C=16", "C=8", "factors of C multiply to 16; its size is 32"),
        ("mapping", "target: buffer", "target: cache", "there is no target cache; there are main, units"),
        ("mapping", "factors: C1 K1 R1 P1", "factors: C2 K1 R1 P1", "units: it takes no temporal loops"),
        ("energies", "top.buffer", "top.cache", "buffer: "),
        ("problem", "{C: 32, K: 32", "{C: 32, KK: 32", "problem.instance: there is no KK; "),
        ("problem", "P: 16}", "P: 16, densities: {7: 0.5}}", "problem.instance.densities: a name: 7 must be text"),
        (
            "problem",
            "P: 16}",
            "P: 16, densities: {Input: 0.5}}",
            "densities: Input is no data space; there are Weights, Inputs, ",
        ),
        ("problem", "[[K]], [[P]]", "[[K]], []", "Outputs: projection: [] must be a list of terms"),
        ("problem", "[[K]], [[P]]", "[[K]], [[]]", "Outputs: projection: a term has a dimension"),
        ("problem", "read_write: true", "read_write: 'no'", "Outputs: read_write: 'no' must be true or false"),
        ("problem", "  instance:", "  instances:", "problem.instance: it is missing; it must be a table"),
        (
            "arch",
            "meshX: 16}",
            "meshX: 16}\n    constraints: {min_parallelism: 2}",
            "min_parallelism: 2 must be at most 1",
        ),
        ("mapping", "P=1,K=32,C=2", "R=1,P=1,K=32,C=2", "buffer: factors: a dimension is there twice"),
        (
            "mapping",
            "permutation: RPKC",
            "permutation: RPKZ",
            "registers: permutation: Z is no dimension; there are C, ",
        ),
        ("mapping", "target: registers", "target: buffer", "buffer: two directives give its temporal loops"),
    ],
)
def test_refusals_of_timeloop_files(timeloop, tmp_path, name, old, new, said):
    text = (tmp_path / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    written(tmp_path, f"{name}.yaml", text.replace(old, new))
    error = refused(read, timeloop)
    assert said in error and f"{name}.yaml" in error
