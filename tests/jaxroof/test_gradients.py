"""Gradients: finite everywhere, bound by Euler's theorem, and by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import Deployment, Requests, datasheet, decode, request_cost, step_time
from tests.points import dotted, leaves_as
from tests.structures import STRUCTURES, points
from tests.uncompiled import uncompiled

STEP = 1e-5
"""Of a logarithm."""


def log_step_times(drawn: tuple) -> tuple[jax.Array, jax.Array]:
    """Of columns of points: their sum, whose gradient in a column is that of every point, and each."""
    times = jnp.log(step_time(*drawn))
    return jnp.sum(times), times


@pytest.mark.parametrize("structure", STRUCTURES)
def test_finite_and_homogeneous(structure):
    """80 random points of each structure, 1120 in all, kinks and zeros included, in float32.

    Value and gradient in every leaf are finite. Time is homogeneous, -1 in rates and +1 in times: elasticities
    over rates minus those over times sum to -1, on ridges too, which tests the units of every formula and that
    `maximum` shares fairly. 1e-4: a hundred float32 elasticities are summed, some of 16th powers.
    """
    drawn = leaves_as(points(structure, 80, seed=3), np.float32).step
    (_, value), gradient = uncompiled(jax.value_and_grad(log_step_times, has_aux=True))(drawn)
    slopes = {dotted(path): np.asarray(slope) for path, slope in jax.tree_util.tree_flatten_with_path(gradient)[0]}
    assert np.isfinite(value).all()
    assert [path for path, slope in slopes.items() if not np.isfinite(slope).all()] == []
    logarithmic = {path: slopes[path] * leaf for path, leaf in zip(slopes, jax.tree.leaves(drawn), strict=True)}
    rates = sum(elasticity for path, elasticity in logarithmic.items() if is_rate(path))
    times = sum(elasticity for path, elasticity in logarithmic.items() if path.endswith(("latency", "_time")))
    np.testing.assert_allclose(rates - times, -1.0, rtol=1e-4)


def is_rate(path: str) -> bool:
    """Peaks and bandwidths of the hardware, which comes first; an efficiency's shares are numbers without unit."""
    return path.startswith("0.matrix.") or (
        path.startswith("0.") and path.endswith(("vector_flops", "exp_rate", "bandwidth", "peer_rate"))
    )


@pytest.mark.parametrize("latency", ["ttft", "tpot", "e2e"])
def test_a_batch_of_one_has_the_slope_of_a_second_request(chip, dense, latency, float64):
    """Weights are read and kernels launched once for one request as for two: the slope to the right of 1.

    5e-3: `maximum` blurs where two resources are within 30 % of each other.
    """

    def log_latency(log_batch):
        requests = Requests(batch=jnp.exp(log_batch), isl=500.0, osl=100.0, cached=0.0)
        return jnp.log(getattr(request_cost(chip, dense, Deployment(), requests, datasheet()), latency))

    right = float(log_latency(STEP) - log_latency(0.0)) / STEP
    assert float(jax.grad(log_latency)(0.0)) == pytest.approx(right, abs=5e-3)


def test_elasticity_by_hand(chip, dense, single, float64):
    """A decode step of one sequence with a short context is bound by HBM: -1 in its bandwidth, 0 in the matrix peak."""

    def log_time(log_bandwidth, log_peak):
        hbm = dataclasses.replace(chip.memory.hbm, bandwidth=2e12 * jnp.exp(log_bandwidth))
        hardware = dataclasses.replace(
            chip, memory=dataclasses.replace(chip.memory, hbm=hbm), matrix={"bf16": 1e15 * jnp.exp(log_peak)}
        )
        return jnp.log(step_time(hardware, dense, single, decode(1.0, 10.0), datasheet()))

    bandwidth, peak = jax.grad(log_time, argnums=(0, 1))(0.0, 0.0)
    # the next resource, L2 at five times the bandwidth, has 5^-16 of the weight of a projection
    assert float(bandwidth) == pytest.approx(-1.0, abs=1e-2) and float(peak) == pytest.approx(0.0, abs=1e-6)
