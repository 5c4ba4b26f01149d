"""The line where a cache of 8 bits is slower than one of 16: who gets it, its figures, and who does not."""

import dataclasses

import pytest

from sweeps.ask.cases import case
from sweeps.ask.precisions import decoding, slower_cache

REQUESTS = {"batch": 512.0, "isl": 192.0, "osl": 64.0}


def asked(hardware: str, kv: str, efficiency: str = "learned-vllm"):
    return case("request", hardware, "Llama-3.1-8B", workload=REQUESTS, kv=kv, efficiency=efficiency)


@pytest.mark.parametrize("efficiency", ["learned-vllm", "learned-trtllm", "learned-sglang", "derated"])
@pytest.mark.parametrize("hardware", ["H100-SXM", "B200-SXM", "MI300X", "Gaudi3"])
def test_no_cache_is_slower_without_a_line(hardware, efficiency):
    """Decode attention of 512 sequences of 224 tokens, alone: slower by more than 1 % if and only if it is said."""
    narrow, wide = asked(hardware, "fp8", efficiency), asked(hardware, "bf16", efficiency)
    slower = slower_cache(narrow.scenario)
    assert slower_cache(wide.scenario) is None
    assert any("slower with this cache" in note for note in narrow.notes) is (slower is not None)
    if hardware != "H100-SXM":  # engines convert 8-bit caches on the way on Hopper alone
        assert slower is None


def test_the_line_has_both_times():
    constants = asked("H100-SXM", "fp8").scenario
    wide = constants.efficiency.decode_attention.wide
    slow = dataclasses.replace(wide, asynchronous={**(wide.asynchronous or {}), "slow_bytes": 3.0})
    kernels = dataclasses.replace(constants.efficiency.decode_attention, wide=slow)
    efficiency = dataclasses.replace(constants.efficiency, decode_attention=kernels)
    line = slower_cache(dataclasses.replace(constants, efficiency=efficiency))
    assert line is not None and "512 sequences of 224 tokens" in line
    assert slower_cache(dataclasses.replace(constants, efficiency=efficiency), (1.0, 65536.0)) is not None


def test_what_decodes():
    assert decoding(asked("H100-SXM", "bf16").scenario) == (512.0, 224.0)
    step = case("step", "H100-SXM", "Llama-3.1-8B", workload={"prefill": 512.0})
    assert decoding(step.scenario) is None and slower_cache(step.scenario) is None
