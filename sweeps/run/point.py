"""One point of a question: the scenario that settings make of a base, and a job's answers there."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from hwspaces.quantities.laws import lawful
from jaxroof.jobs import Job, Scenario
from jaxroof.jobs.job import some_terms
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.derivatives import example, output_dependence
from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import leaves, mapped, structure
from sweeps.ask.paths import replaced


def scenario_at(base: Scenario, settings: Iterable[Mapping[str, Any]]) -> Scenario:
    """`base` with the trees that `settings` have by path, whole structs first, then their leaves; then by its laws."""
    paths = [(path, tree) for setting in settings for path, tree in setting.items()]
    for path, tree in sorted(paths, key=lambda item: item[0].count(".")):
        base = replaced(base, path, tree)
    return lawful(base)


def in_dtype(base: Scenario, dtype: np.dtype) -> Scenario:
    """A scenario with its leaves as a program takes them."""
    return mapped(dtype.type, base)


def answers_at(job: Job, scenario: Scenario, names: Collection[str] | None = None) -> dict[str, Array]:
    """Metrics of `job` at `scenario`, shapes (); without tables of ops. Pure, for JAX to transform.

    Args:
      names: of the metrics that are wanted, in their order; None: all. What the job does not have here is left out.
    """
    sums, tables = some_terms(job, scenario)
    wanted = terms_of(job, scenario, names)
    found = {name: sum(terms().values()) for name, terms in job.sums(scenario).items() if name in wanted}
    zeros = {name: jnp.zeros(()) for name in sums if name not in found}
    zero_tables = {name: {"": jnp.zeros(())} for name in tables}
    metrics = _chosen(job.metrics(scenario, found | zeros, zero_tables), names)
    return {name: jnp.asarray(value) for name, value in metrics.items()}


@functools.cache
def answers(job: Job, names: tuple[str, ...] | None = None) -> Callable[[Scenario], dict[str, Array]]:
    """`answers_at` as a function of the scenario alone: the same object for the same job and names."""
    return lambda scenario: answers_at(job, scenario, names)


def terms_of(job: Job, scenario: Scenario, names: Collection[str] | None) -> Collection[str]:
    """Names of the sums and tables that metrics need: the same in all scenarios of one structure."""
    if names is None:
        return some_terms(job, scenario)[0]
    key = job, tuple(names), structure(scenario)
    if key not in _USED:
        _USED[key] = used_terms(job, scenario, lambda *terms: _chosen(job.metrics(*terms), names))
    return _USED[key]


_USED: dict[tuple, frozenset[str]] = {}
"""What `terms_of` has found, by the structure of scenarios."""


def used_terms(job: Job, scenario: Scenario, answers: Callable[..., Mapping[str, Any]]) -> frozenset[str]:
    """Names of the sums and tables of `job` that `answers(scenario, sums, tables)` depends on."""
    sums, tables = some_terms(job, scenario)
    if not (sums or tables):
        return frozenset()
    marks = {name: frozenset({name}) for name in sums}, {n: {"some op": frozenset({n})} for n in tables}
    unmarked = mapped(lambda _: frozenset(), scenario)
    uses = output_dependence(answers, (example(scenario), sums, tables), (unmarked, *marks))
    return frozenset().union(*leaves(uses))


def _chosen(metrics: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    return dict(metrics) if names is None else {name: metrics[name] for name in names if name in metrics}
