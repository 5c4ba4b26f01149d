"""Queue of prompts in front of an engine that only prefills: a known queue, steps by hand, a queue event by event."""

import numpy as np
import pytest

from jaxroof.jobs.splits import waiting_time
from jaxroof.steady.queue import prompt_queue, prompt_rate
from jaxroof.steady.steady_state import StepTimes


def steps(first: float, further: float, full: float) -> StepTimes:
    return StepTimes(decode=np.float64(0.0), first=first, further=further, steps=1.0, full=full, filled=first)


@pytest.mark.parametrize("use", [0.1, 0.5, 0.9])
def test_steps_of_one_prompt_are_the_queue_of_one_server(use):
    # M/D/1: wait W = use s / (2 (1 - use)), variance of the wait W^2 + use s^2 / (3 (1 - use))
    found = prompt_queue(use / 0.2, steps(0.2, 0.2, 1.0), 1.0)
    wait = waiting_time(use / 0.2, 0.2)
    assert found.use == pytest.approx(use) and found.prompts == pytest.approx(1.0)
    assert found.ttft == pytest.approx(0.2 + wait, rel=1e-9)
    # that of those that wait but once is taken apart, which is exact for this queue too
    assert found.spread**2 == pytest.approx(wait**2 + use * 0.04 / (3.0 * (1.0 - use)), rel=1e-9)


def test_a_full_step_by_hand():
    # a step of 4 prompts of which the first takes 50 ms and the others 30 ms: 140 ms, 4 / 0.14 = 28.57 prompts/s
    times = steps(0.05, 0.03, 4.0)
    assert prompt_rate(times) == pytest.approx(4 / 0.14)
    assert prompt_queue(14.0, times, 1.0).use == pytest.approx(14.0 * 0.14 / 4)
    # nearly without load a prompt finds an idle engine: 50 ms, one prompt per step
    alone = prompt_queue(1e-6, times, 1.0)
    assert (float(alone.ttft), float(alone.prompts)) == pytest.approx((0.05, 1.0), rel=1e-5)


def test_the_mean_number_of_prompts_of_a_step_keeps_its_equation():
    # n = load T + e^(-load T), T = 0.5 + 0.5 n, at a load of 1: n = 1 + e^(-T) + ..., found by bisection
    low, high = 1.0, 16.0
    for _ in range(60):
        n = 0.5 * (low + high)
        length = 0.5 + 0.5 * n
        low, high = (n, high) if n < length + np.exp(-length) else (low, n)
    assert prompt_queue(1.0, steps(1.0, 0.5, 16.0), 1.0).prompts == pytest.approx(n, rel=1e-3)


@pytest.mark.parametrize(
    ("fixed", "each", "full", "use", "mean", "spread"),
    [(0.3, 0.7, 1, 0.8, 0.03, 0.1), (0.3, 0.7, 4, 0.5, 0.06, 0.1), (0.8, 0.2, 16, 0.8, 0.03, 0.05)],
)
def test_latencies_are_those_of_a_queue_event_by_event(fixed, each, full, use, mean, spread):
    times = steps(fixed + each, each, float(full))
    load = use * float(prompt_rate(times))
    found = prompt_queue(load, times, 1.0)
    arrivals = np.cumsum(np.random.default_rng(0).exponential(1.0 / load, 40_000))
    now, done, latency = 0.0, 0, np.empty(len(arrivals))
    while done < len(arrivals):
        now = max(now, arrivals[done])
        after = min(int(np.searchsorted(arrivals, now, side="right")), done + full)
        now += fixed + (after - done) * each
        latency[done:after] = now - arrivals[done:after]
        done = after
    # 40,000 arrivals: the mean itself is known to about 2 % at the highest of these loads
    assert found.ttft == pytest.approx(latency.mean(), rel=mean + 0.02)
    assert found.spread == pytest.approx(latency.std(), rel=spread + 0.03)


def test_more_load_and_less_even_prompts_wait_longer_and_overload_stays_finite():
    times, loads = steps(0.05, 0.03, 4.0), np.linspace(0.5, 28.0, 40)
    even, uneven = (prompt_queue(loads, times, evenness) for evenness in (1.0, 0.5))
    assert (np.diff(even.ttft) > 0.0).all() and (np.diff(even.spread) > 0.0).all()
    assert (uneven.ttft > even.ttft).all() and (uneven.spread > even.spread).all()
    over = prompt_queue(100.0, times, 1.0)
    assert over.use > 1.0 and np.isfinite(over.ttft) and np.isfinite(over.spread)
