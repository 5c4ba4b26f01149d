"""A design problem as a loss in pure JAX, for any optimiser of optax inside jit."""

from collections.abc import Callable

import numpy as np

from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.studies.optimize.cube import Shares

PENALTY = 100.0
"""Default weight of half the squared violation, in logarithms. Ours: it leaves a violation of the multiplier over the
penalty, 1 % for a limit of which 1 % costs 1 %."""


def loss(shares: Shares, penalty: float = PENALTY) -> Callable[[jax.Array], jax.Array]:
    """loss(x) of shares x, shape [k]: the objective's logarithm and `penalty` / 2 times the squares of violations.

    Pure and differentiable, for `jit`, `value_and_grad` and `vmap`, in the precision that JAX is set to. Keep x from 0
    to 1, as by `optax.projections.projection_hypercube`; `shares.designs(x)` is the design.
    """
    function = shares.problem.function(shares.base)
    variables = [shares.problem.variables[i] for i in shares.columns]
    low, high = (np.array([getattr(v, side) for v in variables]) for side in ("low", "high"))
    # Numbers spread in ratios are low (high / low)^x, others low + (high - low) x; one formula covers both.
    ratios = np.array([v.log for v in variables])
    stretch = np.log(np.where(ratios, high / np.where(ratios, low, 1.0), 1.0))
    width = np.where(ratios, 0.0, high - low)

    def value(x: jax.Array) -> jax.Array:
        goals = function(jnp.asarray(low, x.dtype) * jnp.exp(stretch.astype(x.dtype) * x) + width.astype(x.dtype) * x)
        # The first goal is the objective; the others are constraints, kept where <= 0.
        violations = jnp.maximum(goals[1:], 0.0)
        # Quadratic penalty: smooth at the limit, where its slope is 0.
        return jnp.sign(goals[0]) * jnp.log(jnp.abs(goals[0])) + 0.5 * penalty * jnp.sum(violations**2)

    return value
