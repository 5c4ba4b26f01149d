"""Layers, architectures and mappings in TOML: shipped ones, einsums, and refusals in one line."""

import pytest

from jaxroof.nests import accesses
from tests.trace_files import refused, written
from workloads import nests
from workloads.nests.checks import require_names, residents


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
    problem = nests.layer(written(tmp_path, "layer.toml", LAYER)).value
    machine = nests.architecture("eyeriss_like").value
    loops = '[loops]\nDRAM = "B2 K2 X6"\nshared_glb = "K4"\nweights_spad = "R3"\n'
    mapped = nests.mapping(written(tmp_path, "mapping.toml", loops), problem, machine)
    found = accesses(problem, machine, mapped)
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
    path = written(tmp_path, "layer.toml", LAYER.replace(old, new))
    error = refused(nests.layer, path)
    assert said in error and error.startswith(path)


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
    problem = nests.layer(written(tmp_path, "layer.toml", LAYER)).value
    mapped = written(tmp_path, "mapping.toml", text)
    error = refused(nests.mapping, mapped, problem, nests.architecture("eyeriss_like").value)
    assert said in error and error.startswith(mapped)


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
    path = written(tmp_path, "arch.toml", text)
    error = refused(nests.architecture, path)
    assert said in error and error.startswith(path)


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
    problem = nests.layer(written(tmp_path, "layer.toml", LAYER)).value
    nodes = f"[[nodes]]\nmemory = 'DRAM'\nloops = ['X', 'S']\n[[nodes]]\n{text}"
    machine = nests.architecture(written(tmp_path, "arch.toml", nodes)).value
    assert refused(require_names, problem, machine, "arch").startswith(f"arch: {said}")
