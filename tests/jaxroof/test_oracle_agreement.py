"""10,000 random points of mixed structures: the cost model against plain NumPy, op by op and in total."""

import functools

import jax
import numpy as np
import pytest

from jaxroof import datasheet, decode, kv_bytes_per_token, request_cost, step_cost, step_time, weight_bytes
from jaxroof.memory.capacity import kv_bytes_of_sequence
from jaxroof.numerics.arrays import eager
from jaxroof.op import Collective
from jaxroof.step.overlap import overlapped_ops
from tests import oracle
from tests.points import Points, leaves_as
from tests.structures import STRUCTURES, points
from tests.uncompiled import uncompiled

POINTS = 715
"""Of each of the fourteen structures: 10,010 points."""

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
"""Relative. About 100 roundings per total: 100 x 6e-8 in float32 and 100 x 1e-16 in float64, with room."""

WHOLE = list(STRUCTURES)[:6]
"""Structures of which programs are compiled, and of which collectives' bounds are compared."""

DOUBLE = ("sliding_fp8", "latent_drafts", "hybrid_delta")
"""Structures that JAX computes in float64 too: experts, drafts, windows and states."""

COLUMNS = ("time", "flops", "bytes", "message_bytes")
"""Of every op, compared in both precisions; what binds it is compared in float64, where rounding does not decide it."""


def everything(bounds, collectives, hardware, model, deployment, batch, requests, efficiency):
    """All that is compared; with `bounds` what binds each op too, with `collectives` each collective."""
    cost = request_cost(hardware, model, deployment, requests, efficiency)
    launched = overlapped_ops(model, deployment, batch)
    ops = {}
    for name, op in step_cost(hardware, model, deployment, batch, efficiency).items():
        ops[name] = {column: getattr(op, column) for column in COLUMNS}
        if bounds and (collectives or not isinstance(launched.get(name), Collective)):
            ops[name]["bound"] = op.bound
    return {
        "ops": ops,
        "step_time": step_time(hardware, model, deployment, batch, efficiency),
        "ttft": cost.ttft,
        "tpot": cost.tpot,
        "e2e": cost.e2e,
        "weight_bytes": weight_bytes(model, deployment),
        "kv_bytes_per_token": kv_bytes_per_token(model, deployment),
        "kv_bytes_of_sequence": kv_bytes_of_sequence(model, deployment, requests.isl, batch.encoded),
    }


def by_oracle(drawn: Points) -> dict:
    return {
        "ops": oracle.step(*drawn.step),
        "step_time": oracle.step_time(*drawn.step),
        **oracle.request(*drawn.request),
        "weight_bytes": oracle.weight_bytes(drawn.model, drawn.deployment),
        "kv_bytes_per_token": oracle.kv_bytes_per_token(drawn.model, drawn.deployment),
        "kv_bytes_of_sequence": oracle.kv_bytes_of_sequence(
            drawn.model, drawn.deployment, drawn.requests.isl, drawn.batch.encoded
        ),
    }


def on_numpy(compared, *columns):
    """As in float64 wherever nothing is compiled."""
    with eager():
        return compared(*columns)


def on_jax(compared, *columns):
    return uncompiled(jax.vmap(compared))(*columns)


def compiled(compared, *columns):
    """As for users of large sweeps."""
    return jax.jit(jax.vmap(compared))(*columns)


def deviations(structure: str, dtype: str, way) -> tuple[dict[str, float], dict, dict]:
    """Largest relative deviation of every total and of the ops' columns; what was found; what was expected."""
    drawn = leaves_as(points(structure, POINTS), lambda leaf: np.asarray(leaf, dtype))
    exact = leaves_as(drawn, lambda leaf: leaf.astype(float))  # the same numbers, so that only arithmetic differs
    compared = functools.partial(everything, dtype == "float64", structure in WHOLE)
    found = way(compared, drawn.hardware, drawn.model, drawn.deployment, drawn.batch, drawn.requests, drawn.efficiency)
    expected = by_oracle(exact)
    assert sorted(found["ops"]) == sorted(expected["ops"])
    worst = {name: deviation(found[name], expected[name]) for name in expected if name != "ops"}
    for column in COLUMNS:
        for name, cost in expected["ops"].items():
            worst[f"{name}.{column}"] = deviation(found["ops"][name][column], getattr(cost, column))
    return worst, found, expected


def deviation(found, expected) -> float:
    found, expected = np.broadcast_arrays(np.asarray(found, float), expected)
    assert np.isfinite(found).all()
    return float(np.max(np.abs(found - expected) / np.where(expected == 0.0, 1.0, np.abs(expected))))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_float32(structure):
    worst, _, _ = deviations(structure, "float32", compiled if structure in WHOLE else on_jax)
    assert {name: value for name, value in worst.items() if value > TOLERANCE["float32"]} == {}


@pytest.mark.parametrize(
    ("structure", "way"), [*((structure, on_numpy) for structure in STRUCTURES), *((name, on_jax) for name in DOUBLE)]
)
def test_float64(structure, way, float64):
    worst, found, expected = deviations(structure, "float64", way)
    assert {name: value for name, value in worst.items() if value > TOLERANCE["float64"]} == {}
    for name, cost in expected["ops"].items():
        if "bound" in found["ops"][name]:
            np.testing.assert_array_equal(np.asarray(found["ops"][name]["bound"]), cost.bound, err_msg=name)


def test_points_reach_every_bound():
    """The random points are of use: each resource binds some op somewhere, and so does the launch."""
    reached = set()
    for structure in STRUCTURES:
        for cost in oracle.step(*points(structure, 200).step).values():
            reached |= set(np.unique(cost.bound))
    assert reached == set(range(len(oracle.RESOURCES) + 1))


def test_step_order(dense, chip, single):
    """Ops come in the order they run, embedding first and host last: what a breakdown prints."""
    found = list(step_cost(chip, dense, single, decode(1.0, 10.0), datasheet()))
    assert found == list(oracle.step(chip, dense, single, decode(1.0, 10.0), datasheet()))
    assert found[0] == "embedding" and found[-1] == "host"


@pytest.mark.parametrize("structure", STRUCTURES)
def test_order_of_every_structure(structure):
    drawn = leaves_as(points(structure, 1), lambda leaf: leaf[0])
    found = list(overlapped_ops(drawn.model, drawn.deployment, drawn.batch))
    assert found == [name for name in oracle.step(*drawn.step) if name not in ("hidden", "host")]
