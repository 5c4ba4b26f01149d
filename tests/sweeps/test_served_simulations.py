"""Simulations of a served comparison: the search for the largest load, programs, rows, and the estimate's error."""

import dataclasses

import jax
import numpy as np
import pytest
import xarray as xr

import hwspaces
from jaxroof.batch import Policy
from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import Service
from sweeps.ask.names import variable_attributes
from sweeps.data.store import saved
from sweeps.entries.comparisons import compare
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import outcomes
from sweeps.run.simulated.load import Load
from sweeps.run.simulated.objective import Target
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.run import setup, simulation
from sweeps.studies.compare import simulate
from sweeps.studies.compare.comparison import Comparison, dataset
from sweeps.studies.compare.figures import SORTED_BY
from sweeps.studies.compare.search import contending
from sweeps.studies.compare.simulate import ROUNDS, TOLERANCE, largest_loads
from sweeps.studies.compare.simulated import Candidate
from workloads.streams.stream import Stream, alone

pytestmark = pytest.mark.xdist_group("served simulations")

MODEL = "Llama-3.1-8B"
PAIR = ("H100-SXM", "A100-SXM-80GB")
LENGTHS = {"isl": 256, "osl": 32}

FOUR = Load(Stream("four", np.arange(1.0, 5.0), np.full(4, 8.0), np.full(4, 8.0), *alone(4), "one per second"))

KEPT = Target(limits={"tpot_mean": 1.0})


def largest(
    known: list[float], estimated: list[float], monkeypatch, worth=None, luck=()
) -> tuple[list, int, list[int]]:
    """Results of places that keep the target up to known loads; their simulations; the candidates of every round."""
    rounds = []

    def stub(points, progress, width, among):
        rounds.append([int(point.workload.policy.max_sequences) for point in points])
        load = np.array([4.0 / point.workload.traffic.arrival[-1] for point in points])
        most = np.array([known[int(point.workload.policy.max_sequences)] for point in points])
        most = np.where([any(low < x < high for low, high in luck) for x in load], 0.5 * load, most)
        none, all_of_them = np.zeros(len(points)), np.full(len(points), 4.0)
        with np.errstate(divide="ignore"):
            found = {"tpot_mean": load / most, "queueing_mean": none, "finished": all_of_them, "good_share": none + 1.0}
        return found | {"duration": none + 1.0, "refused": none, "rejected": none, "unfinished": none}

    monkeypatch.setattr(simulate, "outcomes", stub)
    place = Scenario(hardware=None, model=None, deployment=None, workload=None, efficiency=None)
    candidates = [Candidate(place, Policy(max_sequences=float(i)), load, FOUR, 1.0) for i, load in enumerate(estimated)]
    worth = worth or (lambda low, high: np.ones(len(low), bool))
    found, number = largest_loads(candidates, KEPT, worth)
    return found, number, rounds


@pytest.mark.parametrize("estimated", [0.3, 0.9, 0.999, 1.0, 1.001, 1.2, 2.0])
def test_the_largest_load_is_found_from_below_and_from_above(estimated, monkeypatch):
    (found,), number, rounds = largest([40.0], [40.0 * estimated], monkeypatch)
    assert found.load <= 40.0 < found.fails <= found.load * (1.0 + TOLERANCE)
    assert found.metrics["tpot_mean"] == pytest.approx(found.load / 40.0)  # the figures are those of that load
    assert found.missed.startswith("TPOT mean ")
    assert number == sum(map(len, rounds)) and len(rounds) < ROUNDS


def test_places_are_searched_for_together(monkeypatch):
    known = [10.0, 20.0, 30.0]
    found, number, rounds = largest(known, [11.0, 19.0, 30.0], monkeypatch)
    for one, load in zip(found, known, strict=True):
        assert one.load <= load < one.fails <= one.load * (1.0 + TOLERANCE)
    assert rounds[0] == [0, 0, 1, 1, 2, 2] and number == sum(map(len, rounds))


def test_where_no_load_keeps_the_target_there_is_none(monkeypatch):
    (found,), _, rounds = largest([0.0], [5.0], monkeypatch)
    assert found.load == 0.0 and 0.0 < found.fails < 5.0 and len(rounds) == ROUNDS
    assert found.missed.startswith("TPOT mean ") and found.metrics["tpot_mean"] > 1.0


def test_one_load_that_fails_by_bad_luck_does_not_hide_the_others(monkeypatch):
    """A load of 44.4 fails, though larger ones up to 45 do not; what failed above 45 is still known."""
    (found,), _, rounds = largest([45.0], [38.0], monkeypatch, luck=[(44.2, 44.5)])
    assert 44.5 < found.load <= 45.0 < found.fails <= found.load * (1.0 + TOLERANCE)
    assert len(rounds) == 4  # 36.1, 39.9; 43.9, 48.3 and more; four between these two; four from 44.7 to 45.6


