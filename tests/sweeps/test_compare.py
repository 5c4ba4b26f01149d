"""Comparisons: the best row is the best of a loop, every reason is the right one, layouts are those of the rule."""

import math

import jax
import numpy as np
import pytest

import hwspaces
import sweeps
from jaxroof import Links, request_cost
from sweeps.ask.alike import alike
from sweeps.ask.layouts import label, layouts, reach
from sweeps.run.answer import answer
from sweeps.studies.compare.candidates import accelerators
from sweeps.studies.compare.reasons import limits

pytestmark = pytest.mark.xdist_group("compare")

MODEL = "Llama-3.1-8B"
WORK = {"isl": 512.0, "osl": 64.0}
PAIR = ("H100-SXM", "A100-SXM-80GB")


def compared(**keys):
    return sweeps.compare_static(MODEL, 512, 64, **{"hardware": PAIR, "devices": (1, 2), "batch": (1, 64), **keys})


@pytest.fixture(scope="module")
def pair() -> sweeps.StaticComparison:
    return compared()


@pytest.fixture(scope="module")
def loop() -> list[tuple[str, str, int, dict]]:
    """(accelerator, layout, batch, metrics) of every point, one case after the other in float64."""

    found = []
    for name in PAIR:
        for settings in ({"tp": 1}, {"tp": 2}, {"tp": 1, "pp": 2}):
            for batch in (1, 64):
                case = sweeps.case("request", name, MODEL, workload={**WORK, "batch": batch}, deployment=settings)
                found.append((name, label(settings), batch, answer(case).metrics))
    return found


@pytest.mark.parametrize(
    ("metric", "sign"), [("usd_per_million_tokens", 1), ("tpot", 1), ("tokens_per_second", -1), ("devices", 1)]
)
def test_rows_are_those_of_a_loop_in_the_right_order(pair, loop, metric, sign):
    found = pair if metric == pair.metric else compared(sort=metric)
    best = {}
    for name, layout, batch, metrics in loop:
        key = (sign * metrics[metric], -metrics["tokens_per_second_per_device"])
        if metrics["feasible"] and key < best.get((name, layout), ((math.inf, 0),))[0]:
            best[name, layout] = (key, batch, metrics)
    order = sorted(best, key=lambda place: best[place][0])
    assert [(row.hardware, row.layout) for row in found.rows] == order
    for row in found.rows:
        _, batch, metrics = best[row.hardware, row.layout]
        assert row.batch == batch
        for name in ("ttft", "tpot", "e2e", "tokens_per_second", "usd_per_million_tokens", "weight_bytes"):
            # float32 of sums of some dozen terms against float64
            assert row.metrics[name] == pytest.approx(metrics[name], rel=1e-5), name


def test_the_default_is_the_price_where_there_are_prices_and_the_rate_elsewhere(pair):
    assert (pair.metric, pair.chosen) == ("usd_per_million_tokens", "default: 2 of 2 accelerators have a price")
    unpriced = compared(hardware=["L20"], devices=[1], prices="reserved_3y")
    assert (unpriced.metric, unpriced.chosen) == (
        "tokens_per_second_per_device",
        "default: none of 1 accelerators has a price",
    )
    assert math.isnan(unpriced.rows[0].metrics["usd_per_million_tokens"])


def test_only_the_best_layout_of_every_number_of_devices_comes_first(pair):
    assert {(row.hardware, row.devices) for row in pair.best_layouts} == {(name, n) for name in PAIR for n in (1, 2)}
    assert len(pair.rows) == 6 and len(pair.best_layouts) == 4
    for row in pair.best_layouts:
        rivals = [other for other in pair.rows if (other.hardware, other.devices) == (row.hardware, row.devices)]
        assert row.metrics[pair.metric] == min(other.metrics[pair.metric] for other in rivals)


def test_a_precision_that_an_accelerator_lacks_is_named(pair):
    found = compared(weights="w4a8", devices=[1])
    assert list(found.lacking) == ["A100-SXM-80GB"]
    assert found.lacking["A100-SXM-80GB"].startswith("no matrix peak for fp8; it has bf16, fp16, int8")
    assert {row.hardware for row in found.rows} == {"H100-SXM"}
    assert found.rows[0].metrics["weight_bytes"] < 0.7 * pair.rows[0].metrics["weight_bytes"]
    nobody = compared(weights="w4a8", hardware=["A100-SXM-80GB"])
    assert (nobody.rows, nobody.points, nobody.accelerators) == ((), 0, 1)


