"""`jaxroof map`: tables, JSON, files that it reads again, and refusals."""

import json

import pytest

from tests.commands import printed, refused

EYERISS = """
[loops]
DRAM = "P8 Q2 M4"
shared_glb = "P14 Q4"
PE_columns = "Q14"
PE_rows = "C3 S3"
weights_spad = "R3"
psum_spad = "M8"
"""

LAYER = """
kind = "convolution"
stride = 2
sizes = { N = 1, M = 32, C = 3, P = 112, Q = 112, R = 3, S = 3 }
"""


NETWORK = (
    LAYER.replace("kind", "[first]\ncount = 3\nkind")
    + """
[second]
kind = "matmul"
sizes = { M = 8, N = 16, K = 32 }
"""
)

SMALL = """
[[nodes]]
memory = "DRAM"
read_energy_pJ = 512

[[nodes]]
memory = "spad"
capacity_words = 1
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"layer": LAYER, "network": NETWORK, "mapping": EYERISS}
    texts |= {"small": SMALL, "wrong": SMALL + 'keeps = ["Inputs", "Weight"]\n'}
    texts |= {"free": SMALL.replace("read_energy_pJ = 512", ""), "writes": SMALL.replace("read", "write")}
    texts["leaks"] = SMALL.replace("read_energy_pJ", "leakage_pJ_per_cycle")
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_given_mapping(files, capsys):
    """The published outputs of the design eyeriss_like: 59.28 uJ, 86,016 cycles, 75 %."""
    words = ["map", "layer.toml", "--arch", "eyeriss_like", "--mapping", "mapping.toml"]
    out = printed(capsys, *words)
    assert "86,016 cycles; 75.0 % of 168 units" in out and "59.3 uJ, 5.47 pJ per MAC: DRAM 61.8 %" in out
    answer = json.loads(printed(capsys, *words, "--json"))
    assert answer["energy"] == pytest.approx(59.28e-6, rel=1e-4) and answer["fits"]
    moved = answer["accesses"]["shared_glb.Inputs"]
    assert moved.pop("energy") == pytest.approx(3357302.30e-12, rel=1e-6)
    assert moved == {"tile": 9831, "reads": 1354752, "fills": 157296, "updates": 0}


def test_a_mapping_outside_of_limits_says_so(files, capsys):
    (files / "wide.toml").write_text(EYERISS.replace("C3 S3", "P2 S3").replace("P8 Q2", "P4 C3 Q2"), encoding="utf-8")
    words = ["map", "layer.toml", "--arch", "eyeriss_like", "--mapping", "wide.toml"]
    assert "note    PE_rows: P is 2, which the limits of the architecture do not allow" in printed(capsys, *words)
    assert json.loads(printed(capsys, *words, "--json"))["keeps_limits"] is False


def test_an_answer_is_a_mapping(files, capsys):
    words = ["map", "resnet50.conv2_3x3", "--arch", "eyeriss_like"]
    printed(capsys, *words, "--mappings", "20000", "-o", "result.json")
    answer = json.loads((files / "result.json").read_text(encoding="utf-8"))
    assert answer["search"]["evaluated"] >= 20000 and answer["fits"]
    again = json.loads(printed(capsys, *words, "--mapping", "result.json", "--json"))
    assert {name: again[name] for name in ("energy", "cycles")} == {name: answer[name] for name in ("energy", "cycles")}


def test_a_network(files, capsys):
    """Totals are the layers, each as often as the network has it; the layers are those that are mapped alone."""
    words = ["map", "network.toml", "--arch", "eyeriss_like", "--mappings", "20000"]
    answer = json.loads(printed(capsys, *words, "--json", "-o", "answer.json", "--plot", "energy.png"))
    first, second = answer["layers"]
    assert first["layer"] == "network.toml#first" and first["count"] == 3 and second["count"] == 1
    assert answer["energy"] == pytest.approx(3 * first["energy"] + second["energy"])
    assert answer["macs"] == 3 * 10838016 + 8 * 16 * 32
    assert sum(answer["energies"].values()) == pytest.approx(answer["energy"])
    assert json.loads((files / "answer.json").read_text(encoding="utf-8")) == answer
    assert (files / "energy.png").read_bytes().startswith(b"\x89PNG")
    alone = [words[0], "network.toml#first", *words[2:]]
    assert json.loads(printed(capsys, *alone, "--json"))["energy"] == first["energy"]
    out = printed(capsys, *words)
    assert "32,518,144 MACs, the best mapping of each layer" in out and "of 168 units busy" in out
    said = refused(capsys, *words, "--mapping", "mapping.toml")
    assert "--mapping is for one layer; network.toml has 2" in said
    said = refused(capsys, *alone, "--plot", "one.png")
    assert "--plot is for a network; network.toml#first is one layer" in said


def test_a_padded_mapping_is_read_again(files, capsys):
    words = ["map", "alexnet.conv1", "--arch", "eyeriss_like"]
    out = printed(capsys, *words, "--mappings", "50000", "--pad", "0.02", "-o", "padded.json")
    assert "is 55, padded to 56" in out
    answer = json.loads((files / "padded.json").read_text(encoding="utf-8"))
    assert answer["mapping"]["padded"] is True and answer["cycles"] < 732050
    again = json.loads(printed(capsys, *words, "--mapping", "padded.json", "--json"))
    assert again["cycles"] == answer["cycles"]
    assert "--pad 2 must be a share from 0 to 1" in refused(capsys, *words, "--pad", "2")


def test_names(capsys):
    found = json.loads(printed(capsys, "map", "--json"))
    assert "resnet50.conv2_3x3" in found["layers"] and "eyeriss" in found["architectures"]
    assert "118.0 M" in printed(capsys, "map")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--arch", "eyeriss"], "LAYER is missing"),
        (["resnet50.conv1"], "--arch is missing"),
        (["resnet50.conv9", "--arch", "eyeriss"], "there is no layer conv9; did you mean conv1"),
        (["resnet51.conv1", "--arch", "eyeriss"], "there is no layer resnet51.conv1; did you mean resnet50.conv1"),
        (["resnet50.conv1", "--arch", "eyerise"], "there is no architecture eyerise; did you mean eyeriss"),
        (["no.toml", "--arch", "eyeriss"], "no.toml: no such file"),
        (["resnet50.conv1", "--arch", "eyeriss", "--search", "magic"], "search magic is none of random"),
        (["resnet50.conv1", "--arch", "eyeriss", "--mappings", "1e12"], "--mappings 1000000000000 must be at most"),
        (["resnet50.conv1", "--arch", "eyeriss", "--energies", "e.yaml"], "--energies is for an arch.yaml"),
        (["layer.toml", "--arch", "eyeriss", "--mapping", "mapping.toml"], "there is no node shared_glb"),
        (
            ["layer.toml", "--arch", "eyeriss_like", "--mapping", "mapping.toml", "--seed", "1"],
            "--seed is for a search",
        ),
        (["layer.toml", "--arch", "eyeriss", "-o", "layer.toml"], "layer.toml"),
        (["--mapping", "mapping.toml"], "LAYER is missing, which --mapping is for"),
        (["-o", "answer.json"], "LAYER is missing, which --output is for"),
        (["layer.toml", "--arch", "small.toml", "--mappings", "2000"], "layer.toml on small.toml: no mapping of 2000"),
        (
            ["network.toml", "--arch", "small.toml", "--mappings", "2000"],
            "network.toml#first on small.toml: no mapping",
        ),
        (
            ["layer.toml", "--arch", "writes.toml", "--mappings", "2000"],
            "layer.toml on writes.toml: no mapping of 2000",
        ),
        (["layer.toml", "--arch", "leaks.toml", "--mappings", "2000"], "layer.toml on leaks.toml: no mapping of 2000"),
        (["layer.toml", "--arch", "free.toml"], "--objective edp: free.toml has no energies"),
        (["network.toml", "--arch", "free.toml", "--plot", "one.png"], "--plot draws energies; free.toml has none"),
        (["layer.toml", "--arch", "wrong.toml"], "wrong.toml: spad: Weight is no tensor; there are Weights, Inputs, "),
        (["layer.toml", "--arch", "wrong.toml", "--mapping", "mapping.toml"], "spad: Weight is no tensor"),
    ],
)
def test_refusals(files, capsys, words, said):
    assert said in refused(capsys, "map", *words)
