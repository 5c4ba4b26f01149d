"""The steady state in closed form beside hand-worked limits and small simulations of queues."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from jaxroof.batch import ORDERS, Policy
from jaxroof.numerics.arrays import eager
from jaxroof.steady.distributions import gamma_share
from jaxroof.steady.latencies import e2e_share, tpot_share, ttft_share
from jaxroof.steady.steady_state import Demand, StepTimes, _step_moments, steady_state, step_times, whole_steps

EVEN = Demand(prompt=1000.0, cached=0.0, evenness=1.0, output=101.0, briefness=1.0, context=1050.0, held=1050.0)
"""Prompts of 1,000 tokens and answers of 101, which take 100 decode steps."""

TIMES = StepTimes(decode=0.01, first=0.05, further=0.05, steps=1.0, full=8.0, filled=0.41)
"""Steps of 10 ms that take no longer with more sequences, and 50 ms for every prompt."""


def at(batch, most=1e6, times=TIMES, demand=EVEN):
    with eager():
        return steady_state(times, 0.0, demand, 0.0, np.array(batch, float), np.array(most, float))


def test_a_request_finds_itself_beside_the_mean():
    # Nearly idle: a sequence finds 1.01 on average, itself among them. So 0.01 are under way at any time, each for
    # 100 steps of 10 ms and 0.01 x 50 ms: 0.01 / 1.0005 s = 0.009995 requests/s.
    found = at(1.01)
    assert float(found.load) == pytest.approx(0.01 / 1.0005, rel=1e-3)
    assert float(found.tpot) == pytest.approx(0.010005, rel=1e-4)
    assert float(found.ttft) == pytest.approx(0.06, rel=0.01)  # a step with its prompt, and nothing to wait for


def test_a_full_batch_is_the_same_at_any_time():
    # 16 of at most 16: 16 decode steps end per 100 steps, so 0.16 prompts enter each: 0.16 / (10 + 0.16 x 50 ms).
    assert float(at(16.0, most=16.0).load) == pytest.approx(0.16 / 0.018, rel=1e-3)


def test_a_sequence_that_finds_no_others_is_no_load():
    assert float(at(1.0).load) < 1e-9


def test_load_grows_with_the_batch():
    assert (np.diff(at(np.geomspace(1.001, 100.0, 50)).load) > 0.0).all()


def test_tpot_has_steps_where_lengths_are_equal():
    # A prompt that comes meanwhile makes 100 steps 50 ms longer: TPOT is 10, 10.5, 11 ms ... for 0, 1, 2 of them. At
    # 0.3 sequences under way, 0.3 requests come in a second of decoding: e^-0.3 of the requests meet none.
    found = at(1.3)
    jump = float(found.tpot_jump)
    assert jump == pytest.approx(0.0005, rel=0.05)
    with eager():
        below, above = (float(tpot_share(found, 0.010 + part * jump)) for part in (0.5, 0.95))
    assert below == pytest.approx(above, abs=0.02)
    assert below == pytest.approx(math.exp(-0.3), abs=0.03)


def test_tpot_has_no_steps_where_lengths_vary():
    found = at(1.3, demand=dataclasses.replace(EVEN, evenness=0.7, briefness=1.4))
    with eager():
        shares = [float(tpot_share(found, limit)) for limit in np.linspace(0.0105, 0.014, 20)]
    assert (np.diff(shares) > 0.0).all() and shares[-1] < 1.0


@pytest.mark.parametrize("busy", [0.2, 0.6])
def test_moments_of_steps_beside_a_queue(busy):
    """Prompts that come during a step enter the next one: moments of its length, beside a million steps."""
    decode, prompt = 0.01, 0.05
    load, random = busy / prompt, np.random.default_rng(0)
    lengths, number = [], np.zeros(10_000)
    for step in range(120):
        length = decode + prompt * number
        number = random.poisson(load * length)
        if step >= 20:
            lengths.append(length)
    drawn = np.concatenate(lengths)
    entering = load * decode / (1.0 - busy)
    with eager():
        found = _step_moments(decode, prompt, entering, 1.0, busy)
    assert float(found[0]) == pytest.approx(np.mean(drawn**2), rel=0.01)
    assert float(found[1]) == pytest.approx(np.mean(drawn**3), rel=0.03)


@pytest.mark.parametrize("batch", [2.0, 8.0])
def test_ttft_beside_a_queue(batch):
    """TTFT's share within a limit beside a simulation of the steps: to 4 points, as gamma distributions are."""
    found = at(batch)
    load, random = float(found.load), np.random.default_rng(1)
    arrivals = np.cumsum(random.exponential(1.0 / load, 20_000))
    now, next_, latencies = 0.0, 0, []
    while next_ < len(arrivals):  # every step decodes
        now += TIMES.decode * max(np.floor((arrivals[next_] - now) / TIMES.decode), 0.0)
        entering = np.searchsorted(arrivals, now, side="right") - next_
        end = now + TIMES.decode + TIMES.first * entering
        latencies.extend(end - arrivals[next_ : next_ + entering])
        now, next_ = end, next_ + entering
    with eager():
        for limit in (0.08, 0.12, 0.2):
            share = float(ttft_share(found, limit))
            assert share == pytest.approx(np.mean(np.array(latencies) <= limit), abs=0.04)


