"""Disaggregated pools of a served comparison: limits, bounds, a loop over all pairs, figures by hand, bad input."""

import dataclasses
import json
import math
import shlex

import numpy as np
import pytest

import sweeps
from jaxroof.deployment import replica_devices
from jaxroof.jobs.disaggregated import disaggregated_cost
from jaxroof.steady.queue import prompt_rate
from sweeps.cli import main
from sweeps.entries.comparisons import compare
from sweeps.run.answer import answer
from sweeps.studies.compare import disaggregated, pairs
from sweeps.studies.compare.comparison import Comparison
from sweeps.studies.compare.disaggregated import pool_rows, with_pools
from sweeps.studies.compare.estimate import LADDER, QUEUE
from sweeps.studies.compare.pairs import FirstPass, Pairs, largest, places_of
from sweeps.studies.compare.pools import pool_steps
from sweeps.studies.compare.question import ServedQuestion, question
from sweeps.studies.compare.search import search
from sweeps.studies.compare.words import AskedComparison
from tests.commands import printed, refused
from tests.pool_commands import pool_command

MODEL, SLO = "Llama-3.1-8B", "ttft=500ms,tpot=30ms"
LOAD = {"isl": "1024", "osl": "128"}
METRIC = "tokens_per_second_per_device"


def searched(slo: str = SLO, **keys) -> tuple[ServedQuestion, FirstPass]:
    asked = question(
        AskedComparison(model=MODEL, slo=slo, load=LOAD, **{"hardware": ["H100-SXM"], "max_devices": 4} | keys)
    )
    return asked, search(asked, METRIC, simulated=0).first_pass


def compared(**keys) -> Comparison:
    return compare(MODEL, SLO, **{"hardware": ["H100-SXM", "L20"], "max_devices": 4, "simulate": 0} | keys, **LOAD)


@pytest.fixture(scope="module")
def small() -> tuple[ServedQuestion, FirstPass]:
    return searched()


@pytest.fixture(scope="module")
def both() -> Comparison:
    return compared()


def every_pair(asked: ServedQuestion, found: FirstPass) -> Pairs:
    """All pairs of layouts and settings in all ratios that fit the devices, of the one accelerator."""
    steps = found.estimate.load.shape
    sizes = [int(replica_devices(deployment)) for deployment in asked.options.deployments[0]]
    sent = disaggregated._transfers(asked, found, np.unique(sizes))
    rows = []
    for s1, w1, s2, w2 in np.ndindex(steps[0], steps[2], steps[0], steps[2]):
        for p, d in disaggregated.RATIOS:
            if p * sizes[w1] + d * sizes[w2] <= max(sizes):
                link = list(np.unique(sizes)).index(min(sizes[w1], sizes[w2]))
                rows.append((0, (s1, w1), (s2, w2), (p, d), (sizes[w1], sizes[w2]), sent[s1, 0, link], 1.0))
    return Pairs(*(np.array(column) for column in zip(*rows, strict=True)))


def test_the_best_pair_is_that_of_a_loop_over_all_pairs(small):
    asked, found = small
    (row,) = pool_rows(asked, found, METRIC)
    pairs = every_pair(asked, found)
    steps = pool_steps(asked.options, found.wanted, found.needs, found.prices, found.estimate)
    load, _, _ = largest(asked, found, steps, pairs)
    best = float((load / pairs.total).max())
    # loads are on a grid of batches, 1 % apart; pairs are chosen by their steady state, which fills steps of prompts
    assert row.metrics["load"] / row.devices == pytest.approx(best, rel=0.02)


def test_no_pair_does_more_than_its_pools_without_limits(small):
    asked, found = small
    steps = pool_steps(asked.options, found.wanted, found.needs, found.prices, found.estimate)
    pairs = every_pair(asked, found)
    load, at, _ = largest(asked, found, steps, pairs)
    prompts = prompt_rate(steps.prompt)[places_of(pairs, "prefill")] * pairs.replicas[:, 0]
    where = places_of(pairs, "decode")
    full = steps.ladder[where][:, LADDER - 1] / steps.decode[where][:, LADDER - 1] / 127 * pairs.replicas[:, 1]
    links = pairs.replicas.min(axis=1) / pairs.transfer
    assert (load > 0.0).any()
    assert (load <= prompts).all() and (load <= full).all() and (load <= links).all()
    some = load > 0.0
    assert (at["ttft_mean"][some] < 0.5).all() and (at["tpot_mean"][some] < 0.03).all()


def replica_devices_of(degrees: dict) -> int:
    return math.prod(degrees.get(name, 1) for name in ("tp", "pp", "attention_dp"))


