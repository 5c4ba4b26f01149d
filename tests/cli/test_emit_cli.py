"""`jaxroof emit` and `jaxroof serve RESULT.json`: what a saved row starts, what it simulates, and refusals."""

import json

import pytest

from tests.commands import printed, refused
from tests.launch_rows import DENSE, EXPERTS, SPLIT, row

pytestmark = [pytest.mark.xdist_group("serve"), pytest.mark.usefixtures("standard_promotion")]

SMALL = row("H100-SXM", "Llama-3.1-8B", {"tp": 2}, policy={"max_sequences": 16, "token_budget": 1024})
SMALL["spec"] |= {"isl": "300", "osl": "20", "requests": 20}
STATIC = {"rank": 5, "hardware": "H100-SXM", "devices": 2, "batch": 64}


@pytest.fixture
def result(tmp_path):
    """The path of a saved comparison of five rows."""
    rows = [each | {"rank": rank} for rank, each in enumerate([DENSE, EXPERTS, SPLIT, SMALL, STATIC], 1)]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"model": "several", "question": {}, "rows": rows}))
    return path


def test_the_best_row_is_printed_by_default(capsys, result):
    assert "vllm serve meta-llama/Llama-3.3-70B-Instruct" in printed(capsys, "emit", "vllm", result)
    text = printed(capsys, "emit", "sglang", result, "--row", 2)
    assert text.splitlines()[1].startswith("# row 2: DeepSeek-V3 on 1 replica of 8 x H200-SXM")


def test_a_file_is_written_once_whole_and_again(capsys, result, tmp_path):
    path = tmp_path / "up.yaml"
    for _ in range(2):  # what jaxroof wrote, it writes over
        assert printed(capsys, "emit", "kubernetes", result, "-o", path) == f"{path}: row 1 for kubernetes\n"
    assert path.read_text().startswith("# jaxroof ") and sorted(tmp_path.iterdir()) == sorted([path, result])
    path.write_text("mine")
    assert "--force" in refused(capsys, "emit", "dynamo", result, "-o", path) and path.read_text() == "mine"
    printed(capsys, "emit", "dynamo", result, "-o", path, "--force")
    assert "DynamoGraphDeployment" in path.read_text()
    refused(capsys, "emit", "kubernetes", result, "--row", 3, "-o", tmp_path / "other.yaml")
    assert not (tmp_path / "other.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vllm", "{}", "--row", "6"), "has rows 1 to 5, not 6"),
        (("vllm", "{}", "--row", "0"), "--row"),
        (("vllm", "{}", "--row", "1.5"), "must be a whole number"),
        (("vllm", "{}", "--row", "5"), "row 5 has no spec: it is of a static batch"),
        (("vlm", "{}"), "there are no launch flags of vlm; did you mean vllm"),
        (("vllm", "{}.gone"), "no such file"),
        (("kubernetes", "{}", "--row", "3"), "a disaggregated row needs a router"),
        (("vllm", "{}", "-o", "up.txt"), "must end in .sh, .yaml or .yml"),
        (("vllm", "{}", "-o", "{}", "--force"), "is read: give another name"),
    ],
)
def test_what_cannot_be_emitted_is_one_line(capsys, result, words, said):
    given = [word.replace("{}", str(result)) for word in words]
    if "-o" in words and words[-1] == "--force":
        result = result.rename(result.with_suffix(".yaml"))
        given = [word.replace(".json", ".yaml") for word in given]
    assert said in refused(capsys, "emit", *given)


@pytest.mark.parametrize("name", ["deployment", "policy", "overrides"])
def test_settings_that_are_no_settings_are_one_line(capsys, tmp_path, name):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"rows": [DENSE | {"rank": [1], "spec": DENSE["spec"] | {name: ["tp"]}}]}))
    for words in (("emit", "vllm", path), ("serve", path)):
        assert f"row 1: spec.{name} = ['tp'] must be settings by name" in refused(capsys, *words)


@pytest.mark.parametrize("content", ["[]", '{"rows": 3}', '{"rows": [1]}', "{", '{"metrics": {}}'])
def test_a_file_of_another_kind_is_one_line(capsys, tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    assert str(path) in refused(capsys, "emit", "vllm", path)
    assert str(path) in refused(capsys, "serve", path)


def test_a_row_is_simulated_as_it_was_found(capsys, result):
    found = json.loads(printed(capsys, "serve", result, "--row", 4, "--json"))
    flags = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--tp", 2, "--engine", "vllm", "--rate", 9.3)
    flags += ("--isl", 300, "--osl", 20, "--requests", 20, "--slo", "ttft=1s,tpot=30ms")
    policy = ("--policy", "max_sequences=16", "--policy", "token_budget=1024")
    by_hand = json.loads(printed(capsys, "serve", *flags, *policy, "--json"))
    assert {**found, "seconds": 0, "command": ""} == {**by_hand, "seconds": 0, "command": ""}
    assert found["requests"] == 20 and found["policy"]["max_sequences"] == 16


def test_flags_replace_what_the_row_says(capsys, result):
    words = ("--concurrency", 3, "--policy", "max_sequences=2", "--tp", 1, "--requests", 10, "--json")
    found = json.loads(printed(capsys, "serve", result, "--row", 4, *words))
    assert found["load"]["closed_loop"] == {"clients": 3.0, "think": 0.0} and found["requests"] == 10
    assert found["policy"]["max_sequences"] == 2 and found["policy"]["token_budget"] == 1024  # the row's
    assert found["deployment"]["tp"] == 1.0


def test_rows_without_engine_settings_are_one_line(capsys, result):
    assert "row 5 has no spec" in refused(capsys, "serve", result, "--row", 5)
    pair = SPLIT | {"load": 9.3, "prefill": {"replicas": 2}}
    result.write_text(json.dumps({"rows": [pair]}))
    assert "prefill = {'replicas': 2} must be a pool" in refused(capsys, "serve", result)


def test_a_row_of_pools_is_served_by_all_replicas_of_both(capsys, result):
    result.write_text(json.dumps({"rows": [SPLIT | {"load": 9.3}]}))
    found = json.loads(printed(capsys, "serve", result, "--requests", 30, "--json"))
    flags = ("--hardware", "H200-SXM", "--model", "gpt-oss-120b", "--tp", 4, "--ep", 4, "--dp", 2, "--rate", 18.6)
    flags += ("--isl", 2048, "--osl", 500, "--requests", 30, "--slo", SPLIT["spec"]["slo"], "--engine", "vllm")
    pool = ("tp=2", "ep=2", "dp=3", "hardware=H100-SXM")
    policy = [part for name, value in SPLIT["spec"]["policy"].items() for part in ("--policy", f"{name}={value}")]
    prefill = [part for setting in pool for part in ("--prefill", setting)]
    by_hand = json.loads(printed(capsys, "serve", *flags, *prefill, *policy, "--json"))
    assert {**found, "seconds": 0, "command": ""} == {**by_hand, "seconds": 0, "command": ""}
    assert found["metrics"]["devices"] == 2 * 4 + 3 * 2
