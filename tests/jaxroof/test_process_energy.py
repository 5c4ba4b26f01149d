"""Products held by electrical power where the energy of arithmetic is the process's: worked values and gradient."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jaxroof.efficiency.gemm import published
from jaxroof.efficiency.tiles import sustained_rate
from jaxroof.hardware import Energy, Power

COSTS = dataclasses.replace(published(), matrix=1.0, process_energy=10.0, idle_power=0.5, power=0.8)


@pytest.fixture
def device(chip):
    """fp32 at 20 TFLOP/s and 2 pJ; 100 cores of 0.5 W."""
    energy = Energy(
        matrix={"fp32": 2e-12}, vector=2e-12, exp=0.0, hbm=0.0, l2=0.0, scratchpad=0.0, scale_up=None, scale_out=None
    )
    return dataclasses.replace(chip, matrix={"fp32": 2e13}, energy=energy, power=Power(tdp=562.5))


def rate(device, costs=COSTS):
    return sustained_rate(costs, 1e12, device, "fp32", 4.0, True)


def test_at_the_limit_by_hand(device):
    """20 T x 10 x 2 pJ + 50 W = 450 W = 0.8 x 562.5 W: excess 1, 2^(-1/8) of the peak."""
    assert float(rate(device)) == pytest.approx(2e13 * 2 ** (-1 / 8), rel=1e-5)


def test_far_beyond_it_power_is_shared(device):
    """A tenth of the power: excess 10, a tenth of the rate."""
    small = dataclasses.replace(device, power=Power(tdp=56.25))
    assert float(rate(small)) == pytest.approx(2e12, rel=1e-5)


def test_without_the_process_the_other_law_holds(device):
    plain = dataclasses.replace(device, energy=None)
    assert float(rate(plain)) == float(rate(plain, dataclasses.replace(COSTS, process_energy=None)))
    assert float(rate(device)) != float(rate(plain))


def test_gradient_is_finite_and_more_power_is_never_slower(device):
    slopes = jax.vmap(jax.grad(lambda tdp: rate(dataclasses.replace(device, power=Power(tdp=tdp))) * 1e-13))
    found = slopes(jnp.array([1.0, 75.0, 562.5, 1e4]))
    assert bool(jnp.isfinite(found).all()) and bool((found >= 0.0).all())
