"""Limits of files of TOML and JSON, and messages about those beyond them."""

import json
import os

import pytest

import workloads
from hwspaces.files import document
from workloads.traces import read_trace

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "torch_dtype": "bfloat16", "num_key_value_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"a{'.a' * 40_000} = 1", "not TOML: more than 32 tables and lists are inside each other"),
        (f"[a{' . a' * 40_000}]", "not TOML: more than 32 tables and lists are inside each other"),
        (f"a = {'[' * 33}{']' * 33}", "not TOML: more than 32 tables and lists are inside each other"),
        (f"a = {'9' * 9_990}", "not TOML: a whole number has thousands of digits; it has at most 64 bits"),
        (f"a = [{'1,' * 200_000}]", "not TOML: more than 100,000 lines and values; that many are read"),
        (
            'slo = "tpot=\\u001b[31m40ms"',
            "slo = 'tpot=\\x1b[31m40ms' has a control character, '\\x1b'; text without them is read",
        ),
        ("a = 1\x00", "cannot be read: byte 5 is zero; it is not text"),
    ],
)
def test_toml(tmp_path, text, says):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        document.toml(path)
    assert str(caught.value) == f"{path}: {says}"


def test_keys_of_many_parts_in_texts_are_no_keys(tmp_path):
    path = tmp_path / "own.toml"
    dots = ".a" * 90
    path.write_text(f"# a{dots}\na = '''\n[a{dots}]\n'''\n'b{dots}' = \"[[[\\\"{'[' * 90}\"\nc = [{'1.5, ' * 100}]\n")
    assert list(document.toml(path)) == ["a", f"b{dots}", "c"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_marks_are_no_part_of_a_file(tmp_path, mark):
    (tmp_path / "own.toml").write_bytes(mark + b"a = 1")
    assert document.toml(tmp_path / "own.toml") == {"a": 1}
    (tmp_path / "config.json").write_bytes(mark + json.dumps(LLAMA).encode())
    assert workloads.model(str(tmp_path / "config.json")).architecture == "llama"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": 1, "a": 2}', "not JSON: the key 'a' is there twice"),
        ('{"b": {"c": 1, "a": 2, "c": 1}}', "not JSON: the key 'c' is there twice"),
        ('{"a": ' + "9" * 9_990 + "}", "not JSON: a whole number has thousands of digits; it has at most 64 bits"),
        ("[" * 100_000, "not JSON: more than 32 tables and lists are inside each other"),
        ("[" * 40 + "]" * 40, "not JSON: more than 32 tables and lists are inside each other"),
        ("[" + "[]," * 2_000_000 + "[]]", "more than 1,000,000 values; that many are read"),
    ],
)
def test_configs(tmp_path, content, says):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ValueError) as caught:
        workloads.model(str(path))
    assert str(caught.value) == f"{path}: {says}"


def test_a_key_twice_in_a_config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA)[:-1] + ', "hidden_size": 128}')
    with pytest.raises(ValueError) as caught:
        workloads.model(str(path))
    assert str(caught.value) == f"{path}: not JSON: the key 'hidden_size' is there twice"


def test_pipes_are_not_waited_for(tmp_path):
    for name in ("own.toml", "own.json", "own.csv"):
        os.mkfifo(tmp_path / name)
    for read in (document.toml, document.json_value, lambda path: read_trace(str(path), "azure")):
        for name in ("own.toml", "own.json", "own.csv"):
            with pytest.raises(ValueError, match=f"{name}: cannot be read: it is not a file"):
                read(tmp_path / name)


@pytest.mark.parametrize("offset", ["+99:99", "+14:60", "-15:00", "+15:00"])
def test_offsets_that_no_place_has(tmp_path, offset):
    path = tmp_path / "own.csv"
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00{offset},10,6\n")
    with pytest.raises(ValueError, match=r"row 2: TIMESTAMP is '2024-05-10 00:00:00.*'; it must be a time such as"):
        read_trace(str(path), "azure")
