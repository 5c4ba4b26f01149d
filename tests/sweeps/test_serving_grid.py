"""Many simulations at once: sweeps with job = "serve", curves over load, and the search for a capacity."""

import dataclasses
import json
import math
import types

import numpy as np
import pytest
import xarray as xr

import sweeps
from jaxroof.jobs.serve import Objective
from sweeps.ask.spec import spec
from sweeps.run.precision import precision
from sweeps.run.simulated import grid
from sweeps.run.simulated.objective import Target, parse_slo, parse_target, slo_text
from sweeps.run.simulated.plan import VARIABLES, planned
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving import capacity as search
from sweeps.serving import target as usual_loads
from sweeps.serving.curve import latency_curve, loads_of
from sweeps.serving.target import POINTS, good_share_of

pytestmark = pytest.mark.xdist_group("grid")

SPEC = {
    "job": "serve",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"rate": [4, 40], "isl": 300, "osl": 20, "requests": 30, "seed": [0, 1]},
    "policy": {"order": ["mixed", "prefill_first"], "token_budget": 512},
    "axes": {"hardware.memory.hbm.capacity": ["10 GB", "80 GB"]},
    "slo": "ttft=100ms,tpot=20ms",
    "output": {"dtype": "float64"},
}
STATIC = ("devices", "weight_bytes", "kv_capacity_tokens", "kv_blocks")


@pytest.fixture(scope="module")
def data():
    return sweeps.sweep(SPEC)


def test_loads_policies_seeds_and_hardware_are_axes(data):
    assert data.ttft_p99.dims == ("rate", "seed", "order", "hbm_capacity")
    assert set(data.data_vars) == set(VARIABLES)
    assert list(data.order.values) == ["mixed", "prefill_first"]
    assert data.rate.units == "s-1"
    for name, variable in data.variables.items():
        assert variable.attrs["units"] and variable.attrs["long_name"], name
    assert data.attrs["engine"] == "vllm@0.24" and json.loads(data.spec) == SPEC


def test_what_does_not_fit_is_blank_and_what_fits_is_answered(data):
    small, large = (data.sel(hbm_capacity=size) for size in (10e9, 80e9))
    assert not small.feasible.any() and large.feasible.all()
    for name in VARIABLES:
        if name not in ("fits", "legal", "feasible", *STATIC):
            assert np.isnan(small[name]).all(), name
            assert np.isfinite(large[name]).all(), name
    assert (large.finished == 30).all()


def test_more_load_is_felt_and_seeds_differ(data):
    felt = data.sel(hbm_capacity=80e9)
    assert (felt.e2e_mean.sel(rate=40) > felt.e2e_mean.sel(rate=4)).all()
    assert (felt.requests_per_second.sel(rate=40) > felt.requests_per_second.sel(rate=4)).all()
    assert (felt.ttft_mean.sel(seed=0) != felt.ttft_mean.sel(seed=1)).all()
    assert (felt.tpot_mean.sel(order="mixed") != felt.tpot_mean.sel(order="prefill_first")).any()


def test_a_point_is_the_simulation_of_one_deployment(data):
    """Both are float64: what differs is the order of a few sums."""
    workload = {"rate": 40, "isl": 300, "osl": 20, "requests": 30, "seed": 1}
    policy = {"order": "prefill_first", "token_budget": 512}
    keys = {"efficiency": "derated", "slo": SPEC["slo"], "policy": policy}
    keys["overrides"] = {"hardware.memory.hbm.capacity": "80 GB"}
    one = sweeps.serve("H100-SXM", "Llama-3.1-8B", **workload, **keys).dataset
    point = data.sel(rate=40, seed=1, order="prefill_first", hbm_capacity=80e9)
    names = ("ttft_mean", "ttft_p99", "tpot_p50", "e2e_p95", "goodput", "tokens_per_second", "utilization")
    for name in (*names, "tokens_per_second_per_device", "usd_per_million_tokens", "kv_use_max", "engine_steps"):
        assert float(point[name]) == pytest.approx(float(one[name]), rel=1e-9), name


