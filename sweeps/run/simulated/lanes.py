"""A function of every one of many simulations: of few at once on NumPy, of many in one compiled program."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.xla_options import LIGHT, QUICK, XlaOptions
from sweeps.run.ways import SHORT, SIMULATION


def are_short(simulations: int, requests: int) -> bool:
    """Whether so many simulations of so many requests together end before their programs would be optimised."""
    return requests + SIMULATION * simulations <= SHORT


def each(function: Callable[..., Any], short: bool, *trees: Any) -> Any:
    """`function` of every simulation: leaves of shape [simulations, ...], where they were worked out.

    Args:
      function: pure, at the top of its module, of arrays of NumPy or of JAX.
      short: whether there are so few that a program would take longer to compile than all of them take.
      trees: leaves of shape [simulations, ...].
    """
    if not short:
        return _program(function)(*trees)
    with eager():
        return stacked([function(*lane) for lane in lanes(jax.device_get(trees))])


@functools.cache
def _program(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(jax.vmap(function), LIGHT)


def compiled(function: Callable[..., Any], options: XlaOptions = QUICK) -> Callable[..., Any]:
    """`jax.jit` of a function, compiled quickly: optimising most would take longer than what they do."""
    return jax.jit(function, compiler_options=dict(options))


def of_loops(function: Callable[..., Any], short: bool) -> Callable[..., Any]:
    """`jax.jit` of a function whose loops take most of the time of the simulations."""
    return compiled(function, QUICK if short else LIGHT)


def spread(together: Any, axes: Sequence[int | None]) -> Any:
    """A tree whose leaves all have the simulations along their first axis: those that all share are repeated.

    Args:
      axes: of every leaf: 0, or None where it is shared.
    """
    leaves, structure = jax.tree.flatten(together)
    number = simulations(together, axes)
    own = [
        np.broadcast_to(leaf, (number, *np.shape(leaf))) if axis is None else leaf
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return jax.tree.unflatten(structure, own)


def lanes(trees: Any) -> Iterator[Any]:
    """Every simulation by itself, from leaves of shape [simulations, ...]."""
    leaves, structure = jax.tree.flatten(trees)
    for lane in range(len(leaves[0])):
        yield jax.tree.unflatten(structure, [leaf[lane] for leaf in leaves])


def simulations(together: Any, axes: Sequence[int | None]) -> int:
    """Number of scenarios that are stacked along the axes."""
    leaves = zip(jax.tree.leaves(together), axes, strict=True)
    return next(len(leaf) for leaf, axis in leaves if axis is not None)


def stacked(trees: Sequence[Any]) -> Any:
    """Trees as one, stacked along a new leading axis of every leaf."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def power(value: float, least: int = 16) -> int:
    """The next power of two, and `least` at least: few lengths, for each of which a program is compiled."""
    return max(2 ** math.ceil(math.log2(max(value, 1.0))), least)
