"""Functions as JAX traces them, computed one operation at a time: for tests that call a large function once.

XLA compiles each kind of operation once for each shape, whatever function it is in; a whole function of ten thousand
operations would be compiled for seconds to run for milliseconds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

CALLS = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr"}
"""Operations that call a function, and the parameter that is the function."""


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `jax.jit(function)` computes, to rounding, of positional arguments: trees of arrays."""
    traceable = jax.jit(function)

    def computed(*arguments: Any) -> Any:
        traced = traceable.trace(*arguments)
        found = _results(traced.jaxpr, [jax.numpy.asarray(leaf) for leaf in jax.tree.leaves(arguments)])
        return jax.tree.structure(traced.out_info).unflatten(found)

    return computed


def _results(function: core.ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    known = dict(zip(function.jaxpr.constvars, function.consts, strict=True))
    known |= dict(zip(function.jaxpr.invars, arguments, strict=True))

    def value(of: Any) -> Any:
        return of.val if isinstance(of, core.Literal) else known[of]

    for operation in function.jaxpr.eqns:
        primitive, values = operation.primitive, [value(of) for of in operation.invars]
        if primitive.name in CALLS:
            found = _results(operation.params[CALLS[primitive.name]], values)
        else:
            found = primitive.bind(*values, **operation.params)
        results = found if primitive.multiple_results else [found]
        known |= dict(zip(operation.outvars, results, strict=True))
    return [value(of) for of in function.jaxpr.outvars]
