"""Minimum of a sum of Huber losses that is rough at small scales, where a scheduler's decisions change."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

OUTLIER = 1.5
"""Residuals beyond this many standard deviations count linearly, not squared (Huber)."""

STEPS = 10
"""Gauss-Newton steps that are taken whether or not the loss falls, so that they pass over its ripples."""

AVERAGED = 5
"""Last of these steps whose mean is a candidate too: they scatter around the least of the loss without its ripples."""

LONGEST = 1.0
"""Length that a step is cut to, in each variable."""

TOLERANCES = {"xtol": 1e-3, "ftol": 1e-4, "gtol": 1e-8, "max_nfev": 15}
"""Of the descent from the best candidate; smaller changes are ripples."""


class Linearized(NamedTuple):
    """Residuals in standard deviations, shape [rows], and their derivatives, shape [rows, variables]."""

    values: np.ndarray
    slopes: np.ndarray


def least(rows: Callable[[np.ndarray], Linearized], start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Variables between `low` and `high` with the least loss of all evaluations, shape [variables].

    Gauss-Newton steps with Huber weights, then a trust-region descent from the best point of their path or its end's
    mean. Deterministic.

    Args:
      rows: of variables; called often with the same ones.
      start: shape [variables].
    """
    path = [np.asarray(start, float)]
    for _ in range(STEPS):
        path.append(np.clip(path[-1] + _step(rows(path[-1])), low, high))
    best = min((*path, np.mean(path[-AVERAGED:], axis=0)), key=lambda point: loss(rows(point).values))
    inside = np.clip(best, low + 1e-9, high - 1e-9)
    solution = least_squares(
        lambda point: rows(point).values,
        inside,
        jac=lambda point: rows(point).slopes,
        bounds=(low, high),
        loss="huber",
        f_scale=OUTLIER,
        **TOLERANCES,
    )
    return solution.x


def loss(values: np.ndarray) -> float:
    """Sum of Huber losses of residuals."""
    size = np.abs(values)
    return float(np.sum(np.where(size < OUTLIER, 0.5 * size**2, OUTLIER * (size - 0.5 * OUTLIER))))


def _step(rows: Linearized) -> np.ndarray:
    weights = np.minimum(1.0, OUTLIER / np.maximum(np.abs(rows.values), 1e-12))
    weighted = rows.slopes * weights[:, None]
    change = np.linalg.solve(weighted.T @ rows.slopes, -weighted.T @ rows.values)
    return np.clip(change, -LONGEST, LONGEST)
