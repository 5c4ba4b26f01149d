"""Files of served points whose rows differ in everything: each on its own hardware; what fails is named, left out."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from sweeps.cli import main
from sweeps.measure.validate.serving import attempt
from sweeps.measure.validate.serving.attempt import attempted
from tests.serving_rows import FULL, MIXED, SMALL, read_rows

pytestmark = pytest.mark.xdist_group("predict")

NO_CACHE = "Llama-3.1-70B does not fit on 1 x {}: weights of 141 GB per device leave no KV cache in {} GB; "
NO_CACHE += "use more devices (tp)"
STRANGE = (FULL, FULL | {"gpu": "gaudi3"}, SMALL | {"gpu": "h9000"}, SMALL | {"backend": "atom"})


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    read_rows(folder, *MIXED, *STRANGE)
    return folder / "measured.csv"


@pytest.fixture(scope="module")
def answer(file):
    """What the command says of the file, as JSON."""
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["validate", "serving", "--data", str(file), "--efficiency", "derated", "--json"]) == 0
    return json.loads(out.getvalue())


def test_six_accelerators_of_three_vendors_under_three_engines(answer):
    rows = answer["rows"]
    assert [row["gpu"] for row in rows] == ["H100-SXM", "H200-SXM", "B200-SXM", "MI300X", "MI355X", "Gaudi3"]
    assert {row["engine"] for row in rows} == {"vllm", "sglang", "trtllm"} and answer["scored"] == 6
    times = [row[name] for row in rows for name in ("ttft_predicted_s", "tpot_predicted_s")]
    assert all(math.isfinite(time) and time > 0.0 for time in times)
    assert answer["errors"]["points"]["all"]["tpot"]["n"] == 6 and len(answer["errors"]["GPU"]) == 6


def test_rows_without_a_prediction_are_named(answer):
    left = {one["reason"]: one["lines"] for one in answer["left_out"]}
    assert left[NO_CACHE.format("H200-SXM", 151)] == [8] and left[NO_CACHE.format("Gaudi3", 137)] == [9]
    assert left["backend = 'atom' is not known; known: vllm, trtllm, sglang"] == [11]
    assert [lines for reason, lines in left.items() if reason.startswith("'h9000' is neither")] == [[10]]
    assert sum(one["rows"] for one in answer["left_out"]) == 4


def test_settings_of_other_vendors_are_said(answer):
    assert {one["assumption"]: one["rows"] for one in answer["assumptions"]} == {
        "MI300X under sglang: settings are those of InferenceX's scripts for AMD's devices": 1,
        "MI355X under vllm: settings are those of InferenceX's scripts for AMD's devices": 1,
        "Gaudi3 under vllm: settings are the engine's own defaults, with the clients and lengths of InferenceX": 1,
    }


def test_a_row_is_priced_as_it_is_alone(answer, tmp_path):
    (point,), _ = read_rows(tmp_path, MIXED[3])
    row = answer["rows"][3]
    spec = dataclasses.replace(point.spec, seed=1 + row["row"])  # which its requests are drawn by
    point = dataclasses.replace(point, spec=spec)
    ((alone,), _) = attempted([point], "derated")
    assert (row["ttft_predicted_s"], row["tpot_predicted_s"]) == pytest.approx((alone.ttft, alone.tpot), rel=1e-6)


def test_settings_are_those_of_the_vendor(tmp_path):
    amd = {"backend": "sglang", "gpu": "mi300x"}
    others = amd | {"gpu": "mi355x"}, amd | {"gpu": "gaudi3"}, amd | {"backend": "trtllm"}
    found, skipped = read_rows(tmp_path, amd, *others)
    assert [point.policy.token_budget for point in found] == [131072.0, 196608.0, 8192.0]
    assert [point.spec.kv for point in found] == [None, None, None]
    assert [one.reason for one in skipped] == ["MI300X: TensorRT-LLM runs on devices of NVIDIA alone"]


def test_nothing_but_failing_rows_is_one_line(tmp_path, capsys):
    read_rows(tmp_path, FULL, FULL)
    file = tmp_path / "measured.csv"
    assert main(["validate", "serving", "--data", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.strip().endswith(
        f"{file}: none of 2 rows can be simulated: {NO_CACHE.format('H200-SXM', 151)} (rows 2, 3)"
    )


def test_a_cache_that_holds_no_whole_request(tmp_path):
    points, _ = read_rows(tmp_path, SMALL | {"isl_tokens": "950000"})
    found, (left,) = attempted(points, "derated")
    assert found == [] and left.row == 2
    said = r"Llama-3.1-8B on 1 x H200-SXM: the KV cache of \d+ tokens beside the weights does not hold one sequence of "
    assert re.fullmatch(said + "950032 tokens", left.reason)


@pytest.fixture
def three(tmp_path):
    """Points on H100, H200 and MI300X, the last with another number of clients."""
    more = {"concurrency": "8", "batch_size": "8"}
    found, _ = read_rows(tmp_path, SMALL | {"gpu": "h100_sxm"}, SMALL, SMALL | {"gpu": "mi300x"} | more)
    return found


def figures(points, tpot=0.01, finished=None):
    """What simulations of points return."""
    one = np.ones(len(points))
    return {
        "feasible": one > 0.0,
        "ttft_mean": 0.1 * one,
        "ttft_p50": 0.1 * one,
        "tpot_mean": tpot * one,
        "tpot_p50": tpot * one,
        "run_tokens_per_second": 100.0 * one,
        "finished": one * (len(points[0].workload.traffic.isl) if finished is None else finished),
    }


def test_simulations_that_fail_or_answer_nothing(three, monkeypatch):
    def outcomes(scenarios):
        if scenarios[0].workload.traffic.clients == 8.0:
            raise MemoryError("too much")
        return figures(scenarios) | {"finished": np.array([40.0, 13.0])}

    monkeypatch.setattr(attempt, "outcomes", outcomes)
    monkeypatch.setattr(attempt, "checked", lambda points: 1 / 0)
    found, left = attempted(three, "derated")
    assert [(one.point.row, one.point.suspect) for one in found] == [
        (2, "labels could not be checked: ZeroDivisionError: division by zero")
    ]
    assert [(one.row, one.reason) for one in left] == [
        (3, "27 of 40 requests were not answered when the simulation ended"),
        (4, "its simulation failed: MemoryError: too much"),
    ]


def test_what_has_no_finite_value_is_left_out(three, monkeypatch):
    monkeypatch.setattr(attempt, "outcomes", lambda scenarios: figures(scenarios, tpot=math.nan))
    found, left = attempted(three, "derated")
    assert not found and {one.reason for one in left} == {"its latencies are not finite: TTFT 0.1 s, TPOT nan s"}


def test_few_rows_of_a_structure_are_one_program(tmp_path, monkeypatch):
    rows = read_rows(tmp_path, *(SMALL | {"concurrency": clients, "batch_size": clients} for clients in ("4", "80")))[0]
    calls, outcomes = [], attempt.outcomes

    def counted(points):
        calls.append([float(np.asarray(point.workload.traffic.clients)) for point in points])
        return outcomes(points)

    monkeypatch.setattr(attempt, "outcomes", counted)
    found, left = attempted(rows[::-1], "derated")
    # Few clients come first; predictions are in the order of the rows, and each is the one of its row alone.
    assert calls == [[4.0, 80.0]] and not left
    assert [one.point.concurrency for one in found] == [80.0, 4.0]
    for one in found:
        (alone,), _ = attempted([one.point], "derated")
        assert (one.ttft, one.tpot) == pytest.approx((alone.ttft, alone.tpot), rel=1e-12)
