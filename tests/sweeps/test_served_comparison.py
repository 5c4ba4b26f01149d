"""Served comparisons by their estimates: places, prices of steps, order, replicas, reasons, certainty, advice."""

import dataclasses
import math
import re

import numpy as np
import pytest

import hwspaces
from hwspaces.accelerators.prices import server_devices
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.memory.capacity import kv_capacity_tokens, weight_bytes
from jaxroof.numerics.arrays import eager
from jaxroof.prices.prices import step_price
from jaxroof.steady.step_costs import step_costs
from sweeps.ask.cases import case
from sweeps.ask.names import variable
from sweeps.entries.comparisons import compare
from sweeps.run.answer import answer
from sweeps.run.evidence import Beyond
from sweeps.studies.compare.advice import changes
from sweeps.studies.compare.candidates import columns, room
from sweeps.studies.compare.estimate import ROWS, sequences
from sweeps.studies.compare.figures import SORTED_BY
from sweeps.studies.compare.question import question
from sweeps.studies.compare.requests import ServedRequests, demand
from sweeps.studies.compare.trust import POOLS, not_confirmed, served_runs, trust
from sweeps.studies.compare.words import AskedComparison

MODEL, MIXTURE = "Llama-3.1-8B", "Qwen3-30B-A3B"
PAIR = ("H100-SXM", "A100-SXM-80GB")
LENGTHS = {"isl": 256, "osl": 32}
SLO = "ttft=500ms,tpot=20ms"


def served(slo=SLO, model=MODEL, **keys):
    """An estimate of two accelerators, alone and in pairs, of one token budget."""
    given = {**LENGTHS, "hardware": PAIR, "devices": (1, 2), "policy": {"token_budget": 2048}, "simulate": 0}
    given["disaggregated"] = False
    return compare(model, slo, **{**given, **keys})


@pytest.fixture(scope="module")
def pair():
    return served()


def loads(found) -> dict:
    return {(row.hardware, row.layout, row.setting): row.metrics["load"] for row in found.rows}


def test_places_have_the_weights_and_the_cache_of_each_deployment_alone():
    keys = {"hardware": PAIR, "devices": (1, 2), "kv": ("bf16", "fp8")}
    options = question(AskedComparison(model=MIXTURE, slo=SLO, load=LENGTHS, **keys)).options
    bounds = room(options)
    assert bounds.legal.all() and bounds.weights.shape == (4, 2, 5)  # two caches x two budgets; 1 and 2 devices
    for place in ((0, 0, 0), (1, 1, 2), (3, 0, 4)):
        setting, device, layout = place
        deployment = options.deployments[setting][layout]
        with eager():
            weights = weight_bytes(options.model.model, deployment)
            tokens = kv_capacity_tokens(options.devices[device].hardware, options.model.model, deployment)
        assert bounds.weights[place] == pytest.approx(float(weights), rel=1e-12)
        assert bounds.group_tokens[place] == pytest.approx(float(tokens), rel=1e-12)
        groups = options.layouts[layout].get("attention_dp", 1)
        assert bounds.tokens[place] == pytest.approx(groups * float(tokens), rel=1e-12)
    np.testing.assert_allclose(bounds.group_tokens[2], 2.0 * bounds.group_tokens[0], rtol=1e-9)  # 8 bits in place of 16


STEPS = [(0, 1), (0, 48), (0, 200), (1, 0), (1, 30), (6, 150)]
"""Prompts and decoding sequences of a step."""


@pytest.mark.parametrize("model", [MODEL, MIXTURE])
def test_steps_from_coarse_tables_cost_what_they_cost_op_by_op(model):
    """Lines between the nodes of the tables: within 3 %, also of a mixture, whose experts fill between two nodes."""
    asked = question(AskedComparison(model=model, slo=SLO, load=LENGTHS, hardware=PAIR, devices=(2,)))
    options, context = asked.options, 272.0
    found = {}
    with eager():
        (group,) = columns(options, room(options).legal, 128)
        place = group.hardware, options.model.model, group.deployment
        costs = step_costs(*place, options.efficiency, context, rows=ROWS)
        price = step_price(costs.cost, *place, (float(options.efficiency.host.step_time), 0.0))
        for prompts, decoding in STEPS:
            shaped = {name: np.full((1, 1), float(number)) for name, number in (("p", prompts), ("d", decoding))}
            work = Batch(
                prefill=Prefill(sequences=shaped["p"], tokens=256.0 * shaped["p"], past=0.0 * shaped["p"]),
                decode=Decode(sequences=shaped["d"], context=context * shaped["d"]),
                logits=shaped["p"] + shaped["d"],
            )
            found[prompts, decoding] = sum(price(work, 256.0 * shaped["p"] + shaped["d"]))[:, 0]
    for place, (device, layout) in enumerate(zip(group.device, group.layout, strict=True)):
        degrees = options.layouts[layout]
        if degrees["pp"] > 1:
            continue  # a step of the job is one micro-batch
        for prompts, decoding in STEPS:
            work = {"prefill": 256, "prefills": prompts} if prompts else {}
            work |= {"decode": decoding, "context": context} if decoding else {}
            exact = answer(case("step", PAIR[device], model, workload=work, deployment=degrees)).metrics["step_time"]
            assert found[prompts, decoding][place] == pytest.approx(exact, rel=0.03), (place, prompts, decoding)


