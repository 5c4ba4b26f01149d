"""Serving points as traffic and policies, errors of predictions for them, and their pictures."""

import dataclasses
import functools

import numpy as np
import pytest

from jaxroof.batch import ORDERS
from sweeps.measure.validate.serving import scores
from sweeps.serving.run import setup
from sweeps.show import serving as pictures
from tests.serving_rows import read_rows


@pytest.fixture
def read(tmp_path):
    """Points and skipped rows of a file with one row per mapping of what differs from ROW."""
    return functools.partial(read_rows, tmp_path)


def test_traffic_is_the_benchmarks_closed_loop(read):
    (point,), _ = read({"concurrency": "100", "batch_size": "100"})
    loop = setup(dataclasses.replace(point.spec, seed=7)).load.traffic
    assert loop.clients == 100.0 and loop.isl.shape == loop.osl.shape == loop.arrival.shape == (1000,)
    isl, osl = np.asarray(loop.isl), np.asarray(loop.osl)
    assert isl.min() >= 819 and isl.max() <= 1024 and np.all(isl == np.round(isl))
    # Mean of 819 ... 1024 is 921.5; its deviation over 1000 draws is 206 / sqrt(12 * 1000) = 1.9.
    assert abs(isl.mean() - 921.5) < 8.0 and abs(np.corrcoef(isl, osl)[0, 1]) < 0.15
    assert not np.array_equal(isl, setup(dataclasses.replace(point.spec, seed=8)).load.traffic.isl)


def test_policies_of_the_engines(read):
    found, _ = read({}, {"backend": "trtllm"}, {"backend": "sglang"})
    vllm, trtllm, sglang = (point.policy for point in found)
    assert [ORDERS[int(each.order)] for each in (vllm, trtllm, sglang)] == ["mixed", "mixed", "prefill_first"]
    assert [each.token_budget for each in (vllm, trtllm, sglang)] == [8192.0, 2248.0, 32768.0]  # 1024 + 1024 + 200
    assert [each.chunked for each in (vllm, trtllm, sglang)] == [1.0, 0.0, 1.0]
    assert [each.reserve for each in (vllm, trtllm, sglang)] == [0.0, 1.0, 0.0]
    assert trtllm.wait_steps == 20.0 and trtllm.ahead_steps == sglang.ahead_steps == 1.0


def test_scores_and_the_worst(read):
    found, _ = read(*[{"gt_tpot_ms": str(10.0 + i)} for i in range(9)], {"gt_tpot_ms": "19", "batch_size": "4"})
    made = [scores.ServingPrediction(point, point.ttft, 1.1 * point.tpot) for point in found[:8]]
    made += [scores.ServingPrediction(found[8], 2.0 * found[8].ttft, 2.0 * found[8].tpot)]
    made += [scores.ServingPrediction(found[9], found[9].ttft, 10.0 * found[9].tpot)]  # suspect: not among the trusted
    table = scores.scores(made)
    trusted = table["points"]["trusted"]["tpot"]
    assert table["points"]["all"]["tpot"].n == 10 and trusted.n == 9
    assert trusted.median == pytest.approx(0.1) and trusted.signed == pytest.approx(0.1)
    assert trusted.mape == pytest.approx((8 * 0.1 + 1.0) / 9) and trusted.hits == pytest.approx(8 / 9)
    assert table["concurrency"].keys() == {"5-16"}
    # 16 * 1024 / (0.2 + 1023 * 0.012) = 1313.3 tokens/s
    assert scores.throughput(found[2], 0.2, 0.012) == pytest.approx(1313.3, rel=1e-4)
    last = scores.worst(made, "tpot")
    assert [one.point.row for one in last.predictions] == [10] and last.shares["model"] == {"Llama-3.1-70B": (1, 9)}
    assert len(scores.worst_lines(last)) == 8
    with pytest.raises(ValueError, match="no points"):
        scores.score([], "tpot")


def test_pictures_are_drawn(read):
    pytest.importorskip("matplotlib")
    found, _ = read({}, {"backend": "sglang", "concurrency": "4", "batch_size": "4"}, {"batch_size": "3"})
    made = [scores.ServingPrediction(point, 1.2 * point.ttft, 0.9 * point.tpot) for point in found]
    first, second = pictures.predicted_against_measured(made), pictures.errors_by_concurrency(made)
    assert len(first.axes) == len(second.axes) == 2
    with pytest.raises(ValueError, match="no served points"):
        pictures.predicted_against_measured([])
