"""Sensitivities of a simulated engine: against new simulations, where the order of events allows it, and by units."""

import pytest

from sweeps.run.simulated.spec import serve_spec
from sweeps.studies.sensitivity.serve import sensitivity_of_serve
from tests.evidence.unit_powers import leaf_powers

METRICS = ("e2e_mean", "ttft_mean", "tpot_mean")

PARTS = (
    *("hardware.matrix", "hardware.cores", "hardware.memory", "hardware.links", "hardware.power"),
    *("efficiency", "workload"),
)
"""All that has seconds in its unit and that a simulation reads."""


pytestmark = pytest.mark.xdist_group("sensitivity_serve")


@pytest.fixture(scope="module")
def found():
    """Sixteen requests at a rate at which few of them meet, so that a faster engine changes few decisions."""
    asked = serve_spec(
        hardware="H100-SXM", model="Llama-3.1-8B", rate=1, isl=700, osl=40, requests=16, efficiency="derated"
    )
    return sensitivity_of_serve(asked, METRICS, PARTS)


def test_against_new_simulations(found):
    """1 % of the metric at a tenth of a knob: second order is half of that, and batches that change are the rest."""
    *_, _point, checked = found
    paths = {row.knob.path for row in checked["e2e_mean"]}
    assert {"hardware.memory.hbm.bandwidth", "hardware.matrix.bf16"} <= paths
    for name in ("e2e_mean", "tpot_mean"):
        for row in checked[name]:
            assert row.predicted == pytest.approx(row.actual, abs=0.01), (name, row.knob.path)


@pytest.mark.parametrize("name", METRICS)
def test_seconds_add_up(found, name):
    """A clock that runs twice as fast, arrivals included, halves every latency: elasticities over times minus those
    over rates are 1. 1e-6: prices are read from tables.
    """
    _, _, point, _ = found
    slopes = zip(point.knobs, point.elasticities[name], strict=True)
    assert sum(leaf_powers(k.path).get("s", 0) * slope for k, slope in slopes) == pytest.approx(1.0, abs=1e-6)
