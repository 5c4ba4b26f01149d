"""Derivatives of a job's metrics at a scenario: on NumPy in all directions at once, and as functions for JAX."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.jobs import Job, Scenario
from jaxroof.jobs.job import some_terms
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.derivatives import Dual
from jaxroof.numerics.struct import Array, Scalar
from sweeps.ask.axes import leaf
from sweeps.run.points import answers_at, scenario_at

Factors = dict[str, Scalar]
"""By path, what the number there is multiplied by."""


def at_factors(job: Job, scenario: Scenario, factors: Factors, names: Sequence[str] | None = None) -> Factors:
    """Metrics of `job` that are real numbers where `scenario` has its numbers times `factors`, shapes ().

    Args:
      names: of the metrics that are wanted: what only others depend on is neither computed nor traced. None: all.
    """
    metrics = answers_at(job, moved(scenario, factors), names)
    return {name: value for name, value in metrics.items() if jnp.issubdtype(value.dtype, jnp.floating)}


def moved(scenario: Scenario, factors: Factors) -> Scenario:
    """`scenario` with its numbers times `factors`, and what follows from them by laws."""
    return scenario_at(scenario, [{path: leaf(scenario, path) * factor for path, factor in factors.items()}])


@functools.cache
def changes(
    job: Job, names: tuple[str, ...], paths: tuple[str, ...]
) -> Callable[[Scenario], dict[str, tuple[Any, ...]]]:
    """A function of a scenario, for NumPy: by metric, y and dy for d ln x by path of x.

    Forward mode in all directions at once, on dual numbers.
    """
    # One direction per number: row i of the identity is d ln x_i.
    directions = np.eye(len(paths))

    def along(scenario: Scenario) -> dict[str, tuple[Any, ...]]:
        values = [leaf(scenario, path) for path in paths]
        pairs = zip(paths, values, directions, strict=True)
        # The tangent of x is dx = x d ln x, along the number's own direction.
        turned = {path: Dual(value, np.multiply.outer(value, direction)) for path, value, direction in pairs}
        metrics = answers_at(job, scenario_at(scenario, [turned]), names)
        return {name: _change(value, paths) for name, value in metrics.items()}

    return along


def _change(value: Any, paths: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """A metric and its derivatives, 0 where it depends on none of the numbers."""
    # A metric that depends on none of the numbers is a plain array.
    if not isinstance(value, Dual):
        return value, dict.fromkeys(paths, 0.0)
    # The tangent may be the same at all points: it gets the axes of the value, and one for the directions.
    tangent = np.broadcast_to(value.tangent, (*np.shape(value.value), len(paths)))
    return value.value, {path: tangent[..., i] for i, path in enumerate(paths)}


def metric_names(job: Job, scenario: Scenario) -> tuple[str, ...]:
    """Metrics of `job` at `scenario` that are real numbers, in its order."""
    # Only the types of the metrics matter: they are computed once, on NumPy.
    with eager():
        metrics = job.metrics(scenario, *some_terms(job, scenario))
    return tuple(name for name, value in metrics.items() if np.asarray(value).dtype.kind == "f")


@functools.cache
def all_slopes(
    job: Job, names: tuple[str, ...], paths: tuple[str, ...]
) -> Callable[[Scenario], dict[str, tuple[Any, ...]]]:
    """A function of a scenario: by metric, y and dy for d ln x of every number of `paths`. Reverse mode."""

    def backwards(scenario: Scenario) -> dict[str, tuple[Array, Factors]]:
        def metrics(factors: Factors) -> Factors:
            return at_factors(job, scenario, factors, names)

        # At factors of 1, the derivative by a factor is the one by ln x.
        values, back = jax.vjp(metrics, dict.fromkeys(paths, jnp.ones(())))
        # One pull-back per metric: cotangent 1 of this metric and 0 of all others.
        units = {name: {other: jnp.full((), float(other == name)) for other in values} for name in values}
        return {name: (values[name], back(units[name])[0]) for name in values}

    return backwards
