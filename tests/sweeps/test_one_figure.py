"""One deployment, one figure: every question prices the same deployment as `request` does."""

import collections
import dataclasses
import json

import numpy as np
import pytest

import hwspaces
import sweeps
from sweeps.cli import main
from tests.figures import (
    PARTS,
    along_hardware,
    bought,
    comparable,
    deployments,
    of_steps,
    possible,
    same,
    scenarios,
    structures,
)

TOLERANCE = 1e-6
"""Of float64, and of comparisons, which are in float32 and agree to about 2e-7."""

STEPS = 8
"""Deployments whose steps are computed as well, op by op, on one accelerator, for which an op is compiled once."""

ISL, OSL = 2048, 33
"""A node of a simulation's price tables, and few enough tokens that its times are linear up to the next one."""

FLAGS = {"hardware": "L40S", "model": "Llama-3.1-8B", "efficiency": "derated"}

POWER = {"hardware.power.tdp": "225W"}
"""A limit that prompts exceed, while one token does not."""

LAYOUT = {"pp": 2}
"""One request is one micro-batch, which has one of the two stages at a time."""


RANDOM = 200
"""Deployments, of every structure of the catalogue's models in turn."""


@pytest.fixture(scope="module")
def points():
    """Random deployments of all families."""
    return list(deployments(RANDOM, seed=5))


def unsent(scenario):
    """The scenario without times of requests: where there are pools, every request is handed over."""
    host = dataclasses.replace(scenario.efficiency.host, request_time=0.0)
    return dataclasses.replace(scenario, efficiency=dataclasses.replace(scenario.efficiency, host=host))


def test_every_question_makes_the_same_scenario(points):
    """Of random deployments of all families: hardware, model, deployment and efficiency, number by number."""
    random, asked = np.random.default_rng(6), set()
    for point in points[: len(structures())]:
        found = dict(scenarios(point, random, sweeps=1))
        for name, scenario in found.items():
            expected = found["request"]
            if name == "compare":
                expected = comparable(expected)
            if "sweep over hardware" in name:
                scenario, expected = along_hardware(scenario), along_hardware(expected)
            if "disaggregated" in name:
                scenario, expected = unsent(scenario), unsent(expected)
            differing = [part for part in PARTS if not same(getattr(scenario, part), getattr(expected, part))]
            assert not differing, (name, differing, point)
        asked |= set(found)
    others = {"disaggregated", "disaggregated, prefill", "colocated", "colocated, neighbour"}
    assert {"step", "compare", "serve", "serve sweep", *others} <= asked
    for job in ("", "disaggregated ", "colocated "):
        assert len([name for name in asked if name.startswith(f"{job}sweep over")]) >= 7


def test_what_is_bought_is_what_was_asked_about(points):
    """A served comparison, and what `serve`, `emit`, `fleet` and `disaggregate` make of its row: number by number."""
    asked = collections.Counter()
    for point in points:
        expected = None
        for name, scenario in bought(point):
            expected = comparable(point.case().scenario) if expected is None else expected
            if name.startswith("disaggregate") or name in ("emit, prefill", "emit, decode"):
                scenario, expected = unsent(scenario), unsent(expected)
            differing = [part for part in PARTS if not same(getattr(scenario, part), getattr(expected, part))]
            assert not differing, (name, differing, point)
            asked[name] += 1
    assert set(asked) >= {"compare, simulated", "fleet", "serve of a row", "emit", "emit, prefill", "emit, decode"}
    assert {"disaggregate of a row, prefill", "disaggregate of a row, decode"} <= set(asked)
    assert min(asked.values()) >= 20, asked


def test_a_static_batch_is_made_of_its_steps(points):
    """TTFT, TPOT, E2E and power of `request` follow from what `step` says of a micro-batch, formulas in `of_steps`."""
    cheap = [point for point in points if point.options["efficiency"] in ("datasheet", "derated")]
    alike = [dataclasses.replace(point, hardware="H200-SXM") for point in cheap]
    for point in [point for point in alike if possible(point.case) is not None][:STEPS]:
        found, built = of_steps(point)
        assert built == pytest.approx(found, rel=TOLERANCE), point


