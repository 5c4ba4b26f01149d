"""Dependence of the outputs of a traced function on its inputs."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

LOOPS = ("scan", "while")
"""Primitives whose inner program runs more than once: every result is taken to depend on every operand."""


def output_dependence(function: Callable, arguments: tuple, marks: tuple) -> Any:
    """For every output of `function(*arguments)`, the union of the marks of the inputs that it depends on.

    Args:
      function: traceable by JAX.
      arguments: example arguments or their shapes.
      marks: as `arguments`, with a frozenset in place of every leaf.

    Returns:
      The function's output tree with a frozenset in place of every leaf. Dependence is read off the traced
      program, so that it is a superset of the true one only where an operation ignores an operand.
    """
    traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    leaves = jax.tree.leaves(marks, is_leaf=lambda mark: isinstance(mark, frozenset))
    outputs = _propagated(traced.jaxpr, leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), outputs)


def _propagated(jaxpr: Jaxpr, inputs: list[frozenset]) -> list[frozenset]:
    known = dict(zip(jaxpr.invars, inputs, strict=True))

    def marks(variable) -> frozenset:
        return frozenset() if isinstance(variable, Literal) else known.get(variable, frozenset())

    for equation in jaxpr.eqns:
        operands = [marks(variable) for variable in equation.invars]
        inner = _inlined(equation)
        if inner is not None:
            results = _propagated(inner, operands)
        else:
            results = [frozenset().union(*operands)] * len(equation.outvars)
        known.update(zip(equation.outvars, results, strict=True))
    return [marks(variable) for variable in jaxpr.outvars]


def _inlined(equation: JaxprEqn) -> Jaxpr | None:
    """The program of a call that runs exactly once on its operands (jit, custom derivatives); None for all else."""
    if equation.primitive.name in LOOPS:
        return None
    for name in ("jaxpr", "call_jaxpr"):
        program = equation.params.get(name)
        if isinstance(program, ClosedJaxpr):
            return program.jaxpr
        if isinstance(program, Jaxpr):
            return program
    return None
