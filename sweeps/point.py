"""One point of a question: the scenario that settings make of a base, and what a job answers there."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from sweeps.jobs import Job, Scenario
from sweeps.paths import replaced


def scenario_at(base: Scenario, settings: Iterable[Mapping[str, Any]]) -> Scenario:
    """`base` with the trees that `settings` have by path: whole structs first, then their leaves."""
    paths = [(path, tree) for setting in settings for path, tree in setting.items()]
    for path, tree in sorted(paths, key=lambda item: item[0].count(".")):
        base = replaced(base, path, tree)
    return base


def answers_at(job: Job, scenario: Scenario) -> dict[str, jax.Array]:
    """Every metric of `job` at `scenario`, shapes (); without tables of ops. Pure, for JAX to transform."""
    sums = {name: sum(terms().values()) for name, terms in job.sums(scenario).items()}
    tables = {name: {"": jnp.zeros(())} for name in job.tables(scenario)}
    return {name: jnp.asarray(value) for name, value in job.metrics(scenario, sums, tables).items()}
