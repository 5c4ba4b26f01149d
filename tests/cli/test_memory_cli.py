"""Parts of a device's memory as `request` prints them, under the rule of each engine and release."""

import json

import pytest

from sweeps.cli import main

PLACE = ("request", "--isl", "1024", "--osl", "128", "--efficiency", "derated")
LLAMA = (*PLACE, "--hardware", "RTX-3090", "--model", "Llama-3.1-8B", "--set", "deployment.max_batched_tokens=20000")
GIB = 2.0**30


def record(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_parts_add_up_to_the_share(capsys):
    """vLLM's log of this start: 14.99 GiB of weights, a peak of 2.07 and 3.81 of cache, 31,232 tokens."""
    found = record(capsys, *LLAMA, "--engine", "vllm@0.11")
    parts, deployment = found["memory"], found["deployment"]
    held = sum(parts[name] for name in ("weights", "peak", "graphs", "other", "kv_cache"))
    assert held == pytest.approx(deployment["memory_utilization"] * 24 * GIB)
    assert parts["peak"] == max(parts["activations"], parts["sampler"])
    assert parts["weights"] == found["metrics"]["weight_bytes"]
    assert parts["weights"] / GIB == pytest.approx(14.99, rel=0.01)
    assert parts["peak"] / GIB == pytest.approx(2.07, rel=0.01)
    assert found["metrics"]["kv_capacity_tokens"] == pytest.approx(31_232, rel=0.1)


def test_releases_and_engines_differ(capsys):
    old, new, latest, other = (
        record(capsys, *LLAMA, "--engine", name) for name in ("vllm@0.11", "vllm@0.24", "vllm@0.31", "sglang")
    )
    assert (old["memory"]["graphs"], new["memory"]["graphs"]) == (0.0, 32 * 2**24)
    assert latest["memory"]["graphs"] == 0.0 and latest["memory"]["sampler"] < old["memory"]["sampler"]
    # SGLang's share is of weights and cache: 1 - 3760 / 24,576
    held = sum(other["memory"][name] for name in ("weights", "other", "kv_cache"))
    assert held == pytest.approx(0.847 * 24 * GIB)


def test_words(capsys):
    assert main([*LLAMA, "--engine", "trtllm", "-v"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("parts "))
    assert "weights as loaded 14.96, activations of the largest step 2.06, its sampler" in line
    assert "KV cache" in line and "of what the rest leaves" in line
