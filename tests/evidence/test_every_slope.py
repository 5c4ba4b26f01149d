"""Gradients against central differences: none is wrong, and a leak that was mended would be found."""

import pytest

from jaxroof.chip import area
from jaxroof.numerics.smooth import maximum
from sweeps.ask.cases import case
from sweeps.studies.sensitivity.knobs import knobs
from tests.evidence.every_slope import CASES, MODEL, slopes


@pytest.mark.parametrize("place", ["H100-SXM", "MI300X", "TPU-v6e", "chiplet", "gpu-n3"])
def test_no_gradient_is_wrong(place):
    job, work = CASES["decode step"]
    found = slopes(place, job, case(job, place, MODEL, workload=work).scenario)
    assert len(found) > 290 and not [row for row in found if row.kind == "wrong"]
    # Numbers that are rounded down have the slope of their ratio, not that of a step.
    assert not [row for row in found if row.kind == "step" and row.metric == "sequence_capacity"]


def test_a_rounded_number_that_ties_with_a_limit_is_found(monkeypatch):
    """One die there and one needed, rounded before the larger is taken: half of a slope that is nowhere."""
    job, work = CASES["decode step"]
    scenario = case(job, "H100-SXM", MODEL, workload=work).scenario
    turned = knobs(scenario, ["hardware.cores.count"])

    def cost():
        rows = slopes("H100-SXM", job, scenario, turned)
        return {row.metric: row.kind for row in rows}["device_cost"]

    assert cost() == ""
    monkeypatch.setattr(area, "_count", lambda size, least, largest: maximum(least, area._whole(size / largest)))
    assert cost() == "tie"
