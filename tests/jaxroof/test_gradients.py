"""Gradients: against finite differences in log space, finite everywhere, and bound by Euler's theorem."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import request_cost, smooth, step_time
from tests.points import STRUCTURES, Points, leaves_as, points

SMOOTH = ("dense_multi_head", "sliding_fp8", "experts_shared_4bit")
"""Structures with every kind of layer; chunked windows are steps in the length, tested apart."""

STEP = 1e-5
"""Of the logarithm in a central difference: its error, STEP^2, and the rounding's, 1e-16 / STEP, are both about 1e-11."""


def off_the_kinks(drawn: Points) -> Points:
    """`drawn` at numbers where no count meets the limit at which its formula turns.

    A kernel is launched for `min(work, 1)`: at one sequence, or at tp = 2 for an all-reduce, the true
    derivative is 1 on one side and 0 on the other. The same holds for a KV head per device at tp = kv_heads,
    and for an output of one token. There the gradient is a mean of both sides and no difference quotient
    equals it. Numbers that are 0 have no logarithm.
    """
    blocks = tuple(
        dataclasses.replace(block, attention=dataclasses.replace(block.attention, kv_heads=block.attention.kv_heads + 11.0))
        for block in drawn.model.blocks
    )  # fmt: skip
    part = lambda part: part and dataclasses.replace(  # noqa: E731
        part, **{f.name: 3.3 * getattr(part, f.name) + 7.0 for f in dataclasses.fields(part)}
    )
    batch = dataclasses.replace(drawn.batch, prefill=part(drawn.batch.prefill), decode=part(drawn.batch.decode))
    requests = drawn.requests
    return dataclasses.replace(
        drawn,
        model=dataclasses.replace(drawn.model, blocks=blocks, untied=drawn.model.untied + 1.0),
        deployment=dataclasses.replace(drawn.deployment, tp=np.full_like(drawn.deployment.tp, 5.0)),
        batch=batch,
        requests=dataclasses.replace(
            requests, batch=requests.batch + 2.0, osl=requests.osl + 5.0, cached=0.3 * requests.isl
        ),
    )


def outcome(point: tuple) -> jax.Array:
    """Logarithms of step time, TTFT, TPOT and E2E, shape (4,)."""
    hardware, model, deployment, batch, requests, efficiency = point
    cost = request_cost(hardware, model, deployment, requests, efficiency)
    step = step_time(hardware, model, deployment, batch, efficiency)
    return jnp.log(jnp.stack([step, cost.ttft, cost.tpot, cost.e2e]))


def as_tuple(drawn: Points) -> tuple:
    return tuple(getattr(drawn, field.name) for field in dataclasses.fields(drawn))


def elasticities(structure: str, n: int, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Path of every leaf; d ln y / d ln x by automatic and by central differences, shapes (n, 4, leaves)."""
    tree = as_tuple(off_the_kinks(points(structure, n, seed)))
    paths, columns = zip(*jax.tree_util.tree_flatten_with_path(tree)[0], strict=True)
    logs = np.log(np.stack(columns, axis=1))
    unflatten = jax.tree.structure(tree).unflatten

    def of_logs(row):
        return outcome(unflatten(list(jnp.exp(row))))

    automatic = jax.jit(jax.vmap(jax.jacrev(of_logs)))(logs)
    values = jax.jit(jax.vmap(of_logs))
    steps = STEP * np.eye(len(columns))
    up, down = (
        np.asarray(values((logs[:, None] + sign * steps).reshape(-1, len(columns)))).reshape(n, -1, 4)
        for sign in (1.0, -1.0)
    )
    central = np.moveaxis((up - down) / (2 * STEP), 1, 2)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths], np.asarray(automatic), central


@pytest.mark.parametrize("structure", SMOOTH)
def test_against_finite_differences(structure, float64, monkeypatch):
    """Every leaf of hardware, model, deployment, batch, requests and efficiency, at 20 random points.

    The smoothing of `maximum` is narrowed for it, so that it does not blur the formulas behind it: at an
    exponent of 4000 a term 1 % below the largest has 4e-18 of the weight. 1e-6: see `STEP`, times the
    curvature of E(1 - (1 - k/E)^tokens).
    """
    monkeypatch.setattr(smooth, "SHARPNESS", 4000.0)
    paths, automatic, central = elasticities(structure, 20, seed=1)
    off = np.abs(automatic - central)
    assert {paths[i]: off[..., i].max() for i in np.unique(np.argwhere(off > 1e-6)[:, 2])} == {}
    assert (np.abs(automatic).max(axis=(0, 1)) > 0).sum() > 60  # most leaves matter somewhere


def test_a_chunked_window_against_finite_differences(float64, monkeypatch):
    """Inside a chunk the cost is smooth in every leaf; a sequence's end on a chunk's end is a jump, met by no point here."""
    monkeypatch.setattr(smooth, "SHARPNESS", 4000.0)
    paths, automatic, central = elasticities("chunked_experts", 20, seed=1)
    off = np.abs(automatic - central)
    assert {paths[i]: off[..., i].max() for i in np.unique(np.argwhere(off > 1e-6)[:, 2])} == {}


@pytest.mark.parametrize("structure", SMOOTH)
def test_euler(structure, float64):
    """Time is homogeneous: -1 in rates, +1 in times. It tests every formula's units and that `maximum` shares fairly.

    Elasticities over rates minus those over times sum to -1 exactly, on ridges too; 1e-9 for rounding.
    """
    tree = as_tuple(points(structure, 50, seed=2))
    gradient = jax.jit(jax.vmap(jax.jacrev(outcome)))(tree)
    total = 0.0
    for (path, slope), value in zip(
        jax.tree_util.tree_flatten_with_path(gradient)[0], jax.tree.leaves(tree), strict=True
    ):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        elasticity = np.asarray(slope) * value[:, None]
        if is_rate(name):
            total = total + elasticity
        if name.endswith(("latency", "_time")):
            total = total - elasticity
    np.testing.assert_allclose(total, -1.0, rtol=1e-9)


def is_rate(name: str) -> bool:
    """Peaks and bandwidths of the hardware (tree 0); shares in the efficiency are numbers without unit."""
    return name.startswith("0.matrix.") or (
        name.startswith("0.") and name.endswith(("vector_flops", "exp_rate", "bandwidth"))
    )


@pytest.mark.parametrize("structure", STRUCTURES)
def test_finite_in_float32(structure):
    """Value and gradient in every leaf at 167 random points of each structure, 1002 in all, kinks and zeros included."""
    tree = as_tuple(leaves_as(points(structure, 167, seed=3), np.float32))
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(lambda point: jnp.sum(jnp.exp(outcome(point))))))(tree)
    assert np.isfinite(value).all() and (np.asarray(value) > 0).all()
    bad = [
        jax.tree_util.keystr(path)
        for path, slope in jax.tree_util.tree_flatten_with_path(gradient)[0]
        if not np.isfinite(slope).all()
    ]
    assert bad == []
