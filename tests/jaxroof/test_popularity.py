"""Popularity of experts: by hand, against random draws, and the rows of a deployment."""

import math

import jax
import numpy as np
import pytest

from jaxroof.layers.popularity import busiest, visited
from sweeps.measure.kernel_data.experts import power_law_rows
from tests.hand import EXACT


def test_loads_by_hand():
    """Exponent 1, H = 0.8 T = e^8, 256 experts, 8 choices, 8 devices."""
    tokens = math.exp(8.0) / 0.8
    # density 1 / (8 x): mean (e^8 - 1) / 8, mean square (e^16 - 1) / 16
    mean = (math.exp(8.0) - 1.0) / 8.0
    variation = (math.exp(16.0) - 1.0) / 16.0 / mean**2 - 1.0
    assert variation == pytest.approx(3.0, abs=0.01)
    load = busiest(1.0, 256.0, 8.0, 8.0, tokens)
    assert load.expert == pytest.approx(math.exp(8.0 * (1.0 - 1.0 / 257.0)) / mean, rel=EXACT)
    # 32 experts a device: c^2 / n = 0.0938; z at 7.625 / 8.25 = 0.924 is 1.434
    share = variation / 32.0
    assert load.device == pytest.approx((1.0 - share / 9.0 + 1.434 * math.sqrt(share) / 3.0) ** 3, rel=1e-3)


def test_placement_by_load():
    """Without copies a device has the mean, or the most popular expert alone; copies lower that expert's load."""
    uneven = {"exponent": 1.01, "experts": 256.0, "choices": 8.0, "tokens": 16384.0}
    most = busiest(**uneven, devices=8.0).expert
    assert busiest(**uneven, devices=8.0, copies=0.0).device == 1.0
    assert busiest(**uneven, devices=256.0, copies=0.0).device == pytest.approx(most, rel=1e-5)
    placed = busiest(**uneven, devices=32.0, copies=32.0)
    assert placed.device == 1.0 and 0.25 * most < placed.expert < 0.5 * most


@pytest.mark.parametrize("exponent", [0.6, 1.01, 1.2])
def test_loads_of_random_draws(exponent):
    """Within a quarter of the mean of six draws, whose own mean moves by a tenth."""
    for tokens in (512, 4096):
        for devices in (4, 16, 64, 256):
            rows = power_law_rows(exponent, tokens, 256, 8, devices).sum(axis=1).mean()
            drawn = rows / (tokens * 8 / devices)
            assert busiest(exponent, 256.0, 8.0, float(devices), float(tokens)).device == pytest.approx(drawn, rel=0.25)


def test_visits():
    # Two devices and two choices: 3 of 4 tokens visit either; all of them at twice the mean
    assert visited(2.0, 2.0, 2.0) == pytest.approx(1.0 / 0.75, rel=1e-4)
    assert visited(1.0, 64.0, 8.0) == pytest.approx(1.0, rel=EXACT)


def test_loads_grow_with_the_exponent_and_have_slopes():
    devices = np.array([1.0, 2.0, 8.0, 64.0, 256.0])
    loads = [busiest(exponent, 256.0, 8.0, devices, 4096.0).device for exponent in (0.0, 0.5, 1.0, 1.5)]
    assert all(np.all(np.diff(each) >= 0.0) for each in loads) and np.all(np.diff(loads, axis=0) >= -1e-12)
    assert all(each[0] == 1.0 for each in loads)
    slope = jax.jit(jax.grad(lambda x: busiest(x, 256.0, 8.0, 32.0, 4096.0, 16.0).expert))
    slopes = np.array([slope(exponent) for exponent in (0.9, 1.0, 1.2)])
    assert np.all(np.isfinite(slopes)) and np.all(slopes > 0.0)
