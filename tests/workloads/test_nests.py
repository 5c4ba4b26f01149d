"""Layers, architectures and mappings from files: shipped ones, Timeloop's, and refusals in one line."""

import math
import random
import re

import pytest

from jaxroof.nests import accesses, nest_cost
from workloads import nests
from workloads.nests.checks import require_names, residents

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
    paths = {}
    texts = {"arch": ARCHITECTURE, "problem": PROBLEM, "mapping": MAPPING, "energies": ENERGIES}
    for name, text in texts.items():
        paths[name] = tmp_path / f"{name}.yaml"
        paths[name].write_text(text, encoding="utf-8")
    return {name: str(path) for name, path in paths.items()}


def test_timeloop_files_of_exercise_04(timeloop):
    """01_accelergy_timeloop_2020_ispass/timeloop/04-model-conv1d+oc-3levelspatial, cp: stats and ERT @82b6304."""
    problem = nests.timeloop_problem(timeloop["problem"])
    machine = nests.timeloop_architecture(timeloop["arch"], timeloop["energies"])
    mapping = nests.timeloop_mapping(timeloop["mapping"], problem, machine)
    cost = nest_cost(problem, machine, mapping)
    assert cost.cycles == 3072 and cost.utilization == 1.0 and cost.fits
    assert tuple(cost.accesses["buffer", "Inputs"]) == (36, 1152, 36, 0)
    assert tuple(cost.accesses["registers", "Outputs"]) == (16, 2560, 512, 3072)
    # Printed energies of the reference, pJ: MACC 41533.44; RegisterFile 22228.62 + 28766.45 + 41842.11 and 42.32 of
    # leakage; GlobalBuffer 28504.84 + 102355.70 + 107632.27 and 391.84; MainMemory 196608 + 36864 + 32768.
    printed = {"mac": 41533.44, "registers": 92879.50, "buffer": 238884.65, "main": 266240.0}
    for name, energy in printed.items():
        assert cost.energies[name] == pytest.approx(energy * 1e-12, rel=1e-4), name


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
    path = tmp_path / "constrained.yaml"
    path.write_text(ARCHITECTURE.replace("meshX: 16}", "meshX: 16}" + CONSTRAINED.rstrip()) + TARGETS, encoding="utf-8")
    _, units, buffer, registers = nests.timeloop_architecture(str(path)).nodes
    assert units.limits == (("P", 1.0, 1.0), ("R", 1.0, 1.0)) and units.least == 0.5
    assert not units.multicast and not units.reduces
    assert buffer.limits == (("P", 1.0, 1.0), ("K", 1.0, 8.0), ("R", math.inf, math.inf)) and buffer.order == ("K", "R")
    problem = nests.timeloop_problem(timeloop["problem"])
    machine = nests.timeloop_architecture(str(path))
    assert registers.passes == ("Weights",) and residents(problem, machine, {}, "test")[3] == ("Inputs", "Outputs")


