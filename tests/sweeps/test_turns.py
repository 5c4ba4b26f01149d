"""Turns of knobs: real changes beside those of the gradient, whole numbers, and reasons of differences."""

import numpy as np
import pytest

from jaxroof.jobs import JOBS
from jaxroof.numerics.arrays import eager
from sweeps.ask.axes import replaced
from sweeps.ask.cases import case
from sweeps.run.points import answers_at, in_dtype
from sweeps.studies.sensitivity.knobs import Knob, knobs
from sweeps.studies.sensitivity.point import sensitivity_at
from sweeps.studies.sensitivity.turns import (
    CURVED,
    EDGE,
    STRIDE,
    WORDS,
    Turn,
    agree,
    ranked,
    reasoned,
    turned_values,
    turns_of,
)

NAMES = ("ttft", "tpot")


@pytest.fixture(scope="module")
def scenario():
    """Llama-3.1-70B on eight H100 with tiles that fill the register file exactly."""
    return case(
        "request",
        "H100-SXM",
        "Llama-3.1-70B",
        workload={"batch": 32, "isl": 1024, "osl": 256},
        deployment={"tp": 8},
        efficiency="learned",
    ).scenario


@pytest.fixture(scope="module")
def point(scenario):
    return sensitivity_at("request", scenario, NAMES)


@pytest.fixture(scope="module")
def checked(scenario, point):
    return reasoned(scenario, point, turns_of(scenario, point))


def at(scenario):
    """Metrics of one scenario."""
    with eager():
        return answers_at(JOBS["request"], in_dtype(scenario, np.dtype(float)), NAMES)


def of(checked, name, path):
    """The turn of one knob."""
    return next(row for row in checked[name] if row.knob.path == path)


def test_what_knobs_are_turned_to(scenario):
    """By hand: 132 x 0.9 = 118.8; 32 x 1.1 = 35.2; of 64 heads on 8 devices, 4 and 16 divide and 5 to 7 do not."""
    wanted = ("hardware.cores.count", "workload.batch", "deployment.tp", "hardware.power.tdp", "deployment.alike")
    turned = [knob for knob in knobs(scenario) if knob.path in wanted]
    values = turned_values(JOBS["request"], scenario, turned).tolist()
    found = dict(zip((knob.path for knob in turned), values, strict=True))
    assert found["hardware.cores.count"] == [119.0, 145.0]
    assert found["workload.batch"] == [29.0, 35.0]
    assert found["deployment.tp"] == [4.0, 16.0]
    assert found["hardware.power.tdp"] == pytest.approx([630.0, 770.0])
    assert found["deployment.alike"] == pytest.approx([0.72, 0.88])  # of 0.8


def test_one_is_turned_to_two(scenario):
    """No batch below 1; a tenth more of it is less than one request."""
    one = replaced(scenario, "workload.batch", 1.0)
    (batch,) = knobs(one, ["workload.batch"])
    low, high = turned_values(JOBS["request"], one, [batch])[0]
    assert np.isnan(low) and high == 2.0


def test_changes_are_those_of_the_model(scenario, checked):
    """Every end of every turn against the model asked for it alone."""
    before = at(scenario)
    for path in ("hardware.memory.hbm.bandwidth", "hardware.cores.count", "deployment.tp", "workload.isl"):
        for name in NAMES:
            turn = of(checked, name, path)
            for value, change in zip(turn.values, turn.actual, strict=True):
                after = at(replaced(scenario, path, value))[name]
                assert change == pytest.approx(float(after / before[name]) - 1.0, abs=1e-12)


def test_predictions_are_powers(point, checked):
    """By hand: elasticity e predicts factor^e - 1."""
    turn = of(checked, "tpot", "hardware.memory.hbm.bandwidth")
    slope = float(point.elasticities["tpot"][point.knobs.index(turn.knob)])
    assert turn.predicted == pytest.approx([0.9**slope - 1.0, 1.1**slope - 1.0])
    assert turn.agrees and turn.reason == ""


def test_order_is_of_real_changes(checked):
    """Capacity of registers beyond the tiles' is of no use: it was fourth by the gradient of a blurred limit."""
    order = [knob.path for knob in ranked(checked, ["ttft"])]
    sizes = [of(checked, "ttft", path).size for path in order]
    assert sizes == sorted(sizes, reverse=True) and len(order) < len(checked["ttft"]) / 2
    registers = of(checked, "ttft", "hardware.memory.register_capacity")
    assert registers.actual[1] == pytest.approx(0.0, abs=1e-6) and registers.predicted == pytest.approx([0.0, 0.0])
    assert order.index("hardware.memory.register_capacity") > 8


def test_every_difference_has_a_reason(checked):
    kinds = {*WORDS.values(), STRIDE, CURVED, EDGE}
    marked = [row for rows in checked.values() for row in rows if not row.agrees]
    assert marked and all(set(row.reason.split(", ")) <= kinds for row in marked)
    assert all(row.reason == "" for rows in checked.values() for row in rows if row.agrees)
    assert any(row.reason == "whole tiles or waves" for rows in checked.values() for row in rows)
    assert of(checked, "ttft", "hardware.memory.register_capacity").reason == EDGE
    assert of(checked, "tpot", "deployment.tp").reason == STRIDE


def test_agreement():
    """20 % of the larger change, or 0.1 % of the metric; what is unknown does not count."""
    assert agree((0.08, -0.08), (0.1, -0.1)) and not agree((0.079, -0.08), (0.1, -0.1))
    assert agree((0.0,), (0.001,)) and not agree((0.0,), (0.0011,))
    assert agree((np.nan, 0.1), (np.nan, 0.1))
    knob = Knob("hardware.power.tdp", 700.0, "W", False, False)
    assert not Turn(knob, (630.0, 770.0), (4e-5, 0.0), (0.0, 0.0)).effect
    assert Turn(knob, (630.0, 770.0), (4e-5, 0.0), (0.0, -6e-5)).effect
