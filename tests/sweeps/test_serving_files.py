"""One simulated deployment: its numbers, its dataset, the file and the trace made of it, and what it refuses."""

import itertools
import json

import numpy as np
import pytest
import xarray as xr

import sweeps
from hwspaces.files.output import KINDS
from jaxroof.batch import ORDERS
from sweeps.ask.engines import ENGINES
from sweeps.ask.names import variable
from sweeps.run.simulated.load import load
from sweeps.run.simulated.policies import chosen_policy, policy_record, policy_text
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving import chrome, files
from sweeps.serving.report import nearest, request_columns, slo_lines, status_text
from sweeps.serving.run import simulation, waiting
from sweeps.show.serving_run import serving_run

pytestmark = [pytest.mark.xdist_group("files"), pytest.mark.usefixtures("standard_promotion")]

PLACE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "policy": {"token_budget": 1024, "max_sequences": 16}}
LENGTHS = {"isl": "uniform:100..900", "osl": "uniform:1..60", "requests": 48}
ROOM = {
    "deployment.memory_utilization": "0.9",
    "deployment.graph_bytes": "0B",
    "deployment.sampled_rows": "0",
}
"""A share of memory that only weights, activations and a reserve take from."""

OPEN = {**PLACE, **LENGTHS, "rate": 300, "seed": 3}


@pytest.fixture(scope="module")
def found():
    """48 requests that arrive faster than 16 slots can take them."""
    return simulation(serve_spec(**OPEN, slo="ttft=300ms"))


@pytest.fixture(scope="module")
def data(found):
    return files.dataset(found)


def test_metrics_are_those_of_the_requests(data):
    assert set(data.dims) == {"request", "iteration"} and data.sizes["request"] == 48
    assert (data.status == 0).all() and float(data.finished) == 48
    for name in ("ttft", "tpot", "e2e", "queueing"):
        values = data[name].values[np.isfinite(data[name].values)]
        assert float(data[f"{name}_mean"]) == pytest.approx(values.mean(), rel=1e-12)
        assert float(data[f"{name}_p90"]) == pytest.approx(np.percentile(values, 90), rel=1e-12)
    assert (np.isnan(data.tpot) == (data.osl == 1)).all()
    good = int((data.ttft <= 0.3).sum())
    assert 0 < good < 48
    assert float(data.good_share) == pytest.approx(good / 48, rel=1e-12)
    assert 0.0 < float(data.goodput) < float(data.requests_per_second)
    assert float(data.run_tokens_per_second) == pytest.approx(float(data.osl.sum()) / float(data.duration), rel=1e-12)


def test_iterations_account_for_every_token_and_second(found, data):
    # every prompt token once, and every output token but the first of a request by a decode step
    assert int(data.prompt_tokens.sum()) == int(data.isl.sum())
    assert int((data.decoding * data.steps).sum()) == int((data.osl - 1).sum())
    assert float(data.iteration_time.sum()) == pytest.approx(float(data.end[-1]), rel=1e-12)
    assert (data.iteration_time > 0).all() and int(data.running.max()) == 16
    assert int(data.blocks.max()) / found.blocks == pytest.approx(float(data.kv_use_max), rel=1e-12)
    starts = (data.end - data.iteration_time).values
    admitted = found.served.admitted
    counted = [int(((found.served.arrival <= t + 1e-9) & (admitted > t + 1e-9)).sum()) for t in starts]
    assert waiting(found).tolist() == counted and max(counted) > 10


def test_every_variable_says_what_it_is_and_the_file_holds_the_same(data, tmp_path):
    for name in data.data_vars:
        attributes = data[name].attrs
        assert (
            attributes["units"] == ("s" if variable(name).unit == "s" else attributes["units"]) and attributes["units"]
        )
        assert attributes["long_name"] == variable(name).long_name
    assert data.status.attrs["flag_meanings"].split()[:2] == ["finished", "refused"]
    files.written(tmp_path / "run.nc", data)
    with xr.open_dataset(tmp_path / "run.nc") as again:
        xr.testing.assert_identical(again.load(), data)
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]


def test_the_record_makes_the_dataset_again(data):
    xr.testing.assert_identical(sweeps.serve(**json.loads(data.spec)).dataset, data)
    assert json.loads(data.policy)["token_budget"] == 1024 and json.loads(data.slo) == {"ttft": 0.3}