@pytest.fixture(scope="module")
def answered(cache):
    """What a command prints with --json."""

    def answer(capsys, verb, *words):
        flags = [word for name, value in FLAGS.items() for word in (f"--{name}", value)]
        limits = [word for path, value in POWER.items() for word in ("--set", f"{path}={value}")]
        assert main([verb, *flags, *limits, *map(str, words), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return answer


def test_every_command_prints_the_same_figures(answered, capsys):
    """One request on one deployment: `request`, `step`, `sensitivity`, `compare`, `serve`, and both kinds of sweeps."""
    lengths = ("--isl", ISL, "--osl", OSL)
    split = [word for name, value in LAYOUT.items() for word in (f"--{name}", value)]
    expected = answered(capsys, "request", *split, *lengths)["metrics"]
    assert expected["prefill_slowdown"] > 1.05

    def close(found, *names):
        assert {name: found[name] for name in names} == pytest.approx(
            {name: expected[name] for name in names}, rel=TOLERANCE
        )

    latencies = ("ttft", "tpot", "e2e")
    step = answered(capsys, "step", *split, "--prefill", ISL)["metrics"]
    queued = hwspaces.efficiency("derated").efficiency.host.request_time
    assert step["step_time"] + queued == pytest.approx(expected["ttft"], rel=TOLERANCE)
    assert step["power"] == pytest.approx(expected["prefill_power"], rel=TOLERANCE)
    knob = ("--knob", "hardware.memory.hbm.bandwidth", "--metric", ",".join(latencies))
    close(answered(capsys, "sensitivity", *split, *lengths, *knob)["metrics"], *latencies)
    rows = answered(capsys, "compare", "--static", *lengths, "--devices", 2, "--batch", 1, "--all")["rows"]
    (row,) = [row for row in rows if row["layout"] == "tp1 pp2"]
    close(row, *latencies, "tokens_per_second", "weight_bytes", "kv_capacity_tokens")
    alone = ("--concurrency", 1, "--requests", 3, "--policy", "prefix_caching=0", "--policy", "hidden_host=0")
    served = answered(capsys, "serve", *split, *lengths, *alone)["metrics"]
    mean = {name: served[f"{name}_mean"] for name in latencies}
    close(mean | {"tokens_per_second": served["tokens_per_second"]}, *latencies, "tokens_per_second")
    output = {"variables": [*latencies, "power"], "dtype": "float64"}
    question = FLAGS | {"deployment": LAYOUT, "set": POWER, "output": output}
    question["workload"] = {"batch": [1, 3], "isl": ISL, "osl": OSL}
    close(sweeps.sweep(**question).sel(batch=1), *output["variables"])
    drawn = sweeps.sweep(**question, mode="sample", sample={"points": 16})
    close(drawn.isel(point=int(np.argmax(drawn.batch.values == 1.0))), *output["variables"])


@pytest.mark.parametrize("rate", [None, 50])
def test_a_row_that_is_bought_has_one_figure(cache, capsys, tmp_path, rate):
    """A simulated row of `compare` and `serve` of it: the same latencies, throughput and cost, of the steady part."""
    found = tmp_path / "found.json"
    words = FLAGS | {"isl": 1024, "osl": "lognormal:mean=64,sigma=0.6", "slo": "ttft=1s,tpot=40ms", "set": POWER}
    words |= {"max_devices": 1, "policy": {"token_budget": 2048}, "disaggregated": False, "rate": rate}
    record = sweeps.compare(**words).record()
    (row,) = record["rows"]
    found.write_text(json.dumps(record))
    assert main(["serve", str(found), "--json"]) == 0
    served = json.loads(capsys.readouterr().out)["metrics"]
    names = ("ttft_mean", "ttft_p99", "tpot_mean", "tpot_p99", "e2e_mean", "usd_per_million_tokens")
    for name in (*names, "tokens_per_second_per_device"):
        assert row[name] == pytest.approx(served[name], rel=TOLERANCE), name
    assert row["requests_per_second"] == pytest.approx(served["requests_per_second"] * row["replicas"], rel=TOLERANCE)
    assert row["simulated"] and (row["replicas"] == 1) == (rate is None)
    assert served["run_tokens_per_second"] < served["tokens_per_second"]  # the run has a beginning and an end
    if rate is not None:  # all replicas together are sent what is asked for, and cost what they cost
        dollars = row["usd_per_hour"] / (3600.0 * row["tokens_per_second"]) * 1e6
        assert row["usd_per_million_tokens"] == pytest.approx(dollars, rel=TOLERANCE)
        assert row["requests_per_second"] == pytest.approx(rate, rel=TOLERANCE)


def test_a_capacity_is_the_row_of_a_comparison(answered, capsys):
    """Both find the same load of a replica of 3 devices, two of which fill a server of 8, and charge 4 for each."""
    asked = ("--isl", 1024, "--osl", "lognormal:mean=64,sigma=0.6", "--requests", 200, "--slo", "ttft=1s,tpot=40ms")
    given = (*asked, "--node", 8, "--policy", "token_budget=2048")
    (row,) = answered(capsys, "compare", *given, "--devices", 3, "--no-disaggregated")["rows"]
    ends = f"{row['load']},{row['fails_at']}"
    policy = ("--policy", f"max_sequences={row['max_sequences']}")
    (found,) = answered(capsys, "capacity", *given, *policy, "--tp", 1, "--pp", 3, "--rates", ends)["rows"]
    assert (found["devices"], found["server"], found["rented_devices"]) == (3, 8, 4.0)
    assert (found["capacity"], found["fails_at"]) == (row["load"], row["fails_at"])
    money = ("usd_per_hour", "usd_per_million_tokens", "tokens_per_second_per_device")
    for name in ("devices", "server", "rented_devices", *money, "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"):
        assert found[name] == pytest.approx(row[name], rel=TOLERANCE), name
    dollars = found["usd_per_hour"] / (3600.0 * found["tokens_per_second_per_device"] * found["devices"]) * 1e6
    assert found["usd_per_million_tokens"] == pytest.approx(dollars, rel=TOLERANCE)
    assert found["requests_per_usd"] == pytest.approx(3600.0 * row["load"] / found["usd_per_hour"], rel=0.1)  # 200 end
