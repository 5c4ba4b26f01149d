"""Simulated latencies of served points: predictions against the scheduler."""

import dataclasses
import json
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from jaxroof.layers.choices import distinct_experts, own_choices
from jaxroof.layers.collective import collective
from jaxroof.roofline import op_time
from sweeps.cli import main, serve
from sweeps.cli.parser import Parser
from sweeps.cli.serve_command import serve_command
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.run.simulated.load import load
from sweeps.run.simulated.policies import chosen_policy
from tests.serving_rows import DEEPSEEK, read_rows

pytestmark = pytest.mark.xdist_group("predict")

ROWS = ({}, {"concurrency": "4", "batch_size": "4", "isl_tokens": "512", "osl_tokens": "128"})
REAL = Path(__file__).parents[3] / "shared" / "measured" / "e2e" / "silicon_sample.csv"


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    found, skipped = read_rows(tmp_path_factory.mktemp("points"), *ROWS)
    assert not skipped
    return found


def test_a_row_is_the_simulation_of_its_command(points, capsys):
    """TTFT and TPOT of the command that is printed for a row are those of the row, digit by digit."""
    (one,), left = attempted(points[1:], "derated")
    assert not left
    words = shlex.split(serve_command(dataclasses.replace(one.point.spec, efficiency="derated")))
    assert words[:2] == ["jaxroof", "serve"] and main([*words[1:], "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert (metrics["ttft_mean"], metrics["tpot_mean"]) == pytest.approx((one.ttft, one.tpot), rel=1e-12)


def test_a_command_asks_for_what_the_row_asks_for(tmp_path):
    """Every engine, suite and vendor: deployment, policy, requests, number by number."""
    amd = {"gpu": "mi355x", "backend": "sglang", "model_path": "deepseek-ai/DeepSeek-R1", "moe_quant_mode": "nvfp4"}
    rows = [
        {},
        {"backend": "trtllm", "source_tag": "aic", "backend_version": "1.0.0rc3"},
        {"backend": "sglang", "backend_version": "0.5.9", "gpu": "b200_sxm"},
        DEEPSEEK
        | {"tp_size": "1", "attention_dp_size": "8", "moe_tp_size": "1", "moe_ep_size": "8", "batch_size": "2"},
        amd | {"gemm_quant_mode": "nvfp4", "tp_size": "8", "moe_tp_size": "8"},
    ]
    found, skipped = read_rows(tmp_path, *rows)
    assert not skipped
    for point in found:
        parser = Parser()
        serve.arguments(parser)
        asked = serve.asked(parser.parse_args(shlex.split(serve_command(point.spec))[2:]))
        assert asked.case().scenario == point.case.scenario
        assert chosen_policy(asked.case().engine.words, asked.policy) == point.policy
        assert load(asked).text == load(point.spec).text


def test_commands_are_printed_by_row(tmp_path, capsys):
    read_rows(tmp_path, *ROWS, {"gpu": "h900"})
    file = str(tmp_path / "measured.csv")
    assert main(["validate", "serving", file, "--command", "3", "-v"]) == 0
    assert capsys.readouterr().out.startswith("jaxroof serve --model meta-llama/Llama-3.1-70B --hardware H200-SXM ")
    assert main(["validate", "serving", "--data", file, "--command", "all", "-v"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["validate", "serving", file, "--command", "4"]) == 2
    assert "row 4: 'h900' is neither" in capsys.readouterr().err
    assert main(["validate", "serving", file, "--command", "9"]) == 2
    assert "row 9: the file has no such row" in capsys.readouterr().err


def test_alike_tokens_share_experts():
    assert float(own_choices(64.0, 1.0)) == 64.0
    assert float(own_choices(64.0, 0.5)) == pytest.approx(8.0)
    assert float(own_choices(0.5, 0.5)) == 0.5  # below one token nothing is shared
    assert float(jax.grad(own_choices)(0.0, 0.5)) == 1.0
    # 128 (1 - (1 - 1/16)^8) of 128 experts, 8 each
    assert float(distinct_experts(128.0, 8.0, own_choices(64.0, 0.5))) == pytest.approx(51.6, abs=0.1)


def test_collectives_between_the_kernels_of_an_engine():
    hardware = hwspaces.hardware("H100-SXM").hardware
    plain = hwspaces.efficiency("derated").efficiency

    def time(**changes):
        constants = dataclasses.replace(plain.collective, **changes)
        op = collective("all_reduce", jnp.asarray(2.0**20), 8.0, 1.0)
        return float(op_time(op, hardware, dataclasses.replace(plain, collective=constants)))

    alone = time()
    assert time(share=0.5) == pytest.approx(2.0 * alone)
    assert time(wait_time=1e-5) == pytest.approx(alone + 1e-5)
    assert time(two_shot=0.0) > 1.2 * alone  # one stage reads 7 messages, the library is slower


def test_the_command(tmp_path, capsys):
    read_rows(tmp_path, *ROWS)
    file = str(tmp_path / "measured.csv")
    assert main(["validate", "serving", "--data", file, "--efficiency", "derated", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["concurrency"] for row in found["rows"]] == [16.0, 4.0]
    assert found["errors"]["points"]["all"]["tpot"]["n"] == 2
    assert main(["validate", "serving", "--data", file, "--engine", "sglang"]) == 2
    assert "none of 2 rows of sglang can be simulated" in capsys.readouterr().err


@pytest.mark.skipif(not REAL.exists(), reason="no measured data beside the project")
def test_measured_points(tmp_path):
    from sweeps.measure.validate.serving.serving_points import points as read

    found, _ = read(REAL)
    dense = [p for p in found if getattr(p, "model_name", "") == "Llama-3.1-70B" and p.engine == "vllm"]
    dense = [p for p in dense if getattr(p, "concurrency", 1e9) <= 4.0][:2]
    one_each, _ = attempted(dense, "derated")
    errors = np.abs([one.ratio("tpot") - 1.0 for one in one_each])
    assert np.median(errors) < 0.25  # of constant shares; of the learned constants 3 % over all rows of the model
