"""Gradients on dual numbers are those of JAX, metric by metric and knob by knob."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.jobs import JOBS
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import smoothing
from sweeps.ask.axes import leaf, leaf_paths
from sweeps.ask.cases import case
from sweeps.run.points import in_dtype
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.gradient import at_factors, changes, metric_names
from tests.uncompiled import uncompiled

CASES = {
    "request": ("H100-SXM", "Llama-3.1-8B", {"batch": 29, "isl": 1100, "osl": 200}, {"tp": 4}),
    "step": ("H200-SXM", "DeepSeek-V2-Lite", {"decode": 70, "context": 900}, {"attention_dp": 2, "ep": 2}),
    "train": ("H100-SXM", "Llama-2-7B", {"global_batch": 32, "seq": 2048}, {"tp": 2, "dp": 4}),
}


@pytest.mark.parametrize(("job", "exponent"), [("request", 16.0), ("step", 0.0), ("train", 16.0)])
def test_they_are_those_of_jax(job, exponent):
    hardware, model, work, deployment = CASES[job]
    asked = JOBS[job]
    scenario = in_dtype(case(job, hardware, model, workload=work, deployment=deployment).scenario, np.dtype(float))
    names, paths = metric_names(asked, scenario), tuple(leaf_paths(scenario))
    random = np.random.default_rng(0)
    direction = {path: random.normal() for path in paths}
    with precision("float64"), smoothing(exponent):
        with eager():
            found = changes(asked, names, paths)(scenario)

        @uncompiled
        def along(scenario, direction):
            ones = jax.tree.map(jnp.ones_like, direction)
            return jax.jvp(lambda factors: at_factors(asked, scenario, factors, names), (ones,), (direction,))

        values, slopes = along(scenario, direction)
    assert len(names) > 15
    for metric in names:
        value, by_path = found[metric]
        assert value == pytest.approx(float(values[metric]), rel=1e-12)
        size = sum(abs(by_path[path] * direction[path]) for path in paths)
        total = sum(by_path[path] * direction[path] for path in paths)
        assert total == pytest.approx(float(slopes[metric]), abs=1e-10 * size + 1e-12 * abs(value)), metric
    assert all(leaf(scenario, path) is not None for path in paths)
