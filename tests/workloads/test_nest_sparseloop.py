"""A sparse design of Timeloop, as its front end writes it: reading, refusals, and random damage."""

import random
import re

import pytest

from jaxroof.nests import nest_cost
from tests.trace_files import refused, written
from workloads import nests

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


def read(path):
    """Problem and machine of a file that has both."""
    return nests.timeloop_problem(path), nests.timeloop_architecture(path)


def test_a_sparse_design_of_subtrees(tmp_path):
    """sparseloop 04.2.2 @09545d3: its input as the front end writes it, and the mapping of its reference output."""
    path = written(tmp_path, "design.yaml", SPARSE)
    problem, machine = read(path)
    names = [node.name for node in machine.nodes]
    assert names[:4] == ["DRAM", "shared_glb", "inter_PE_column_spatial", "inter_PE_spatial"] and machine.units == 168
    cost = nest_cost(problem, machine, nests.timeloop_mapping(path, problem, machine))
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
    error = refused(read, written(tmp_path, "design.yaml", SPARSE.replace(old, new)))
    assert said in error and "design.yaml" in error


@pytest.mark.parametrize("seed", range(200))
def test_broken_designs_are_refused_in_one_line(tmp_path, seed):
    """Any value of the file replaced by something else: a machine, or a ValueError of one line."""
    draw = random.Random(seed)
    places = list(re.finditer(r"(?<=: )[^\s{}\[\],][^{}\[\],\n]*|\[[^\[\]]*\]|\{[^{}]*\}", SPARSE))
    found = draw.choice(places)
    other = draw.choice(["7", "-1", "0", "[]", "{}", "x y", "null", "[1, a]", "{a: 1}", "1e400", "[[C]]", "true"])
    path = written(tmp_path, "design.yaml", SPARSE[: found.start()] + other + SPARSE[found.end() :])
    try:
        nests.timeloop_mapping(path, *read(path))
    except ValueError as error:
        assert "\n" not in str(error) and "design.yaml" in str(error)