def test_threads_change_nothing(data, monkeypatch):
    monkeypatch.setattr(grid, "THREADS", 1)
    width = grid._width
    monkeypatch.setattr(grid, "_width", lambda points, requests: -(-width(points, requests) // 2))
    xr.testing.assert_identical(sweeps.sweep(SPEC), data)


def test_a_clock_that_is_not_finite_is_an_error(data):
    points = planned(spec(SPEC))[1]._simulations
    memory = points[-1].hardware.memory
    hbm = dataclasses.replace(memory.hbm, bandwidth=math.nan)
    hardware = dataclasses.replace(points[-1].hardware, memory=dataclasses.replace(memory, hbm=hbm))
    broken = [*points[:-1], dataclasses.replace(points[-1], hardware=hardware)]
    with precision("float64"), pytest.raises(ValueError, match="the clock of a simulation is at nan s"):
        grid.outcomes(broken)


def test_a_file_is_the_same(data, tmp_path):
    sweeps.sweep_to_file(tmp_path / "out.nc", SPEC)
    with xr.open_dataset(tmp_path / "out.nc") as opened:
        xr.testing.assert_identical(opened.load(), data)


def test_a_folder_of_shards_has_the_same_points(data, tmp_path, monkeypatch):
    monkeypatch.setattr("sweeps.run.simulated.plan.LOT", 4)
    found = sweeps.sweep_to_folder(tmp_path / "sweep", SPEC, shard_points=1)
    assert len(list((tmp_path / "sweep").glob("shard-*"))) == 4
    assert sweeps.open(tmp_path / "sweep").load().equals(sweeps.sweep(SPEC))  # in the same lots: the same bits
    xr.testing.assert_allclose(found.load(), data, rtol=1e-12)
    assert found.attrs["spec"] == data.attrs["spec"]
    with pytest.raises(ValueError, match="output.keep = top=3: a serve keeps every point"):
        sweeps.sweep_to_folder(tmp_path / "other", {**SPEC, "output": {"keep": ["top=3"]}})


def test_samples_draw_loads_and_words():
    spec = {
        **SPEC,
        "mode": "sample",
        "workload": {**SPEC["workload"], "rate": {"from": 4, "to": 40}, "seed": {"from": 0, "to": 100}},
        "axes": {"hardware.memory.hbm.bandwidth": {"from": "2 TB/s", "to": "4 TB/s"}},
        "sample": {"points": 8},
    }
    found = sweeps.sweep(spec)
    assert found.ttft_p50.dims == ("point",) and np.isfinite(found.ttft_p50).all()
    assert (found.seed == found.seed.round()).all()  # what was simulated
    assert ((found.rate >= 4) & (found.rate <= 40)).all() and set(found.order.values) == {"mixed", "prefill_first"}


BAD = [
    ({"workload": {"rate": 0, "isl": 8, "osl": 8}}, "rate = 0"),
    ({"workload": {"rate": [1, 0], "isl": 8, "osl": 8}}, "workload.rate = 0"),
    ({"workload": {"rte": 1, "isl": 8, "osl": 8}}, "did you mean rate"),
    ({"workload": {"isl": 8, "osl": 8}}, "the load is missing"),
    ({"workload": {"rate": 1, "osl": 8}}, "isl is missing"),
    ({"workload": {"rate": 1, "concurrency": 4, "isl": 8, "osl": 8}}, "rate and concurrency"),
    ({"workload": {"concurrency": [1.5], "isl": 8, "osl": 8}}, "concurrency = 1.5"),
    ({"workload": {"concurrency": {"from": 1, "to": 3, "n": 9}, "isl": 8, "osl": 8}}, "repeat whole numbers"),
    ({"workload": {"rate": 1, "isl": ["lognrmal:8"], "osl": 8}}, "did you mean lognormal"),
    ({"workload": {"trace": "no-such-file.csv"}}, "no-such-file.csv: no such file"),
    ({"policy": {"order": ["mixed", "last"]}}, "policy.order = 'last'"),
    ({"policy": {"token_budgt": 8}}, "did you mean token_budget"),
    ({"policy": {"watermark": [0.1, 1.5]}}, "policy.watermark = 1.5"),
    ({"engine": "vlm"}, "engine = 'vlm'"),
    ({"slo": "ttft=5GB"}, "slo ttft = '5GB'"),
    ({"slo": {"ttff": 1}}, "did you mean ttft"),
    ({"output": {"breakdown": True}}, "output.breakdown"),
    ({"output": {"variables": ["ttft_p98"]}}, "ttft_p98"),
    ({"deployment": {"tp": [1, 3]}}, "tp = 3 does not divide"),
    ({"model": ["Llama-3.1-8B", "whisper-large-v3"]}, "Whisper-large-v3 attends to an encoder's output"),
    ({"job": "request"}, "policy = "),
]


@pytest.mark.parametrize(("change", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_input_is_refused_in_one_line(change, said, tmp_path):
    with pytest.raises(ValueError) as error:
        sweeps.sweep_to_file(tmp_path / "out.nc", {**SPEC, **change})
    assert said in str(error.value) and "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_context_parallel_devices_are_an_axis():
    """Of 1, 2 and 4 devices per prompt: prompts are sooner done, and twice the devices hold about twice the blocks."""
    long = {"rate": 1, "isl": 4000, "osl": 20, "requests": 30}
    spec = {"job": "serve", "model": "Llama-3.1-8B", "hardware": "H100-SXM", "efficiency": "derated", "workload": long}
    found = sweeps.sweep(spec | {"deployment": {"cp": [1, 2, 4]}})
    assert (found.finished == 30).all() and list(found.devices.values) == [1, 2, 4]
    assert (np.diff(found.ttft_mean) < 0).all() and (np.diff(found.kv_blocks) > 0.9 * found.kv_blocks[:-1]).all()


def test_illegal_splits_are_masked_on_request():
    spec = {**SPEC, "deployment": {"tp": 3}, "output": {"illegal": "mask"}}
    found = sweeps.sweep(spec)
    assert not found.legal.any() and np.isnan(found.ttft_p50).all()


def test_objectives_and_targets():
    assert parse_slo("ttft=500ms, tpot=40ms,e2e=10s") == Objective(ttft=0.5, tpot=0.04, e2e=10.0)
    assert parse_slo(None) == parse_slo("") == Objective()
    assert slo_text(parse_slo({"ttft": 0.5})) == "TTFT <= 500 ms"
    target = parse_target("ttft=500ms,ttft_p99=1s", "90%")
    assert target == Target(Objective(ttft=0.5), 0.9, {"ttft_p99": 1.0})
    assert target.text == "TTFT <= 500 ms for 90 % of the requests; TTFT p99 <= 1 s"
    for text, share, said in (
        ("ttft=1s,ttft=2s", 0.9, "given twice"),
        ("ttft", 0.9, "LATENCY=TIME"),
        ("ttft=-1s", 0.9, "positive"),
        ("", 0.9, "slo is missing"),
        ("ttft=1s", 1.2, "share = 1.2"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_target(text, share)


def test_loads_are_checked():
    loads, closed = loads_of([1, 2.5], None)
    assert loads.tolist() == [1.0, 2.5] and not closed
    for rates, clients, said in (
        (None, None, "give one"),
        ([1], [1], "give one"),
        ([], None, "empty"),
        ([2, 1], None, "must rise"),
        ([0, 1], None, "0 cannot be"),
        (None, [1.5], "whole"),
    ):
        with pytest.raises(ValueError, match=said):
            loads_of(rates, clients)


def curved(limits, closed=False):
    """A fleet whose TTFT at a load is load / limit: the target of 1 s is kept up to the limit."""

    def outcomes(amounts, objective, progress):
        progress(len(limits))
        ttft = np.asarray(amounts, float) / np.array(limits)
        whole, one = np.zeros(len(limits)), np.ones(len(limits))
        counts = {"finished": 100 * one, "refused": whole, "rejected": whole, "unfinished": whole}
        rates = {"good_share": one, "requests_per_second": np.asarray(amounts, float)}
        return {"ttft_p99": ttft, **counts, **rates}

    places = [types.SimpleNamespace(devices=2, price=1e-3, label=str(limit)) for limit in limits]
    return types.SimpleNamespace(places=places, rate=None if closed else 1.0, outcomes=outcomes)


@pytest.mark.parametrize("closed", [False, True])
def test_bisection_finds_the_limits_of_all_at_once(closed):
    loads = np.array([1.0, 3.0, 9.0, 27.0, 81.0, 243.0])
    limits = [0.5, 1.0, 7.3, 26.9, 60.0, 1000.0]
    fleet, target = curved(limits, closed), Target(Objective(), 0.95, {"ttft_p99": 1.0})
    nothing = lambda points: None  # noqa: E731
    found = [fleet.outcomes([load] * len(limits), target.objective, nothing) for load in loads]
    rounds = search._rounds(loads, 0.02, closed)
    assert closed or rounds == 6  # log2(ln 3 / ln 1.02) = 5.8
    ends = search._bisected(fleet, target, loads, found, rounds, nothing)
    assert [end.state for end in ends] == ["none", "met", "met", "met", "met", "more"]
    assert np.isnan(ends[0].load) and ends[0].missed == "TTFT p99 2 s of 1 s"
    assert ends[5].load == 243.0 and np.isnan(ends[5].fails) and ends[5].missed == ""
    for end, limit in zip(ends[1:5], limits[1:5], strict=True):
        assert end.load <= limit < end.fails
        assert end.fails <= max(end.load * 1.02, end.load + 1.0 if closed else 0.0)
        assert end.metrics["ttft_p99"] == pytest.approx(end.load / limit)
        assert end.per_device == end.load / 2 and end.per_dollar == pytest.approx(end.load / 1e-3)


def test_requests_are_added_until_the_largest_rate_is_too_much(monkeypatch):
    """A TTFT that grows by 1 ms a request: 1,000 of them stay within 2 s at any rate, 4,000 do not; 10 s, none does."""
    asked = []

    def drawn(question, names, degrees, node):
        count = int(question.requests or 1000)
        asked.append(count)

        def outcomes(amounts, objective, progress=None):
            one = np.ones(1)
            counts = {"finished": count * one} | dict.fromkeys(("refused", "rejected", "unfinished"), 0 * one)
            rates = {"good_share": one, "requests_per_second": 10.0 * one}
            return {"ttft_p99": 1e-3 * count * one, **counts, **rates}

        stream = types.SimpleNamespace(stream=range(count))
        return types.SimpleNamespace(places=[None], rate=1.0, outcomes=outcomes, requests=stream)

    monkeypatch.setattr(usual_loads, "fleet", drawn)
    for limit, requests, sizes in ((2.0, None, [1000, 4000]), (10.0, None, [1000, 4000, 16000]), (2.0, 200, [200])):
        asked.clear()
        target = Target(Objective(), 0.95, {"ttft_p99": limit})
        words = {"hardware": "-", "model": "-", "isl": 8, "osl": 8, "requests": requests}
        _, rates, _, times = usual_loads.usual_rates(ServeSpec(**words), [], None, None, target)
        assert asked == sizes and times == len(sizes) - 1 and rates[[0, -1]].tolist() == [0.5, 20.0]


def test_clients_are_bisected_to_whole_numbers():
    """Every limit of a bracket is found in the rounds that are allowed for the worst: exactly, or within 10 %."""
    loads, nothing = np.array([2.0, 30.0]), lambda points: None
    for tolerance in (1e-3, 0.1):
        rounds = search._rounds(loads, tolerance, True)
        limits = list(np.arange(2.0, 30.0))
        fleet, target = curved(limits, True), Target(Objective(), 0.95, {"ttft_p99": 1.0})
        found = [fleet.outcomes([load] * len(limits), target.objective, nothing) for load in loads]
        ends = search._bisected(fleet, target, loads, found, rounds, nothing)
        for end, limit in zip(ends, limits, strict=True):
            assert end.load == int(end.load) and end.load <= limit < end.fails
            assert end.fails <= max(end.load + 1.0, end.load * (1.0 + tolerance))


@pytest.fixture(scope="module")
def found():
    words = {"isl": 300, "osl": 20, "requests": 40, "efficiency": "derated"}
    return search.capacity("Llama-3.1-8B", ["H100-SXM", "A100-SXM-80GB", "T4"], "ttft=100ms,tpot=20ms", **words)


def test_a_capacity_is_where_the_target_ends(found):
    assert [one.place.label for one in found.capacities] == ["H100-SXM", "A100-SXM-80GB"]
    assert "bf16" in found.fleet.left_out["T4"]
    for one in found.capacities:
        assert one.state == "met" and one.load < one.fails <= 1.021 * one.load
        assert good_share_of(one.metrics) >= 0.95 and "are good, of 95 %" in one.missed
    assert found.simulations == 2 * (1 + POINTS + found.rounds) and not found.longer and found.ranked
    data = search.dataset(found)
    assert data.capacity_per_device.dims == ("hardware",) and data.ttft_p99.dims == ("hardware", "rate")
    for name, variable in data.variables.items():
        assert variable.attrs["units"] and variable.attrs["long_name"], name


def test_a_curve_is_that_of_the_search(found):
    rates = found.curve.rate.values[[0, 6, 9]]
    curve = latency_curve(
        "Llama-3.1-8B",
        ["H100-SXM", "A100-SXM-80GB"],
        rates=rates,
        slo="ttft=100ms,tpot=20ms",
        isl=300,
        osl=20,
        requests=40,
        efficiency="derated",
    )
    expected = found.curve.isel(rate=[0, 6, 9])
    xr.testing.assert_allclose(curve[["ttft_p99", "goodput"]], expected[["ttft_p99", "goodput"]], rtol=1e-12)
    assert (curve.ttft_p99.diff("rate") > 0).all()


def test_clients_of_a_closed_loop(found):
    words = {"isl": 300, "osl": 20, "requests": 40, "efficiency": "derated"}
    curve = latency_curve("Llama-3.1-8B", ["H100-SXM", "A100-SXM-80GB"], concurrencies=[1, 8], **words)
    assert curve.tpot_p50.dims == ("hardware", "concurrency")
    np.testing.assert_allclose(curve.batch_max.sel(concurrency=1), 1.0)
    assert (curve.requests_per_second.diff("concurrency") > 0).all()
    np.testing.assert_allclose(  # Little's law: clients = rate x time of a request, but for the end of the run
        (curve.requests_per_second * curve.e2e_mean).sel(concurrency=1), 1.0, rtol=1e-6
    )


def test_a_capacity_of_several_replicas_is_refused():
    with pytest.raises(ValueError, match="deployment.dp"):
        search.capacity("Llama-3.1-8B", "H100-SXM", "ttft=1s", isl=8, osl=8, deployment={"dp": 2})
    with pytest.raises(ValueError, match="T4 has no bf16 figure"):
        search.capacity("Llama-3.1-8B", "T4", "ttft=1s", isl=8, osl=8)


def test_chunks_fit_in_memory():
    assert grid._width(64, 10_000) * 10_000 * grid.RECORD_BYTES * grid.THREADS <= grid.MEMORY
    assert grid._width(1, 10_000_000) == 1 and grid._width(8, 100) == 4 and grid._width(100, 100) == 25
