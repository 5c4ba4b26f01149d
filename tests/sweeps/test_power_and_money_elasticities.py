"""Elasticities of energy and money in what they are made of, against central differences; throttled and not."""

import math

import numpy as np
import pytest

from jaxroof.jobs import JOBS
from sweeps.ask.axes import replaced
from sweeps.ask.cases import case
from sweeps.studies.sensitivity.point import sensitivity_at
from sweeps.studies.sensitivity.turns import metrics_at

METRICS = ("joules_per_token", "owning_usd_per_million_tokens")

PARTS = ("hardware.energy", "hardware.power", "hardware.silicon", "hardware.costs")

MOVE = 1e-6
"""Of the logarithm in a central difference: its error, MOVE^2, and rounding, 1e-16 / MOVE, are below 1e-9."""

KINKS = ("hardware.silicon.shared_dies", "hardware.silicon.dies", "hardware.silicon.largest_die")
"""Fewest dies and the largest that one exposure covers: the number of dies is a maximum and rounded up."""


@pytest.mark.parametrize("tdp", [2000.0, 500.0])
def test_against_differences(tdp):
    """Caches and PHYs on dies of their own; under the lower limit kernels throttle, and energy is time at the limit."""
    work = {"prefill": 900, "past": 100}
    scenario = case("step", "MI300X", "Llama-3.1-8B", workload=work).scenario
    scenario = replaced(scenario, "hardware.power.tdp", tdp)
    point = sensitivity_at("step", scenario, METRICS, PARTS, 0.0)
    assert len(point.knobs) > 50
    where = {knob.path: i for i, knob in enumerate(point.knobs)}
    binds = abs(point.elasticities["owning_usd_per_million_tokens"][where["hardware.energy.hbm"]])
    power = point.elasticities["joules_per_token"][where["hardware.power.tdp"]]
    assert (abs(power) > 0.1) == (tdp < 1000.0) and binds > 1e-4
    ends = np.array([[knob.value * math.exp(move) for move in (MOVE, -MOVE)] for knob in point.knobs])
    matter = 0
    for name, rows in metrics_at(JOBS["step"], METRICS, scenario, point.knobs, ends).items():
        for knob, row in zip(point.knobs, rows, strict=True):
            if knob.path in KINKS:
                continue
            difference = (np.log(row[0]) - np.log(row[1])) / (2 * MOVE)
            slope = point.elasticities[name][where[knob.path]]
            assert slope == pytest.approx(difference, abs=1e-6), (name, knob.path)
            matter += abs(slope) > 1e-6
    assert matter > 40
