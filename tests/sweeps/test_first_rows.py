"""First rows of a served comparison: simulated ones, whatever is asked and whatever simulations say."""

import numpy as np
import pytest

from sweeps.entries.comparisons import compare
from sweeps.studies.compare import simulate, simulated_pools
from sweeps.studies.compare.figures import SORTED_BY

MODEL, LENGTHS = "Llama-3.1-8B", {"isl": "1024", "osl": "64"}
PAIR = ["H100-SXM", "L40S"]

QUESTIONS = {
    "one accelerator": {"hardware": PAIR[:1]},
    "two": {"hardware": PAIR},
    "all of the catalogue": {"max_devices": 1, "simulate": 1, "policy": {"token_budget": 2048}},
    "a rate": {"hardware": PAIR, "rate": 40.0},
    "several weights": {"hardware": PAIR[:1], "weights": "bf16,fp8"},
    "several caches": {"hardware": PAIR[:1], "kv": "bf16,fp8", "policy": {"token_budget": [1024, 4096]}},
    "one simulation": {"hardware": PAIR, "simulate": 1},
    "no pools": {"hardware": PAIR, "disaggregated": False},
    "sessions": {"hardware": PAIR[:1], "hit_rate": 0.5},
    "one output token": {"hardware": PAIR[:1], "osl": "1", "slo": "ttft=1s"},
}

CASES = [(asked, kept) for asked in QUESTIONS for kept in (0.0, 0.3, 1.0)] + [("two", name) for name in SORTED_BY]
"""Questions with the share of simulations that keep the target; and one question by every figure, where none does."""


def verdicts(kept: float, seed: int):
    """Metrics of a simulation at a load, by chance: the target is kept by so many of them."""
    random = np.random.default_rng(seed)

    def metrics(number: int) -> dict[str, np.ndarray]:
        good = random.random(number) < kept
        none, some = np.zeros(number), np.ones(number)
        found = dict.fromkeys(("queueing_mean", "refused", "rejected", "unfinished"), none)
        latencies = ("ttft", "tpot", "itl", "e2e")
        found |= {f"{name}_{of}": 0.01 * some for name in latencies for of in ("mean", "p50", "p90", "p95", "p99")}
        found |= {"good_share": np.where(good, 1.0, 0.1), "finished": 200.0 * some, "batch_mean": 5.0 * some}
        return found | {"goodput": 9.0 * some, "tokens_per_second": 640.0 * some, "duration": some}

    return metrics


@pytest.mark.parametrize(("asked", "kept"), CASES)
def test_the_first_row_is_simulated(monkeypatch, asked, kept):
    sort, kept = (kept, 0.0) if isinstance(kept, str) else (None, kept)
    metrics = verdicts(kept, seed=len(asked))

    def at_a_load(*_):
        return lambda load: {name: float(values[0]) for name, values in metrics(1).items()}

    monkeypatch.setattr(simulate, "outcomes", lambda points, *_: metrics(len(points)))
    monkeypatch.setattr(simulated_pools, "_figures_at", at_a_load)
    words = LENGTHS | {"slo": "ttft=1s,tpot=40ms", "max_devices": 2, "simulate": 2} | QUESTIONS[asked]
    found = compare(MODEL, sort=sort, **words)
    # whatever is estimated stands behind what is simulated, in the table and in --all
    for rows in (found.rows, found.best_layouts):
        order = [row.simulated for row in rows]
        assert order == sorted(order, reverse=True) and (not order or order[0])
    if not kept:
        assert not found.rows and any("simulated" in row.reason for row in found.nearest_misses)
    if kept == 1.0:
        assert found.rows


def test_without_simulations_rows_are_estimates():
    found = compare(MODEL, "ttft=1s,tpot=40ms", **LENGTHS, hardware=PAIR, max_devices=2, simulate=0)
    assert found.rows and not any(row.simulated for row in found.rows)
