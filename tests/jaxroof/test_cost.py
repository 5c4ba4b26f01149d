"""Yield, dies per wafer, what a device costs and what owning it costs, worked out by hand."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import pytest

from jaxroof import cost_parts, device_cost, device_price, die_cost, owning_rate
from jaxroof.chip.cost import capital_rate, die_yield, dies_per_wafer, emission_rate, energy_price
from tests.jaxroof.test_area import invented
from tests.silicon_examples import COSTS

EXACT = 1e-5
"""Relative: float32 through an exponential and a power."""


def test_dies_per_wafer_by_hand():
    """pi / 4 * 300^2 / 100 * exp(-2 * 10 / 300) = 706.86 * 0.93551 = 661.3; de Vries' exact count of 10 x 10 mm
    squares on 300 mm is 648, of 20 x 20 mm 148 (here 154.7).
    """
    assert float(dies_per_wafer(100e-6, 0.3)) == pytest.approx(661.27, rel=1e-4)
    assert float(dies_per_wafer(400e-6, 0.3)) == pytest.approx(math.pi / 4 * 225 * math.exp(-40 / 300), rel=EXACT)
    with_scribe = dies_per_wafer(81e-6, 0.3, 1e-3)
    assert float(with_scribe) == pytest.approx(661.27, rel=1e-4)


def test_yield_by_hand():
    """8 cm2 at 0.1 per cm2 and alpha 2: (1 + 0.8 / 2)^-2 = 0.5102; with half repairable (1.2)^-2 = 0.6944."""
    assert float(die_yield(8e-4, 1000.0, 2.0)) == pytest.approx(1 / 1.96, rel=EXACT)
    assert float(die_yield(8e-4, 1000.0, 2.0, 0.5)) == pytest.approx(1 / 1.44, rel=EXACT)
    assert float(die_yield(8e-4, 1000.0, 1e3)) == pytest.approx(math.exp(-0.8), rel=1e-3)  # Poisson


def test_device_by_hand():
    """317.6 mm2: side 17.82 mm, 222.56 * exp(-0.11881) = 197.62 dies, yield (1 + 0.1588 / 2)^-2 = 0.85829 -> 58.96
    USD; over 0.8: 73.70. Memory 600 / 0.8. Package (317.6 + 400) mm2 x 1 USD / 0.8. One die's test, the board.
    """
    found = {name: float(usd) for name, usd in cost_parts(invented()).items()}
    expected = {"dies": 73.70, "memory": 750.0, "package": 897.0, "test": 20.0, "board": 200.0}
    assert found == pytest.approx(expected, rel=1e-3)
    assert float(device_price(invented())) == pytest.approx(4 * 1940.7, rel=1e-3)


def test_owning_by_hand():
    """(7762.8 USD x 1.5 / 1e8 s + 1e-8 x 600 W) / 0.5 = 2.4488e-4 USD/s; 500 W x 2e-8 x 1.25 = 1.25e-5 USD/s."""
    assert float(capital_rate(invented())) == pytest.approx(2.4488e-4, rel=1e-3)
    assert float(energy_price(invented())) == pytest.approx(2.5e-8, rel=EXACT)
    assert float(owning_rate(invented(), 500.0)) == pytest.approx(2.5738e-4, rel=1e-3)
    assert float(emission_rate(invented())) == pytest.approx(1.25e-7, rel=EXACT)  # 1e-7 kg/J x 1.25


def test_chiplets_cost_their_own_wafers():
    """Eight dies of 24.45 mm2 at 10,000 USD and two of 61 mm2 at 5,000 USD a wafer."""
    hardware = invented(separate=1.0, dies=8.0, shared_dies=2.0)
    small = float(die_cost(195.6e-6 / 8, 10000.0, COSTS))
    large = float(die_cost(122e-6 / 2, 5000.0, COSTS))
    assert float(cost_parts(hardware)["dies"]) == pytest.approx((8 * small + 2 * large) / 0.8, rel=EXACT)
    assert float(cost_parts(hardware)["test"]) == 200.0


def test_dearer_with_area():
    costs = [float(die_cost(area, 10000.0, COSTS)) for area in (1e-5, 1e-4, 4e-4, 8e-4, 3e-3)]
    assert costs == sorted(costs) and costs[3] / costs[2] > 2.0  # more than in proportion: yield and edge


def test_euler_over_prices():
    """What a device costs is linear in prices; 1e-5 of float32."""
    usd = ("wafer", "shared_wafer", "memory", "package", "test", "board")
    hardware = invented()

    def price(leaves):
        return device_price(dataclasses.replace(hardware, costs=dataclasses.replace(COSTS, **leaves)))

    leaves = {name: jnp.asarray(getattr(COSTS, name)) for name in usd}
    slopes = jax.grad(price)(leaves)
    assert float(sum(slopes[name] * leaves[name] for name in usd) / price(leaves)) == pytest.approx(1.0, rel=1e-5)


def test_gradients_against_central_differences():
    """d ln rate / d ln x of every leaf of costs; 1e-5: central differences of float64 at 1e-4."""
    with jax.enable_x64():
        leaves, structure = jax.tree.flatten(dataclasses.replace(COSTS, scribe=1e-4))
        logs = jnp.log(jnp.asarray(leaves, jnp.float64))

        def log_rate(logs):
            costs = jax.tree.unflatten(structure, list(jnp.exp(logs)))
            hardware = dataclasses.replace(invented(separate=1.0, shared_dies=2.0), costs=costs)
            return jnp.log(owning_rate(hardware, 500.0))

        slopes = jax.jit(jax.grad(log_rate))(logs)
        both = jax.jit(jax.vmap(lambda d: (log_rate(logs + d) - log_rate(logs - d)) / 2e-4))(1e-4 * jnp.eye(len(logs)))
        assert float(jnp.max(jnp.abs(slopes - both))) < 1e-5


def test_nothing_without_figures():
    with pytest.raises(ValueError, match="no costs"):
        device_cost(dataclasses.replace(invented(), costs=None))
    hardware = invented()
    with pytest.raises(ValueError, match="no TDP"):
        capital_rate(dataclasses.replace(hardware, power=dataclasses.replace(hardware.power, tdp=None)))


def test_no_dies_without_cores_no_cost_and_no_nan():
    slopes = jax.grad(lambda hardware: device_cost(hardware))(jax.tree.map(jnp.asarray, invented()))
    assert all(bool(jnp.isfinite(slope)) for slope in jax.tree.leaves(slopes))
