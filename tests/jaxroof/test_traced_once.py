"""Ops of one kind share a trace whatever made their numbers: constants of Python, of JAX, or traced ones."""

import jax
import jax.numpy as jnp
import pytest

from jaxroof.op import Kernel
from jaxroof.tracing import traced_once

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
