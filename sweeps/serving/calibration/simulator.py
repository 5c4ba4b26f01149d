"""Latencies of a run's requests under given engine overheads, and their derivatives."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from jaxroof.batch import STATUSES
from jaxroof.efficiency import Host
from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.scheduler import Size, simulate
from sweeps.run.simulated.simulation import grown, size_for
from sweeps.serving.calibration.measured_run import METRICS

CONSTANTS = tuple(field.name for field in dataclasses.fields(Host) if field.default is dataclasses.MISSING)
"""The overheads, in the order of every vector of them: per step, per sequence, per request."""

ITERATIONS = 5.0
"""Iterations per request to begin with; doubled while requests are left."""

MOST_DOUBLINGS = 6


class Latencies(NamedTuple):
    """Simulated latencies of every request. NaN for requests that it did not finish."""

    values: dict[str, np.ndarray]  # by `METRICS`, s, shape [requests]
    slopes: dict[str, np.ndarray]  # of the values, per logarithm of every constant, s, shape [requests, constants]


class Simulator:
    """One run on one deployment, simulated again and again as the overheads move.

    What the scheduler decides is a step function of the overheads, so nothing is kept from one set of them to the next.
    """

    def __init__(self, serving: Scenario):
        """
        Args:
          serving: one simulation; its efficiency's host is what moves.
        """
        work = serving.workload
        requests = np.shape(work.traffic.isl)[-1]
        size = size_for(work.traffic, work.policy)
        self.size = dataclasses.replace(size, iterations=_hundreds(ITERATIONS * requests))
        # Numbers as arrays: other overheads then need no other compilation.
        self.serving = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), serving)
        self.evaluations = 0

    def latencies(self, logarithms: np.ndarray) -> Latencies:
        """Latencies and slopes at `logarithms` of the constants in s, shape [constants].

        Raises:
          ValueError: one line, when requests do not end within many times the usual number of iterations.
        """

        def found(size: Size) -> tuple[Any, int]:
            slopes, (values, status) = _linearized(jnp.asarray(logarithms, dtype=float), self.serving, size)
            return (values, slopes), np.sum(np.asarray(status) == STATUSES.index("unfinished"))

        # `grown` repeats the simulation with more iterations while requests are unfinished.
        parts, self.size, left = grown(found, self.size, MOST_DOUBLINGS)
        if left:
            requests = np.shape(self.serving.workload.traffic.isl)[-1]
            raise ValueError(f"{left} of {requests} requests are left after {self.size.iterations} iterations")
        self.evaluations += 1
        return Latencies(*({name: np.asarray(each[name]) for name in METRICS} for each in parts))


@functools.partial(jax.jit, static_argnames="size")
def _linearized(logarithms: jax.Array, serving: Scenario, size: Size) -> Any:
    def found(logs: jax.Array) -> Any:
        values, status = request_latencies(logs, serving, size)
        return values, (values, status)

    # Forward mode: there are few constants and many requests.
    return jax.jacfwd(found, has_aux=True)(logarithms)


def request_latencies(logarithms: jax.Array, serving: Scenario, size: Size) -> tuple[dict[str, jax.Array], jax.Array]:
    """TTFT, TPOT and E2E of every request in s and its status, shapes [requests].

    Gradient: that of `jaxroof.scheduler.simulate`, which ties the steps that a request meets to its arrival: not the
    slope of one request's saw tooth, but about that of the mean over requests, which arrive at any part of a step.

    Args:
      logarithms: of the constants in s, shape [constants].
    """
    host = dataclasses.replace(serving.efficiency.host, **dict(zip(CONSTANTS, jnp.exp(logarithms), strict=True)))
    efficiency = dataclasses.replace(serving.efficiency, host=host)
    place, work = (serving.hardware, serving.model, serving.deployment), serving.workload
    served, _ = simulate(*place, efficiency, work.traffic, work.policy, size)
    ttft = served.first_token - served.arrival
    decoding = served.finish - served.first_token
    tokens = jnp.asarray(work.traffic.osl, dtype=float)
    several = tokens > 1.5
    # Requests of one output token have no TPOT; the inner `where` keeps their gradient finite.
    tpot = jnp.where(several, decoding / jnp.where(several, tokens - 1.0, 1.0), jnp.nan)
    return {"ttft": ttft, "tpot": tpot, "e2e": ttft + decoding}, served.status


def _hundreds(value: float) -> int:
    return int(-(-value // 100) * 100)


# Minimum of a sum of Huber losses that is rough at small scales, where a scheduler's decisions change.


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
    # Steps are taken whether or not the loss falls; each stays between the bounds.
    for _ in range(STEPS):
        path.append(np.clip(path[-1] + _step(rows(path[-1])), low, high))
    best = min((*path, np.mean(path[-AVERAGED:], axis=0)), key=lambda point: loss(rows(point).values))
    # A trust-region method starts strictly between its bounds.
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
    # Huber weights: 1 up to OUTLIER, beyond it OUTLIER / |residual|.
    weights = np.minimum(1.0, OUTLIER / np.maximum(np.abs(rows.values), 1e-12))
    weighted = rows.slopes * weights[:, None]
    # Gauss-Newton step: normal equations of the weighted rows.
    change = np.linalg.solve(weighted.T @ rows.slopes, -weighted.T @ rows.values)
    return np.clip(change, -LONGEST, LONGEST)