SPARSE = """
architecture:
  version: '0.4'
  subtree:
  - name: eyeriss
    attributes: {technology: 45nm}
    local:
    - {name: "DRAM[1..1]", class: DRAM, attributes: {width: 64, datawidth: 16}}
    - name: "shared_glb[1..1]"
      class: storage
      attributes: {depth: 12800, width: 64, read_bandwidth: 16, write_bandwidth: 16, datawidth: 16}
    - {name: "inter_PE_column_spatial[1..1]", class: dummy_storage, attributes: {width: 1}}
    - {name: "inter_PE_spatial[1..14]", class: dummy_storage, attributes: {width: 1}}
    - name: "ifmap_spad[1..168]"
      attributes: {depth: 12, width: 17, datawidth: 17, read_bandwidth: 2, write_bandwidth: 2}
    - name: "weights_spad[1..168]"
      attributes: {depth: 224, width: 16, datawidth: 16, read_bandwidth: 2, write_bandwidth: 2}
    - {name: "psum_spad[1..168]", attributes: {depth: 24, width: 16, datawidth: 16}}
    - {name: "mac[1..168]", class: intmac}
architecture_constraints:
  targets:
  - {target: shared_glb, type: dataspace, keep: [Inputs, Outputs], bypass: [Weights]}
  - {target: inter_PE_column_spatial, type: spatial, factors: "N=1,C=1,P=1,R=1,S=1", permutation: NCPRSQM, split: 7}
  - {target: inter_PE_column_spatial, type: temporal, factors: "C=1,M=1,R=1,S=1,N=1,P=1,Q=1", permutation: CMRSNPQ}
  - {target: inter_PE_column_spatial, type: dataspace, bypass: [Weights, Inputs, Outputs]}
  - {target: inter_PE_spatial, type: spatial, factors: "N=1,P=1,Q=1,R=1", permutation: NPQRSCM, split: 4}
  - {target: ifmap_spad, type: dataspace, keep: [Inputs], bypass: [Weights, Outputs]}
  - {target: ifmap_spad, type: temporal, factors: "M=1,C=1,P=1,Q=1,R=1,S=1", permutation: NMCPQRS}
  - {target: weights_spad, type: dataspace, keep: [Weights], bypass: [Outputs, Inputs]}
  - {target: weights_spad, type: temporal, factors: "M=1,P=1,Q=1,S=1", permutation: NMPQSCR}
  - {target: psum_spad, type: dataspace, keep: [Outputs], bypass: [Weights, Inputs]}
  - {target: psum_spad, type: temporal, factors: "C=1,R=1,S=1,P=1,Q=1", permutation: NCPQRSM}
problem:
  version: '0.4'
  instance:
    {C: 256, M: 384, N: 4, P: 13, Q: 13, R: 3, S: 3, densities: {
      Inputs: {distribution: fixed_structured, density: 0.275}, Weights: 0.446133, Outputs: 0.403}}
  shape:
    name: convolution
    dimensions: [C, M, R, S, N, P, Q]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: [[[N]], [[C]], [[R], [P]], [[S], [Q]]]}
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read_write: true}
sparse_optimizations:
  targets:
  - name: DRAM
    representation_format:
      data_spaces:
      - {name: Inputs, ranks: [{format: UOP}, {format: RLE}]}
      - {name: Outputs, ranks: [{format: UOP}, {format: RLE}]}
  - name: weights_spad
    action_optimization: [{type: gating, options: [{target: Weights, condition_on: [Inputs]}]}]
mapping:
- {target: psum_spad, type: datatype, keep: [Outputs], bypass: [Weights, Inputs]}
- {target: inter_PE_spatial, type: datatype, keep: [], bypass: [Weights, Inputs, Outputs]}
- {target: psum_spad, type: temporal, factors: C1 M2 R1 S1 N1 P1 Q1, permutation: MCRSNPQ}
- {target: weights_spad, type: temporal, factors: C4 M1 R3 S1 N1 P1 Q1, permutation: CRMSNPQ}
- {target: inter_PE_spatial, type: spatial, factors: C2 M4 R1 S1 N1 P1 Q1, permutation: CMRSNPQ, split: 0}
- {target: inter_PE_spatial, type: temporal, factors: C1 M1 R1 S1 N1 P1 Q1, permutation: CMRSNPQ}
- {target: inter_PE_column_spatial, type: spatial, factors: C1 M8 R1 S1 N1 P1 Q1, permutation: MCRSNPQ, split: 1}
- {target: shared_glb, type: temporal, factors: C1 M1 R1 S1 N4 P13 Q13, permutation: NPQCMRS}
- {target: DRAM, type: temporal, factors: C32 M6 R1 S3 N1 P1 Q1, permutation: SMCRNPQ}
"""


def test_a_sparse_design_of_subtrees(tmp_path):
    """sparseloop 04.2.2 @09545d3: its input as the front end writes it, and the mapping of its reference output."""
    path = tmp_path / "design.yaml"
    path.write_text(SPARSE, encoding="utf-8")
    problem, machine = nests.timeloop_problem(str(path)), nests.timeloop_architecture(str(path))
    names = [node.name for node in machine.nodes]
    assert names[:4] == ["DRAM", "shared_glb", "inter_PE_column_spatial", "inter_PE_spatial"] and machine.units == 168
    cost = nest_cost(problem, machine, nests.timeloop_mapping(str(path), problem, machine))
    moved = cost.accesses
    assert moved["weights_spad", "Weights"].reads == pytest.approx(2569882, abs=1)
    assert moved["DRAM", "Inputs"].reads == pytest.approx(380160, abs=1)
    assert moved["DRAM", "Outputs"].updates == pytest.approx(3347596, abs=1)
    assert moved["shared_glb", "Outputs"][1:] == (24660480, 8047104, 24920064)
    assert cost.fits and cost.utilization == 64 / 168


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "format: UOP}, {format: RLE}]}\n      - {name: Outputs",
            "format: XYZ}]}\n      - {name: Outputs",
            "format XYZ is none",
        ),
        ("type: gating", "type: spatial_skipping", "spatial_skipping is no gating or skipping"),
        ("name: weights_spad\n    action", "name: weights\n    action", "for weights, which is no node"),
        ("[1..14]", "[1..5]", "168 of it, below 5 of inter_PE_spatial"),
        ("fixed_structured", "banded", "distribution banded is none of"),
        ('"mac[1..168]"', '"mac[2..168]"', "must be a name, NAME[0..N] or NAME[1..N]"),
    ],
)
def test_refusals_of_sparse_designs(tmp_path, old, new, said):
    path = tmp_path / "design.yaml"
    path.write_text(SPARSE.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError) as error:
        nests.timeloop_problem(str(path))
        nests.timeloop_architecture(str(path))
    assert said in str(error.value) and "\n" not in str(error.value) and "design.yaml" in str(error.value)


