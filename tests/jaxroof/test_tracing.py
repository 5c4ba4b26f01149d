"""Ops of one kind share a trace, and are one array in it; programs are small."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sweeps
from jaxroof import request_cost
from jaxroof.op import Kernel
from jaxroof.tracing import apart, of_each, remembered, remembering, totals, traced_once

KINDS = {
    "strong": jnp.float32,
    "weak": lambda value: jnp.float32(value) if value == 3.0 else value,
    "mixed": lambda value: value if value == 2.0 else jnp.float32(value),
}


def made(number) -> Kernel:
    return Kernel(kind="elementwise", count=number(2.0), kernels=number(1.0), bytes=number(3.0))


@pytest.fixture
def traces():
    return []


@pytest.fixture
def function(traces):
    @traced_once
    def function(op, factor):
        traces.append(op)
        return op.count * op.bytes * factor

    return function


def test_one_trace_serves_all_ops_of_a_kind(function, traces):
    whole = jax.jit(lambda x: sum(function(made(number), x) for number in KINDS.values()))
    assert float(whole(jnp.float32(1.0))) == 18.0
    assert len(traces) == 1


def test_arguments_by_name_and_gradients(function):
    def total(count):
        op = Kernel(kind="elementwise", count=count, kernels=1.0, bytes=3.0)
        return function(op, factor=2.0)

    assert float(jax.grad(total)(2.0)) == 6.0
    assert jax.vmap(total)(jnp.arange(3.0)).tolist() == [0.0, 6.0, 12.0]


def test_numbers_of_python_alone_stay_as_they_are(function, float64):
    traced = jax.jit(lambda op, factor: function(op, factor))
    assert traced(made(float), 1.0).dtype == jnp.float64
    assert traced(made(jnp.float32), jnp.float32(1.0)).dtype == jnp.float32
    assert jax.jit(lambda factor: function(made(KINDS["weak"]), factor))(jnp.float32(1.0)).dtype == jnp.float32


def test_nothing_is_traced_for_plain_numbers(function, traces):
    assert function(made(float), 0.5) == 3.0
    assert traces == [made(float)]


# Ops of a kind as one array.


def op(name: float, kind: str = "elementwise", **others) -> Kernel:
    return Kernel(kind=kind, count=2.0 * name, kernels=1.0, bytes=name, **others)


def doubled(op, factor):
    return 2.0 * op.bytes * factor


def test_ops_of_a_kind_are_one_call(float64):
    seen = []

    @traced_once
    def function(op, factor):
        seen.append(op.bytes)
        return doubled(op, factor)

    ops = {"a": op(1.0), "b": op(2.0, kind="softmax"), "c": op(3.0), "d": op(4.0)}
    found = jax.jit(lambda x: of_each(function, ops, x))(1.5)
    assert list(found) == list(ops)
    assert {name: float(value) for name, value in found.items()} == {"a": 3.0, "b": 6.0, "c": 9.0, "d": 12.0}
    # One for the three of a kind, one for the other.
    assert len(seen) == 2
    with apart():
        again = jax.jit(lambda x: of_each(function, ops, x))(1.5)
    assert jax.tree.map(float, again) == jax.tree.map(float, found)


@pytest.mark.parametrize("size", [2.0, 5.0])
def test_totals_of_steps_are_those_of_their_ops(size, float64):
    steps = [{"a": op(1.0), "b": op(2.0), "c": op(size, kind="softmax")}, {"a": op(3.0), "b": op(size)}, {}]
    one_by_one = [sum(each.count * doubled(each, 1.5) for each in ops.values()) for ops in steps]
    assert totals(doubled, steps, 1.5) == one_by_one
    assert jax.tree.map(float, jax.jit(lambda x: totals(doubled, steps, x))(1.5)) == one_by_one


def test_the_same_ops_and_columns_of_numbers(float64):
    same = [{"a": op(2.0), "b": op(2.0)}]
    assert float(jax.jit(lambda x: totals(doubled, same, x))(1.0)[0]) == 32.0
    columns = jax.jit(
        lambda x: totals(
            doubled, [{"a": op(2.0), "b": Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=x)}], 1.0
        )
    )
    assert columns(jnp.arange(3.0))[0].tolist() == [16.0, 18.0, 20.0]


def test_numbers_of_ops_that_are_traced_have_their_gradients(float64):
    def total(x):
        return totals(doubled, [{"a": op(x), "b": op(3.0)}], 1.5)[0]

    # 2 x times 3 x, and 6 times 9.
    assert float(total(2.0)) == float(jax.jit(total)(2.0)) == 24.0 + 54.0
    assert float(jax.jit(jax.grad(total))(2.0)) == 24.0


# Sizes of programs.


def equations(jaxpr) -> int:
    """Operations of a program, those of the functions that it calls every time."""
    inner = (
        getattr(value, "jaxpr", value) for eqn in jaxpr.eqns for each in eqn.params.values() for value in listed(each)
    )
    return len(jaxpr.eqns) + sum(equations(one) for one in inner if hasattr(one, "eqns"))


def listed(value) -> list:
    return list(value) if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize(("efficiency", "forward", "backward"), [("learned", 2500, 8000), ("derated", 1500, 6000)])
def test_programs_stay_small(efficiency, forward, backward):
    """A tenth more than they are: 2,160 and 1,420, and 7,180 and 5,140 with the gradient in all of the hardware."""
    point = sweeps.case(
        "request", "H100-SXM", "Llama-3.1-8B", workload={"batch": 8, "isl": 1024, "osl": 128}, efficiency=efficiency
    ).scenario

    def e2e(hardware):
        return request_cost(hardware, point.model, point.deployment, point.workload, point.efficiency).e2e

    assert equations(jax.make_jaxpr(e2e)(point.hardware).jaxpr) < forward
    assert equations(jax.make_jaxpr(jax.grad(e2e))(point.hardware).jaxpr) < backward


def test_equal_ops_are_computed_once_where_it_is_asked_for():
    computed = []

    @remembered
    def function(op, factor):
        computed.append(op.bytes)
        return op.bytes * factor[0]

    def op(number, layer=""):
        return Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=number, layer=layer)

    factors, column = ([2.0], [5.0]), np.array([1.0, 2.0])
    with remembering():
        # The same numbers in another layer are the same work; other structs beside the op are not.
        found = [function(op(3.0, layer), factor) for layer in ("1.", "2.") for factor in factors]
        assert found == [6.0, 15.0, 6.0, 15.0] and computed == [3.0, 3.0]
        # A column has no value to compare by: the op itself is remembered.
        columns = op(column)
        assert [function(columns, factors[0]).tolist() for _ in range(2)] == [[2.0, 4.0]] * 2
        assert len(computed) == 3
    assert function(op(3.0), factors[0]) == 6.0 and len(computed) == 4