def test_accelerators_that_a_figure_cannot_be_set_of_are_left_out_of_all_and_refused_by_name():
    grid = {"hardware.costs.grid_intensity": "50 gCO2/kWh"}  # costs of MI308X are not known
    found, left_out = accelerators(None, grid, None)
    assert float(found["H100-SXM"].hardware.costs.grid_intensity) == pytest.approx(0.05 / 3.6e6)
    missing = "costs also needs wafer, shared_wafer, wafer_diameter, scribe and 16 others, which is unknown"
    assert "MI308X" not in found and left_out["MI308X"] == f"--set: {missing}"
    with pytest.raises(ValueError, match=f"--set on MI308X: {missing}"):
        accelerators(["H100-SXM", "MI308X"], grid, None)
    with pytest.raises(ValueError, match="costs.grid is not a figure of the hardware"):
        accelerators(None, {"hardware.costs.grid": 1.0}, None)


def test_what_an_accelerator_runs_weight_only_is_ranked():
    """Every A100 row of an FP8 checkpoint is that of 8-bit weights with 16-bit activations; a note says so."""
    found, plain = (compared(weights=name, devices=[1, 2]) for name in ("fp8", "w8a16"))
    assert not found.lacking
    rows, same = ({(r.hardware, r.layout): r for r in one.rows} for one in (found, plain))
    ampere = [key for key in rows if key[0] == "A100-SXM-80GB"]
    assert ampere and all(rows[key].metrics["tpot"] == pytest.approx(same[key].metrics["tpot"]) for key in ampere)
    assert any(note.startswith("A100-SXM-80GB does not multiply fp8: fp8 weights stay") for note in found.notes)
    assert not any(note.startswith("H100-SXM does not") for note in found.notes)


def test_weights_that_do_not_fit_say_how_many_devices_they_need():
    # Llama-3.1-70B in bf16 is 141 GB. An A30 has 25.8 GB, of which 0.9 less 3 GB are usable: 20.2 GB; 141 / 20.2 = 6.99
    found = sweeps.compare_static("Llama-3.1-70B", 512, 64, hardware=["A30"], batch=[1])
    (row,) = found.nearest_misses
    assert row.devices == 2 and not found.rows
    assert row.reason.startswith("does not fit: weights 70.6 GB of 25.8 GB per device, needs at least 7 devices")
    assert row.reason.endswith("its links connect 2")


def test_a_cache_that_does_not_fit_says_how_many_sequences_do():
    found = compared(hardware=["L20"], devices=[1], batch=[4096])
    (row,) = found.nearest_misses
    room = row.metrics["sequence_capacity"]
    assert 0 < room < 4096
    assert row.reason == f"does not fit: KV cache for {room:,.0f} such sequences, batch 4096"


def test_a_missed_limit_says_which_and_by_how_much(pair):
    worst = max(row.metrics["ttft"] for row in pair.rows)
    found = compared(slo={"ttft": worst * 0.999, "tpot": "10s"})
    assert all(row.metrics["ttft"] < worst for row in found.rows)
    none = compared(slo="ttft=1us, tpot=1us, tokens_per_second=1")
    assert not none.rows and {row.hardware for row in none.nearest_misses} == set(PAIR)
    for row in none.infeasible:
        assert row.batch == 1  # the nearest miss is that of the smallest batch
        assert row.reason.startswith("TTFT ") and " misses 1 us and TPOT " in row.reason
        assert "tokens_per_second" not in row.reason


def test_no_price_is_a_reason_only_when_sorting_by_it():
    by_price = compared(hardware=["H100-SXM", "L20"], devices=[1], prices="reserved_3y")
    assert [row.reason for row in by_price.infeasible] == ["no price"]
    by_rate = compared(hardware=["H100-SXM", "L20"], devices=[1], sort="tokens_per_second_per_device")
    assert {row.hardware for row in by_rate.rows} == {"H100-SXM", "L20"} and not by_rate.infeasible
    assert set(by_price.prices) == {"H100-SXM"}
    priced = compared(hardware=["L20"], devices=[1], prices="reserved_3y", set={"hardware.price": "2USD/h"})
    assert priced.metric == "usd_per_million_tokens" and len(priced.rows) == 1


def test_a_split_that_the_model_does_not_allow_is_refused_with_its_rule():
    found = compared(hardware=["H100-SXM"], devices=[3])
    assert found.refused == {"tp3": "tp = 3 does not divide the 32 attention heads"}
    assert [row.layout for row in found.rows] == ["tp1 pp3"]


def test_links_limit_the_devices_only_where_these_were_asked_for():
    assert reach(hwspaces.hardware("A30").hardware) == 2
    free = compared(hardware=["A30"], max_devices=4)
    assert {row.devices for row in (*free.rows, *free.infeasible)} == {1, 2}
    asked = compared(hardware=["A30"], devices=[4])
    assert not asked.rows
    assert "exceeds the 2 devices that the hardware's links connect" in asked.nearest_misses[0].reason


