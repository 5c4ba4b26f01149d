"""Robust least squares of log ratios with log-normal priors; the Jacobian comes from jax."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from tests.evidence.parameters import Parameter, named

OUTLIER = 2.0
"""Residuals beyond this many standard deviations count linearly, not squared."""


def fitted(
    predicted: Callable[[dict[str, Any]], jax.Array],
    measured: Sequence[float],
    spreads: Sequence[float],
    parameters: Sequence[Parameter],
) -> dict[str, float]:
    """The values that minimise the residuals of rows and priors together, by path.

    residuals: ln(predicted / measured) / spread per row, and ln(value / prior) / spread per parameter

    Args:
      predicted: times in s of all rows, from values by path; differentiable.
      measured: s, per row.
      spreads: standard deviation of the log ratio that a row of a right model would have.
      parameters: what moves.
    """
    target, width = np.log(np.asarray(measured)), np.asarray(spreads)
    priors = np.log([parameter.prior for parameter in parameters])
    trust = np.asarray([parameter.spread for parameter in parameters])

    @jax.jit
    def residuals(logarithms: jax.Array) -> jax.Array:
        rows = (jnp.log(predicted(named(parameters, logarithms))) - target) / width
        return jnp.concatenate([rows, (logarithms - priors) / trust])

    jacobian = jax.jit(jax.jacfwd(residuals))
    bounds = np.log([[p.low for p in parameters], [p.high for p in parameters]])
    solution = least_squares(
        lambda x: np.asarray(residuals(x)),
        np.clip(priors, bounds[0] + 1e-6, bounds[1] - 1e-6),
        jac=lambda x: np.asarray(jacobian(x)),
        bounds=(bounds[0], bounds[1]),
        loss="soft_l1",
        f_scale=OUTLIER,
    )
    return {path: float(value) for path, value in named(parameters, solution.x).items()}
