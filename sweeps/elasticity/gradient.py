"""Elasticities of a job's metrics at a scenario, as pure functions for JAX to transform."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from sweeps.jobs import Job, Scenario
from sweeps.paths import leaf, replaced

Factors = dict[str, jax.Array]
"""By path, what the number there is multiplied by."""

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options of programs that run for milliseconds: LLVM's optimisation would take longer than all the rest, and
the newer emitters of fused loops twice as long as the older ones."""


def at_factors(job: Job, scenario: Scenario, factors: Factors) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Metrics of `job` that are real numbers, where `scenario` has its numbers times `factors`; and time by bound.

    Returns:
      Metrics by name, shapes (); and for every step the time in s by what binds it, shapes (len(BOUNDS),).
    """
    for path, factor in factors.items():
        scenario = replaced(scenario, path, leaf(scenario, path) * factor)
    sums = {name: sum(terms().values()) for name, terms in job.sums(scenario).items()}
    tables = {name: {"": jnp.zeros(())} for name in job.tables(scenario)}
    metrics = {name: jnp.asarray(value) for name, value in job.metrics(scenario, sums, tables).items()}
    real = {name: value for name, value in metrics.items() if jnp.issubdtype(value.dtype, jnp.floating)}
    suffix = "_by_bound"
    return real, {name.removesuffix(suffix): times for name, times in sums.items() if name.endswith(suffix)}


def elasticities(
    job: Job, scenario: Scenario, paths: Sequence[str], names: Sequence[str]
) -> tuple[dict[str, jax.Array], dict[str, Factors], dict[str, jax.Array]]:
    """d ln y / d ln x of metrics in numbers of a scenario, by reverse mode: one sweep backwards for every metric.

    Args:
      job: its metrics are what is differentiated.
      scenario: of scalars, which may be traced.
      paths: of the numbers, none of them None.
      names: of the metrics.

    Returns:
      Metrics by name, shapes (); for every metric the elasticities by path, shapes (): NaN where the metric is not
      positive, which has no logarithm; and time by what binds, of every step.
    """

    def chosen(factors: Factors):
        real, times = at_factors(job, scenario, factors)
        return jnp.stack([real[name] for name in names]), times

    ones = {path: jnp.ones_like(jnp.asarray(leaf(scenario, path))) for path in paths}
    values, pullback, times = jax.vjp(chosen, ones, has_aux=True)
    found = {}
    for i, name in enumerate(names):
        positive = values[i] > 0.0
        # One cotangent after the other: vmapped ones would share constants, but take XLA several times longer.
        (slope,) = pullback(jnp.zeros_like(values).at[i].set(1.0 / jnp.where(positive, values[i], 1.0)))
        found[name] = jax.tree.map(lambda s, positive=positive: jnp.where(positive, s, jnp.nan), slope)
    return {name: values[i] for i, name in enumerate(names)}, found, times


def slopes(job: Job, names: Sequence[str]) -> Callable[[Scenario, Factors], dict[str, jax.Array]]:
    """A function of a scenario and a direction: dy of every metric for d ln x of every number, shapes ().

    Forward mode. At one point it takes as many calls as there are knobs, each of a few milliseconds; a reverse-mode
    program of the same metrics takes several times longer to compile than all of these calls together.
    """

    def along(scenario: Scenario, direction: Factors) -> dict[str, jax.Array]:
        def metrics(factors: Factors) -> dict[str, jax.Array]:
            real, _ = at_factors(job, scenario, factors)
            return {name: real[name] for name in names}

        return jax.jvp(metrics, (jax.tree.map(jnp.ones_like, direction),), (direction,))[1]

    return along


def log_sum(
    job: Job, scenario: Scenario, factors: Factors, weights: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum of weight x ln y over all real-valued metrics, shape (), and the metrics: one number for one reverse sweep.

    A metric that is not positive, which has no logarithm, adds 0.

    Args:
      weights: shape (metrics,), in the order of `metric_names`.
    """
    real, _ = at_factors(job, scenario, factors)
    values = jnp.stack(list(real.values()))
    positive = values > 0.0
    return jnp.sum(jnp.where(positive, weights * jnp.log(jnp.where(positive, values, 1.0)), 0.0)), real


def metric_names(job: Job, scenario: Scenario) -> tuple[str, ...]:
    """Metrics of `job` at `scenario` that are real numbers, in its order."""
    order: list[str] = []

    def listed(scenario: Scenario) -> None:
        order.extend(at_factors(job, scenario, {})[0])

    jax.eval_shape(listed, scenario)
    return tuple(order)


def batched(job: Job, scenario: Scenario, names: Sequence[str]) -> Callable[[Factors], dict[str, jax.Array]]:
    """Metrics of many variants of one scenario: a compiled function of factors of shape (variants,)."""

    def one(factors: Factors) -> dict[str, jax.Array]:
        real, _ = at_factors(job, scenario, factors)
        return {name: real[name] for name in names}

    return jax.jit(jax.vmap(one), compiler_options=QUICK)
