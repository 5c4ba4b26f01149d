"""A function of every one of many simulations: of few at once on NumPy, of many in one compiled program."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.xla_options import LIGHT, QUICK, XlaOptions
from sweeps.run.ways import SHORT, SIMULATION

Axes = tuple[int | None, ...]
"""Axis of every leaf of a tree along which simulations are stacked; None where they share it."""


def are_short(simulations: int, requests: int) -> bool:
    """Whether so many simulations of so many requests together end before their programs would be optimised."""
    return requests + SIMULATION * simulations <= SHORT


def each(
    function: Callable[..., Any],
    short: bool,
    *trees: Any,
    axes: Axes | None = None,
    options: XlaOptions = LIGHT,
) -> Any:
    """`function` of every simulation: leaves of shape [simulations, ...], where they were worked out.

    Args:
      function: pure, at the top of its module, of arrays of NumPy or of JAX.
      short: whether there are so few that a program would take longer to compile than all of them take.
      trees: leaves of shape [simulations, ...].
      axes: 0 for every leaf of the first tree, and None for those that all simulations share; None: there are none.
      options: of XLA for a program.
    """
    first, structure = jax.tree.flatten(trees[0])
    axes = (0,) * len(first) if axes is None else axes
    if not short:
        return _program(function, structure, axes, len(trees), options is QUICK)(*trees)
    number = len(next(leaf for leaf, axis in zip(first, axes, strict=True) if axis is not None))
    trees = jax.device_get(trees)
    others, more = jax.tree.flatten(trees[1:])
    first = jax.tree.leaves(trees[0])
    found = []
    with eager():
        for lane in range(number):
            own = [leaf if axis is None else leaf[lane] for leaf, axis in zip(first, axes, strict=True)]
            beside = jax.tree.unflatten(more, [leaf[lane] for leaf in others])
            found.append(function(jax.tree.unflatten(structure, own), *beside))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


@functools.cache
def _program(function: Callable[..., Any], structure: Any, axes: Axes, trees: int, quick: bool) -> Callable[..., Any]:
    stacked = jax.tree.unflatten(structure, axes), *(0,) * (trees - 1)
    return compiled(jax.vmap(function, in_axes=stacked), QUICK if quick else LIGHT)


def compiled(function: Callable[..., Any], options: XlaOptions = QUICK) -> Callable[..., Any]:
    """`jax.jit` of a function, compiled quickly: optimising most would take longer than what they do."""
    return jax.jit(function, compiler_options=dict(options))


def of_loops(function: Callable[..., Any], short: bool) -> Callable[..., Any]:
    """`jax.jit` of a function whose loops take most of the time of the simulations."""
    return compiled(function, QUICK if short else LIGHT)


def simulations(together: Any, axes: Sequence[int | None]) -> int:
    """Number of scenarios that are stacked along the axes."""
    leaves = zip(jax.tree.leaves(together), axes, strict=True)
    return next(len(leaf) for leaf, axis in leaves if axis is not None)


def power(value: float, least: int = 16) -> int:
    """The next power of two, and `least` at least: few lengths, for each of which a program is compiled."""
    return max(2 ** math.ceil(math.log2(max(value, 1.0))), least)
