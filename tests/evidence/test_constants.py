"""Left-out gains by hand, and the register: every constant has a scope, a value and a neutral value."""

import numpy as np
import pytest

import hwspaces
from tests.evidence import constants, served_constants
from tests.evidence.left_out import PLACES, Judged, Response, helps, judged, nearest, together


def test_the_nearest_place_of_additive_times():
    """Measured 10 s: 8 s without a constant of 1 s, so that twice as much is right."""
    response = Response((0.0, 1.0), np.array([[0.8], [0.9]]))
    logs = response.logs()
    assert PLACES[nearest(logs)] == 2.0
    assert np.exp(logs[np.flatnonzero(PLACES == 1.0)[0], 0]) == pytest.approx(0.9)


def test_left_out_errors_by_hand():
    """Models A and B lack 20 %, which the constant gives them; C lacks nothing, and gets 20 % too much."""
    ratios = np.array([[0.8, 0.8, 1.0], [1.0, 1.0, 1.2]])
    found = judged(Response((0.0, 1.0), ratios), ["A", "B", "C"])
    assert found.without == pytest.approx((20.0, 40.0 / 3.0))
    # A and B from each other and C: the first place between both is right for neither; C from both: 20 % off
    assert found.labels == 3
    assert judged(Response((0.0, 1.0), ratios), ["A"] * 3) is None
    only = judged(Response((0.0, 1.0), ratios[:, :2]), ["A", "B"])
    assert only.fitted == pytest.approx((0.0, 0.0), abs=1e-9)
    assert only.gain == pytest.approx(20.0)


def test_constants_fitted_together():
    """Two models lack 10 % each, which the first of two constants gives; the second one moves nothing."""
    slopes = np.array([[0.2, 0.0]] * 8)
    found = together(np.full(8, 0.9), slopes, ["A", "B"] * 4)
    assert np.exp(found) == pytest.approx(1.0, abs=0.03)


def test_what_helps():
    better, worse = Judged(2, (9.0, 10.0), (8.0, 9.0)), Judged(2, (9.0, 10.0), (9.0, 11.0))
    assert helps({"model": better, "device": None})
    assert not helps({"model": better, "device": worse})
    assert not helps({"model": None})


def test_every_served_source_is_in_the_register():
    """What a file of constants says was fitted to served points is a constant of the register, and the other way."""
    named = {one.value(hwspaces.efficiency(f"learned-{engine}").efficiency) for one, engine in _registered()}
    assert None not in named
    for engine in served_constants.ENGINES:
        sources = hwspaces.efficiency(f"learned-{engine}").sources
        paths = {path for path, source in sources.items() if "tests.evidence.serving_fit" in source}
        known = {path for one, name in _registered() if name == engine for path in one.paths}
        assert {path for path in paths if not any(path == one or one.startswith(f"{path}.") for one in known)} == set()


def _registered():
    for one in served_constants.KERNELS:
        for engine in one.engines:
            if one.value(hwspaces.efficiency(f"learned-{engine}").efficiency) is not None:
                yield one, engine


def test_added_times_have_values():
    found = [*served_constants.added(), *served_constants.simulated()]
    assert len({one.name for one in found}) == len(found)
    assert all(one.value for one in found)


def test_a_line_that_nothing_judges(capsys):
    line = constants.Line("a", "vllm", "engine", "1", "1", "0", 3, dict.fromkeys(constants.LABELS))
    assert constants.cells(line)[-1] == "not known"
    assert "| a | vllm | engine | 1 | 1 | 0 | 3 | - | - | - | - | - | not known |" in constants.page([line])
