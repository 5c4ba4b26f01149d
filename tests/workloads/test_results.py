"""Readers of benchmark results and BLIS traces: latencies in s, failures left out, and one line for what is wrong."""

import functools
import json
import math

import numpy as np
import pytest

from tests.trace_files import BLIS, BLIS_HEADER, GUIDE, SGLANG, VLLM, columns, refused, written
from workloads.traces import format_of, read_measured, read_trace


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""
    return functools.partial(written, tmp_path)


def test_measured_of_vllm_is_in_seconds_and_the_order_of_sending(write):
    found = read_measured(write("r.json", VLLM))
    assert found.ttft.tolist() == [0.25, 0.5]
    assert found.e2e == pytest.approx([0.25, 0.9])
    assert found.itl == pytest.approx([math.nan, 0.2], nan_ok=True)  # (0.9 - 0.5) / (3 - 1)
    assert (found.rate, found.concurrency, found.duration) == (2.0, None, 4.0)
    assert found.summary == {"mean_ttft": 0.375, "p99_itl": 0.298, "mean_e2e": 0.575}


def test_results_without_details_have_mean_lengths_and_no_latencies(write):
    short = {key: value for key, value in VLLM.items() if not isinstance(value, list)}
    found = read_measured(write("r.json", short))
    assert columns(found.stream)[:3] == [[0, 0.5], [150, 150], [15, 15]]
    assert np.isnan(found.ttft).all() and found.summary["mean_ttft"] == 0.375
    assert "totals alone" in found.stream.notes[0] and "evenly at the client's 2 per s" in found.stream.notes[1]


def test_measured_of_guidellm_uses_the_time_between_tokens(write):
    found = read_measured(write("r.json", GUIDE))
    assert found.ttft == pytest.approx([0.1, 1.3531, math.nan], nan_ok=True)
    assert found.itl == pytest.approx([0.2, 0.02602, math.nan], nan_ok=True)  # (0.5 - 0.1) / 2 where it is null
    assert found.e2e == pytest.approx([0.5, 2.7846, 0.5])
    assert (found.rate, found.concurrency, found.duration) == (2.0, 512.0, 30.0)
    assert found.summary == {"mean_ttft": 0.7, "p99_ttft": 1.3, "mean_e2e": 1.5}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type_": "synchronous"}, (None, 1.0)),
        ({"type_": "throughput", "max_concurrency": 9}, (math.inf, 9.0)),
        ({"type_": "concurrent", "streams": 4}, (None, 4.0)),
    ],
)
def test_strategies_of_guidellm(write, strategy, expected):
    report = json.loads(json.dumps(GUIDE))
    report["benchmarks"][0] = {**report["benchmarks"][0], "args": {"strategy": strategy}}
    del report["benchmarks"][0]["config"]
    found = read_measured(write("r.json", report))
    assert (found.rate, found.concurrency) == expected


def test_one_run_of_several_is_chosen_by_number(write):
    second = {**SGLANG, "input_lens": [7, 8, 9]}
    path = write("r.jsonl", json.dumps(SGLANG) + "\n\n" + json.dumps(second) + "\n")
    assert read_trace(f"{path}#2").isl.tolist() == [7, 9]
    assert f"write {path}#1 to {path}#2" in refused(read_trace, path)
    assert "no run 3; the file holds 2" in refused(read_trace, f"{path}#3")
    both = write("g.json", {"benchmarks": GUIDE["benchmarks"] * 2})
    assert len(read_trace(f"{both}#1")) == 3
    assert "holds 2 benchmarks" in refused(read_measured, both)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ttfts": [0.5]}, "ttfts has 1 values; there are 3 requests"),
        ({"ttfts": [0.5, 0.0, -1.0]}, "ttfts[2] is -1.0; it must be a finite number of at least 0"),
        ({"itls": [[0.1, math.nan], [], []]}, "itls: 0[1] is nan"),
        ({"itls": [0.1, [], []]}, "itls[0] is 0.1; it must be a list"),
        ({"input_lens": [0, 50, 200]}, "request 0: input_lens is 0"),
        ({"errors": ["a", "b", "c"]}, "none of its 3 requests has output tokens"),
        ({"request_rate": -1}, "request_rate is -1"),
        ({"max_concurrency": 0}, "max_concurrency is 0"),
        ({"start_times": None, "request_rate": "trace"}, "when requests were sent is not in the file"),
    ],
)
def test_wrong_results_are_one_line(write, change, said):
    assert said in refused(read_measured, write("r.json", {**VLLM, **change}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompt_tokens": None}, "successful[1]: prompt_tokens is None; it must be a whole number"),
        ({"prompt_tokens": 0}, "successful[1]: prompt_tokens is 0"),
        ({"start_time": "now"}, "successful[1]: start_time is 'now'"),
        ({"request_latency": -1.0}, "request_latency is -1.0"),
    ],
)
def test_wrong_reports_are_one_line(write, change, said):
    report = json.loads(json.dumps(GUIDE))
    report["benchmarks"][0]["requests"]["successful"][1].update(change)
    assert said in refused(read_measured, write("r.json", report))


def test_empty_reports_are_one_line(write):
    assert "there is no benchmark in it" in refused(read_trace, write("a.json", {"benchmarks": []}), "guidellm")
    none = {"benchmarks": [{"requests": {"successful": []}}]}
    assert "no request was successful" in refused(read_trace, write("b.json", none))


@pytest.mark.parametrize("ending", ["csv", "yaml"])
def test_blis_adds_prefixes_and_leaves_failures_out(write, ending):
    write("t.yaml", BLIS_HEADER)
    path = write("t.csv", BLIS).replace("csv", ending)
    assert format_of(path) == "blis"
    found = read_trace(path)
    # with a group: prefix + own; without: what the server counted
    assert columns(found) == [[0, 0.5, 1.0], [120, 25, 130], [11, 6, 1], [0, -1, 0], [0, 0, 100]]
    assert found.notes[0] == "1 of 4 requests left out: their status is not ok"
    assert "1 requests belong to sessions" in found.notes[1]
    measured = read_measured(path)
    assert measured.ttft == pytest.approx([0.05] * 3) and measured.e2e == pytest.approx([0.15] * 3)
    assert measured.itl == pytest.approx([0.01, 0.02, math.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("header", "change", "said"),
    [
        (BLIS_HEADER.replace("2\n", "1\n"), ("", ""), "trace_version is 1; it must be one of 2, 3"),
        (BLIS_HEADER.replace("microseconds", "ms"), ("", ""), "time_unit is 'ms'"),
        (BLIS_HEADER, ("timeout", "timedout"), "row 5: status is 'timedout'; did you mean timeout"),
        (BLIS_HEADER, ("1500000,", "x,"), "row 3: arrival_time_us is 'x'; it must be a whole number"),
        (BLIS_HEADER, (",ok,", ",error,"), "none of its 4 requests has the status ok"),
        (BLIS_HEADER, ("prefix_length", "prefix_len"), "column prefix_length is missing"),
        (BLIS_HEADER + "x: &a [*a]\n", ("", ""), "an alias is inside of what it names"),
    ],
)
def test_wrong_blis_traces_are_one_line(write, header, change, said):
    write("t.yaml", header)
    assert said in refused(read_trace, write("t.csv", BLIS.replace(*change) if change[0] else BLIS))


def test_blis_needs_its_header_and_measures_only_real_runs(write):
    path = write("t.csv", BLIS)
    assert "its header is missing" in refused(read_trace, path)
    write("t.yaml", BLIS_HEADER.replace("real", "generated"))
    assert "mode is generated; only a real run is measured" in refused(read_measured, path)
