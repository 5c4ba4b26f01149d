"""Duties of every efficiency tier: finite values and gradients, Euler's sum, and faster hardware is never slower."""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, Hardware, decode, mixed, prefill, step_time
from jaxroof.efficiency import Efficiency
from tests.jaxroof.test_gradients import dotted
from tests.points import Points, leaves_as
from tests.structures import points
from tests.uncompiled import uncompiled

TIERS = ("kernel", "learned-trtllm")
"""The two sets of constants of which one or the other has every class of kernels; others differ in numbers only."""

STRUCTURES = ("dense_multi_head",)

RATES = ("clock", "vector_flops", "exp_rate", "bandwidth", "peer_rate")


def priced(drawn: Points, efficiency: Efficiency) -> tuple:
    """Arguments of `step_time` for random points under one efficiency, in float32."""
    return leaves_as(drawn, np.float32).step[:-1]


def log_time(drawn: tuple, efficiency: Efficiency) -> jax.Array:
    return jnp.log(step_time(*drawn, efficiency))


@pytest.mark.skipif("JAXROOF_LONG_TESTS" not in os.environ, reason="compiles for one to two minutes: on request")
@pytest.mark.parametrize("name", TIERS[1:])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_finite_and_homogeneous(name, structure):
    """10^5 random points, zeros and kinks included, in float32: elasticities over rates minus those over times are -1.

    Power counts as a rate: a limit in watts is energy per time. 1e-3: hundreds of float32 elasticities are summed.
    """
    efficiency = jax.tree.map(np.float32, hwspaces.efficiency(name).efficiency)
    function = jax.jit(jax.vmap(jax.value_and_grad(log_time, argnums=(0, 1)), in_axes=(0, None)))
    for seed in range(10):  # in parts, so that memory stays small
        drawn = priced(points(structure, 10_000, seed=seed), efficiency)
        value, (slopes, constants) = function(drawn, efficiency)
        assert np.isfinite(value).all()
        np.testing.assert_allclose(homogeneity(drawn, slopes, efficiency, constants), -1.0, rtol=5e-3)


def homogeneity(drawn: tuple, slopes: tuple, efficiency: Efficiency, constants: Efficiency) -> np.ndarray:
    """Sum of elasticities over rates less that over times at every point; all slopes have to be finite."""
    rates, times = 0.0, 0.0
    for path, slope, leaf in zip(
        *zip(*jax.tree_util.tree_flatten_with_path(slopes)[0], strict=True), jax.tree.leaves(drawn), strict=True
    ):
        assert np.isfinite(slope).all(), dotted(path)
        name = dotted(path)
        if name.startswith("0.") and (name.startswith("0.matrix.") or name.endswith((*RATES, "tdp"))):
            rates = rates + np.asarray(slope) * leaf
        if name.startswith("0.") and name.endswith(("latency", "_time")):
            times = times + np.asarray(slope) * leaf
    flat = jax.tree_util.tree_flatten_with_path(constants)[0]
    for (path, slope), leaf in zip(flat, jax.tree.leaves(efficiency), strict=True):
        assert np.isfinite(slope).all(), dotted(path)
        if dotted(path).endswith("_time"):
            times = times + np.asarray(slope) * leaf
        if dotted(path).endswith(("energy_rate", "idle_power")):  # FLOP/s of a core, and W
            rates = rates + np.asarray(slope) * leaf
    return rates - times


@pytest.mark.parametrize("name", TIERS)
def test_faster_hardware_is_never_slower(name):
    """Any rate 1 % to 30 times up, at 4,000 random accelerators around a dense model's mixed step."""
    efficiency = hwspaces.efficiency(name).efficiency
    model = workloads.model("Llama-3.1-8B").model
    work = mixed(prefill(1.0, 700.0), decode(48.0, 3000.0))
    random = np.random.default_rng(0)
    base = hwspaces.hardware("H100").hardware

    def factors(low: float, high: float) -> dict[str, np.ndarray]:
        return {path: random.uniform(np.log(low), np.log(high), 4000) for path in RATE_PATHS}

    start = factors(0.05, 20.0)
    faster = {path: start[path] + random.choice([0.0, 0.01, 1.0, 3.4], 4000) for path in RATE_PATHS}
    time = uncompiled(jax.vmap(lambda scale: step_time(scaled(base, scale), model, Deployment(), work, efficiency)))
    slow, fast = (np.asarray(time({p: np.exp(v) for p, v in by.items()})) for by in (start, faster))
    assert np.isfinite(slow).all() and (fast <= slow * (1.0 + 1e-5)).all()


RATE_PATHS = ("matrix", "hbm", "l2", "scratchpad", "vector", "exp", "clock")


def scaled(base: Hardware, by: dict) -> Hardware:
    """`base` with its rates multiplied."""
    memory, cores = base.memory, base.cores

    def level(name: str):
        own = getattr(memory, name)
        return dataclasses.replace(own, bandwidth=own.bandwidth * by[name])

    return dataclasses.replace(
        base,
        matrix={precision: peak * by["matrix"] for precision, peak in base.matrix.items()},
        memory=dataclasses.replace(memory, **{name: level(name) for name in ("hbm", "l2", "scratchpad")}),
        cores=dataclasses.replace(
            cores,
            vector_flops=cores.vector_flops * by["vector"],
            exp_rate=cores.exp_rate * by["exp"],
            clock=cores.clock * by["clock"],
        ),
    )
