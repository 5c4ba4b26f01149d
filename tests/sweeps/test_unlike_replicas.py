"""Replicas of several kinds in one service."""

import json

import numpy as np
import pytest

import sweeps
from sweeps.cli import main
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.kinds import kind_figures
from sweeps.serving.run import simulation

MODEL = {"hardware": "H100-SXM", "model": "Llama-3.1-8B"}
LOAD = {"rate": 12, "isl": "256..1024", "osl": "16..64", "requests": 60}

pytestmark = pytest.mark.xdist_group("simulated services")


def test_replicas_of_two_like_kinds_are_those_of_one():
    one = sweeps.serve(**MODEL, **LOAD, deployment={"dp": 3}, router="least_tokens").dataset
    two = sweeps.serve(**MODEL, **LOAD, deployment={"dp": 1}, router="least_tokens", also="dp=2").dataset
    for name in ("ttft", "tpot", "e2e", "replica"):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-12, err_msg=name)
    for name in (
        "devices",
        "tokens_per_second",
        "tokens_per_second_per_device",
        "usd_per_million_tokens",
        "utilization",
    ):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-9, err_msg=name)


def test_what_every_kind_did():
    also = [{"hardware": "L40S", "tp": 2, "dp": 2}, "hardware=A100-SXM-80GB"]
    found = simulation(serve_spec(**MODEL, **LOAD, deployment={"dp": 1}, router="round_robin", also=also))
    figures = kind_figures(found)
    assert [(one.hardware, one.replicas, one.devices) for one in figures] == [
        ("H100-SXM", 1, 1),
        ("L40S", 2, 2),
        ("A100-SXM-80GB", 1, 1),
    ]
    assert [one.requests for one in figures] == [15, 30, 15]
    stream = found.load.stream
    assert sum(one.prompt_tokens for one in figures) == stream.isl.sum()
    assert sum(one.output_tokens for one in figures) == stream.osl.sum()
    # The slower ones work for longer on as many requests.
    assert figures[2].busy_share > figures[0].busy_share > 0.0 and figures[2].ttft_mean > figures[0].ttft_mean
    busy = sum(one.busy_share * one.replicas for one in figures) / 4.0
    np.testing.assert_allclose(found.metrics["utilization"], busy, rtol=1e-9)
    # 1 + 2 x 2 + 1 devices; a smaller cache in the L40S.
    assert found.metrics["devices"] == 6.0
    assert len(set(found.engine_blocks)) == 3


def test_pools_have_figures_of_each():
    found = simulation(serve_spec(**MODEL, **LOAD, deployment={"dp": 2}, prefill={"dp": 1}))
    first, then = kind_figures(found)
    assert (first.role, then.role) == ("prefill", "decode")
    assert first.output_tokens == 60.0 and first.prompt_tokens == found.load.stream.isl.sum()
    assert then.output_tokens == found.load.stream.osl.sum() - 60.0 and then.prompt_tokens == 0.0


def test_the_answer_has_a_row_for_each(capsys):
    words = "--model Llama-3.1-8B --hardware H100-SXM --rate 4 --isl 256 --osl 16 --requests 40 --router slo"
    also = ("--also", "hardware=L40S,dp=2")
    assert main(["serve", *words.split(), *also, "-v"]) == 0
    text = capsys.readouterr().out
    assert "router  slo before 3 replicas: 1 x H100-SXM (tp1), 2 x L40S (tp1)" in text
    assert "\n2 x L40S (tp1) " in text and "prompt tokens" in text
    assert main(["serve", *words.split(), *also, "--json"]) == 0
    assert [one["hardware"] for one in json.loads(capsys.readouterr().out)["kinds"]] == ["H100-SXM", "L40S"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"also": "tp"}, "also 'tp' must be NAME=VALUE"),
        ({"also": "tp=3"}, "tp"),
        ({"also": "hardware=H1"}, "H1"),
        ({"also": "rank=3"}, "also.rank"),
        ({"also": "dp=2", "prefill": {"dp": 1}}, "also cannot be given with prefill"),
        (
            {"also": "hardware=L4", "model": "Llama-3.1-70B", "deployment": {"tp": 4}},
            "also: Llama-3.1-70B does not fit",
        ),
    ],
)
def test_what_cannot_be_is_one_line(words, said):
    with pytest.raises(ValueError, match=said.replace("'", ".")) as error:
        sweeps.serve(**(MODEL | LOAD | words))
    assert "\n" not in str(error.value)