def test_places_that_cannot_be_the_best_are_followed_until_a_load_is_kept(monkeypatch):
    """More load is better here: after the first round 0 is known to take 9.5 at least, and 1 to fail at 4.75.

    1 is then simulated at 4.75 over 1.1, 1.1^2 and more, of which 3.93 is kept: it has a load, though not to 1 %.
    """
    found, _, rounds = largest([10.0, 4.0], [10.0, 5.0], monkeypatch, lambda low, high: high > np.max(low))
    assert rounds[:2] == [[0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]] and all(1 not in later for later in rounds[2:])
    assert found[0].load == pytest.approx(10.0, rel=TOLERANCE)
    assert found[1].load == pytest.approx(4.75 / 1.1**2) and found[1].fails == pytest.approx(4.75 / 1.1)


def test_the_result_of_a_place_does_not_depend_on_those_beside_it(monkeypatch):
    alone = [largest([known], [estimated], monkeypatch)[0][0] for known, estimated in ((10.0, 12.0), (20.0, 5.0))]
    beside, _, _ = largest([10.0, 20.0], [12.0, 5.0], monkeypatch)
    assert [(one.load, one.fails) for one in beside] == [(one.load, one.fails) for one in alone]


@pytest.fixture(scope="module")
def run() -> tuple[Comparison, list[tuple[int, float]]]:
    """A comparison of two accelerators, and of each of its rounds the points and the seconds of compiling."""
    compiled, rounds = [], []

    def counted(name: str, seconds: float, **__) -> None:
        compiled.extend([seconds] if "backend_compile" in name else [])

    def watched(points, *rest):
        before = sum(compiled)
        found = outcomes(points, *rest)
        rounds.append((len(points), sum(compiled) - before))
        return found

    jax.monitoring.register_event_duration_secs_listener(counted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "outcomes", watched)
        keys = {**LENGTHS, "devices": [1], "policy": {"token_budget": 2048}, "requests": 200, "seed": 3}
        keys["disaggregated"] = False
        found = compare(MODEL, "ttft=500ms,tpot_p99=25ms", hardware=PAIR, simulate=2, **keys)
    jax.monitoring.unregister_event_duration_listener(counted)
    return found, rounds


def test_programs_are_compiled_in_the_first_round_only(run):
    found, rounds = run
    assert rounds[0][1] > 0.0 and len(rounds) > 2
    # what is left are comparisons of as many numbers as a round has points
    assert sum(seconds for _, seconds in rounds[1:]) < 0.1 * rounds[0][1]
    assert found.simulations == sum(points for points, _ in rounds)


def test_the_best_row_is_a_simulated_one_and_says_what_stopped_it(run):
    found, _ = run
    best, other = found.rows  # the best row of every accelerator is simulated
    assert (best.hardware, best.simulated, other.simulated) == (PAIR[0], True, True)
    assert best.metrics["usd_per_million_tokens"] < other.metrics["usd_per_million_tokens"]
    assert best.metrics["load"] < best.fails <= best.metrics["load"] * (1.0 + TOLERANCE)
    assert best.metrics["tpot_p99"] <= 0.025 and best.binds.startswith("TPOT p99 2")
    assert best.binds.endswith(" of 25 ms")
    price = hwspaces.priced(hwspaces.hardware(best.hardware), None).hardware.price
    assert best.metrics["usd_per_million_tokens"] == pytest.approx(1e6 * price / (best.metrics["load"] * 32.0))


def test_the_row_of_an_accelerator_is_the_same_alone_and_in_company(run):
    found, _ = run
    keys = {**LENGTHS, "devices": [1], "policy": {"token_budget": 2048}, "requests": 200, "seed": 3}
    for row in found.rows:
        alone = compare(
            MODEL, "ttft=500ms,tpot_p99=25ms", hardware=[row.hardware], simulate=2, disaggregated=False, **keys
        )
        (own,) = alone.rows
        assert (own.spec, own.fails, own.binds, own.simulated) == (row.spec, row.fails, row.binds, True)
        assert own.metrics == pytest.approx(row.metrics, rel=1e-9, nan_ok=True)


