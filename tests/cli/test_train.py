"""`jaxroof train`: its tables, its JSON, a search, and errors of one line."""

import json

import jax
import pytest

from sweeps.cli import main

BASE = ["train", "--model", "Llama-2-7B", "--hardware", "H100-SXM", "--global-batch", "16", "--seq", "2048"]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """A folder of compiled programs for these tests alone; JAX's settings as they were afterwards."""
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
    jax.config.update("jax_compilation_cache_dir", before[0])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])


def test_tables(capsys):
    words = [*BASE, "--dp", "2", "--pp", "2", "--zero", "1", "--schedule", "interleaved:2", "--tokens", "1000000000"]
    assert main(words) == 0
    text = capsys.readouterr().out
    for expected in ("Llama-2-7B on 4 x H100-SXM (pp 2, dp 2)", "ZeRO-1, interleaved, 2 chunks", "optimizer", "bubble"):
        assert expected in text
    assert (
        "copies of the weights (dp)" in text and "MFU" in text and "USD per billion tokens" in text and "days" in text
    )


def test_json_says_what_the_table_says(capsys):
    """T1.2: ZeRO-1 over 8 devices: 37.1 GB of state; words as words."""
    assert main([*BASE, "--dp", "8", "--zero", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    metrics = found["metrics"]
    state = sum(metrics[f"{kind}_memory"] for kind in ("weights", "gradients", "optimizer"))
    assert state == pytest.approx(37.1e9, rel=0.01) and metrics["fits"] is True
    assert found["workload"]["schedule"] == "1f1b" and found["precision"] == "bf16"
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
        ([*BASE, "--set", "workload.colour=1"], "workload.colour is not a number of a train"),
    ],
)
def test_errors_are_one_line(words, expected, capsys):
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == "" and expected in error and error.count("\n") == 1