def disaggregated_answer(row, isl: int, osl: int, rate: float, model: str = MODEL) -> dict:
    """What the job of two pools says of a row at `rate`."""
    case = sweeps.case(
        "disaggregated",
        row.hardware,
        model,
        workload={
            "isl": isl,
            "osl": osl,
            "batch": row.prefill["decode_batch"],
            "prompts": row.prefill["prompts"],
            "rate": rate,
        },
        deployment={**row.spec["deployment"], "dp": row.decode_replicas},
        prefill={**row.prefill["deployment"], "dp": row.prefill["replicas"]},
    )
    return answer(case).metrics


def test_a_row_is_what_the_job_of_two_pools_says_of_it(small):
    """The same TTFT and TPOT, at a load that both pools and the links keep up with."""
    (row,) = pool_rows(*small, METRIC)
    job = disaggregated_answer(row, 1024, 128, row.metrics["load"])
    assert row.metrics["ttft_mean"] == pytest.approx(float(job["ttft"]), rel=1e-6)
    assert row.metrics["tpot_mean"] == pytest.approx(float(job["tpot"]), rel=1e-6)
    assert bool(job["feasible"]) and row.metrics["load"] < float(job["request_rate"])
    # a tenth more is more than one of the pools can do, or misses the limit that binds
    more = disaggregated_answer(row, 1024, 128, 1.1 * row.metrics["load"])
    assert not bool(more["feasible"]) or float(more["ttft"]) > float(job["ttft"])


def test_a_queue_that_grows_is_a_miss_without_a_limit_of_ttft():
    """At most ten requests wait for longer than two steps of prompts: Little's law bounds the mean TTFT."""
    asked, found = searched("tpot=50ms")
    (row,) = pool_rows(asked, found, METRIC)
    idle = disaggregated_answer(row, 1024, 128, 1e-3)
    step = max(float(idle["ttft"]), row.metrics["tpot_mean"])
    assert row.metrics["ttft_mean"] < float(idle["ttft"]) + 2.0 * step + QUEUE / row.metrics["load"]
    assert row.metrics["prefill_use"] < 0.99


@pytest.mark.parametrize("slo", ["ttft=500ms,tpot=20ms", "ttft_p99=300ms,tpot_mean=30ms", "e2e=1.5s"])
def test_tighter_limits_take_load_away(slo):
    asked, found = searched(slo)
    (row,) = pool_rows(asked, found, METRIC)
    looser = {"ttft=500ms,tpot=20ms": "ttft=2s,tpot=30ms", "e2e=1.5s": "e2e=8s"}.get(slo, "ttft_p99=1s,tpot_mean=40ms")
    (more,) = pool_rows(*searched(looser), METRIC)
    assert 0.0 < row.metrics["load"] / row.devices < more.metrics["load"] / more.devices
    assert not pool_rows(*searched("ttft=1us"), METRIC)