def test_layouts_follow_the_rule():
    assert [label(layout) for layout in layouts(4, experts=False)] == ["tp4", "tp2 pp2", "tp1 pp4"]
    assert [label(layout) for layout in layouts(4, experts=True)] == [
        *("tp4", "tp4 ep4", "tp2 attention_dp2 ep2", "tp2 attention_dp2 ep4", "tp1 attention_dp4 ep4"),
        *("tp2 pp2", "tp2 pp2 ep2", "tp1 pp2 attention_dp2 ep2", "tp1 pp4"),
    ]
    for experts in (False, True):
        for devices in (1, 6, 16):
            for layout in layouts(devices, experts):
                assert layout["tp"] * layout["pp"] * layout.get("attention_dp", 1) == devices
                assert layout["tp"] * layout.get("attention_dp", 1) % layout.get("ep", 1) == 0
    assert len([layout for n in (1, 2, 4, 8, 16) for layout in layouts(n, experts=True)]) == 55


def test_attention_groups_share_a_batch_evenly():
    found = sweeps.compare_static("Qwen3-30B-A3B", 256, 32, hardware=["H200-SXM"], devices=[2], batch=[1, 3])
    reasons = {row.layout: row.reason for row in found.infeasible}
    assert reasons == {"tp1 attention_dp2 ep2": "2 attention groups cannot share a batch of 1 evenly"}


UNKNOWN = [*((name, None) for name in ("MI308X", "MI350X", "L20", "TPU-v5e", "Gaudi2")), ("TPU-v6e", "learned")]


@pytest.mark.parametrize(("name", "efficiency"), UNKNOWN)
def test_unknown_figures_do_not_change_times(name, efficiency):
    words = {"workload": {**WORK, "batch": 8}, "deployment": {"tp": 2}, "efficiency": efficiency}
    rest = sweeps.case("request", name, MODEL, **words).scenario
    whole = rest.hardware
    same = alike(whole, {"bf16"})
    assert same.price == pytest.approx(whole.price or math.nan, nan_ok=True)
    cost = jax.jit(request_cost)
    ours, theirs = (
        jax.device_get(cost(hardware, rest.model, rest.deployment, rest.workload, rest.efficiency))
        for hardware in (same, whole)
    )
    for one, other in ((ours.ttft, theirs.ttft), (ours.tpot, theirs.tpot)):
        assert float(one) == pytest.approx(float(other), rel=2e-6) and float(one) > 0.0  # float32 sums in two orders


def test_what_is_unknown_leaves_figures_that_need_it_blank():
    metric = "tokens_per_joule_at_tdp"
    found = sweeps.compare_static(MODEL, 256, 32, hardware=["TPU-v6e"], devices=[1], batch=[8], sort=metric)
    assert found.dataset.tpot.item() > 0.0 and found.dataset.feasible.item()
    assert np.isnan(found.dataset[metric]).all() and found.dataset[metric].attrs["units"]
    assert not found.rows and found.infeasible[0].reason


def test_points_are_those_of_the_engine(pair):
    swept = sweeps.sweep(
        hardware=list(PAIR),
        model=MODEL,
        workload={**WORK, "batch": [1, 64]},
        deployments=[{"tp": 1, "pp": 1}, {"tp": 2, "pp": 1}, {"tp": 1, "pp": 2}],
    )
    for metric in ("ttft", "tpot", "sequence_capacity", "usd_per_million_tokens", "feasible"):
        ours, theirs = pair.dataset[metric].astype(float), swept[metric].astype(float)
        theirs = theirs.broadcast_like(swept["tpot"]).transpose(*ours.dims)
        np.testing.assert_allclose(ours.values, theirs.values, rtol=2e-6, err_msg=metric)


def test_accelerators_become_of_one_structure():
    kinds = {
        jax.tree.structure(alike(entry.hardware, {"bf16"}))
        for entry in map(hwspaces.hardware, hwspaces.rented_names())
        if "bf16" in entry.hardware.matrix
    }
    assert len(kinds) <= 13  # topologies of links, and what is unknown of caches and power
    bare = alike(hwspaces.hardware("H100-SXM").hardware, {"fp8"})
    assert list(bare.matrix) == ["fp8"] and isinstance(bare.links, Links)


def test_the_dataset_has_every_point_and_says_how_it_was_made(pair):
    assert dict(pair.dataset.sizes) == {"hardware": 2, "deployment": 3, "batch": 2} and pair.points == 12
    assert list(pair.dataset["deployment"].values) == ["tp1", "tp2", "tp1 pp2"]
    assert pair.dataset.attrs["job"] == "request" and "spec" in pair.dataset.attrs
    assert pair.dataset["ttft"].attrs["units"] == "s"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tfft=1s", "did you mean ttft"),
        ("ttft", "must be METRIC=VALUE"),
        ("ttft=1s,ttft=2s", "given twice"),
        ("ttft=8GB", "has the unit 'GB'"),
    ],
)
def test_wrong_limits_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        limits(text)


def test_limits_are_in_si_units():
    assert limits("ttft=500ms, tpot=40ms,tokens_per_second=100") == {
        "ttft": 0.5,
        "tpot": pytest.approx(0.04),
        "tokens_per_second": 100.0,
    }
    assert limits(None) == {}