def test_the_estimate_does_not_depend_on_what_else_is_asked(pair):
    """Other accelerators, their order, and layouts that give every deployment degrees of 1 change no load."""
    turned = loads(served(hardware=PAIR[::-1]))
    assert turned == pytest.approx(loads(pair), rel=1e-12)
    alone = loads(served(hardware=PAIR[:1], devices=(2,)))
    assert alone == pytest.approx({key: loads(pair)[key] for key in alone}, rel=1e-12) and len(alone) == 2
    spread, plain = (served(model=MIXTURE, hardware=PAIR[:1], devices=devices) for devices in ((1, 2), (1,)))
    assert "attention_dp" in str(spread.question.options.layouts)
    assert "attention_dp" not in str(plain.question.options.layouts)
    for key, load in loads(plain).items():
        assert loads(spread)[key] == pytest.approx(load, rel=1e-9)


def test_looser_limits_take_more_load():
    before = None
    for slo in ("ttft=60ms,tpot=10ms", "ttft=60ms,tpot=14ms", "ttft=400ms,tpot=14ms", "ttft=400ms,tpot=40ms"):
        found = loads(served(slo))
        if before is not None:
            assert all(found[key] >= load * (1.0 - 1e-9) for key, load in before.items())
            assert sum(found.values()) > sum(before.values())
        before = found
    mean = loads(served("ttft_mean=400ms,tpot_mean=40ms"))
    assert all(mean[key] >= load for key, load in before.items())  # the mean is below the 95th percentile


def test_limits_are_kept_at_the_load_and_the_largest_binds(pair):
    for row in pair.rows:
        assert 0.0 < row.metrics["tpot_mean"] <= 0.02 and row.metrics["ttft_mean"] <= 0.5
        # Little's law: sequences that decode = load x 31 steps x TPOT
        held = row.metrics["load"] * 31.0 * row.metrics["tpot_mean"]
        assert row.metrics["batch_mean"] == pytest.approx(held, rel=1e-9)
        assert row.max_sequences >= row.metrics["batch_mean"]
    assert {row.binds for row in pair.rows} <= {"TPOT", "TTFT"} and not any(row.simulated for row in pair.rows)


def test_as_many_sequences_run_as_the_load_needs():
    policy = question(AskedComparison(model=MODEL, slo=SLO, load=LENGTHS, hardware=PAIR)).options.settings[0].policy
    assert sequences(policy, 50.0, 70.9, True) == 70.0
    # 1.25 x 50 + 4 sqrt(50) + 8 = 98.8, the next power of two
    assert sequences(policy, 50.0, 1e4, False) == 128.0
    assert sequences(policy, 1e5, 1e6, False) == float(policy.max_sequences)


def test_a_rate_is_served_by_whole_replicas_with_headroom(pair):
    found = served(rate=400.0, headroom=0.25, sort="devices")
    assert [row.metrics["devices"] for row in found.rows] == sorted(row.metrics["devices"] for row in found.rows)
    one = loads(pair)
    for row in found.rows:
        replicas = math.ceil(400.0 * 1.25 / one[row.hardware, row.layout, row.setting])
        assert (row.replicas, row.metrics["devices"]) == (replicas, replicas * row.devices)
        rented = server_devices(row.hardware) * math.ceil(replicas * row.devices / server_devices(row.hardware))
        hourly = 3600.0 * hwspaces.priced(hwspaces.hardware(row.hardware), None).hardware.price * rented
        assert row.metrics["usd_per_hour"] == pytest.approx(hourly, rel=1e-9)
        # 400 requests/s of 32 tokens each, whatever the replicas could take
        tokens = 400.0 * 32.0 * 3600.0
        assert row.metrics["usd_per_million_tokens"] == pytest.approx(1e6 * hourly / tokens, rel=1e-9)
        assert row.metrics["requests_per_second"] == pytest.approx(400.0, rel=1e-12)
        assert row.metrics["load"] == pytest.approx(one[row.hardware, row.layout, row.setting], rel=1e-12)


