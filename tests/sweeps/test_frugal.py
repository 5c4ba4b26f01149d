"""The search for few evaluations: what it tries is allowed and counted, and it ends where exhaustive search does."""

import numpy as np
import pytest

from sweeps.studies.optimize.frugal import frugal
from sweeps.studies.optimize.spec import problem

ASKED = {
    "job": "step",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"decode": 32, "context": 1024},
    "deployment": {"tp": [1, 3, 2]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "16TB/s"},
        "hardware.cores.count": {"from": 16, "to": 200},
        "hardware.memory.l2.capacity": {"from": "4MB", "to": "256MB"},
    },
    "optimize": {"minimize": "die_area"},
    "constraints": {"step_time": {"max": "5ms"}},
}


@pytest.fixture(scope="module")
def smallest():
    return problem(ASKED)


@pytest.fixture(scope="module")
def exhausted(smallest):
    """The smallest die of a grid: both deployments, every tenth of a TB/s, every core count."""
    bandwidths, cores = np.arange(1e12, 1.6e13, 1e11), np.arange(16.0, 201.0)
    grid = np.meshgrid([0.0, 2.0], bandwidths, cores, [4e6], indexing="ij")
    by_name = dict(zip(("tp", "hbm_bandwidth", "cores_count", "l2_capacity"), grid, strict=True))
    objectives, constraints = smallest.evaluate(np.stack([by_name[name].ravel() for name in smallest.names], axis=1))
    return objectives[(constraints <= 0.0).all(axis=1), 0].min()


@pytest.mark.parametrize("seed", [0, 1])
def test_forty_evaluations_do_what_a_grid_of_50000_does(smallest, exhausted, seed):
    before, counted = smallest.gradients, []
    trail = frugal(smallest, 40, seed, progress=counted.append)
    assert smallest.gradients - before == len(trail.values) == 40 and counted == list(range(1, 41))
    assert trail.values.min() < 1.02 * exhausted
    objectives, constraints = smallest.evaluate(trail.best[np.newaxis])
    assert objectives[0, 0] == pytest.approx(trail.values.min()) and (constraints <= 0.0).all()


def test_all_that_is_tried_may_be_a_result(smallest):
    trail = frugal(smallest, 15, 2)
    cores = trail.designs[:, smallest.names.index("cores_count")]
    assert np.array_equal(cores, np.round(cores))
    assert set(trail.designs[:, smallest.names.index("tp")]) == {0.0, 2.0}  # 3 does not divide the heads
    assert np.array_equal(frugal(smallest, 15, 2).designs, trail.designs)


def test_a_budget_below_the_number_of_combinations_is_kept(smallest):
    assert len(frugal(smallest, 1).values) == 1


def test_without_a_design_that_keeps_the_constraints_the_nearest_is_best():
    impossible = problem(ASKED | {"constraints": {"step_time": {"max": "1ms"}}})
    trail = frugal(impossible, 10)
    assert np.isinf(trail.values).all()
    assert trail.constraints.max(axis=1).min() == impossible.evaluate(trail.best[np.newaxis])[1].max()