@pytest.mark.parametrize("seed", range(200))
def test_broken_designs_are_refused_in_one_line(tmp_path, seed):
    """Any value of the file replaced by something else: a machine, or a ValueError of one line."""
    draw = random.Random(seed)
    places = list(re.finditer(r"(?<=: )[^\s{}\[\],][^{}\[\],\n]*|\[[^\[\]]*\]|\{[^{}]*\}", SPARSE))
    found = draw.choice(places)
    other = draw.choice(["7", "-1", "0", "[]", "{}", "x y", "null", "[1, a]", "{a: 1}", "1e400", "[[C]]", "true"])
    path = tmp_path / "design.yaml"
    path.write_text(SPARSE[: found.start()] + other + SPARSE[found.end() :], encoding="utf-8")
    try:
        problem, machine = nests.timeloop_problem(str(path)), nests.timeloop_architecture(str(path))
        nests.timeloop_mapping(str(path), problem, machine)
    except ValueError as error:
        assert "\n" not in str(error) and "design.yaml" in str(error)


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
    path = tmp_path / "earlier.yaml"
    path.write_text(EARLIER + PROBLEM, encoding="utf-8")
    problem, machine = nests.timeloop_problem(str(path)), nests.timeloop_architecture(str(path))
    assert [node.name for node in machine.nodes] == ["DRAM", "below_DRAM", "spad", "below_spad"] and machine.units == 64
    cost = nest_cost(problem, machine, nests.timeloop_mapping(str(path), problem, machine))
    assert cost.instances["spad"] == 16 and cost.utilization == 0.5


def test_spatial_constraints_of_a_memory_are_for_the_fanout_below_it(tmp_path):
    path = tmp_path / "earlier.yaml"
    path.write_text(EARLIER + PROBLEM + SPATIAL, encoding="utf-8")
    below_memory, below_spad = (nests.timeloop_architecture(str(path)).nodes[place] for place in (1, 3))
    assert below_memory.limits == (("R", 1.0, 1.0),) and below_spad.limits == (("K", 2.0, 2.0),)


def test_without_an_energy_table_energies_are_zero(timeloop):
    machine = nests.timeloop_architecture(timeloop["arch"])
    assert machine.mac_energy == 0.0 and machine.units == 16


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
        ("mapping", "C=16", "C=8", "factors of C multiply to 16; its size is 32"),
        ("mapping", "target: buffer", "target: cache", "there is no target cache; there are main, units"),
        ("mapping", "factors: C1 K1 R1 P1", "factors: C2 K1 R1 P1", "units: it takes no temporal loops"),
        ("energies", "top.buffer", "top.cache", "buffer: "),
        ("problem", "{C: 32, K: 32", "{C: 32, KK: 32", "problem.instance: there is no KK; "),
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
    changed = tmp_path / f"{name}.yaml"
    changed.write_text(changed.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError) as error:
        problem = nests.timeloop_problem(timeloop["problem"])
        machine = nests.timeloop_architecture(timeloop["arch"], timeloop["energies"])
        nests.timeloop_mapping(timeloop["mapping"], problem, machine)
    assert said in str(error.value) and "\n" not in str(error.value) and f"{name}.yaml" in str(error.value)


def test_shipped_architectures_hold_shipped_layers():
    for name in nests.architecture_names():
        machine = nests.architecture(name).value
        for layer in nests.layer_names():
            assert residents(nests.layer(layer).value, machine, {}, name)[0], (name, layer)