@pytest.mark.parametrize("metric", SORTED_BY)
def test_rows_are_in_the_order_of_any_metric(metric):
    found = served(sort=metric)
    assert (found.metric, found.chosen, len(found.rows)) == (metric, "asked for", 6)
    values = np.array([row.metrics[metric] for row in found.rows])
    assert np.isfinite(values).all() and (values > 0.0).all()
    sign = -1.0 if variable(metric).higher_is_better else 1.0
    assert (np.diff(sign * values) >= 0.0).all()
    assert found.rows[0].metrics[metric] != found.rows[-1].metrics[metric]


def test_figures_follow_from_the_load(pair):
    row = pair.rows[0]
    price = hwspaces.priced(hwspaces.hardware(row.hardware), None).hardware.price  # USD/s
    load, devices = row.metrics["load"], row.devices
    assert row.metrics["tokens_per_second_per_device"] == pytest.approx(load * 32.0 / devices, rel=1e-12)
    assert row.metrics["usd_per_million_tokens"] == pytest.approx(1e6 * price * devices / (load * 32.0), rel=1e-12)
    joules = row.metrics["power"] * devices / (load * 32.0)
    assert row.metrics["joules_per_token"] == pytest.approx(joules, rel=1e-12)
    assert 100.0 < row.metrics["power"] <= 700.0


def test_the_default_is_the_price_where_most_have_one(pair):
    assert (pair.metric, pair.chosen) == ("usd_per_million_tokens", "default: 2 of 2 accelerators have a price")
    found = served(hardware=["L20"], devices=[1], slo="ttft=1s,tpot=60ms", prices="reserved_3y")
    assert (found.metric, found.chosen) == ("tokens_per_second_per_device", "default: 0 of 1 accelerators have a price")
    by_price = served(hardware=["L20"], slo="ttft=1s,tpot=60ms", prices="reserved_3y", sort="usd_per_hour")
    assert not by_price.rows and {row.reason for row in by_price.infeasible} == {"no price"}


def test_every_combination_of_settings_is_tried_and_the_best_is_kept():
    policy = {"token_budget": [1024, 4096], "max_sequences": [16, 256]}
    found = served(kv=("bf16", "fp8"), policy=policy, devices=[1])
    assert [choice.text for choice in found.question.options.settings[:2]] == [
        "kv bf16, token_budget 1,024, max_sequences 16",
        "kv bf16, token_budget 1,024, max_sequences 256",
    ]
    assert found.arrays["usd_per_million_tokens"].shape == (8, 2, 1) and found.places == 16
    assert len(found.rows) == 2
    for row in found.rows:
        _, device, layout = row.place
        assert row.metrics["usd_per_million_tokens"] == found.arrays["usd_per_million_tokens"][:, device, layout].min()
        assert "max_sequences 256" in row.setting and row.spec["kv"] in row.setting
    few = served(policy={"token_budget": 2048, "max_sequences": 4}, devices=[1])
    most = {(hardware, layout): load for (hardware, layout, _), load in loads(found).items()}
    for row in few.rows:
        assert row.metrics["batch_mean"] < 4.0 and row.max_sequences == 4
        assert row.metrics["load"] < 0.5 * most[row.hardware, row.layout]


def test_numbers_that_are_set_and_terms_of_prices_count(pair):
    dear = served(set={"hardware.price": "8USD/h"}, devices=[1])
    row, before = dear.rows[0], next(row for row in pair.rows if (row.hardware, row.devices) == (PAIR[0], 1))
    assert row.hardware == PAIR[0] and row.metrics["load"] == pytest.approx(before.metrics["load"], rel=1e-12)
    assert row.metrics["usd_per_hour"] == pytest.approx(8.0)
    slower = served(set={"hardware.memory.hbm.bandwidth": "2TB/s"}, hardware=PAIR[:1], devices=[1])
    assert slower.rows[0].metrics["load"] < 0.9 * before.metrics["load"]
    assert slower.rows[0].spec["overrides"] == {"hardware.memory.hbm.bandwidth": "2TB/s"}
    reserved = served(prices="reserved_1y", hardware=PAIR[:1], devices=[1]).rows[0]
    assert reserved.metrics["usd_per_hour"] < before.metrics["usd_per_hour"]


