"""Objectives of many mappings at once: NumPy's columns, or compiled programs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.nests import Mapping, nest_cost
from jaxroof.numerics.arrays import eager, jax, jnp
from sweeps.run import compilers
from sweeps.studies.nests.space import Orders, Space


def scores(space: Space, columns: np.ndarray, orders: Orders, objective: str) -> np.ndarray:
    """The objective of mappings [mappings, dimensions, nodes] in one loop order; infinite where one does not fit."""
    with eager():
        return np.broadcast_to(_score(space, space.mapping(columns, orders), objective), len(columns))


def compiled_scores(space: Space, orders: Orders, objective: str) -> Callable[[np.ndarray], np.ndarray]:
    """`scores` as a compiled program: of LLVM's loops where there are any, else of XLA; in float32."""
    leaves, structure = jax.tree.flatten(space.mapping(space.ones(), orders))

    def score(point: list) -> Any:
        return _score(space, jax.tree.unflatten(structure, point), objective)

    if compilers.loops_known():
        from sweeps.run.native.columns import mapped

        program: Any = mapped(score, leaves)
    else:
        program = jax.jit(jax.vmap(score))

    def scored(columns: np.ndarray) -> np.ndarray:
        return np.asarray(program(jax.tree.leaves(space.mapping(columns, orders))))

    return scored


def _score(space: Space, mapping: Mapping, objective: str) -> Any:
    cost = nest_cost(space.problem, space.machine, mapping)
    return jnp.where(cost.fits, getattr(cost, objective), np.inf)