def test_places_that_no_load_keeps_say_what_they_miss(monkeypatch):
    """The estimate serves; every simulation misses: the accelerator stands among the misses, not without a price."""

    def stub(points, *_):
        found = {"tpot_mean": np.full(len(points), 0.5), "ttft_mean": np.full(len(points), 0.2)}
        none = np.zeros(len(points))
        found |= dict.fromkeys(("queueing_mean", "refused", "rejected", "unfinished"), none)
        names = [f"{name}_p{p}" for name in ("ttft", "tpot", "e2e") for p in (50, 90, 95, 99)]
        figures = dict.fromkeys(names, np.full(len(points), 0.5))
        rates = {"good_share": none + 1.0, "goodput": none + 200.0, "tokens_per_second": none + 32.0}
        return found | figures | rates | {"finished": none + 200.0, "duration": none + 1.0}

    monkeypatch.setattr(simulate, "outcomes", stub)
    keys = {**LENGTHS, "devices": [1], "policy": {"token_budget": 2048}, "requests": 200, "disaggregated": False}
    found = compare(MODEL, "tpot_mean=25ms", hardware=PAIR[:1], **keys)
    assert not found.rows
    (missed,) = found.nearest_misses
    assert missed.hardware == PAIR[0] and missed.reason.startswith("misses its limits when simulated: TPOT mean 500 ms")


def test_a_rows_spec_simulates_the_row(run):
    found, _ = run
    best = found.rows[0]
    assert best.spec["slo"] == "ttft=500ms"  # limits of the whole run are no requests'
    again = simulation(serve_spec(**best.spec)).metrics
    same = [name for name in best.metrics if name in again and name not in SORTED_BY]
    assert {"ttft_mean", "tpot_mean", "tpot_p99", "goodput", "duration", "finished"} <= set(same)
    assert {name: best.metrics[name] for name in same} == pytest.approx({name: again[name] for name in same}, rel=1e-9)
    assert again["finished"] == 200.0


def test_the_dataset_is_a_file_with_units(run, tmp_path):
    found, _ = run
    made = dataset(found)
    saved(tmp_path / "places.nc", made, False)
    with xr.open_dataset(tmp_path / "places.nc") as opened:
        assert dict(opened.sizes) == {"setting": 1, "hardware": 2, "layout": 1}
        assert set(opened) == {*SORTED_BY, "simulated"}
        for name in SORTED_BY:
            assert opened[name].attrs["units"] == variable_attributes(name, np.dtype(float))["units"]
            assert opened[name].attrs["long_name"]
        for row in found.rows:
            place = opened.sel(hardware=row.hardware, layout=row.layout).isel(setting=0)
            assert float(place["usd_per_million_tokens"]) == row.metrics["usd_per_million_tokens"]
            assert bool(place["simulated"]) == row.simulated
        assert opened.attrs["simulated_requests"] == 200 and "TPOT p99" in opened.attrs["title"]


def test_the_estimate_agrees_with_the_scheduler():
    """Four estimated rows, two of each accelerator, simulated: TPOT within 5 %, mean TTFT within 10 %.

    4,800 requests: one row is near the end of what its prompts leave room for, where short runs see shorter queues.
    """
    rows = []
    for name, limits in zip(PAIR, (("8.5ms", "9.3ms"), ("13ms", "18ms")), strict=True):
        for limit in limits:
            slo, keys = f"ttft=1s,tpot_mean={limit}", {"hardware": [name], "devices": [1], "simulate": 0}
            keys["disaggregated"] = False
            rows += compare(MODEL, slo, **LENGTHS, **keys).rows
    assert [row.hardware for row in rows] == [PAIR[0]] * 2 + [PAIR[1]] * 2
    largest = max(row.max_sequences for row in rows)
    points = []
    for row in rows:
        policy = {**row.spec["policy"], "max_sequences": largest, "token_budget": 2048}
        given = setup(serve_spec(**{**row.spec, "requests": 4800, "policy": policy}))
        work = Service(traffic=given.replica.traffic, policy=given.policy, objective=given.objective)
        points.append(dataclasses.replace(given.case.scenario, workload=work))
    with precision("float64"):
        found = outcomes(points)
    batches = [row.metrics["batch_mean"] for row in rows]
    assert 2.0 < min(batches) and max(batches) < 40.0
    for name, tolerance in (("tpot_mean", 0.07), ("ttft_mean", 0.10)):  # the worst at the load nearest to the limit
        expected = np.array([row.metrics[name] for row in rows])
        np.testing.assert_allclose(found[name], expected, rtol=tolerance, err_msg=name)


def test_of_the_whole_catalogue_those_near_the_best_estimate_are_simulated():
    """By hand: the best of three accelerators are 2, 2.9 and 3.1, where lower is better; then -4, -3 and -2."""
    values = np.array([[[2.0], [2.9], [5.0]], [[3.0], [np.nan], [3.1]]])
    assert contending(values) == [0, 1]
    assert contending(np.array([[[-4.0], [-3.0], [-2.0]]])) == [0, 1]
