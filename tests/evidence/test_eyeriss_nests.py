"""Figures of Eyeriss's silicon in docs/evidence/nests.md."""

import pytest

from tests.evidence.eyeriss_nests import ALEXNET, LAYERS, PUBLISHED_CONV3, VGG, power, power_constants, predicted
from workloads import nests


@pytest.mark.parametrize("name", LAYERS)
def test_units_time_traffic_and_power(name):
    row, measured = predicted(name), LAYERS[name].measured
    assert row.units == measured.units and row.cost.fits
    assert row.milliseconds == pytest.approx(measured.milliseconds, rel=0.12)
    assert row.buffer == pytest.approx(measured.buffer, rel=0.11)
    assert row.dram == pytest.approx(measured.dram, rel=0.06)
    assert power(name) == pytest.approx(measured.watts, rel=0.14)


def test_the_shipped_architecture_has_the_fitted_power():
    base, scale = power_constants()
    machine = nests.architecture("eyeriss").value
    assert scale == pytest.approx(1.0, rel=1e-3)
    assert machine.nodes[1].leakage * machine.clock == pytest.approx(base, rel=1e-3)


def test_all_layers():
    """Of table V and VI: 103.5 ms and 15.4 MB; 3755.2 ms and 321.1 MB. Energy of both networks."""
    for network, milliseconds, dram in ((ALEXNET, 103.5, 15.4), (VGG, 3755.2, 321.1)):
        rows = {name: predicted(name) for name in network}
        assert sum(row.milliseconds for row in rows.values()) == pytest.approx(milliseconds, rel=0.08)
        assert sum(row.dram for row in rows.values()) == pytest.approx(dram, rel=0.03)
        joules = sum(power(name) * row.milliseconds for name, row in rows.items())
        measured = sum(layer.measured.watts * layer.measured.milliseconds for layer in network.values())
        assert joules == pytest.approx(measured, rel=0.13)


def test_published_rows_add_up():
    """Rows of VGG-16 against the totals of the table and of the abstract: 0.0035 DRAM accesses per MAC."""
    figures = [layer.measured for layer in VGG.values()]
    assert sum(each.milliseconds for each in figures) == pytest.approx(3755.2, abs=0.2)
    assert sum(each.dram for each in figures) == pytest.approx(321.1, abs=0.3)
    macs = sum(predicted(name).cost.compute_cycles * predicted(name).units for name in VGG)
    assert sum(each.dram for each in figures) * 1e6 / 2.0 / macs == pytest.approx(0.0035, abs=5e-5)


def test_mapping_of_conv3():
    """The traffic that was measured is that of 6 channels at once, not of the 4 of table III."""
    measured = LAYERS["CONV3"].measured.buffer
    assert predicted("CONV3", PUBLISHED_CONV3).buffer / measured - 1.0 == pytest.approx(0.42, abs=0.01)
    assert predicted("CONV3").buffer / measured - 1.0 == pytest.approx(0.04, abs=0.01)


def test_large_layers_wait_for_the_bus_of_sums():
    """CONV1_2 of VGG-16: 64 x 224 x 224 x 3 sums pass the bus for each of 64 channels, 4 words a cycle."""
    assert predicted("CONV1_2").cost.cycles == pytest.approx(64 * 64 * 224 * 224 * 3 / 4, rel=1e-6)
    assert predicted("CONV1_2").cost.compute_cycles < 0.25 * predicted("CONV1_2").cost.cycles
