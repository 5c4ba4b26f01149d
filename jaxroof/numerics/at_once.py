"""Cost functions whose derivatives at known numbers need no program: dual numbers stand in for JAX's."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jaxroof.numerics.arrays import eager, is_traced, jax, jax_numpy
from jaxroof.numerics.derivatives import Dual

Function = TypeVar("Function", bound=Callable[..., Any])


def differentiated_at_once(function: Function) -> Function:
    """A function of structs that JAX's transformations, called without `jax.jit`, need not go through step by step.

    `jax.grad`, `jax.jvp` and `jax.linearize` of it at known numbers take its derivatives from dual numbers on NumPy,
    whose rules are those of the traced function: in milliseconds, where a program would be compiled for seconds.
    Under `jax.vmap`, and of derivatives, it is one program, compiled once per structure. Inside of `jax.jit` it is the
    function itself.

    Args:
      function: of trees of numbers, shapes (), made of `jnp` of `jaxroof.numerics.arrays`; it returns a tree of floats.
    """

    @functools.cache
    def followed() -> Callable[..., Any]:
        return _followed(function)

    @functools.wraps(function)
    def called(*arguments: Any) -> Any:
        if not is_traced() or _staged():
            return function(*arguments)
        return followed()(*arguments)

    return called  # type: ignore[return-value]


def _staged() -> bool:
    """Whether operations on constants become part of a program here."""
    return isinstance(jax.lax.neg(np.float32(1.0)), jax.core.Tracer)


def _followed(function: Callable[..., Any]) -> Callable[..., Any]:
    program = jax.jit(function)
    result = jax.custom_jvp(program)

    # Numbers that nobody differentiates come with a mark in place of a tangent.
    @functools.partial(result.defjvp, symbolic_zeros=True)
    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        numbers, structure = jax.tree.flatten(primals)
        moves = jax.tree.leaves(tangents)
        moving = [place for place, move in enumerate(moves) if not isinstance(move, jax.custom_derivatives.SymbolicZero)]
        moves = [moves[place] for place in moving]

        def at(own: list[Any]) -> tuple[Any, ...]:
            """The arguments with other numbers in the places that move."""
            everything = list(numbers)
            for place, number in zip(moving, own, strict=True):
                everything[place] = number
            return jax.tree.unflatten(structure, everything)

        known = not any(isinstance(number, jax.core.Tracer) for number in numbers)
        if not known or any(np.ndim(numbers[place]) for place in moving):
            return jax.jvp(lambda *own: program(*at(list(own))), [numbers[place] for place in moving], moves)
        numbers = [np.asarray(number, float) if _is_float(number) else number for number in numbers]
        directions = np.eye(len(moving))
        with eager():
            outputs = function(*at([Dual(numbers[place], directions[i]) for i, place in enumerate(moving)]))
        outputs = jax.tree.map(_value_and_slopes, outputs, is_leaf=lambda one: isinstance(one, Dual))
        # One product of all slopes with all tangents: a few operations however many numbers move.
        pairs, shape = jax.tree.flatten(outputs, is_leaf=lambda one: isinstance(one, tuple))
        values = [jax_numpy.asarray(value, float) for value, _ in pairs]
        slopes = np.stack([np.broadcast_to(slope, len(moving)) for _, slope in pairs])
        changes = jax_numpy.asarray(slopes, float) @ jax_numpy.stack([jax_numpy.asarray(move, float) for move in moves])
        parts = [changes[i] for i in range(len(pairs))]
        return jax.tree.unflatten(shape, values), jax.tree.unflatten(shape, parts)

    return result


def _is_float(number: Any) -> bool:
    return np.result_type(number).kind == "f"


def _value_and_slopes(one: Any) -> tuple[Any, Any]:
    return (one.value, one.tangent) if isinstance(one, Dual) else (one, 0.0)
