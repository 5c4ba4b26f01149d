"""Area and money as metrics of a job: beside the others, over any leaf, blank where unknown."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import sweeps
from jaxroof import Process, device_price, die_area
from jaxroof.jobs.economics import economics
from sweeps.ask.alike import alike

WORK = {"isl": 512, "osl": 64, "batch": 8}
MONEY = ("die_area", "device_cost", "device_price", "capital_usd_per_million_tokens")


@pytest.fixture(scope="module")
def scenario():
    return sweeps.case("request", "H100-SXM", "Llama-3.1-8B", workload=WORK, efficiency="datasheet").scenario


def test_metrics_of_a_sweep_follow_the_silicon():
    """More cores and dearer wafers cost more; the area does not depend on the wafer."""
    data = sweeps.sweep(
        hardware="A100-SXM-80GB",
        model="Llama-3.1-8B",
        workload=WORK,
        axes={"hardware.cores.count": [108, 216], "hardware.costs.wafer": ["9346 USD", "18692 USD"]},
        output={"variables": list(MONEY)},
    )
    assert data.die_area.units == "m2" and data.device_cost.units == "1"
    assert data.die_area.dims == ("cores_count",) and float(data.die_area[0]) == pytest.approx(826e-6, rel=1e-5)
    cost = data.device_cost.transpose("cores_count", "costs_wafer").values
    assert (np.diff(cost, axis=0) > 0).all() and (np.diff(cost, axis=1) > 0).all()


def test_capital_alone_until_joules_are_known(scenario):
    """Capital does not need them; owning is both or absent."""
    found = economics(scenario.hardware, scenario.deployment, 1000.0)
    assert set(MONEY) <= set(found) and "owning_usd_per_million_tokens" not in found
    both = economics(scenario.hardware, scenario.deployment, 1000.0, 0.5)
    capital = float(both["capital_usd_per_million_tokens"])
    # 0.5 J x 1e6 tokens x 1.2 x 0.083 USD / 3.6e6 J
    assert float(both["energy_usd_per_million_tokens"]) == pytest.approx(0.5e6 * 1.2 * 0.083 / 3.6e6, rel=1e-5)
    assert float(both["owning_usd_per_million_tokens"]) == pytest.approx(capital + 0.5e6 * 1.2 * 0.083 / 3.6e6)
    assert capital == pytest.approx(float(found["capital_usd_per_million_tokens"]))


def test_emissions_by_hand(scenario):
    """0.5 J x 1.2 is 0.6 J at the meter; 1e6 tokens take 1/6 kWh, at 481 g/kWh 80.17 g. No joules, or no grid: none."""
    found = economics(scenario.hardware, scenario.deployment, 1000.0, 0.5)
    assert float(found["gco2_per_million_tokens"]) == pytest.approx(80.17, rel=1e-4)
    unknown = dataclasses.replace(scenario.hardware, costs=None)
    for absent in (
        economics(scenario.hardware, scenario.deployment, 1.0),
        economics(unknown, scenario.deployment, 1.0, 1.0),
    ):
        assert "gco2_per_million_tokens" not in absent


def test_a_cleaner_grid_is_an_input():
    """A tenth of the grid's intensity is a tenth of the emissions; the cost does not depend on it."""
    grids = ["481 gCO2/kWh", "48.1 gCO2/kWh"]
    data = sweeps.sweep(
        hardware="H100-SXM", model="Llama-3.1-8B", workload=WORK, axes={"hardware.costs.grid_intensity": grids}
    )
    dirty, clean = data.gco2_per_million_tokens.values
    assert clean == pytest.approx(dirty / 10) and dirty > 0
    joules = float(data.joules_per_token)
    assert dirty == pytest.approx(1e6 * joules * 1.2 * 481 / 3.6e6, rel=1e-5)
    assert data.gco2_per_million_tokens.dims and not data.owning_usd_per_million_tokens.dims


def test_nothing_unknown_is_guessed(scenario):
    hardware = scenario.hardware
    power = dataclasses.replace(hardware.power, tdp=None)
    for changed, absent in (
        (dataclasses.replace(hardware, silicon=None), MONEY),
        (dataclasses.replace(hardware, costs=None), MONEY[1:]),
        (dataclasses.replace(hardware, power=power), MONEY[3:]),
    ):
        found = economics(changed, scenario.deployment, 1000.0)
        assert not set(absent) & set(found) and set(MONEY) - set(absent) <= set(found)


def test_elasticities_of_cost_per_token(scenario):
    """Margin 1 less hosting's part; utilisation -1; a denser process makes tokens cheaper."""

    def log_cost(hardware):
        found = economics(hardware, scenario.deployment, 1000.0)
        return jax.numpy.log(found["capital_usd_per_million_tokens"])

    slopes = jax.jit(jax.grad(log_cost))(jax.tree.map(jax.numpy.asarray, scenario.hardware))
    hardware = scenario.hardware
    assert float(slopes.costs.utilisation * hardware.costs.utilisation) == pytest.approx(-1.0, rel=1e-5)
    assert 0.9 < float(slopes.costs.margin * hardware.costs.margin) < 1.0
    assert float(slopes.silicon.core_process.logic) > 0.0
    assert all(bool(np.isfinite(slope)) for slope in jax.tree.leaves(slopes))


def test_accelerators_of_one_structure_keep_area_and_cost():
    """Precisions that are left out keep their area; what is unknown is NaN and of the same structure."""
    whole = sweeps.case("request", "MI100", "Llama-3.1-8B", workload=WORK).scenario.hardware
    same = alike(whole, {"bf16"})
    assert float(die_area(same)) == pytest.approx(float(die_area(whole)), rel=1e-6)
    assert float(device_price(same)) == pytest.approx(float(device_price(whole)), rel=1e-6)
    unknown = alike(dataclasses.replace(whole, silicon=None, costs=None), {"bf16"})
    assert jax.tree.structure(unknown) == jax.tree.structure(same)
    assert isinstance(unknown.silicon.core_process, Process) and math.isnan(float(die_area(unknown)))