def test_gamma_share_of_an_exponential():
    # Spread equal to the mean: 1 - e^-x. Wilson and Hilferty's form is right to 0.01 there.
    with eager():
        for x in (0.5, 1.0, 3.0):
            assert float(gamma_share(x, 1.0, 1.0)) == pytest.approx(1.0 - math.exp(-x), abs=0.01)


def test_uneven_outputs_spread_e2e():
    """Nearly idle, E2E is 60 ms and 10 ms per decode step: as the steps, of a gamma distribution here.

    Steps of mean 100 and standard deviation 50: mean^2 / mean of squares is 1 / 1.25.
    """
    limits = np.array([0.6, 1.0, 1.5, 2.2])
    found = at(1.01, demand=dataclasses.replace(EVEN, briefness=1.3, output_evenness=0.8))
    with eager():
        share = e2e_share(found, limits)
        even = e2e_share(at(1.01), np.array([0.9, 1.2]))
    np.testing.assert_allclose(share, stats.gamma.cdf(limits - 0.06, a=4.0, scale=0.25), atol=0.03)
    assert even[0] < 0.01 and even[1] > 0.99


def test_prompts_take_a_whole_number_of_steps():
    """Even ones by hand; uneven ones as the mean of the whole numbers of drawn lengths."""
    with eager():
        for parts, steps in ((0.5, 1.0), (1.0, 1.0), (1.06, 2.0), (2.0, 2.0), (2.5, 3.0), (20.0, 20.5)):
            assert float(whole_steps(parts, 1.0)) == pytest.approx(steps, abs=1e-3)
        for mean in (0.3, 1.0, 3.0):
            lengths = np.random.default_rng(0).lognormal(np.log(mean) - 0.5 * 0.6**2, 0.6, 200_000)
            steps = float(whole_steps(mean, np.exp(-(0.6**2))))
            assert steps == pytest.approx(np.ceil(lengths).mean(), rel=0.03)


def test_decoding_sequences_take_their_tokens_of_a_steps_room():
    # Of 1,100 tokens 200 are of sequences that decode: 900 are left, and a prompt of 1,000 takes two steps.
    policy = Policy(token_budget=1100.0, order=float(ORDERS.index("mixed")), chunked=1.0)

    def price(work, rows):
        return np.asarray(1e-6 * rows + 0.01), np.zeros(())

    with eager():
        times = step_times(price, policy, EVEN, np.array(200.0))
        alone = step_times(price, policy, EVEN, np.array(50.0))
    assert float(times.steps) == pytest.approx(2.0, rel=1e-3)
    assert float(times.full) == pytest.approx(0.9, rel=1e-6)
    assert float(alone.steps) == pytest.approx(1.0, rel=1e-3)
