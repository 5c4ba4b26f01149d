"""Fit of what serving adds to lone kernels: closed form against simulations, folds, priors, the written file."""

import dataclasses

import jax
import numpy as np
import pytest

import hwspaces
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.run.precision import precision
from tests.evidence.engine_constants import engine_efficiencies
from tests.evidence.serving_fit import CONSTANTS, Fit, folds, held_out, with_constant, with_values
from tests.evidence.steady_loop import steady, tpot
from tests.evidence.step_tables import extent, op_times, summed, units
from tests.serving_rows import read_rows

pytestmark = pytest.mark.xdist_group("predict")

ROWS = ({}, {"concurrency": "4", "batch_size": "4", "isl_tokens": "512", "osl_tokens": "128"})


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    found, skipped = read_rows(tmp_path_factory.mktemp("points"), *ROWS)
    assert not skipped
    return found


@pytest.fixture(scope="module")
def derated():
    return engine_efficiencies("derated")


@pytest.fixture(scope="module")
def predicted(points, derated):
    return attempted(points, "derated")[0]


def test_the_closed_form_is_near_the_simulation(points, derated, predicted):
    with precision("float64"):
        made, places = units(points, derated)
        size = extent(points)
        known = [summed(unit, times, size) for unit, times in zip(made, op_times(made, size), strict=True)]
    for point, place, one in zip(points, places, predicted, strict=True):
        served = dataclasses.replace(point, ttft=one.ttft, tpot=one.tpot)
        assert tpot(steady(served), known[place]) == pytest.approx(one.tpot, rel=0.08)


def test_a_constant_is_found_from_points_without_it():
    # log ratios = 0.2 - slope * place: a fold that is left out moves by what the other says
    found = Fit(
        efficiency=None,
        values=(1.0,),
        logs=np.array([0.1, 0.1, -0.1, -0.1]),
        slopes=np.full((4, 1), 1.0),
        place=np.zeros(1),
    )
    left = held_out(found, [0, 0, 1, 1])
    assert left[0] > 0.15 and left[2] < -0.15
    assert np.allclose(held_out(found, [0, 0, 0, 0]), found.logs)


def test_folds_keep_deployments_together(points):
    assert len(set(folds(points))) == 1


@pytest.mark.parametrize("engine", CONSTANTS)
def test_priors_are_constants_of_the_engine(engine):
    start = hwspaces.efficiency(f"learned-{engine}").efficiency
    constants = CONSTANTS[engine]
    moved = with_values(start, constants, [constant.prior for constant in constants])
    assert jax.tree.structure(moved) == jax.tree.structure(start)
    assert moved != start


def test_a_constant_is_written_into_its_file():
    text = '# head\n[collective]\nlosses = 1\nsources.losses = "a"\n\n[host]\nstep_time_us = 2\n'
    changed = with_constant(with_constant(text, "collective.wait_time", 3e-6, "b"), "host.step_time", 4e-6, "c")
    assert changed == (
        '# head\n[collective]\nlosses = 1\nsources.losses = "a"\nwait_time_us = 3\nsources.wait_time = "b"\n\n'
        '[host]\nstep_time_us = 4\nsources.step_time = "c"\n'
    )
    with pytest.raises(ValueError, match="no table experts.wide"):
        with_constant(text, "experts.wide.around_time", 1e-6, "d")