def test_a_trace_has_every_step_and_request_in_us(found, data, tmp_path):
    chrome.written(tmp_path / "t.json", found)
    assert KINDS["timeline"].recognised(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text(), parse_constant=pytest.fail)["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "C", "X"}
    steps = [e for e in events if e["ph"] == "X" and e["pid"] == chrome.ENGINE]
    assert sum(e["args"]["steps"] for e in steps) == int(data.engine_steps)
    assert all(b["ts"] >= a["ts"] + a["dur"] for a, b in itertools.pairwise(steps))
    assert steps[-1]["ts"] + steps[-1]["dur"] == pytest.approx(1e6 * float(data.end[-1]), abs=0.01)
    spans = [e for e in events if e["ph"] == "X" and e["pid"] == chrome.REQUESTS]
    lanes = {}
    for span in sorted(spans, key=lambda e: e["ts"]):
        assert span["ts"] >= lanes.get(span["tid"], 0.0), "spans of one lane overlap"
        lanes[span["tid"]] = span["ts"] + span["dur"]
    times = {(e["args"]["request"], e["name"]): e for e in spans}
    for i in range(48):
        arrival, ttft, e2e = (1e6 * float(data[name][i]) for name in ("arrival", "ttft", "e2e"))
        assert times[i, "prefill"]["ts"] + times[i, "prefill"]["dur"] == pytest.approx(arrival + ttft, abs=0.01)
        if int(data.osl[i]) > 1:
            assert times[i, "decode"]["ts"] + times[i, "decode"]["dur"] == pytest.approx(arrival + e2e, abs=0.01)
    counters = [e for e in events if e["ph"] == "C" and e["name"] == "requests"]
    assert max(e["args"]["running"] for e in counters) == 16


def test_the_nearest_where_nothing_keeps_the_limits():
    found = simulation(serve_spec(**OPEN, slo="ttft=1ms,e2e=3ms"))
    columns = request_columns(found)
    worst = np.maximum(columns["ttft"] / 1e-3, columns["e2e"] / 3e-3)
    near = nearest(found)
    assert near.request == int(np.argmin(worst)) and near.missed == ("ttft", "e2e")
    assert near.medians["ttft"] == pytest.approx(np.median(columns["ttft"]))
    lines = slo_lines(found)
    assert lines[0] == "TTFT <= 1 ms, E2E <= 3 ms: no request keeps it"
    assert f"request {near.request} has TTFT" in lines[1] and "% above 1 ms" in lines[1] and "median" in lines[2]


def test_requests_longer_than_the_cache_are_refused_and_counted():
    # 0.9 of 85.9 GB less 16.06 GB of weights, 0.906 GB of activations and 60.2643 GB leave 599 tokens of
    # 2 * 32 * 8 * 128 * 2 = 131,072 B
    found = simulation(serve_spec(**OPEN, overrides={**ROOM, "deployment.reserve_bytes": "60.2643GB"}))
    assert found.blocks == 599 // 16
    tokens = found.blocks * 16
    stream = found.replica.stream
    long = np.ceil((stream.isl + stream.osl) / 16) > found.blocks
    assert 0 < long.sum() < 48
    data = files.dataset(found)
    assert (data.status.values == 1).tolist() == long.tolist()
    assert int(data.finished) + int(data.refused) == 48
    assert np.isnan(data.ttft.values[long]).all() and np.isfinite(data.arrival).all()
    assert f"{long.sum()} refused: prompt and output are more than the KV cache's {tokens:.0f} tokens" in (
        status_text(found)
    )
    with pytest.raises(ValueError, match=r"Llama-3.1-8B does not fit on 1 x H100-SXM: weights of 16.1 GB"):
        simulation(serve_spec(**OPEN, overrides={**ROOM, "deployment.reserve_bytes": "70GB"}))


def test_a_cache_that_no_request_fits_into_and_a_run_that_ends_early(monkeypatch):
    # as above: 60 tokens are left, 3 blocks, and the shortest prompt has 100
    found = simulation(serve_spec(**OPEN, slo="ttft=1s", overrides={**ROOM, "deployment.reserve_bytes": "60.33506GB"}))
    assert found.blocks == 3 and found.metrics["refused"] == 48 and status_text(found).startswith("48 refused: ")
    assert slo_lines(found) == ["TTFT <= 1 s: no request keeps it, because none finished"]
    assert list(chrome.events(found))
    with pytest.raises(ValueError, match="no request finished, so there is nothing to draw: 48 refused"):
        serving_run(files.dataset(found))

    monkeypatch.setattr("sweeps.run.simulated.simulation.PIECES", 1)
    found = simulation(serve_spec(**OPEN))
    left = int(found.metrics["unfinished"])
    assert 0 < left < 48 and found.metrics["finished"] == 48 - left
    assert status_text(found).endswith(f"{left} unfinished when the run was ended")
    assert any(f"{left} requests unfinished" in note for note in found.notes)
    assert np.isnan(files.dataset(found).e2e.values).sum() == left


def test_replicas_share_the_stream():
    keys = OPEN | {"requests": 96}
    found = simulation(serve_spec(**keys, deployment={"dp": 2}))
    assert len(found.load.stream) == 96 and (found.replica.stream.isl == found.load.stream.isl[::2]).all()
    own = found.replica.stream.osl.sum() / found.metrics["duration"]
    assert found.metrics["run_tokens_per_second"] == pytest.approx(2 * own)
    assert found.metrics["tokens_per_second_per_device"] == pytest.approx(found.metrics["tokens_per_second"] / 2)
    assert (found.metrics["devices"], found.metrics["finished"]) == (2, 48)
    assert any("one of 2 replicas" in note for note in found.notes)
    with pytest.raises(ValueError, match=r"concurrency = 3 must be a multiple of the 2 replicas"):
        load(serve_spec(**PLACE, isl=8, osl=8, concurrency=3)).replica(2)


def test_words_of_a_load():
    assert load(serve_spec(**PLACE, isl=1024, osl=256, concurrency=64, think="1s")).text == (
        "1,000 requests of 1,024 + 256 tokens from 64 clients, 1 s after each answer"
    )
    assert load(serve_spec(**PLACE, isl=10, osl=2, arrivals="constant:4", requests=9)).text == (
        "9 requests at 4 per second of 10 + 2 tokens"
    )
    assert load(serve_spec(**PLACE, isl=10, osl=2, arrivals="once", requests=1)).text == "1 request of 10 + 2 tokens"


@pytest.mark.parametrize(
    "keys, message",
    [
        ({}, "the load is missing: give trace, rate, arrivals or concurrency"),
        ({"rate": 8, "osl": 1}, "isl is missing"),
        ({"rate": 8, "concurrency": 4}, "rate and concurrency both say when requests come"),
        ({"rate": 0, "isl": 1, "osl": 1}, "rate"),
        ({"rate": "fast", "isl": 1, "osl": 1}, "rate = 'fast' is not a number"),
        ({"rate": 8, "isl": -5, "osl": 1}, "isl"),
        ({"rate": 8, "isl": 1, "osl": 1, "think": 1}, "think = 1: only the clients"),
        ({"concurrency": 8, "isl": 1, "osl": 1, "duration": 5}, "duration cannot be given with concurrency"),
        ({"concurrency": 2.5, "isl": 1, "osl": 1}, "concurrency = 2.5 must be a whole number of at least 1"),
        ({"rate": 8, "isl": 1, "osl": 1, "requests": 0}, "requests = 0 must be a whole number of at least 1"),
        ({"rate": 8, "isl": 1, "osl": 1, "format": "azure"}, "format cannot be given: it needs a trace"),
        ({"trace": "x.csv", "isl": 5}, "isl cannot be given: x.csv says what requests are"),
        ({"trace": "x.csv"}, "x.csv"),
    ],
)
def test_a_load_that_cannot_be_is_refused_in_one_line(keys, message):
    with pytest.raises(ValueError) as error:
        load(serve_spec(**PLACE, **keys))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"budget": 5}, "there is no policy.budget; did you mean token_budget"),
        ({"order": "random"}, "policy.order = 'random' must be mixed, prefill_first, decode_first or static"),
        ({"queue": "lifo"}, "policy.queue = 'lifo' must be fcfs, shortest_first or priority"),
        ({"token_budget": "0"}, "policy.token_budget = '0' must be a whole number of at least 1"),
        ({"block_size": 1e5}, "policy.block_size = 100000.0 must be a whole number of at least 1 to 4096"),
        ({"chunked": 2}, "policy.chunked = 2 must be 0 or 1"),
        ({"watermark": "nan"}, "policy.watermark = 'nan' must be a share"),
        ({"max_waiting": 0}, "policy.max_waiting = 0 must be a whole number of at least 1"),
        ({"swap": 1}, "policy.swap = 1 needs policy.swap_time"),
        ({"swap_time": "5 kg"}, "policy.swap_time = '5 kg'"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_in_one_line(values, message):
    with pytest.raises(ValueError) as error:
        chosen_policy("vllm", values)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_policies_in_words_and_as_data():
    found = chosen_policy("vllm", {"order": "static", "swap": "1", "swap_time": "2us", "max_waiting": "inf"})
    assert ORDERS[int(found.order)] == "static" and found.swap_time == 2e-6
    assert policy_text(found).startswith("static, fcfs, token_budget 8,192, max_sequences 1,024, chunked")
    assert "2 us per swapped token" in policy_text(found)
    for engine in ENGINES:
        assert json.loads(json.dumps(policy_record(chosen_policy(engine, {})), allow_nan=False))["max_waiting"] is None
    with pytest.raises(ValueError, match="engine = 'tgi' is not known"):
        chosen_policy("tgi", {})


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"model": "whisper-large-v3"}, "attends to an encoder's output"),
        ({"slo": "speed=3"}, "slo: there is no limit speed"),
        ({"engine": "tgi"}, "engine = 'tgi' is not known"),
        ({"colour": "red"}, "there is no key colour"),
    ],
)
def test_a_deployment_that_cannot_be_simulated_is_refused_in_one_line(keys, message):
    with pytest.raises(ValueError) as error:
        simulation(serve_spec(**{**OPEN, **keys}))
    assert message in str(error.value) and "\n" not in str(error.value)
