"""Efficiency by phase: shares of a file of BLIS and of TOML, hand-worked steps of each phase and of both."""

import json

import pytest

import hwspaces
from hwspaces.performance.efficiency_file import efficiency_text
from jaxroof.batch import decode, mixed, prefill
from jaxroof.numerics.arrays import eager
from jaxroof.step.step import step_cost
from sweeps.ask.cases import case
from sweeps.cli import main

FILE = {
    "TFlopsPeak": 1000,
    "BwPeakTBs": 4,
    "MemoryGiB": 80,
    "mfuPrefill": 0.5,
    "mfuDecode": 0.125,
    "BwEffConstant": 0.75,
    "TOverheadMicros": 500,
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hardware_config.json"
    path.write_text(json.dumps({"Chip": FILE, "Plain": FILE | {"BwEffConstant": 0, "TOverheadMicros": 0}}))
    return path


def times(file, batch, efficiency=None):
    """Seconds of the ops of a step of Llama-3.1-8B on the file's chip, by name."""
    chip, own = f"{file}#Chip", efficiency or f"{file}#Chip"
    found = case("step", chip, "Llama-3.1-8B", workload={"decode": 1, "context": 1}, efficiency=own).scenario
    with eager():
        costs = step_cost(found.hardware, found.model, found.deployment, batch, found.efficiency)
    return {name: float(cost.time) for name, cost in costs.items()}


DOWN = 32 * 2 * 4096 * 14336
"""FLOP per token of all down projections."""


def test_a_step_of_each_phase(file):
    # 1,000 TFLOP/s at 0.5 and at 0.125; 4 TB/s at 0.75
    prompt, newest = times(file, prefill(1.0, 4096.0)), times(file, decode(1024.0, 1.0))
    assert prompt["down_proj"] == pytest.approx(4096 * DOWN / 500e12)
    assert newest["down_proj"] == pytest.approx(1024 * DOWN / 125e12)
    moved = 32 * 2 * (4096 * 14336 + 4096 + 14336)  # weights and one token, of 16 bits
    assert times(file, decode(1.0, 1.0))["down_proj"] == pytest.approx(moved / 3e12)
    assert prompt["host"] == newest["host"] == pytest.approx(500e-6)


def test_a_step_of_both_phases_runs_each_token_at_the_rate_of_its_phase(file):
    both = times(file, mixed(prefill(1.0, 4096.0), decode(1024.0, 1.0)))
    assert both["down_proj"] == pytest.approx(4096 * DOWN / 500e12 + 1024 * DOWN / 125e12)


def test_a_share_of_bandwidth_that_is_0_is_none(file):
    assert hwspaces.efficiency(f"{file}#Plain").efficiency.linear.bandwidth == 1.0
    assert hwspaces.efficiency(f"{file}#Plain").efficiency.host.step_time == 0.0


def test_a_file_of_phases_is_written_and_read_again(file, tmp_path):
    found = hwspaces.efficiency(f"{file}#Chip")
    text = efficiency_text(found.efficiency, found.sources, {}, found.notes, "phases")
    path = tmp_path / "phases.toml"
    path.write_text(text)
    assert "[decoding.linear]" in text
    assert hwspaces.efficiency(path).efficiency == found.efficiency
    assert times(file, decode(64.0, 1.0), str(path)) == times(file, decode(64.0, 1.0))
    for old, new, said in (
        ("[decoding.linear]", "[decoding.liner]", "decoding: table linear is missing"),
        ("[decoding.experts]", "[decoding.expert]", "decoding: table experts is missing"),
        ("[decoding.linear]", "[decoding.other]\nmatrix = 1.0\n\n[decoding.linear]", "other is not known"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(ValueError, match=said):
            hwspaces.efficiency(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mfuDecode": 1.5}, r"Chip: mfuDecode = 1.5 must be in \(0, 1\]"),
        ({"mfuPrefill": 0}, "mfuPrefill = 0 must be a positive"),
        ({"BwEffConstant": True}, "BwEffConstant = True is not a number"),
    ],
)
def test_a_wrong_share_is_refused_in_one_line(tmp_path, change, said):
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({"Chip": FILE | change}))
    with pytest.raises(ValueError, match=said):
        hwspaces.efficiency(path)
    path.write_text(json.dumps({"Chip": {key: value for key, value in FILE.items() if key != "mfuDecode"}}))
    with pytest.raises(ValueError, match="mfuDecode is missing"):
        hwspaces.efficiency(path)


def test_a_service_runs_by_phase(file, capsys):
    """Mixed steps of a scheduler too: one prompt and its outputs take what the formula says, host times with them."""
    words = "serve --model Llama-3.1-8B --rate 0.1 --requests 8 --isl 512 --osl 9 --json".split()
    assert main([*words, "--hardware", f"{file}#Chip", "--efficiency", f"{file}#Chip", "-v"]) == 0
    found = json.loads(capsys.readouterr().out)
    step = sum(times(file, decode(1.0, 516.0)).values())
    assert found["metrics"]["tpot_p50"] == pytest.approx(step, rel=1e-3)
