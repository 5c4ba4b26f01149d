"""Steady states of classes of requests: what all share, and what their own lengths change."""

import dataclasses

import numpy as np
import pytest

from jaxroof.batch import Policy
from jaxroof.numerics.arrays import eager
from jaxroof.steady.latencies import tpot_spread
from jaxroof.steady.queue import with_classes
from jaxroof.steady.steady_state import Demand, StepTimes, steady_state

ALL = Demand(prompt=1000.0, cached=0.0, evenness=0.8, output=201.0, briefness=1.25, context=1100.0, held=1100.0)
TIMES = StepTimes(
    decode=0.010, first=0.020, further=0.018, steps=1.0, full=8.0, filled=0.156
)  # room for 8,000 prompt tokens
POLICY = Policy(token_budget=8000.0)


def states(*own, demand=ALL, times=TIMES):
    demand = dataclasses.replace(demand, classes=own)
    with eager():
        state = steady_state(times, 2e-5, demand, 0.001, np.array([20.0]), np.array([100.0]))
        return state, with_classes(state, times, demand, POLICY).classes


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
    with eager():
        spreads = [float(tpot_spread(one)[0]) for one in found]
    assert spreads == sorted(spreads, reverse=True) and [one.decode_steps for one in found] == [20.0, 200.0, 2000.0]


@pytest.mark.parametrize(("output", "level"), [(101.0, 5 / 6), (401.0, 5 / 12)])
def test_tpot_varies_as_in_a_window_of_the_class(output, level):
    """The batch: 1 - r/3 = 5/6 of its variance is left at r = 1/2, 1/r - 1/(3 r^2) = 5/12 at r = 2, and 2/3 at 1.

    The prompts that come meanwhile: their number is Poisson, so its relative variance is as 1 over the steps.
    """
    state, (own,) = states(dataclasses.replace(ALL, output=output))
    ratio = (output - 1.0) / 200.0
    assert (own.tpot_varied / state.tpot_varied) ** 2 == pytest.approx(level / (2 / 3))
    assert (own.tpot_jumps / state.tpot_jumps) ** 2 == pytest.approx(1.0 / ratio)
    assert own.tpot_jump / state.tpot_jump == pytest.approx(1.0 / ratio)