def test_drafts_are_a_setting_of_models_that_can_draft():
    keys = {"hardware": PAIR[:1], "devices": [1], "draft": "Llama-3.2-1B", "drafts": (0, 3)}
    found = served("ttft=1s,tpot=8ms", **keys, policy={"token_budget": 2048, "acceptance": 0.8})
    assert [choice.text for choice in found.question.options.settings] == ["drafts 0", "drafts 3"]
    (row,) = found.rows
    assert row.setting == "drafts 3" and row.spec["deployment"] == {"tp": 1, "drafts": 3}
    assert row.spec["draft"] == "Llama-3.2-1B"
    plain = served("ttft=1s,tpot=20ms", **keys, policy={"token_budget": 2048, "acceptance": 0.01}).rows[0]
    assert plain.setting == "drafts 0" and "draft" not in plain.spec and "acceptance" not in plain.spec["policy"]


def test_a_stream_is_described_by_its_means():
    stream = ServedRequests({"isl": "lognormal:mean=500,sigma=0.6", "osl": 100}).sample
    found = demand(stream, False)
    assert found.prompt == pytest.approx(stream.isl.mean()) and found.cached == 0.0
    assert found.evenness == pytest.approx(stream.isl.mean() ** 2 / (stream.isl**2).mean()) and found.evenness < 0.8
    assert (found.output, found.briefness) == pytest.approx((100.0, 1.0))
    assert found.context == pytest.approx(stream.isl.mean() + 50.0)
    shared = ServedRequests({"isl": 500, "osl": 100, "prefixes": "groups=4,tokens=300"}).sample
    hit = demand(shared, True)
    # All but the first of 4 groups find 300 tokens of the prompt: the stream says how long a prompt is.
    assert hit.cached == pytest.approx(300.0 * (1.0 - 4.0 / len(shared.isl)))
    assert hit.prompt + hit.cached == pytest.approx(shared.isl.mean())
    assert demand(shared, False).cached == 0.0


def test_prefixes_that_are_cached_take_more_load(pair):
    """Of prompts of 256 tokens 200 are shared."""
    keys = {"isl": 56, "prefixes": "groups=1,tokens=200", "devices": [1]}
    found, cold = served(**keys), served(**keys, policy={"token_budget": 2048, "prefix_caching": 0})
    for key, load in loads(found).items():
        assert load > 1.05 * loads(cold)[key]
        assert loads(cold)[key] == pytest.approx(loads(pair)[key], rel=0.02)


def reasons(found) -> dict:
    return {(row.hardware, row.devices): row.reason for row in found.nearest_misses}


def test_weights_and_caches_that_do_not_fit_say_so():
    # 141 GB in bf16. An A30 has 25.8 GB, of which 0.9 less 3 GB are usable: 20.2 GB; 141 / 20.2 = 6.99
    found = served(model="Llama-3.1-70B", hardware=["A30"], devices=None)
    assert reasons(found) == {
        ("A30", 2): "does not fit: weights 70.6 GB of 25.8 GB per device, needs at least 7 devices; its links connect 2"
    }
    long = served(hardware=["A30"], devices=[1], isl=60_000)
    assert reasons(long)["A30", 1].startswith("does not fit: KV cache for ")
    assert reasons(long)["A30", 1].endswith(" tokens, the longest request has 60,032")


@pytest.mark.parametrize("disaggregated", [False, True])
def test_links_that_do_not_connect_the_devices_are_a_reason(disaggregated):
    (reason,) = reasons(served(hardware=["A30"], devices=[4], disaggregated=disaggregated)).values()
    assert reason.endswith("exceeds the 2 devices that the hardware's links connect")


def test_a_limit_that_is_missed_alone_says_by_how_much():
    # 16 GB of weights at 2.04 TB/s are 7.9 ms at least
    found = served("ttft=1s,tpot=5ms", hardware=["A100-SXM-80GB"], devices=[1])
    (reason,) = reasons(found).values()
    assert reason.startswith("TPOT ") and reason.endswith(" ms misses 5 ms with a single request at a time")
    assert 7.9 < float(reason.split()[1]) < 12.0
    both = reasons(served("ttft=1us,tpot=1us", hardware=["A100-SXM-80GB"], devices=[1]))
    assert " misses 1 us and TPOT " in both["A100-SXM-80GB", 1]
    tail = reasons(served("tpot_p99=1us", hardware=["A100-SXM-80GB"], devices=[1]))
    assert tail["A100-SXM-80GB", 1].startswith("TPOT p99 ")


