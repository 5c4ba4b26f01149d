"""Notes of an answer on where weights and KV cache lie, and on the best way to fill the memories."""

import re

import pytest

from sweeps.ask.cases import case
from sweeps.ask.precisions import placement_notes

CHIP = """
peak = { bf16 = "1 PFLOP/s", fp8 = "2 PFLOP/s" }
sram = "2 GB"
memory.hbm = { capacity = "96 GB", bandwidth = "4 TB/s" }
memory.beside.lpddr = { capacity = "512 GB", bandwidth = "600 GB/s" }
"""


@pytest.fixture
def chip(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(CHIP)
    return str(path)


def notes(hardware, model="Qwen3-235B-A22B-FP8", placement="weights_first", isl=32768.0):
    work, where = {"batch": 8.0, "isl": isl, "osl": 256.0}, {"placement": placement}
    return placement_notes(case("request", hardware, model, workload=work, deployment=where).scenario)


def test_where_weights_and_cache_lie_and_what_would_be_better(chip):
    first, last = notes(chip), notes(chip, placement="experts_last")
    assert "0.8% of a device's 236 GB of weights stay" in first[0] == last[0]
    assert "routed experts 31." in first[1] and "left for KV cache: 0 B of device memory" in first[1]
    better = re.search(r"; experts_last would end requests ([\d.]+)% earlier$", first[1])
    assert 5.0 < float(better[1]) < 30.0
    assert "routed experts 100.0% in lpddr" in last[1] and last[1].endswith("; the best of the placements")


def test_a_dense_model_has_no_experts_to_place(chip):
    (_, said) = notes(chip, model="Llama-3.1-8B", isl=1024.0)
    assert "experts" not in said.replace("experts_last", "") and "weights 100.0% in device memory" in said


def test_one_memory_says_nothing():
    assert notes("H200-SXM", model="Llama-3.1-8B", isl=1024.0) == []
