"""A function of every one of many simulations: of few at once on NumPy, of many in one compiled program."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.xla_options import LIGHT, ONE_KERNEL, QUICK, XlaOptions
from sweeps.run.ways import SHORT, SIMULATION

REFUSAL = "UNIMPLEMENTED"
"""In XLA's error where it has no kernel of some operation."""

_refused: set[bool] = set()
"""Whether simulations stood side by side in what XLA refused as one kernel: it is asked once a process."""

Axes = tuple[int | None, ...]
"""Axis of every leaf of a tree along which simulations are stacked; None where they share it."""


def are_short(simulations: int, requests: int) -> bool:
    """Whether so many simulations of so many requests together end before their programs would be optimised."""
    return requests + SIMULATION * simulations <= SHORT


def each(function: Callable[..., Any], short: bool, *trees: Any, axes: Axes | None = None, quick: bool = False) -> Any:
    """`function` of every simulation: leaves of shape [simulations, ...], where they were worked out.

    Args:
      function: pure, at the top of its module, of arrays of NumPy or of JAX.
      short: whether there are so few that a program would take longer to compile than all of them take.
      trees: leaves of shape [simulations, ...].
      axes: 0 for every leaf of the first tree, and None for those that all simulations share; None: there are none.
      quick: whether a program is compiled without optimisation.
    """
    leaves, structure = jax.tree.flatten(jax.device_get(trees) if short else trees)
    shared = () if axes is None else axes
    axes = *shared, *(0,) * (len(leaves) - len(shared))
    if not short:
        return _program(function, structure, axes, quick)(*trees)
    found = []
    with eager():
        for lane in range(simulations(leaves, axes)):
            own = [leaf if axis is None else leaf[lane] for leaf, axis in zip(leaves, axes, strict=True)]
            found.append(function(*jax.tree.unflatten(structure, own)))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


@functools.lru_cache(maxsize=64)
def _program(function: Callable[..., Any], structure: Any, axes: Axes, quick: bool) -> Callable[..., Any]:
    return compiled(jax.vmap(function, in_axes=jax.tree.unflatten(structure, axes)), quick)


def compiled(function: Callable[..., Any], quick: bool = True, else_with: XlaOptions = LIGHT) -> Callable[..., Any]:
    """`jax.jit` of a function: without optimisation, which would take longer than what most do, or a little of it."""
    return jax.jit(function, compiler_options=dict(QUICK if quick else else_with))


def looped(
    function: Callable[..., Any], quick: bool = True, else_with: XlaOptions = LIGHT, side_by_side: bool = False
) -> Callable[..., Any]:
    """`compiled` of a loop over few numbers: on a CPU one kernel, in which it runs up to ten times as fast.

    XLA makes a kernel of every fused operation of a loop, whose start takes longer than what it does to a few numbers.
    Of small loops it makes one kernel, and marks the call of it; a call that it may not inline keeps the mark. A kernel
    can neither sort nor scatter to several places, and returns nothing that it was given. Some releases of XLA know no
    such kernel for simulations side by side, whose scatters are to several places: they have them as they come.
    """
    from jax.experimental.xla_metadata import set_xla_metadata

    @jax.jit
    def kernel(zero: Any, arguments: tuple[Any, ...]) -> Any:
        # What the loop leaves as it is would be returned as it came, at which XLA ends the process: nothing is added.
        return jax.tree.map(lambda leaf: leaf + zero.astype(leaf.dtype), function(*arguments))

    def marked(zero: Any, arguments: tuple[Any, ...]) -> Any:
        return set_xla_metadata(kernel(zero, arguments), **ONE_KERNEL)

    if jax.default_backend() != "cpu":
        return compiled(function, quick, else_with)
    one, apart = compiled(marked, quick, else_with), compiled(function, quick, else_with)

    def run(*arguments: Any) -> Any:
        if side_by_side not in _refused:
            try:
                return one(np.int32(0), arguments)
            except jax.errors.JaxRuntimeError as error:
                if REFUSAL not in str(error):
                    raise
                _refused.add(side_by_side)
        return apart(*arguments)

    return run


def one_by_one(function: Callable[..., Any], axes: Any, *arguments: Any) -> Any:
    """`jax.vmap` of a function in a loop: of every lane what is its own, then the next lane.

    Args:
      axes: of all arguments but the last: 0, or None for leaves that all lanes share, as trees of their structures.
      arguments: of which the last has a leading axis everywhere.
    """
    *given, last = arguments
    structure: Any
    leaves, structure = jax.tree.flatten(tuple(given))
    places = structure.flatten_up_to(axes)
    own = [leaf for leaf, axis in zip(leaves, places, strict=True) if axis is not None]

    def lane(parts: tuple[list[Any], Any]) -> Any:
        left = iter(parts[0])
        whole = [leaf if axis is None else next(left) for leaf, axis in zip(leaves, places, strict=True)]
        return function(*jax.tree.unflatten(structure, whole), parts[1])

    return jax.lax.map(lane, (own, last))


def simulations(together: Any, axes: Sequence[int | None]) -> int:
    """Number of scenarios that are stacked along the axes."""
    leaves = zip(jax.tree.leaves(together), axes, strict=True)
    return next(len(leaf) for leaf, axis in leaves if axis is not None)


def power(value: float, least: int = 16) -> int:
    """The next power of two, and `least` at least: few lengths, for each of which a program is compiled."""
    return max(2 ** math.ceil(math.log2(max(value, 1.0))), least)