def test_what_cannot_run_is_lacking_with_its_reason():
    assert served(weights="w4a8").question.lacking == {"A100-SXM-80GB": "no matrix peak for fp8"}
    found = served(hardware=["MI300X", "H100-SXM"], engine="trtllm", efficiency="derated", devices=[1])
    assert list(found.question.lacking) == ["MI300X"] and {row.hardware for row in found.rows} == {"H100-SXM"}
    assert "NVIDIA" in found.question.lacking["MI300X"]
    assert served(devices=[3]).question.refused["tp3"] == "tp = 3 does not divide the 32 attention heads"


def test_what_runs_weight_only_is_ranked_and_said():
    """FP8 weights on an A100 cost what 8-bit weights with 16-bit activations cost there, and H100 keeps its units."""
    found, plain = served(weights="fp8"), served(weights="w8a16")
    assert not found.question.lacking
    assert any(note.startswith("A100-SXM-80GB does not multiply fp8") for note in found.question.notes)
    best = {row.hardware: row for row in reversed(found.rows)}
    same = {row.hardware: row for row in reversed(plain.rows)}
    cost = "usd_per_million_tokens"
    assert best["A100-SXM-80GB"].metrics[cost] == pytest.approx(same["A100-SXM-80GB"].metrics[cost], rel=1e-6)
    assert best["H100-SXM"].metrics[cost] < same["H100-SXM"].metrics[cost]


def test_certainty_falls_with_the_distance_from_the_evidence():
    learned, plain = hwspaces.efficiency("learned-vllm"), hwspaces.efficiency("datasheet")
    h100, gaudi = (hwspaces.hardware(name) for name in ("H100-SXM", "Gaudi3"))
    inside, out = Beyond(0.1, ()), Beyond(1.5, ("cores a factor of 2.8 above the largest measured (188)",))
    kinds = [trust(h100, learned, inside), trust(h100, learned, out), trust(gaudi, learned, out)]
    assert [one.extrapolated for one in kinds] == [False, True, True]
    # reach = d / sqrt(1 + d^2), 0.0995 and 0.832: 0.16^2 + (0.29 x 0.0995)^2 = 0.02643, 0.16^2 + (0.29 x 0.832)^2 =
    # 0.08382; 0.2^2 more for a vendor that no run confirms
    assert [one.spread for one in kinds] == pytest.approx([0.02643**0.5, 0.08382**0.5, 0.12382**0.5], rel=1e-3)
    assert "cores a factor of 2.8 above" in kinds[1].words
    assert kinds[2].words.endswith("no served run of vllm confirms accelerators of Intel")
    anyone = dataclasses.replace(gaudi, vendor=None)  # of a user's file that names none
    assert trust(anyone, learned, inside).words == "no served run of vllm confirms accelerators of an unknown vendor"
    unknown = trust(h100, plain, Beyond(None, ()))
    assert unknown.extrapolated and unknown.spread == 0.43 and unknown.octaves is None
    # 90 % within 1.645 standard deviations of the logarithm: e^(1.645 x 0.2895) = 1.6100
    assert kinds[1].interval(10.0) == pytest.approx((10.0 / 1.6100, 16.100), rel=1e-4)


def test_certainty_follows_from_the_served_runs_that_are_declared():
    """What a run has is inside of the evidence; each thing that none has is said and adds 0.2^2 to 0.16^2."""
    inside = Beyond(0.0, ())
    engines = {name: hwspaces.efficiency(f"learned-{name}") for name in ("vllm", "sglang", "trtllm")}
    for runs in served_runs():
        for name in runs.devices:
            device, weights = hwspaces.hardware(name), next(iter(runs.weights))
            assert device.vendor == runs.vendor
            known = trust(device, engines[runs.engine], inside, runs.parallelism, weights)
            assert (known.words, known.extrapolated, known.spread) == ("inside of the evidence", False, 0.16)
    h100, mi300x = hwspaces.hardware("H100-SXM"), hwspaces.hardware("MI300X")
    for parallelism, words in (({"tp", "pp"}, "pipeline stages"), ({POOLS}, "pools that only prefill or only decode")):
        found = trust(h100, engines["vllm"], inside, frozenset(parallelism))
        assert found.extrapolated and found.words == f"no served run of vllm confirms {words}"
        assert found.spread == pytest.approx((0.16**2 + 0.2**2) ** 0.5)
    both = trust(mi300x, engines["sglang"], inside, frozenset({"ep"}), "int4")
    assert both.words == "no served run of sglang confirms int4 weights or expert parallelism"
    # a load that is estimated: 90 % are within 26 to 28 % of the simulated one, 0.15 in logarithms
    assert trust(h100, engines["vllm"], inside, simulated=False).spread == pytest.approx((0.16**2 + 0.15**2) ** 0.5)


