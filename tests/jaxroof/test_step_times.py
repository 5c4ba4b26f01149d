"""Times of steps with and without prompts, by hand; shares of distributions; NumPy, JAX and gradients."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy import stats

from jaxroof.batch import ORDERS, Policy
from jaxroof.numerics.arrays import eager
from jaxroof.steady.distributions import gamma_share, normal_share
from jaxroof.steady.steady_state import Demand, StepTimes, decode_step_time, steady_state, step_times

MS = 1e-3

PLAIN = Demand(prompt=400.0, cached=0.0, evenness=1.0, output=101.0, briefness=1.0, context=450.0, held=450.0)
"""Prompts of 400 tokens, and 100 decode steps."""

BUDGET = 1000.0


def price(batch, rows):
    """On the device 1 ms, 10 us per row and 0.1 us per cached token of a prompt; on the host 1 us per sampled token."""
    return MS + 1e-5 * rows + 1e-7 * batch.prefill.past, 1e-6 * batch.logits


def policy(order: str = "mixed", **numbers) -> Policy:
    return Policy(**{"order": float(ORDERS.index(order)), "token_budget": BUDGET, **numbers})


def times_of(policy: Policy, demand: Demand = PLAIN, batch: float = 100.0) -> StepTimes:
    with eager():
        return step_times(price, policy, demand, batch)


def milliseconds(times: StepTimes) -> tuple[float, ...]:
    return tuple(float(value) / MS for value in (times.decode, times.first, times.further))


# A step of 100 sequences without prompts: 1 + 100 x 0.01 + 100 x 0.001 = 2.1 ms. Every further token of a prompt takes
# 0.01 ms, and the token that a whole prompt samples 0.001 ms: 400 x 0.01 + 0.001 = 4.001 ms for a prompt of 400.


def test_prompts_that_share_steps_with_decoding_sequences_pay_for_their_own_tokens():
    found = times_of(policy())
    assert milliseconds(found) == pytest.approx((2.1, 4.001, 4.001), rel=1e-12)
    assert (float(found.steps), float(found.full)) == pytest.approx((1.0, 900 / 400))  # 1000 - 100 tokens of room


def test_a_step_without_prompts_has_no_prompt_sequence():
    """A pipeline cuts a step into as many micro-batches as it has sequences: 4 that decode are 4, not 5."""

    def pipelined(batch, rows):
        return MS * (batch.prefill.sequences + batch.decode.sequences), 0.0

    with eager():
        times = step_times(pipelined, policy(), PLAIN, 4.0)
        alone = decode_step_time(pipelined, policy(), PLAIN, 4.0)
    assert milliseconds(times) == pytest.approx((4.0, 1.0, 1.0))
    assert float(alone) == float(times.decode)


def test_prompts_with_steps_of_their_own_pay_for_a_whole_step():
    found = times_of(policy("prefill_first"))
    assert milliseconds(found) == pytest.approx((2.1, 1.0 + 4.001, 4.001), rel=1e-12)
    assert (float(found.steps), float(found.full)) == pytest.approx((1.0, 1000 / 400))


def test_prompts_that_are_not_split_fill_steps_by_whole_numbers():
    found = times_of(policy(chunked=0.0))
    assert milliseconds(found) == pytest.approx((2.1, 4.001, 4.001), rel=1e-12)
    assert float(found.full) == 2.0  # of 900 tokens of room two prompts take 800
    longer = times_of(policy(chunked=0.0), dataclasses.replace(PLAIN, prompt=2000.0))
    assert (float(longer.steps), float(longer.full)) == (1.0, 1.0)  # one that is above the budget runs alone
    assert milliseconds(longer)[1] == pytest.approx(20.001, rel=1e-12)


@pytest.mark.parametrize("cached", [0.0, 300.0])
def test_a_prompt_longer_than_the_budget_takes_several_steps(cached):
    """2,000 tokens by 900: work of 20/9 steps, in three. A chunk follows what is cached and half of the other 1,100."""
    found = times_of(policy(), dataclasses.replace(PLAIN, prompt=2000.0, cached=cached))
    chunk = 900 * 0.01 + 0.45 * 0.001 + (cached + 550) * 1e-4
    assert milliseconds(found) == pytest.approx((2.1, chunk * 20 / 9, chunk * 20 / 9), rel=1e-12)
    assert (float(found.steps), float(found.full)) == pytest.approx((3.0, 0.45))


def test_prompt_tokens_in_the_prefix_cache_are_attended_to_and_not_computed():
    found = times_of(policy(), dataclasses.replace(PLAIN, cached=300.0))
    assert milliseconds(found) == pytest.approx((2.1, 4.031, 4.031), rel=1e-12)  # 300 x 0.1 us


def test_batches_in_graphs_of_the_next_size_are_half_an_interval_larger():
    """8 sequences apart: 3.5 rows more on average, of 0.01 ms; none beyond the largest graph or up to 4 sequences."""
    found = [milliseconds(times_of(policy(graph_step=8.0), batch=batch))[0] for batch in (100.0, 600.0, 4.0)]
    assert found == pytest.approx([2.135, 1.0 + 6.0 + 0.6, 1.0 + 0.04 + 0.004], rel=1e-12)


TIMES = StepTimes(decode=2.0 * MS, first=5.0 * MS, further=4.0 * MS, steps=1.0, full=2.0, filled=10.0 * MS)


def state(batch=50.0, times=TIMES, slope=0.0, demand=PLAIN, delay=0.0, most=1e6):
    with eager():
        return steady_state(times, slope, demand, delay, batch, most)


BATCHES = np.geomspace(0.1, 190.0, 60)


def ladder(xp=np, demand=PLAIN, batches=BATCHES, order="mixed"):
    """States at batches from nearly none to a nearly full budget; the price is linear, so 11 us is the slope."""
    times = step_times(price, policy(order, token_budget=2000.0), demand, batches)
    return steady_state(times, 1.1e-5, demand, 2 * MS, batches, 200.0)


UNEVEN = Demand(prompt=700.0, cached=50.0, evenness=0.6, output=80.0, briefness=1.8, context=900.0, held=900.0)


def test_a_request_of_one_output_token_keeps_the_load_finite():
    found = state(batch=1.0, demand=dataclasses.replace(PLAIN, output=1.0))
    assert float(found.decode_steps) == 0.5 and np.isfinite(float(found.load))


def test_shares_of_normal_and_gamma_distributions():
    distance = np.linspace(-6.0, 6.0, 241)
    with eager():
        np.testing.assert_allclose(normal_share(distance), stats.norm.cdf(distance), atol=3e-4)
        for variation in (0.05, 0.3, 0.7, 1.0):  # standard deviations over the mean
            value = np.linspace(0.02, 5.0, 200)
            exact = stats.gamma.cdf(value, a=variation**-2, scale=variation**2)
            # The cube root is nearly normal; near 0 a wide one has a tail below it that the other has not.
            tolerance = 3e-4 + 0.0125 * variation**3
            np.testing.assert_allclose(gamma_share(value, 1.0, variation), exact, atol=tolerance)


@pytest.mark.usefixtures("float64")
def test_numpy_and_jax_agree():
    with eager():
        plain = ladder(demand=UNEVEN)
    traced = jax.jit(lambda batches: ladder(demand=UNEVEN, batches=batches))(BATCHES)
    for field in dataclasses.fields(plain)[:-1]:
        ours, theirs = (np.broadcast_to(getattr(found, field.name), BATCHES.shape) for found in (plain, traced))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-300, err_msg=field.name)


NAMES = ("load", "ttft", "ttft_spread", "tpot", "tpot_varied", "wait")


@pytest.mark.usefixtures("float64")
def test_gradients_are_finite_and_those_of_differences():
    """Logarithms of the outputs over logarithms of batch, prompt, output and prices of both kinds of steps."""

    def outputs(logs):
        batch, prompt, output, scale = jax.numpy.exp(logs)
        demand = dataclasses.replace(UNEVEN, prompt=prompt, output=output)
        times = step_times(lambda *work: tuple(scale * t for t in price(*work)), policy(), demand, batch)
        found = steady_state(times, scale * 1.1e-5, demand, 0.0, batch, 120.0)
        return jax.numpy.log(jax.numpy.stack([getattr(found, name) for name in NAMES]))

    slopes, outputs = jax.jit(jax.jacfwd(outputs)), jax.jit(outputs)
    for batch in (2.0, 30.0, 100.0):
        logs = np.log([batch, 300.0, 150.0, 1.0])
        found = np.asarray(slopes(logs))
        assert np.isfinite(found).all()
        steps = 1e-5 * np.eye(len(logs))
        expected = np.stack([(outputs(logs + step) - outputs(logs - step)) / 2e-5 for step in steps], axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        # Steps that take twice as long halve the load and double every time.
        np.testing.assert_allclose(found[:, -1], [-1.0, *[1.0] * 5], rtol=1e-9)
