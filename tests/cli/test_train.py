"""`jaxroof train`: its tables, its JSON, a search, and errors of one line."""

import json

import pytest

from sweeps.cli import main

BASE = ["train", "--model", "Llama-2-7B", "--hardware", "H100-SXM", "--global-batch", "16", "--seq", "2048"]


WORDS = [*BASE, "--dp", "2", "--pp", "2", "--zero", "1", "--schedule", "interleaved:2", "--tokens", "1000000000"]


def test_tables(capsys):
    assert main([*WORDS, "-v"]) == 0
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
    assert main([*BASE, "--search", "--devices", "4", "--top", "3", "-v"]) == 0
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


QLORA = ["train", "--model", "Mistral-7B-v0.1", "--hardware", "RTX-3090", "--lora", "rank=16,target=q,v"]
QLORA += ["--global-batch", "4", "--micro-batch", "1", "--seq", "1024"]


def test_frozen_weights_of_4_bits(capsys):
    """6.98e9 weights of 4.127 bits and 0.26e9 of the embedding and head of 16: 4.13 GB, where bf16 takes 14.5."""
    found = {}
    for weights in ("bf16", "nf4", "q4_k_m"):
        assert main([*QLORA, "--weights", weights, "--json"]) == 0
        found[weights] = json.loads(capsys.readouterr().out)["metrics"]
    assert found["nf4"]["weights_memory"] == pytest.approx(6.98e9 * 4.127 / 8 + 2 * 131.1e6 * 2 + 14e6, rel=2e-3)
    assert found["bf16"]["weights_memory"] == pytest.approx(14.5e9, rel=2e-3)
    assert found["nf4"]["optimizer_memory"] == found["bf16"]["optimizer_memory"]
    assert found["nf4"]["iteration_time"] > found["bf16"]["iteration_time"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([*BASE, "--weights", "nf4"], "--weights nf4 is what frozen weights are stored in: give --lora too"),
        ([*QLORA, "--weights", "int8"], "--weights int8 multiplies in int8: give weights that are converted to 16"),
        ([*QLORA, "--weights", "nf4", "--precision", "bf16"], "--weights nf4 and --precision bf16: give one of them"),
        ([*QLORA, "--weights", "nf3"], "weights is 'nf3'; it must be one of fp8"),
        ([*BASE[:4], "A100-SXM-80GB", *BASE[5:], "--precision", "fp8"], "A100-SXM-80GB has no fp8 figure"),
    ],
)
def test_weights_that_training_does_not_have(capsys, words, says):
    assert main(words) == 2
    text = capsys.readouterr()
    assert says in text.err and not text.out