def test_pairs_of_accelerators_of_one_structure_are_one_evaluation_and_each_has_its_own_figures(monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return disaggregated_cost(*arguments)

    monkeypatch.setattr(pairs, "disaggregated_cost", counted)
    together = pool_rows(*searched(hardware=["H100-SXM", "H200-SXM", "L20"]), METRIC)
    assert len(calls) == 4  # on the ladder, twice at the batch that is found, and with those that wait
    for row in together:
        (alone,) = pool_rows(*searched(hardware=[row.hardware]), METRIC)
        assert row.metrics == pytest.approx(alone.metrics, rel=1e-12, nan_ok=True)


def test_figures_are_of_both_pools_together(both):
    row = next(row for row in both.rows if row.prefill is not None and row.hardware == "H100-SXM")
    device = next(one for one in both.question.options.devices if one.name == "H100-SXM")
    prefill, decode = (replica_devices_of(one) for one in (row.prefill["deployment"], row.spec["deployment"]))
    assert row.devices == row.prefill["replicas"] * prefill + row.decode_replicas * decode <= 4
    metrics, rate = row.metrics, row.metrics["load"] * 128
    assert metrics["tokens_per_second_per_device"] == pytest.approx(rate / row.devices)
    hourly = device.hardware.price * 3600.0 * row.devices
    assert metrics["usd_per_hour"] == pytest.approx(hourly)
    assert metrics["usd_per_million_tokens"] == pytest.approx(hourly / 3600.0 / rate * 1e6)
    assert metrics["power"] == pytest.approx(metrics["joules_per_token"] * rate / row.devices)
    assert device.hardware.power.static < metrics["power"] < device.hardware.power.tdp
    assert row.spec["rate"] == pytest.approx(metrics["load"] / row.decode_replicas)
    assert row.spec["policy"]["token_budget"] == row.prefill["policy"]["token_budget"]  # one policy for both
    assert not row.simulated and row.layout.startswith(f"prefill {row.prefill['replicas']} x tp")


def test_pools_stand_among_the_other_rows_and_can_be_left_out(both):
    without = compared(disaggregated=False)
    assert [row.place for row in both.rows if row.prefill is None] == [row.place for row in without.rows]
    assert all(row.prefill is None for row in without.rows)
    values = [row.metrics[both.metric] for row in both.rows]
    assert values == sorted(values)
    # the same number of devices without pools stays beside them
    pools = [row for row in both.best_layouts if row.prefill is not None]
    names = {(row.hardware, row.devices) for row in without.best_layouts}
    assert pools and names == {(row.hardware, row.devices) for row in both.best_layouts if row.prefill is None}
    first, second = both.rows[:2]
    tied = dataclasses.replace(second, prefill={}, metrics=first.metrics), dataclasses.replace(first, prefill=None)
    assert with_pools(tied[1:], tied[:1], both.metric)[0].prefill is None


def test_a_load_takes_whole_pairs_of_pools():
    rate = 500.0
    found = compared(hardware=["H100-SXM"], rate=rate, headroom=0.2)
    row = next(row for row in found.rows if row.prefill is not None)
    assert row.replicas == math.ceil(rate * 1.2 / row.metrics["load"])
    assert row.metrics["devices"] == row.replicas * row.devices
    assert row.metrics["requests_per_second"] == pytest.approx(rate)


def test_slow_links_bind_and_missing_ones_leave_no_pools():
    asked, found = searched(overrides={"hardware.links.scale_out.bandwidth": "0.2GB/s"})
    (row,) = pool_rows(asked, found, METRIC)
    assert row.binds == "links between the pools"
    # 1,024 tokens of 2 x 32 x 8 x 128 numbers of 2 B, over one link per device of the smaller of both replicas
    lanes = min(replica_devices_of(row.spec["deployment"]), replica_devices_of(row.prefill["deployment"]))
    carried = min(row.prefill["replicas"], row.decode_replicas) * lanes * 0.2e9 / (1024 * 2 * 32 * 8 * 128 * 2)
    assert 0.8 * carried < row.metrics["load"] < carried
    fast = pool_rows(*searched(), METRIC)[0]
    assert row.metrics["load"] / row.devices < 0.5 * fast.metrics["load"] / fast.devices
    assert not pool_rows(*searched(hardware=["L4"], max_devices=1), METRIC)
    assert not pool_rows(*searched(devices=[1]), METRIC)


def test_the_flag_needs_traffic(capsys):
    asked = ("compare", "--model", MODEL, "--isl", "1024", "--osl", "128")
    said = refused(capsys, *asked, "--static", "--no-disaggregated")
    assert "--no-disaggregated cannot be given with --static" in said


def test_json_has_both_pools_and_the_report_says_what_is_not_simulated(capsys):
    words = ["compare", "--model", MODEL, "--isl", "1024", "--osl", "128", "--slo", SLO, "--simulate", "0"]
    words += ["--hardware", "H100-SXM", "--max-devices", "4"]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    (row,) = (row for row in rows if row["prefill"] is not None)
    assert set(row["prefill"]) >= {"deployment", "replicas", "hardware"} and row["decode_replicas"] >= 1
    assert row["simulated"] is False and all("decode_replicas" not in one for one in rows if one is not row)
    assert main([*words, "-v"]) == 0
    assert "estimate" in capsys.readouterr().out
    assert main([*words, "--no-disaggregated", "-v"]) == 0
    assert "prefill" not in capsys.readouterr().out


def test_the_command_of_a_row_gives_its_figures(capsys):
    """What `serve` names for a disaggregated row, run: TTFT, TPOT and cost of the row, at a batch rounded up."""
    words = {"isl": 2048, "osl": 200, "hardware": ["H100-SXM", "B200-SXM"], "simulate": 0, "max_devices": 8}
    found = compare("gpt-oss-120b", "ttft=1s,tpot=30ms", **words, efficiency="derated")
    pools = [row for row in found.best_layouts if row.prefill is not None]
    assert len(pools) >= 2
    for record in map(dict, found.record(pools)["rows"]):
        command = shlex.split(pool_command(json.loads(json.dumps(record))))
        metrics = json.loads(printed(capsys, *command[1:], "--json"))["metrics"]
        for name in ("ttft", "tpot"):
            assert metrics[name] == pytest.approx(record[f"{name}_mean"], rel=0.01)
        assert metrics["usd_per_million_tokens"] == pytest.approx(record["usd_per_million_tokens"], rel=0.01)
        assert metrics["devices"] == record["devices"]
