"""Whether a scenario's deployments can be at all, with what its workload demands of them."""

import jax

from jaxroof.legality import broken_rule, legal
from jaxroof.training import Training
from jaxroof.training.legality import broken_training_rule, training_legal
from sweeps.job import Scenario


def scenario_legal(scenario: Scenario) -> jax.Array:
    """True where every rule holds, of the prefill pool and the neighbour too, shape ()."""
    place = scenario.hardware, scenario.model, scenario.deployment
    pool, tenant, verdict = scenario.prefill, scenario.neighbour, legal(*place)
    if isinstance(scenario.workload, Training):
        verdict = verdict & training_legal(*place, scenario.workload)
    if pool is not None:
        verdict = verdict & legal(pool.hardware, scenario.model, pool.deployment)
    if tenant is not None:
        verdict = verdict & legal(scenario.hardware, tenant.model, tenant.deployment)
    return verdict


def scenario_broken_rule(scenario: Scenario) -> str | None:
    """The first rule that a concrete scenario breaks, as a sentence; None when all hold."""
    place = scenario.hardware, scenario.model, scenario.deployment
    pool, tenant, broken = scenario.prefill, scenario.neighbour, broken_rule(*place)
    if broken is None and isinstance(scenario.workload, Training):
        broken = broken_training_rule(*place, scenario.workload)
    if broken is None and pool is not None:
        rule = broken_rule(pool.hardware, scenario.model, pool.deployment)
        broken = rule and f"prefill pool: {rule}"
    if broken is None and tenant is not None:
        rule = broken_rule(scenario.hardware, tenant.model, tenant.deployment)
        broken = rule and f"neighbour: {rule}"
    return broken
