"""Models of one's own: templates, their round trip, and every problem of a file at once."""

import json
import re
import tomllib

import pytest

import workloads
from hwspaces.files.document import Problems
from sweeps.cli import main
from workloads.models.template import TEMPLATES

TWINS = {"dense": "Llama-3.1-8B", "moe": "Qwen3-30B-A3B", "mla": "DeepSeek-V3"}
"""Kind -> the model of the catalogue whose sizes its template has."""


def read(tmp_path, text: str, name: str = "mine.toml") -> workloads.ModelEntry:
    path = tmp_path / name
    path.write_text(text)
    return workloads.model(str(path))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_is_a_model_in_toml_and_in_json(kind, tmp_path, capsys):
    assert main(["models", "--template", kind]) == 0
    text = capsys.readouterr().out
    assert text == TEMPLATES[kind]
    own = read(tmp_path, text)
    assert (own.name, own.precision, own.notes) == ("MyModel", "bf16", ())
    twin = workloads.model(TWINS[kind], weights="bf16")
    assert own.model == twin.model
    as_json = read(tmp_path, json.dumps(tomllib.loads(text)), "mine.json")
    assert as_json.model == own.model and as_json.max_position == own.max_position == 131072


@pytest.mark.parametrize("kind", TEMPLATES)
def test_what_a_template_leaves_out_may_be_added(kind, tmp_path):
    whole = re.sub(r"^# (?=[a-z_]+ = |\[)", "", TEMPLATES[kind], flags=re.M)
    assert "\n[quantization_config]\n" in whole
    entry = read(tmp_path, whole)
    assert entry.precision == "fp8 (block 128x128)" and not entry.notes


def test_dense_is_the_usual_template(capsys):
    assert main(["models", "--template"]) == 0
    assert capsys.readouterr().out == TEMPLATES["dense"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--template", "mlaa"], "--template mlaa: it must be one of dense, moe, mla; did you mean mla?"),
        (["Llama-3.1-8B", "--template", "moe"], "--template takes no model, and 'Llama-3.1-8B' is given"),
    ],
)
def test_other_templates_are_refused(words, said, capsys):
    assert main(["models", *words]) == 2
    assert said in capsys.readouterr().err


WRONG = {
    "model_type": "mistral",
    "num_hidden_layer": 32,
    "hidden_size": "4096",
    "vocab_size": 0,
    "num_attention_heads": 32,
    "num_key_value_head": 8,
    "intermediate_size": 14336,
    "torch_dtype": "bfloat",
    "tie_word_embeddings": "no",
}

SAID = (
    "torch_dtype is 'bfloat'; it must be one of bfloat16, float16, half, float32",
    "num_hidden_layers is missing (or n_layer, num_layers, n_layers)",
    "hidden_size is '4096'; it must be a positive integer",
    "tie_word_embeddings is 'no'; it must be true or false",
    "num_key_value_heads is missing (or num_kv_heads, multi_query_group_num, num_attention_groups, n_kv_heads, "
    "attn_config.kv_n_heads)",
    "vocab_size is 0; it must be a positive integer",
    "there is no key num_hidden_layer; did you mean num_hidden_layers?",
    "there is no key num_key_value_head; did you mean num_key_value_heads?",
)


def test_every_problem_is_said_at_once(tmp_path, capsys):
    written = "".join(f"{key} = {json.dumps(value)}\n" for key, value in WRONG.items())
    for name, text in (("mine.toml", written), ("mine.json", json.dumps(WRONG))):
        with pytest.raises(Problems) as raised:
            read(tmp_path, text, name)
        assert raised.value.lines == SAID and "\n" not in str(raised.value)
    # on the screen a line each
    assert main(["models", str(tmp_path / "mine.toml")]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == f"jaxroof models: {tmp_path / 'mine.toml'}: 8 problems"
    assert [line.strip() for line in lines] == list(SAID)


def test_a_key_that_nothing_reads_is_refused_in_toml_and_said_of_a_config(tmp_path):
    text = TEMPLATES["mla"].replace("q_lora_rank", "q_lora_ranks")
    with pytest.raises(ValueError, match=r"there is no key q_lora_ranks; did you mean q_lora_rank\?"):
        read(tmp_path, text)
    with pytest.raises(ValueError, match="there is no key flavour$"):
        read(tmp_path, 'flavour = "sweet"\n' + TEMPLATES["dense"])
    said = read(tmp_path, json.dumps(tomllib.loads(text)), "mine.json").notes
    assert any("q_lora_ranks = 1536; did you mean q_lora_rank?" in note for note in said)


def test_what_does_not_go_together_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="hidden size 4096 is not a multiple of 33 heads|must divide") as raised:
        read(tmp_path, TEMPLATES["dense"].replace("num_attention_heads = 32", "num_attention_heads = 33"))
    assert not isinstance(raised.value, Problems)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.toml", None, "no such file or folder"),
        ("mine.toml", 'name = "x', "not TOML"),
        ("mine.toml", "name = 3", "name = 3 must be a text"),
        ("mine.toml", "", "model_type is missing"),
        ("mine.toml", 'model_type = "my_own"', "model_type 'my_own' is not covered yet; --as TYPE reads it as one"),
    ],
)
def test_files_that_are_no_model(name, text, said, tmp_path):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        workloads.model(str(path))


def test_another_type_may_be_asked_for(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEMPLATES["dense"].replace('"llama"', '"my_own"'))
    entry = workloads.model(f"{path} as llama")
    assert entry.notes == ("read as llama, as asked, not as my_own",)
