"""The explorer of files that the command line names: chips and models of a person's own, and no other file."""

import json
import shlex
import urllib.error
import urllib.parse
import urllib.request

import pytest

from sweeps.cli import main
from sweeps.ui.answer import curve, record
from sweeps.ui.controls import controls
from sweeps.ui.offer import Offer, offer
from sweeps.ui.state import DEFAULT, State
from sweeps.ui.url import query_of, state_of
from tests.ui.browser import explorer

CHIP = """
name = "MyChip"
class = "gpu"
process = "4N"
peak = { bf16 = "1 PFLOP/s", fp8 = "2 PFLOP/s" }
memory = { capacity = "144 GB", bandwidth = "6 TB/s" }
link = { bandwidth = "600 GB/s", devices = 8 }
power = "800 W"
"""

MODEL = """
name = "MyModel"
model_type = "llama"
num_hidden_layers = 24
hidden_size = 2048
vocab_size = 64000
num_attention_heads = 16
num_key_value_heads = 4
intermediate_size = 5632
tie_word_embeddings = true
torch_dtype = "bfloat16"
"""

BARE = {
    "no link": 'class = "edge"\npeak = "20 TFLOP/s"\nmemory = { capacity = "32 GB", bandwidth = "200 GB/s" }\n',
    "SRAM alone": 'class = "wafer"\npeak = "1 PFLOP/s"\nmemory = { capacity = "44 GB", bandwidth = "20 PB/s" }\n',
    "a price": f'{CHIP}\nprice = "3 USD/h"\n',
}
"""Chips without some of what others have, and one with a price."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder that the explorer runs in, with a chip and a model."""
    (tmp_path / "mine.toml").write_text(CHIP)
    (tmp_path / "mymodel.toml").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_of_the_command_line_come_first_and_are_what_the_page_opens_with(folder):
    found = offer(["mine.toml", "h100-sxm"], ["mymodel.toml", "llama-3.1-8b"])
    # Another spelling of a name is the name of the list, which has it once.
    assert found.choices("hardware")[:2] == ("mine.toml", "H100-SXM")
    assert found.choices("model")[:2] == ("mymodel.toml", "Llama-3.1-8B")
    assert len(found.choices("hardware")) == len(Offer().choices("hardware")) + 1
    assert state_of("", found) == found.start == State(hardware="mine.toml", model="mymodel.toml")
    # What a URL does not name is as the page opens.
    assert state_of("batch=3", found) == State(hardware="mine.toml", model="mymodel.toml", batch=3)
    assert state_of(query_of(DEFAULT), found) == DEFAULT
    page = controls(found)
    assert '<optgroup label="Command line"><option value="mine.toml" selected>mine.toml</option>' in page
    assert page.count("selected") == controls(Offer()).count("selected") and "optgroup" not in controls(Offer())


