"""Whether a scenario's deployment can be at all, with what its workload demands of it."""

from typing import Any

import jax

from jaxroof.legality import broken_rule, legal
from jaxroof.training import Training
from jaxroof.training.legality import broken_training_rule, training_legal
from sweeps.job import Scenario


def scenario_legal(scenario: Scenario) -> jax.Array:
    """True where every rule holds, shape ()."""
    place = scenario.hardware, scenario.model, scenario.deployment
    verdict = legal(*place)
    if isinstance(scenario.workload, Training):
        verdict = verdict & training_legal(*place, scenario.workload)
    if scenario.prefill is not None:
        verdict = verdict & legal(scenario.prefill.hardware, scenario.model, scenario.prefill.deployment)
    if scenario.neighbour is not None:
        verdict = verdict & legal(scenario.hardware, scenario.neighbour.model, scenario.neighbour.deployment)
    return verdict


def scenario_broken_rule(scenario: Scenario) -> str | None:
    """The first rule that a concrete scenario breaks, as a sentence; None when all hold."""
    place = scenario.hardware, scenario.model, scenario.deployment
    broken = broken_rule(*place)
    if broken is None and isinstance(scenario.workload, Training):
        broken = broken_training_rule(*place, scenario.workload)
    if broken is None and scenario.prefill is not None:
        broken = _named("prefill pool", scenario.prefill.hardware, scenario.model, scenario.prefill.deployment)
    if broken is None and scenario.neighbour is not None:
        broken = _named("neighbour", scenario.hardware, scenario.neighbour.model, scenario.neighbour.deployment)
    return broken


def _named(whose: str, *place: Any) -> str | None:
    broken = broken_rule(*place)
    return None if broken is None else f"{whose}: {broken}"
