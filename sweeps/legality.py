"""Whether a scenario's deployment can be at all, with what its workload demands of it."""

import jax

from jaxroof.legality import broken_rule, legal
from jaxroof.training import Training
from jaxroof.training.legality import broken_training_rule, training_legal
from sweeps.job import Scenario


def scenario_legal(scenario: Scenario) -> jax.Array:
    """True where every rule holds, shape ()."""
    place = scenario.hardware, scenario.model, scenario.deployment
    if isinstance(scenario.workload, Training):
        return legal(*place) & training_legal(*place, scenario.workload)
    return legal(*place)


def scenario_broken_rule(scenario: Scenario) -> str | None:
    """The first rule that a concrete scenario breaks, as a sentence; None when all hold."""
    place = scenario.hardware, scenario.model, scenario.deployment
    broken = broken_rule(*place)
    if broken is None and isinstance(scenario.workload, Training):
        return broken_training_rule(*place, scenario.workload)
    return broken
