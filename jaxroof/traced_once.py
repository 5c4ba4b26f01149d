"""Functions of one op, traced once for all ops of a kind."""

import functools
from collections.abc import Callable
from typing import Any

from jaxroof.arrays import is_traced, jax, jitted, jnp
from jaxroof.op import AnyOp, unlabelled


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` of a function whose first argument is an op.

    A step has many ops of few kinds. Some of their numbers are constants, which JAX types weakly, and which ones these
    are differs within a kind; what an op is in its model (its layer, its role) differs too. With one type for all
    numbers, and without these labels, ops of a kind share a trace and a compiled function.
    """
    compiled = jitted(function)

    @functools.wraps(function)
    def of_one_type(op: AnyOp, *where: Any, **named: Any) -> Any:
        if not is_traced():
            return function(op, *where, **named)
        return compiled(_of_one_type(unlabelled(op)), *where, **named)

    return of_one_type


def _of_one_type(op: AnyOp) -> AnyOp:
    typed = [leaf for leaf in jax.tree.leaves(op) if not _weakly_typed(leaf)]
    if not typed:
        return op
    dtype = jnp.result_type(*typed)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if _weakly_typed(leaf) else leaf, op)


def _weakly_typed(leaf: Any) -> bool:
    return jax.typeof(leaf).weak_type