def test_macs_of_networks():
    """AlexNet 666 million in its five convolutions (724 with all products), as in Chen et al., JSSC 2017, table V."""
    macs = {layer: nests.layer(layer).value.macs for layer in nests.layer_names()}
    # By hand: 96 x 55^2 x 3 x 11^2; 2 groups x 128 x 27^2 x 48 x 5^2.
    assert macs["alexnet.conv1"] == 96 * 55**2 * 363 and macs["alexnet.conv2"] == 256 * 27**2 * 1200
    assert sum(value for layer, value in macs.items() if layer.startswith("alexnet.conv")) == pytest.approx(
        666e6, rel=1e-3
    )
    for network, expected in (("vgg16", 15.47e9), ("resnet50", 4.09e9)):
        layers = map(nests.layer, nests.network_layers(network))
        assert sum(entry.count * entry.value.macs for entry in layers) == pytest.approx(expected, rel=2e-3), network


LAYER = """
kind = "einsum"
output = "Outputs"
sizes = { B = 2, K = 8, X = 6, R = 3 }
tensors = { Weights = "K, R", Inputs = "B, 2*X + R", Outputs = "B, K, X" }
"""


def test_an_einsum_of_a_file(tmp_path):
    path, mapped = tmp_path / "layer.toml", tmp_path / "mapping.toml"
    path.write_text(LAYER, encoding="utf-8")
    mapped.write_text('[loops]\nDRAM = "B2 K2 X6"\nshared_glb = "K4"\nweights_spad = "R3"\n', encoding="utf-8")
    problem, machine = nests.layer(str(path)).value, nests.architecture("eyeriss_like").value
    found = accesses(problem, machine, nests.mapping(str(mapped), problem, machine))
    # 2 images of 13 columns; X is innermost and slides by 2 over tiles of 3: 3 + 5 x 2 for each image and half of K.
    assert found["shared_glb", "Inputs"].fills == 2 * 2 * 13 and found["DRAM", "Weights"].reads == 2 * 8 * 3 * 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "einsum"', 'kind = "pool"', "kind: 'pool' is none of convolution, matmul, einsum"),
        ("K = 8", "K = 0", "sizes.K: 0 must be a whole number"),
        ("2*X + R", "2*X * R", "must be a dimension or 2*P"),
        ("B, 2*X + R", "X, 2*X + R", "Inputs: a dimension stands in two of its terms"),
        ('output = "Outputs"', 'output = "Sums"', "output: Sums is none of Weights, Inputs, Outputs"),
        ("sizes", "size", "there is no size; did you mean sizes?"),
        ("B = 2", "B = 9007199254740993", "must be a whole number"),
        ('kind = "einsum"', "", "kind is missing (convolution, matmul or einsum)"),
        ('kind = "einsum"', '[first]\nkind = "matmul"\n[second]', "second: must be a table with a kind: convolution, "),
        ('kind = "einsum"', 'stride = 2\n[first]\nkind = "einsum"', "stride: must be a table with a kind"),
        ("sizes = {", "size = {", "there is no size; did you mean sizes?"),
        ("tensors", "densities = { Inputs = 2.0 }\ntensors", "densities.Inputs: 2 must be at most 1"),
    ],
)
def test_refusals_of_layers(tmp_path, old, new, said):
    path = tmp_path / "layer.toml"
    path.write_text(LAYER.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError) as error:
        nests.layer(str(path))
    assert said in str(error.value) and str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[loops]\nDRAM = "B2 K8 X6 R3"\ncache = "B1"', "there is no node cache"),
        ('[loops]\nDRAM = "B2 K8 X6 R3 R1"', "DRAM: a dimension is there twice"),
        ('[loops]\nDRAM = "B2 K8 X6 Q3"', "DRAM: Q is no dimension"),
        ('[loops]\nDRAM = "B2 K8 X6"', "factors of R multiply to 1; its size is 3"),
        ('[loops]\nDRAM = "B2 K8 X-6"', "'X-6' must be a dimension and a count"),
        ('[loops]\nDRAM = "B2 K8 X6 R3"\n[keeps]\nDRAM = ["Weights"]', "must reside in the outermost memory, DRAM"),
        ('[loops]\nDRAM = "B2 K8 X6 R3"\n[keeps]\npsum_spad = ["Inputs"]', "Inputs cannot reside there"),
        ('[loops]\nDRAM = "B2 K8 X6 R3"\n[keeps]\nPE_rows = ["Inputs"]', "Inputs cannot reside there; it keeps none"),
        ('padded = true\n[loops]\nDRAM = "B2 K80 X6 R3"', "K multiply to 80; its size is 8, and at most twice that"),
    ],
)
def test_refusals_of_mappings(tmp_path, text, said):
    path, mapped = tmp_path / "layer.toml", tmp_path / "mapping.toml"
    path.write_text(LAYER, encoding="utf-8")
    mapped.write_text(text, encoding="utf-8")
    problem, machine = nests.layer(str(path)).value, nests.architecture("eyeriss_like").value
    with pytest.raises(ValueError) as error:
        nests.mapping(str(mapped), problem, machine)
    assert said in str(error.value) and str(error.value).startswith(str(mapped))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clock_MHz = 1", "nodes are missing"),
        ("[[nodes]]\nfanout = 'a'\nsize = 2", "the outermost node, a, must be a memory"),
        ("[[nodes]]\nmemory = 'a'\n[[nodes]]\nmemory = 'a'", "two nodes have one name"),
        ("[[nodes]]\nmemory = 'a'\ncapacity_words = -1", "node 1: capacity_words: -1 must be a positive number"),
        ("[[nodes]]\nmemory = 'a'\ncapacity = 1", "node 1: there is no capacity; did you mean"),
        ("gating = 1\n[[nodes]]\nmemory = 'a'", "gating: 1 must be true or false"),
        ("[[nodes]]\nmemory = 'a b'", "must be a name of letters"),
        ("[[nodes]]\nmemory = 'a'\nfactors = 'P==1'", "node 1: factors: 'P==1' must be a dimension and a count"),
        ("[[nodes]]\nmemory = 'a'\ncompression = {Inputs = 'x'}", "compression.Inputs: 'x' must be a positive number"),
        (
            "[[nodes]]\nmemory = 'a'\n[[nodes]]\nfanout = 'b'\nsize = 2\nleast_used = 2",
            "least_used: 2 must be at most 1",
        ),
        ("[[nodes]]\nfanout = 'b'\nsize = 2\ntransfer_energy_pJ = 1", "transfer_energy_pJ: 1 must be a table"),
        ("[[nodes]]\nfanout = 'b'", "node 1: size: it is missing; it must be a whole number"),
        ("[[nodes]]\nfanout = 'b'\nmemory = 'b'", "node 1: a node has one name, of either key: memory or fanout"),
        ("[[nodes]]\nloops = ['P']", "node 1: a node has one name, of either key: memory or fanout"),
        ("[[nodes]]\nmemory = 'a'\nkeeps = ['W']\npasses = ['W']", "node 1: keeps and passes both have W"),
        ("[[nodes]]\nmemory = 'a'\nfactors = 'P>=2 P<=8'", "node 1: factors: P is there twice"),
    ],
)
def test_refusals_of_architectures(tmp_path, text, said):
    path = tmp_path / "arch.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as error:
        nests.architecture(str(path))
    assert said in str(error.value) and str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("memory = 'a'\nkeeps = ['Inputs', 'Weight']", "a: Weight is no tensor; there are Weights, Inputs, Outputs"),
        ("memory = 'a'\npasses = ['Weight']", "a: Weight is no tensor"),
        ("memory = 'a'\ngated_by = ['Weight']", "a: Weight is no tensor"),
        ("memory = 'a'\ncompression = { Weight = 1.5 }", "a: Weight is no tensor"),
        ("fanout = 'a'\nsize = 2\ntransfer_energy_pJ = { Weight = 1 }", "a: Weight is no tensor"),
        ("memory = 'a'\nloops = ['Z']", "a: Z is no dimension; there are B, K, X, R, N, M"),
        ("memory = 'a'\norder = ['Z']", "a: Z is no dimension"),
        ("fanout = 'a'\nsize = 2\nfactors = 'Z<=2'", "a: Z is no dimension"),
    ],
)
def test_names_that_no_layer_has(tmp_path, text, said):
    """A node may name weights, windows or channels that a layer lacks, and what the layer has."""
    layer, path = tmp_path / "layer.toml", tmp_path / "arch.toml"
    layer.write_text(LAYER, encoding="utf-8")
    path.write_text(f"[[nodes]]\nmemory = 'DRAM'\nloops = ['X', 'S']\n[[nodes]]\n{text}", encoding="utf-8")
    with pytest.raises(ValueError) as error:
        require_names(nests.layer(str(layer)).value, nests.architecture(str(path)).value, "arch")
    assert str(error.value).startswith(f"arch: {said}")
