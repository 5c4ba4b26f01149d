"""Replicas that start and stop: the rule from a user's text, hours by hand, and a run with its answer."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import sweeps
from jaxroof.scheduler.service.scaling import SIGNALS
from sweeps.run.simulated.scaling import UNITS, of_taken, scaled, scaled_metrics, scaling_rule

MODEL = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "deployment": {"dp": 3}}
LOAD = {"arrivals": "stages:2x60,12x60,2x60", "isl": "256..1024", "osl": "16..64"}

pytestmark = pytest.mark.xdist_group("simulated services")


def rule(text="by=queue,target=4", replicas=8, last=100.0):
    return scaling_rule(text, replicas, last)


def test_words_and_what_is_usual():
    found = rule("by=ttft, target=500ms, least=2, start=0s, every=1min")
    assert tuple(SIGNALS)[found.signal] == "ttft" and set(UNITS) == set(SIGNALS)
    assert found[1:] == (0.5, 2, 8, 60.0, 0.0, 300.0)
    assert rule()[1:] == (4.0, 1, 8, 15.0, 60.0, 300.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target=4", "by is missing; write such as by=queue,target=4"),
        ("by=queue", "target is missing"),
        ("by=que,target=4", "by = 'que' must be queue or queue_tokens or rate or ttft; did you mean queue"),
        ("by=queue,target=4,min=2", "there is no min"),
        ("by=queue,target=4s", "autoscale: target = '4s'"),
        ("by=ttft,target=4", "autoscale: target = '4'"),
        ("by=queue,target=4,least=9", "least = 9 and most = 8 must be in order, of 8 replicas"),
        ("by=queue,target=4,most=9", "least = 1 and most = 9 must be in order, of 8 replicas"),
        ("by=queue,target=4,least=1.5", "least = '1.5' must be a whole number of replicas"),
        ("by=queue,target=4,every=0s", "autoscale: every = '0s'"),
        ("by=queue,target=4,every=1us", "every = 1 us is too short"),
        ("by=queue,target=4,idle=x", "autoscale: idle = 'x'"),
        ("by=queue,by=rate,target=4", "autoscale by is given twice"),
    ],
)
def test_a_rule_that_cannot_be_is_one_line(text, said):
    with pytest.raises(ValueError, match=said.replace("'", ".").replace("[", ".")) as error:
        rule(text)
    assert "\n" not in str(error.value)


def test_time_that_replicas_take_by_hand():
    # Evaluations at 10, 20, 30, 40 s: 2 replicas from 10 s, 1 from 20 s, 2 from 40 s. The run is from 0 to 50 s. The
    # second replica ends a request of 15 s at 35 s, and comes back at 40 s: 10 to 35 s and 40 to 50 s.
    served = SimpleNamespace(
        status=np.array([0, 0, 0, 2]),
        arrival=np.array([0.0, 15.0, 42.0, 43.0]),
        finish=np.array([5.0, 35.0, 50.0, math.nan]),
    )
    places = SimpleNamespace(first=np.array([0, 1, 1, 1]))
    found = scaled(rule("by=queue,target=4,every=10s", 2), np.array([2, 1, 1, 2]), served, places, 2)
    np.testing.assert_allclose(found.taken, [50.0, 35.0])
    assert found.changes == (2, 1)
    # It has ended its request after it was asked for again: taken from 10 s on.
    served.finish[1] = 41.0
    found = scaled(found.rule, found.numbers, served, places, 2)
    np.testing.assert_allclose(found.taken, [50.0, 40.0])
    # 2 and 1 devices of 1 and 3 USD/s.
    metrics = scaled_metrics(found, np.array([2.0, 1.0]), np.array([2.0, 3.0]))
    np.testing.assert_allclose(list(metrics.values()), [90.0 / 50.0, 90.0, 140.0, 150.0, 220.0, 250.0])
    np.testing.assert_allclose(found.share, 0.9)
    figures = of_taken({"usd_per_million_tokens": 25.0, "utilization": 0.5, "ttft_mean": 1.0}, found, metrics)
    np.testing.assert_allclose([figures[name] for name in ("usd_per_million_tokens", "utilization")], [22.0, 0.5 / 0.9])
    assert figures["ttft_mean"] == 1.0


def test_a_run_follows_its_load():
    found = sweeps.serve(**MODEL, **LOAD, autoscale="by=rate,target=4,every=5s,start=10s,idle=20s").dataset
    numbers, times = found.replicas.values, found.evaluation_time.values
    assert numbers[0] == 1 and set(np.unique(numbers)) >= {1, 3}
    # The highest number is there in the second minute, the least in the last half of the third one.
    assert numbers[(times > 70.0) & (times < 120.0)].min() >= 2 and numbers[times > 155.0].max() <= 2
    # Nobody is sent to a replica that is not ready.
    first = times[np.argmax(numbers == 3)] + 10.0
    assert found.arrival.values[found.replica.values == 2].min() >= first - 1e-9 - 1.0
    assert float(found.device_time) < float(found.fixed_device_time) == pytest.approx(3 * float(found.duration))
    assert float(found.run_usd) / float(found.fixed_run_usd) == pytest.approx(float(found.replicas_mean) / 3.0)
    assert (found.status == 0).all()
    fixed = sweeps.serve(**MODEL, **LOAD, router="round_robin").dataset
    assert "replicas" not in fixed and float(found.usd_per_million_tokens) < float(fixed.usd_per_million_tokens)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"prefill": {"dp": 1}}, "autoscale cannot be given with prefill"),
        ({"deployment": {"dp": 1}}, "has no effect on one replica"),
        ({"autoscale": ""}, "autoscale '' must be NAME=VALUE"),
    ],
)
def test_what_has_no_effect_is_refused(words, said):
    with pytest.raises(ValueError, match=said):
        sweeps.serve(**(MODEL | LOAD | {"autoscale": "by=queue,target=4"} | words))


def test_the_answer_says_hours_and_costs(capsys):
    from sweeps.cli import main

    words = "--model Llama-3.1-8B --hardware H100-SXM --dp 2 --rate 4 --isl 256 --osl 16 --requests 40"
    assert main(["serve", *words.split(), "--autoscale", "by=queue,target=4,every=1s,start=0s", "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (rule_line,) = (line for line in lines if line.startswith("scaling"))
    assert rule_line.startswith(
        "scaling 4 waiting requests per replica, 1 to 2 replicas; looked at every 1 s, started in 0 s"
    )
    assert any(line.startswith("hours ") and "all replicas all the time take" in line for line in lines)
    assert main(["serve", *words.split(), "--autoscale", "by=queue"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_picture_has_a_panel_of_replicas():
    from sweeps.show.serving_run import serving_run

    found = sweeps.serve(**MODEL, **LOAD, autoscale="by=rate,target=4,every=5s,start=10s,idle=20s").dataset
    assert [axes.get_title(loc="left") for axes in serving_run(found).axes].count("Replicas") == 1
