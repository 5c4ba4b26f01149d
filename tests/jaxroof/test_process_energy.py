"""Products held by electrical power and by issue slots: worked values, gradient, and which GPUs are."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import hwspaces
from jaxroof.efficiency.gemm import gemm_timing, published
from jaxroof.efficiency.tiles import sustained_rate
from jaxroof.hardware import Energy, Power
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat

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


def test_cores_without_a_tile_draw_nothing(device):
    """50 tiles of 128 x 128 results on 100 cores at excess 10: half of nine tenths are denied, 0.55 of the rate."""
    small = dataclasses.replace(device, power=Power(tdp=56.25))
    half = sustained_rate(COSTS, 50 * 128 * 128 * 2 * 64.0, small, "fp32", 4.0, True, results=50 * 128 * 128.0)
    assert float(half) == pytest.approx(11e12, rel=1e-5)
    full = sustained_rate(COSTS, 200 * 128 * 128 * 2 * 64.0, small, "fp32", 4.0, True, results=200 * 128 * 128.0)
    assert float(full) == pytest.approx(float(rate(small)), rel=1e-12)


def test_without_the_process_the_other_law_holds(device):
    plain = dataclasses.replace(device, energy=None)
    assert float(rate(plain)) == float(rate(plain, dataclasses.replace(COSTS, process_energy=None)))
    assert float(rate(device)) != float(rate(plain))


def test_gradient_is_finite_and_more_power_is_never_slower(device):
    slopes = jax.vmap(jax.grad(lambda tdp: rate(dataclasses.replace(device, power=Power(tdp=tdp))) * 1e-13))
    found = slopes(jnp.array([1.0, 75.0, 562.5, 1e4]))
    assert bool(jnp.isfinite(found).all()) and bool((found >= 0.0).all())


def test_address_arithmetic_in_the_same_slots(device):
    """A main loop of 1.2 times the time where fp32 and integer instructions take turns, and nowhere else."""
    costs = dataclasses.replace(
        COSTS, shared_issue=0.2, tile_cycles=0.0, store_cycles=0.0, small=0.0, softness=1.0, launch_cycles=0.0
    )
    op = linear(12800.0, 4096.0, 12800.0, WeightFormat(bytes=4.0, compute="fp32"), 4.0, 1.0)

    def matrix(shared):
        cores = dataclasses.replace(device.cores, shared_issue=shared)
        return float(gemm_timing(costs, op, dataclasses.replace(device, cores=cores)).resources["matrix"])

    assert matrix(1.0) / matrix(0.0) == pytest.approx(1.2, rel=1e-5)
    assert matrix(None) == matrix(0.0)


def test_pascal_alone_shares_them():
    shared = [name for name in hwspaces.names() if hwspaces.hardware(name).hardware.cores.shared_issue]
    assert shared == ["P100-PCIe", "P4"]
