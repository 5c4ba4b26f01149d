"""Precisions of the KV cache that a device has no unit for are refused by every question."""

import pytest

import sweeps
from sweeps.ask.cases import case
from sweeps.ask.precisions import lacking_cache
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.fleet import fleet
from sweeps.studies.compare.candidates import room
from sweeps.studies.compare.question import question
from sweeps.studies.compare.words import AskedComparison
from tests.commands import refused

MODEL = "Llama-3.1-8B"
BATCH = {"batch": 1, "isl": 100, "osl": 10}
WITHOUT = "kv = fp4: H100-SXM has no fp4 figure; its cache may be fp32, bf16, fp16, fp8, int8"


def test_a_cache_of_4_bits_needs_fp4_units():
    assert case("request", "B200-SXM", MODEL, workload=BATCH, kv="fp4").kv == "fp4"
    for job, work in (("request", BATCH), ("serve", {})):
        with pytest.raises(ValueError, match=WITHOUT):
            case(job, "H100-SXM", MODEL, workload=work, kv="fp4")
    assert case("request", "A100-SXM-80GB", MODEL, workload=BATCH, kv="fp8").kv == "fp8"  # bytes that are converted


def test_verbs_and_sweeps_refuse_it_in_one_line(capsys):
    flags = ("--model", MODEL, "--isl", 100, "--osl", 10)
    assert WITHOUT in refused(capsys, "request", "--hardware", "H100-SXM", "--kv", "fp4", *flags)
    for words in ({"kv": ["fp8", "fp4"], "hardware": "H100-SXM"}, {"kv": "fp4", "hardware": ["B200-SXM", "H100-SXM"]}):
        with pytest.raises(ValueError, match=WITHOUT):
            sweeps.sweep(model=MODEL, workload=BATCH, **words)


def test_a_comparison_leaves_out_devices_or_settings_without_it():
    devices, load = ["H100-SXM", "B200-SXM"], {"isl": 100, "osl": 10}
    words = {"hardware": devices, "efficiency": "derated", "devices": [1], "policy": {"token_budget": 2048}}
    alone = question(AskedComparison(model=MODEL, slo="ttft=1s", load=load, kv=["fp4"], **words))
    assert alone.lacking == {"H100-SXM": "no fp4 figure for its KV cache"}
    both = question(AskedComparison(model=MODEL, slo="ttft=1s", load=load, kv=["bf16", "fp4"], **words))
    assert not both.lacking and room(both.options).legal[:, :, 0].tolist() == [[True, True], [False, True]]
    left = fleet(ServeSpec(hardware="-", model=MODEL, kv="fp4", efficiency="derated", rate=1, **load), devices).left_out
    assert list(left) == ["H100-SXM"] and WITHOUT in left["H100-SXM"]
    assert lacking_cache(both.options.devices[0].hardware, "fp4") == "fp4"
