"""Work without output: no time per token, and money per million prompt tokens and per thousand requests."""

import json

import pytest

from sweeps.ask.names import variable
from sweeps.ask.offered_load import prompt_metric, without_output
from sweeps.cli import main
from tests.commands import printed, refused

FLAGS = ("--hardware", "L40S", "--model", "Llama-3.1-8B", "--efficiency", "derated", "--isl", 512, "--osl", 1)
NONE = ("tpot", "itl", "tokens_per_second", "usd_per_million_tokens", "decode")


def test_figures_by_hand():
    """100 requests/s of 50 tokens at 0.36 USD/h, 1e-4 USD/s: 1 USD per million requests."""
    of_output = {"ttft": 0.1, "tpot": 0.02, "tokens_per_second": 100.0, "usd_per_million_tokens": 1.0}
    found = without_output(of_output | {"joules_per_token": 3.0, "gco2_per_million_tokens": 5.0}, 50.0)
    assert found == {
        **{"ttft": 0.1, "requests_per_second": 100.0, "prompt_tokens_per_second": 5000.0},
        **{"usd_per_million_prompt_tokens": 0.02, "usd_per_thousand_requests": 1e-3},
        **{"joules_per_request": 3.0, "gco2_per_million_prompt_tokens": 0.1},
    }
    names = ("usd_per_million_tokens", "owning_usd_per_million_tokens", "joules_per_token", "tokens_per_second")
    assert all(variable(prompt_metric(name)).long_name for name in names)


@pytest.mark.parametrize("model", ["BGE-M3", "Llama-3.1-8B"])
def test_a_batch_of_prompts_has_no_output(capsys, model):
    words = [model if word == "Llama-3.1-8B" else word for word in FLAGS]
    found = json.loads(printed(capsys, "request", *words, "--batch", 32, "--json"))["metrics"]
    assert not [name for name in found if name.startswith(NONE)]
    hourly = found["usd_per_thousand_requests"] / 1e3 * found["requests_per_second"] * 3600.0
    assert found["usd_per_million_prompt_tokens"] * 512 == pytest.approx(1e3 * found["usd_per_thousand_requests"])
    assert 1.0 < hourly < 3.0  # the accelerator's price
    text = printed(capsys, "request", *words, "--batch", 32)
    assert "512 tokens" in text and "USD per million prompt tokens" in text and "output token" not in text


def test_comparison_and_simulation_have_one_figure(capsys, tmp_path):
    path = tmp_path / "found.json"
    words = ("--slo", "ttft=300ms", "--devices", 1, "--policy", "token_budget=2048", "-o", path)
    text = printed(capsys, "compare", *FLAGS, *words, progress=True)
    assert "TPOT" not in text and "output tokens" not in text and "prefill 1 x" not in text
    (row,) = json.loads(path.read_text())["rows"]
    assert main(["serve", str(path), "--json"]) == 0
    served = json.loads(capsys.readouterr().out)["metrics"]
    assert not [name for name in served if name.startswith(NONE)]
    for name in ("ttft_mean", "usd_per_million_prompt_tokens", "usd_per_thousand_requests"):
        assert row[name] == pytest.approx(served[name], rel=1e-6)


@pytest.mark.parametrize(
    "words",
    [("serve", "--rate", 3), ("compare", "--slo", "ttft=1s"), ("capacity", "--slo", "ttft=1s")],
    ids=lambda words: words[0],
)
def test_encoders_are_no_work_of_a_scheduler(capsys, words):
    verb, *more = words
    flags = ["BGE-M3" if word == "Llama-3.1-8B" else word for word in FLAGS]
    said = refused(capsys, verb, *flags, *more)
    assert "is an encoder and generates nothing: `jaxroof request` times its batches" in said
