"""Cost functions whose derivatives at known numbers need no program: dual numbers stand in for JAX's."""

import functools
import inspect
from collections.abc import Callable, Iterable
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
    def called(*arguments: Any, **named: Any) -> Any:
        if named:
            arguments = inspect.signature(function).bind(*arguments, **named).args
        if not is_traced() or _staged():
            return function(*arguments)
        return followed()(*arguments)

    return called  # type: ignore[return-value]


def _staged() -> bool:
    """Whether operations on constants become part of a program here."""
    return isinstance(jax.lax.neg(np.float32(1.0)), jax.core.Tracer)


def _followed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a rule of its own for its derivatives."""
    program = jax.jit(function)
    result = jax.custom_jvp(program)

    # Numbers that nobody differentiates come with a mark in place of a tangent.
    @functools.partial(result.defjvp, symbolic_zeros=True)
    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        numbers, structure = jax.tree.flatten(primals)
        still = jax.custom_derivatives.SymbolicZero
        moves = {place: move for place, move in enumerate(jax.tree.leaves(tangents)) if not isinstance(move, still)}

        def at(numbers: list[Any], own: Iterable[Any]) -> tuple[Any, ...]:
            """The arguments, with other numbers in the places that move."""
            moved = dict(zip(moves, own, strict=True))
            return jax.tree.unflatten(structure, [moved.get(place, number) for place, number in enumerate(numbers)])

        points = [numbers[place] for place in moves]
        known = not any(isinstance(number, jax.core.Tracer) for number in numbers)
        if not known or not moves or any(map(np.ndim, points)):
            return jax.jvp(lambda *own: program(*at(numbers, own)), points, list(moves.values()))
        # In double precision, whatever JAX computes in.
        exact = [number.astype(float) if number.dtype.kind == "f" else number for number in map(np.asarray, numbers)]
        duals = [Dual(exact[place], direction) for place, direction in zip(moves, np.eye(len(moves)), strict=True)]
        with eager():
            outputs = function(*at(exact, duals))
        return _value_and_change(outputs, [jax_numpy.asarray(move, float) for move in moves.values()])

    return result


def _value_and_change(outputs: Any, moves: list[Any]) -> tuple[Any, Any]:
    """A tree of dual numbers as one of JAX's numbers, and its change where their arguments move.

    One product of all slopes with all moves: a few operations, however many numbers move.
    """
    results, structure = jax.tree.flatten(outputs, is_leaf=lambda one: isinstance(one, Dual))
    duals = [one if isinstance(one, Dual) else Dual(one, 0.0) for one in results]
    slopes = np.stack([np.broadcast_to(one.tangent, len(moves)) for one in duals])
    changes = jax_numpy.asarray(slopes, float) @ jax_numpy.stack(moves)
    values = [jax_numpy.asarray(one.value, float) for one in duals]
    return jax.tree.unflatten(structure, values), jax.tree.unflatten(structure, list(changes))