def test_rows_are_judged_by_a_step_under_their_load():
    """H100 is inside of what was fitted, its cores at eight times the bandwidth 2 octaves out: 111 B per clock."""
    keys = {"efficiency": "learned-vllm", "hardware": ["H100-SXM"], "devices": (1,)}
    near = served(**keys)
    far = served(**keys, set={"hardware.memory.hbm.bandwidth": "26.8TB/s"})
    judged = [found.trust(found.rows[0]) for found in (near, far)]
    assert [one.extrapolated for one in judged] == [False, True]
    assert judged[0].octaves < 0.25 and 1.5 < judged[1].octaves <= 2.6
    assert "HBM bytes per clock and core a factor of 4 above the largest measured (27.6)" in judged[1].words


def test_advice_loosens_what_binds():
    found = served("ttft=1s,tpot=12ms", hardware=PAIR[:1], devices=[1])
    (words,) = changes(found.question, found.rows)
    assert found.rows[0].binds == "TPOT" and words.startswith("TPOT limit of 15 ms: +") and words.endswith(" % load")
    more = served("ttft=1s,tpot=15ms", hardware=PAIR[:1], devices=[1]).rows[0].metrics["load"]
    gain = more / found.rows[0].metrics["load"] - 1.0
    assert f"+{100 * gain:.0f} % load" in words
    few = served("tpot_mean=90ms", hardware=PAIR[:1], devices=[1], policy={"max_sequences": 8})
    (words,) = changes(few.question, few.rows)
    assert few.rows[0].binds == "max_sequences" and words.startswith("twice the max_sequences: +")
    room_for_few = {"hardware.memory.hbm.capacity": "24GB"}
    cache = served("tpot_mean=90ms", hardware=PAIR[:1], devices=[1], set=room_for_few, isl=2048)
    (words,) = changes(cache.question, cache.rows)
    assert cache.rows[0].binds == "KV cache" and words.startswith("25 % more KV cache ")
    assert changes(found.question, ()) == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"slo": "tfft=1s"}, "ttft"),
        ({"slo": ""}, "slo is missing"),
        ({"share": 1.5}, "share = '1.5' must be above 0 and at most 1"),
        ({"engine": "tgi"}, "engine = 'tgi' is not known; known: vllm, sglang, trtllm"),
        ({"sort": "tpot"}, "sort = 'tpot' is not known; known: usd_per_million_tokens,"),
        ({"kv": "fp9"}, "kv = 'fp9'"),
        ({"policy": {"token_budgets": 1}}, "there is no policy.token_budgets"),
        ({"prices": "monthly"}, "prices = 'monthly' is neither a .toml file nor terms"),
        ({"hardware": ["H20O-SXM"]}, "H200-SXM"),
        ({"hardware": []}, "hardware is empty"),
        ({"drafts": 2}, "drafts = 2, but the model has no multi-token-prediction head and no draft model"),
        ({"draft": "Llama-3.2-1B"}, "needs deployment.drafts"),
        ({"set": {"deployment.reserved_cores": 0.2}}, "deployment.reserved_cores = 0.2 has no effect here"),
        ({"policy": {"acceptance": 0.5}}, "policy.acceptance = 0.5 has no effect here"),
        ({"isl": None}, "isl is missing"),
        ({"trace": "nowhere.csv", "isl": None, "osl": None}, "nowhere.csv"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(keys, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        served(**keys)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "unconfirmed"),
    [
        ("fp8 (block 128x128)", []),
        ("mxfp4 (weights only)", []),
        ("fp8 (block 128x128), experts nvfp4", []),
        ("int4 (group 128)", ["int4 (group 128) weights"]),
    ],
)
def test_a_precision_is_confirmed_by_its_name_whatever_its_scales(weights, unconfirmed):
    assert not_confirmed("vllm", "NVIDIA", frozenset({"tp"}), weights) == unconfirmed
