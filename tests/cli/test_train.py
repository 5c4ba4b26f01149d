"""`jaxroof train`: its tables, its JSON, a search, and errors of one line."""

import json

import pytest

from sweeps.cli import main

BASE = ["train", "--model", "Llama-2-7B", "--hardware", "H100-SXM", "--global-batch", "16", "--seq", "2048"]


WORDS = [*BASE, "--dp", "2", "--pp", "2", "--zero", "1", "--schedule", "interleaved:2", "--tokens", "1000000000"]


def test_tables(capsys):
    assert main(WORDS) == 0
    text = capsys.readouterr().out
    for expected in ("Llama-2-7B on 4 x H100-SXM (pp 2, dp 2)", "ZeRO-1, interleaved, 2 chunks", "optimizer", "bubble"):
        assert expected in text
    assert (
        "copies of the weights (dp)" in text and "MFU" in text and "USD per billion tokens" in text and "days" in text
    )


def test_json_is_complete(capsys):
    """16 of 32 layers and the embedding: 2 B x (16 x 202.4e6 + 131.1e6) = 6.74 GB of weights; words as words."""
    assert main([*WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    metrics = found["metrics"]
    assert metrics["weights_memory"] == pytest.approx(6.74e9, rel=0.01)
    assert metrics["optimizer_memory"] == pytest.approx(6 * 6.74e9 / 2, rel=0.01)
    assert found["workload"]["schedule"] == "interleaved" and found["precision"] == "bf16"
    assert set(found["units"]) == set(metrics)


def test_search(capsys):
    assert main([*BASE, "--search", "--devices", "4", "--top", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in found["rows"]] == [1, 2, 3] and found["feasible"] > 3
    times = [row["iteration_time"] for row in found["rows"]]
    assert times == sorted(times) and all(row["feasible"] for row in found["rows"])
    assert main([*BASE, "--search", "--devices", "4", "--top", "3"]) == 0
    text = capsys.readouterr().out
    assert "layouts in" in text and "tokens/s" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train"], "--hardware is missing"),
        (BASE[:-2], "--seq is missing"),
        ([*BASE, "--precision", "int4"], "--precision int4 must be bf16 or fp8"),
        ([*BASE, "--offload", "weights"], "--offload weights must be optimizer"),
        ([*BASE, "--schedule", "1f1b:2"], "only interleaved has chunks"),
        ([*BASE, "--search"], "--devices N is missing"),
        ([*BASE, "--search", "--devices", "8", "--tp", "2"], "--tp 2: --search tries every one"),
        ([*BASE, "--devices", "8"], "--devices belongs to --search"),
        ([*BASE, "--dp", "2.5"], "must be a whole number"),
        ([*BASE, "--ep", "8"], "the model has no experts"),
        ([*BASE, "--set", "workload.zero=1"], "use --zero"),
        ([*BASE, "--set", "workload.colour=1"], "workload.colour is not a number of a training run"),
    ],
)
def test_errors_are_one_line(words, expected, capsys):
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == "" and expected in error and error.count("\n") == 1