def test_a_control_shows_the_end_of_a_path(folder):
    for name in ("chips/new/a.toml", "chips/old/a.toml", "chips/b<.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(CHIP)
    page = controls(offer(["chips/new/a.toml", "chips/old/a.toml", "chips/b<.toml"]))
    assert '<option value="chips/new/a.toml" selected>new/a.toml</option>' in page
    assert '<option value="chips/old/a.toml">old/a.toml</option>' in page
    assert '<option value="chips/b&lt;.toml">b&lt;.toml</option>' in page


def test_command_and_python_name_the_file_as_given(folder, capsys):
    path = folder / 'my "new" chip\'s.toml'
    path.write_text(CHIP)
    state = offer([str(path)], ["mymodel.toml"]).start
    shown = record(state)
    assert shlex.split(shown["command"])[:6] == [
        "jaxroof",
        "request",
        "--hardware",
        str(path),
        "--model",
        "mymodel.toml",
    ]
    assert main(shlex.split(shown["command"])[1:] + ["--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["metrics"]
    names: dict = {}
    exec(shown["python"], names)
    assert printed["tpot"] == names["found"].metrics["tpot"] == shown["metrics"]["tpot"]


@pytest.mark.parametrize("text", BARE.values(), ids=BARE)
def test_a_chip_without_some_part_works_in_all_controls(folder, text):
    (folder / "bare.toml").write_text(text)
    start = offer(["bare.toml"], ["mymodel.toml"]).start
    # Without a link the page opens with one device, else with the usual number.
    assert start.tp == (4 if "link" in text else 1)
    base = record(start)
    assert base["scaled"]["link"] == ("600 GB/s" if "link" in text else "")
    assert base["figures"][-1]["text"].startswith("0." if "price" in text else "no price")
    assert base["figures"][-1]["interval"].startswith("90 %: " if "price" in text else "state one in its file")
    for name in ("hbm_bandwidth", "hbm_capacity", "matrix", "link"):
        state = State(hardware="bare.toml", model="mymodel.toml", tp=start.tp, **{name: 2.0})
        found = record(state)
        assert ("--set" in found["command"]) == bool(found["scaled"][name])
        assert found["metrics"]["tpot"] <= base["metrics"]["tpot"]
        assert len(curve(state)["batch"]) == 11


def test_what_can_not_be_opens_with_its_reason(folder):
    (folder / "int8.toml").write_text(BARE["no link"].replace('"20 TFLOP/s"', '{ int8 = "20 TFLOP/s" }'))
    found = offer(["int8.toml"])
    assert found.start == State(hardware="int8.toml")
    with pytest.raises(ValueError, match="int8 has no bf16 figure"):
        record(found.start)


@pytest.mark.parametrize(
    "query, line",
    [
        ("hardware=other.toml", "hardware = 'other.toml' is not in the list"),
        ("hardware=./mine.toml", "hardware = './mine.toml' is not in the list; did you mean mine.toml?"),
        ("hardware=mine.toml%23MyChip", "hardware = 'mine.toml#MyChip' is not in the list"),
        ("hardware=mymodel.toml", "hardware = 'mymodel.toml' is not in the list"),
        ("model=mine.toml", "model = 'mine.toml' is not in the list"),
        ("model=other", "model = 'other' is not in the list"),
        ("model=mymodel.toml as gemma2", "model = 'mymodel.toml as gemma2' is not in the list"),
        ("model=Llama-3.1-8B", "is a file in this folder: jaxroof ui --model Llama-3.1-8B shows it"),
        ("weights=other.toml", "weights"),
        ("engine=other.toml", "engine = 'other.toml' is not known"),
        ("kv=other.toml", "kv = 'other.toml' is not in the list"),
    ],
)
def test_a_url_names_no_other_file(folder, query, line):
    (folder / "other.toml").write_text(CHIP)
    # A folder of a model takes the place of a model of the catalogue that has its name.
    for name in ("other", "Llama-3.1-8B"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text("{}")
    found = offer(["mine.toml"], ["mymodel.toml"])
    with pytest.raises(ValueError) as refused:
        record(state_of(query, found))
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_wrong_files_are_told_as_elsewhere_before_the_server_runs(folder, capsys):
    (folder / "wrong.toml").write_text('peak = { bf16 = "1 PFLOP" }\nmemory = { capacity = "144 GB" }\npower = "800"\n')
    (folder / "model.toml").write_text(MODEL.replace("hidden_size", "hidden_siz"))
    for flag, name in (
        ("--hardware", "wrong.toml"),
        ("--hardware", "none.toml"),
        ("--hardware", "H10"),
        ("--model", "model.toml"),
        ("--model", "none/config.json"),
    ):
        other = ("--model", "mymodel.toml") if flag == "--hardware" else ("--hardware", "mine.toml")
        assert main(["request", flag, name, *other, "--batch", "1", "--isl", "9", "--osl", "9"]) == 2
        said = capsys.readouterr().err
        assert main(["ui", "--no-open", flag, name]) == 2
        assert capsys.readouterr().err == said.replace("jaxroof request", "jaxroof ui")
    assert main(["ui", "--no-open", "--hardware", "mine.toml,wrong.toml"]) == 2
    assert capsys.readouterr().err.startswith("jaxroof ui: wrong.toml: 3 problems\n  peak: bf16 = '1 PFLOP'")
    assert main(["ui", "--no-open", "--model", " , "]) == 2
    assert capsys.readouterr().err == "jaxroof ui: --model ' , ' names nothing\n"
    (folder / "a\u0007b.toml").write_text(CHIP)
    assert main(["ui", "--no-open", "--hardware", "a\u0007b.toml"]) == 2
    assert "has characters that cannot be printed" in capsys.readouterr().err


def got(address: str, query: str = "") -> dict:
    """The answer to a query, or its error."""
    try:
        with urllib.request.urlopen(f"{address}answer?{query}") as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_a_file_that_is_changed_meanwhile_is_read_again(folder):
    path, model = folder / "mine.toml", folder / "mymodel.toml"
    with explorer("--hardware", str(path), "--model", str(model)) as address:
        first = got(address)
        assert first["title"].startswith("MyModel on 4 x MyChip") and "mine.toml" in first["query"]
        path.write_text(CHIP.replace("6 TB/s", "12 TB/s"))
        second = got(address)
        assert second["scaled"]["hbm_bandwidth"] == "12 TB/s"
        assert second["metrics"]["tpot"] < first["metrics"]["tpot"]
        model.write_text(MODEL.replace("num_hidden_layers = 24", "num_hidden_layers = 48"))
        assert got(address)["metrics"]["tpot"] > 1.5 * second["metrics"]["tpot"]
        # All that is wrong meanwhile is one line.
        path.write_text(CHIP.replace("TB/s", "TB").replace("PFLOP/s", "PFLOP"))
        assert got(address)["error"].count("has the unit") == 3
        path.unlink()
        assert got(address)["error"] == f"{path}: no such file"
        assert "figures" in got(address, "hardware=H100-SXM")
        assert urllib.parse.parse_qs(first["query"])["hardware"] == [str(path)]
