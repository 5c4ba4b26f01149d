"""Scores of accelerators that are not GPUs: their vendor's tables, the fit's device, missing folders, measured rows."""

import math
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from hwspaces.accelerators.link_technology import PROTOCOLS
from tests.evidence import gaudi_tables, neuron_fit, other_devices
from tests.evidence.training_rows import _catalogue_name

MEASURED = Path(__file__).parents[2].parent / "shared" / "measured"


@pytest.fixture(scope="module")
def learned():
    return hwspaces.efficiency("learned").efficiency


def test_published_rows_have_a_page():
    assert {row.device for row in gaudi_tables.ROWS} == set(gaudi_tables.SOURCES)
    assert all(row.batch > 0 and row.tokens_per_second > 0 for row in gaudi_tables.ROWS)


def test_vendor_tables_are_near(learned):
    """Within 15 % by their median on either device, which no constant was fitted to; and inside of the intervals."""
    rows = list(other_devices.gaudi_published(MEASURED, learned, []))
    for device in gaudi_tables.SOURCES:
        own = [one for one in rows if one.device == device]
        logs = np.array([math.log(one.predicted / one.measured) for one in own])
        assert abs(np.median(logs)) < 0.15
        assert np.mean(np.abs(logs) < 1.645 * np.array([one.spread for one in own])) >= 0.9


def test_the_fit_changes_protocols_that_a_torus_has():
    changed = neuron_fit.with_fixed_time(hwspaces.hardware("Trainium1").hardware, 1e-3).links.scale_up.transport
    times = {name: getattr(changed, name).fixed_time for name in PROTOCOLS}
    assert {name for name, time in times.items() if time == 1e-3} == set(PROTOCOLS) - set(neuron_fit.UNUSED)


@pytest.mark.parametrize("command", [neuron_fit.main, other_devices.main])
def test_a_missing_folder_is_one_line(command, tmp_path, capsys):
    assert command(["--data", str(tmp_path / "none")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.skipif(not (MEASURED / "serving2").is_dir(), reason="no measured serving2 folder")
def test_served_and_static_rows_are_near(learned):
    """TPU v7 behind vLLM, which nothing was fitted to, within 15 % by the median; Neuron's tokens/s within 25 %."""
    served = [one.predicted / one.measured for one in other_devices.tpu_served(MEASURED, learned, [])]
    assert abs(np.log(np.median(served))) < 0.15
    static = [o.predicted / o.measured for o in other_devices.neuron(MEASURED, learned, []) if o.metric == "tokens/s"]
    assert abs(np.log(np.median(static))) < 0.25


def test_a_row_of_an_unknown_precision_takes_nothing_else_with_it(tmp_path, learned):
    """One row of a known precision, one of another: the one is scored, the other named with its reason."""
    (tmp_path / "serving2").mkdir()
    columns = "config_id,tpu,model_path,precision,kv_dtype,chips,conc,isl,osl,output_tokps,flag"
    lines = [
        f"{name},v6e,Llama-3.1-8B,{precision},,4,16,512,128,900," for name, precision in (("a", "bf16"), ("b", "int3"))
    ]
    (tmp_path / "serving2" / "tpu_serving.csv").write_text("\n".join([columns, *lines]) + "\n")
    left = []
    (one,) = other_devices.tpu_served(tmp_path, learned, left)
    assert one.device == "TPU-v6e" and one.predicted > 0.0
    assert [(row.name, row.reason) for row in left] == [
        ("b", "precision = 'int3' is not known; known: fp8, bf16, int8")
    ]


@pytest.mark.parametrize(
    ("recipe", "model"),
    [("llama2-7b", "Llama-2-7B"), ("gemma3-27b", "Gemma-3-27B"), ("deepseek3-671b", "DeepSeek-V3")]
    + [
        ("mixtral-8x7b", "Mixtral-8x7B"),
        ("llama4-17b-16e", "Llama-4-Scout-17B-16E"),
        ("Mistral-7B", "Mistral-7B-v0.1"),
    ],
)
def test_recipes_of_maxtext_are_found_by_name(recipe, model):
    assert _catalogue_name(recipe) == model


def test_a_recipe_that_the_catalogue_lacks_is_named():
    with pytest.raises(ValueError, match=r"model wan2\.1-14b is not in the catalogue"):
        _catalogue_name("wan2.1-14b")
