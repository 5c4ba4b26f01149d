"""Gradients at known numbers are those of the traced functions, without a program."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxroof
import sweeps
from jaxroof.numerics.arrays import jnp as array
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import maximum

PLACE = "H100-SXM", "Llama-3.1-8B"
REQUESTS = sweeps.case("request", *PLACE, workload={"batch": 8, "isl": 512, "osl": 64}, deployment={"tp": 2}).scenario
TRAINING = sweeps.case("train", *PLACE, workload={"global_batch": 16, "seq": 1024}).scenario


COSTS = {
    "request": lambda hardware: jaxroof.request_cost(hardware, *rest(REQUESTS)).e2e,
    "step": lambda hardware: jaxroof.step_time(
        hardware, REQUESTS.model, REQUESTS.deployment, jaxroof.decode(8.0, 512.0), REQUESTS.efficiency
    ),
    "training": lambda hardware: jaxroof.iteration_cost(hardware, *rest(TRAINING)).time,
}


def rest(point):
    return point.model, point.deployment, point.workload, point.efficiency


@pytest.mark.parametrize("cost", COSTS)
def test_slopes_are_those_of_the_program(cost, float64):
    hardware = REQUESTS.hardware
    value, at_once = jax.value_and_grad(COSTS[cost])(hardware)
    expected, traced = jax.jit(jax.value_and_grad(COSTS[cost]))(hardware)
    assert float(value) == pytest.approx(float(expected), rel=1e-12)
    # Elasticities: of the same unit whatever the number.
    for own, other, number in zip(*map(jax.tree.leaves, (at_once, traced, hardware)), strict=True):
        assert float(own * number / value) == pytest.approx(float(other * number / value), abs=1e-12)


@differentiated_at_once
def product(first, second):
    SEEN.append(first)
    return {"product": first * second, "larger": maximum(first, second), "of neither": 1.0}


SEEN: list = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def test_no_program_for_known_numbers(float64):
    slopes = jax.grad(lambda x: product(x, 3.0)["product"])(2.0)
    assert float(slopes) == 3.0
    assert [type(one).__name__ for one in SEEN] == ["Dual"]
    # Nor with arguments by name, in forward mode, or where a result does not depend on them.
    value, slope = jax.jvp(lambda x: product(second=3.0, first=x), (2.0,), (10.0,))
    assert {name: float(one) for name, one in slope.items()}["product"] == 30.0 and float(value["product"]) == 6.0
    assert float(slope["of neither"]) == 0.0
    assert jax.jacfwd(lambda x: product(x, x * x)["product"])(2.0) == 12.0
    assert all(type(one).__name__ == "Dual" for one in SEEN)


def test_single_precision_has_its_own_type():
    slope = jax.grad(lambda x: product(x, 3.0)["product"])(2.0)
    assert slope.dtype == np.float32 and float(slope) == 3.0


def test_columns_second_derivatives_and_programs(float64):
    cube = lambda x: product(x, x * x)["product"]  # noqa: E731
    assert jax.vmap(jax.grad(cube))(jnp.arange(3.0)).tolist() == [0.0, 3.0, 12.0]
    assert float(jax.hessian(cube)(2.0)) == 12.0 == float(jax.grad(jax.grad(cube))(2.0))
    assert float(jax.jit(jax.grad(cube))(2.0)) == 12.0
    # An argument that is a column moves as such.
    assert jax.grad(lambda x: product(x, 3.0)["product"].sum())(jnp.arange(2.0)).tolist() == [3.0, 3.0]


def test_a_cost_outside_of_transformations_is_the_function_itself():
    assert product(2.0, 3.0)["product"] == 6.0 and SEEN == [2.0]
    assert array.maximum(2.0, 3.0) == 3.0


def test_errors_are_those_of_the_function():
    unknown = dataclasses.replace(REQUESTS.hardware, matrix={})
    with pytest.raises(ValueError, match="bf16"):
        jax.grad(COSTS["request"])(unknown)
