"""Elasticities of a job's metrics at a scenario, as pure functions for JAX to transform."""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from jaxroof.jobs import Job, Scenario
from jaxroof.struct import Scalar
from sweeps.ask.paths import leaf, replaced
from sweeps.run.point import answers_at

Factors = dict[str, Scalar]
"""By path, what the number there is multiplied by."""


def at_factors(job: Job, scenario: Scenario, factors: Factors, names: Sequence[str] | None = None) -> Factors:
    """Metrics of `job` that are real numbers where `scenario` has its numbers times `factors`, shapes ().

    Args:
      names: of the metrics that are wanted: what only others depend on is neither computed nor traced. None: all.
    """
    found = answers_at(job, moved(scenario, factors), names)
    return {name: value for name, value in found.items() if jnp.issubdtype(value.dtype, jnp.floating)}


def moved(scenario: Scenario, factors: Factors) -> Scenario:
    """`scenario` with its numbers times `factors`."""
    for path, factor in factors.items():
        scenario = replaced(scenario, path, leaf(scenario, path) * factor)
    return scenario


def times_by_bound(job: Job, scenario: Scenario) -> dict[str, jax.Array]:
    """For every step of `job`, its time in s by what binds it, shapes (len(BOUNDS),)."""
    suffix = "_by_bound"
    return {
        name.removesuffix(suffix): sum(terms().values())  # type: ignore[misc]
        for name, terms in job.sums(scenario).items()
        if name.endswith(suffix)
    }


@functools.cache
def slopes(
    job: Job, names: tuple[str, ...]
) -> Callable[[Scenario, Factors], tuple[dict[str, jax.Array], dict[str, jax.Array], dict[str, jax.Array]]]:
    """A function of a scenario and a direction: metrics y, dy for d ln x of the direction's numbers, time by bound.

    Forward mode. At one point it takes as many calls as there are knobs, each of a few milliseconds; a reverse-mode
    program of the same metrics takes several times longer to compile than all of these calls together. Every number in
    the direction adds to what is compiled, whether its entry is 0 or not.
    """

    def along(scenario: Scenario, direction: Factors):
        def metrics(factors: Factors):
            return at_factors(job, scenario, factors, names)

        values, changes = jax.jvp(metrics, (jax.tree.map(jnp.ones_like, direction),), (direction,))
        return values, changes, times_by_bound(job, scenario)

    return along


def metric_names(job: Job, scenario: Scenario) -> tuple[str, ...]:
    """Metrics of `job` at `scenario` that are real numbers, in its order."""
    order: list[str] = []

    def listed(scenario: Scenario) -> None:
        sums = {name: jnp.zeros(()) for name in job.sums(scenario)}  # names and types need no ops
        tables = {name: {"": jnp.zeros(())} for name in job.tables(scenario)}
        found = job.metrics(scenario, sums, tables)
        order.extend(name for name, value in found.items() if jnp.issubdtype(jnp.asarray(value).dtype, jnp.floating))

    jax.eval_shape(listed, scenario)
    return tuple(order)


@functools.cache
def changes(job: Job, names: tuple[str, ...]) -> Callable[[Scenario, Factors], tuple[Factors, Factors]]:
    """As `slopes`, without times by bound."""
    along = slopes(job, names)
    return lambda scenario, direction: along(scenario, direction)[:2]


@functools.cache
def all_slopes(job: Job, names: tuple[str, ...], paths: tuple[str, ...]) -> Callable[[Scenario], dict[str, tuple]]:
    """A function of a scenario: by metric, y and dy for d ln x of every number of `paths`. Reverse mode."""

    def backwards(scenario: Scenario) -> dict[str, tuple[jax.Array, Factors]]:
        def metrics(factors: Factors) -> Factors:
            return at_factors(job, scenario, factors, names)

        values, back = jax.vjp(metrics, dict.fromkeys(paths, jnp.ones(())))
        units = {name: {other: jnp.full((), float(other == name)) for other in values} for name in values}
        return {name: (values[name], back(units[name])[0]) for name in values}

    return backwards
