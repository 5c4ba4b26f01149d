"""Several precisions of the weights in one served comparison: each has the rows that it has alone, ranked together."""

import pytest

from sweeps.entries.comparisons import compare
from tests.commands import refused

KEYS = {"isl": 1024, "osl": 256, "efficiency": "derated", "simulate": 0, "devices": [1, 2]}
KEYS |= {"hardware": ["H100-SXM", "T4"], "disaggregated": False}


def test_rows_are_those_of_each_precision_alone():
    asked, tried = ("Llama-3.1-8B", "ttft=1s,tpot=30ms"), ["bf16", "fp8"]
    alone = {name: compare(*asked, weights=name, **KEYS) for name in tried}
    found = compare(*asked, weights=tried, **KEYS)
    assert len(found.rows) == sum(len(one.rows) for one in alone.values())
    for name, one in alone.items():
        own = {row.place: row.metrics for row in found.rows if row.weights == name}
        assert own == {row.place: pytest.approx(row.metrics, nan_ok=True) for row in one.rows}
        assert all(row.spec["weights"] == name for row in found.rows if row.weights == name)
        assert all(found.trust(row).words == one.trust(row).words for row in found.rows if row.weights == name)
    costs = [row.metrics["usd_per_million_tokens"] for row in found.rows]
    assert costs == sorted(costs) and found.rows[0].setting.startswith("weights fp8")
    reasons = [f"weights {name}: {one.question.lacking['T4']}" for name, one in alone.items()]
    assert found.question.lacking["T4"] == "; ".join(reasons)
    assert found.places == sum(one.places for one in alone.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--weights", "bf16,fp7"), "fp7"),
        (("--weights", "bf16,fp8", "-o", "all.nc"), "candidates of several weights are not one dataset"),
        (("--weights", "bf16,fp8", "--static"), "weights"),
    ],
)
def test_what_cannot_be_ranked_together_is_one_line(capsys, words, said):
    asked = ("--model", "Llama-3.1-8B", "--isl", 9, "--osl", 9, "--slo", "ttft=1s", "--hardware", "H100-SXM")
    assert said in refused(capsys, "compare", *asked, *words)


def test_a_comparison_is_a_screen_in_a_notebook():
    found = compare("Llama-3.1-8B", "ttft=1s,tpot=30ms", weights="bf16", **KEYS)
    lines = repr(found).splitlines()
    assert lines[0].startswith("Llama-3.1-8B: requests of ") and len(lines) <= 12 and max(map(len, lines)) <= 100
    assert lines[1].startswith(f"{found.rows[0].devices} x {found.rows[0].hardware} as ")
