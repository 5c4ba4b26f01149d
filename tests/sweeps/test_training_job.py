"""The training job: units of its metrics by Euler's theorem, grids over its words, and what is refused."""

import numpy as np
import pytest

import sweeps
from sweeps.api import precision
from sweeps.cases import case
from sweeps.elasticity.check import CASES, checked
from sweeps.jobs import JOBS

POINTS = 2048
WORK = {"global_batch": 64, "seq": 2048}


def test_elasticities_add_up():
    """Time, energy and money of an iteration are finite, have finite gradients in every number, and change by the
    powers of their units when seconds, joules and dollars do. 1e-5: 16th powers in float64."""
    job, hardware, model, work, deployment = CASES["training"]
    place = case(job, hardware, model, workload=work, deployment=deployment, check=False)
    with precision("float64"):
        found = checked(JOBS[job], place.scenario, POINTS, chunk=POINTS)
    assert {"iteration_time", "bubble_time", "dp_exposed", "joules_per_billion_tokens"} < set(found.metrics)
    assert found.not_finite == set()
    assert {base: error for base, error in found.worst.items() if not error < 1e-5} == {}
