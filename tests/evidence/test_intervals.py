"""Scores of intervals by hand, constants moved as blind fits are, and served points in the intervals of their TPOT."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency.timing import NINETY_PERCENT
from sweeps.measure.validate.relative_errors import Errors
from tests.evidence.intervals import AIMED, GENERATION, NEAR, Judged, tpot, without
from tests.evidence.learned_kernels.result import KernelFit, Source

SILICON = Path(__file__).parents[3] / "shared" / "measured" / "e2e" / "silicon_sample.csv"


def test_an_interval_covers_what_lies_between_its_ends():
    """Two of three in it; 1.2 and 1.5 to the sides make a factor of sqrt(1.8)."""
    low, high = np.log([1.2, 1.2, 0.9]), np.log([1.5, 1.5, 2.0])
    found = Judged("served", NEAR, "some", low, high, np.zeros(3))
    assert found.covered == pytest.approx(2.0 / 3.0) and found.factor == pytest.approx(math.sqrt(1.8))
    assert AIMED[NEAR] < AIMED[GENERATION]


def test_constants_move_as_the_blind_fit_does():
    """A tenth less bandwidth in the fit without the device is a tenth less in the shipped constant."""
    efficiency = hwspaces.efficiency("learned-vllm").efficiency
    kernel = efficiency.linear.wide
    blind = dataclasses.replace(kernel, bandwidth=0.9 * kernel.bandwidth)
    none = Errors(0.0, 0.0, 0.0)
    fit = KernelFit("linear.wide", kernel, "vllm", (Source("b200_sxm", "", "", ""),), 0, none, {}, {"b200_sxm": blind})
    moved = without(efficiency, [fit], "b200_sxm").linear.wide
    assert moved.bandwidth == pytest.approx(0.9 * kernel.bandwidth) and moved.tile_cycles == kernel.tile_cycles
    assert moved.spread == kernel.spread
    assert without(efficiency, [fit], "a100_sxm").linear.wide == kernel


@pytest.mark.skipif(not SILICON.is_file(), reason="the measured serving points are not beside the project")
def test_served_points_are_in_narrow_intervals():
    """Of twelve points of vLLM that nothing speaks against ten are in intervals of a factor of 1.3 and less."""
    from jaxroof.numerics.arrays import eager
    from sweeps.measure.validate.serving.serving_points import points
    from sweeps.measure.validate.serving.suspects import checked

    found = [one for one in checked(points(SILICON)[0]) if one.engine == "vllm" and one.suspect is None][::25][:12]
    efficiency = hwspaces.efficiency("learned-vllm").efficiency
    with eager():
        times, deviations = np.array([tpot(one, efficiency) for one in found]).T
    logs = np.abs(np.log(times / np.array([one.tpot for one in found])))
    assert np.mean(logs <= NINETY_PERCENT * deviations) >= 10 / 12
    assert np.exp(NINETY_PERCENT * np.median(deviations)) < 1.3
