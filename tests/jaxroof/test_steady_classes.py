"""Steady states of classes of requests: what all share, and what their own lengths change."""

import dataclasses

import numpy as np
import pytest

from jaxroof.arrays import eager
from jaxroof.policy import Policy
from jaxroof.steady_classes import with_classes
from jaxroof.steady_state import Demand, StepTimes, steady_state

ALL = Demand(prompt=1000.0, cached=0.0, evenness=0.8, output=201.0, briefness=1.25, context=1100.0, held=1100.0)
TIMES = StepTimes(
    decode=0.010, first=0.020, further=0.018, steps=1.0, full=8.0, filled=0.156
)  # room for 8,000 prompt tokens
POLICY = Policy(token_budget=8000.0)


def states(*own, demand=ALL, times=TIMES):
    demand = dataclasses.replace(demand, classes=own)
    with eager():
        state = steady_state(times, 2e-5, demand, 0.001, np.array([20.0]), np.array([100.0]))
        return state, with_classes(state, times, 2e-5, demand, POLICY).classes


def test_a_class_of_requests_like_all_has_their_state():
    state, (own,) = states(ALL)
    for field in dataclasses.fields(state):
        if field.name != "classes":
            assert np.asarray(getattr(own, field.name)) == pytest.approx(np.asarray(getattr(state, field.name))), field


def test_a_longer_prompt_adds_its_own_time_and_the_steps_that_it_takes():
    longer = dataclasses.replace(ALL, prompt=16_000.0, evenness=1.0)
    state, (own,) = states(longer)
    # 16 times the mean prompt: 0.320 s in place of 0.020; in 2 steps of 8,000 tokens: one more decode step, 0.010.
    assert own.ttft - state.ttft == pytest.approx(0.300 + 0.010)
    assert own.tpot == state.tpot and own.load == state.load
    _, (shorter,) = states(dataclasses.replace(ALL, prompt=100.0))
    assert shorter.ttft - state.ttft == pytest.approx(-0.018)  # a tenth of 0.020


def test_uneven_prompts_of_a_class_spread_its_ttft():
    state, (even, uneven) = states(*(dataclasses.replace(ALL, evenness=evenness) for evenness in (1.0, 0.5)))
    # first^2 (1/evenness - 1): 0.0001 of all, 0 and 0.0004 of the classes.
    assert even.ttft_spread**2 == pytest.approx(state.ttft_spread**2 - 0.0001)
    assert uneven.ttft_spread**2 == pytest.approx(state.ttft_spread**2 + 0.0003)


def test_fewer_tokens_see_the_step_vary_more():
    _, found = states(*(dataclasses.replace(ALL, output=output) for output in (21.0, 201.0, 2001.0)))
    spreads = [float(one.tpot_spread[0]) for one in found]
    assert spreads == sorted(spreads, reverse=True) and [one.decode_steps for one in found] == [20.0, 200.0, 2000.0]


@pytest.mark.parametrize(("output", "level", "cross"), [(101.0, 5 / 6, 1.0), (401.0, 5 / 12, 0.75)])
def test_the_variance_of_tpot_is_that_of_a_window_of_the_class(output, level, cross):
    """r = 1/2: 1 - r/3 = 5/6 and 1. r = 2: 1/r - 1/(3 r^2) = 5/12, 2/r - 1/r^2 = 3/4. Means of |t - u| by hand."""
    state, (own,) = states(dataclasses.replace(ALL, output=output))
    none = np.exp(-20.0 / 200.0)
    added, slope, steps = none * 0.020 + (1 - none) * 0.018, 2e-5, output - 1.0
    weights = (level, cross), (2 / 3, 1.0)
    varied, alone = ((1 - state.held_back) * (a * slope**2 + b * slope * added / 200) for a, b in weights)
    prompts, of_all = (1.25 / 0.8 * added**2 / (200 * n) for n in (steps, 200.0))
    expected = (varied + prompts) / (alone + of_all)
    assert (own.tpot_spread / state.tpot_spread) ** 2 == pytest.approx(expected)
