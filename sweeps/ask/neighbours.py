"""The other model of a co-located pair from a user's settings: its name, its requests, its deployment."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import workloads
from jaxroof.deployment import DEGREES, Deployment
from jaxroof.deployment.deployment import MemoryLimits
from jaxroof.jobs import Scenario
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.scenario import Tenant
from sweeps.ask.deployments import with_settings

NAMES = ("model", "weights")
REQUESTS = ("batch", "isl", "osl", "cached", "acceptance", "encoder_tokens", "encoder_inputs")
"""Settings of a neighbour; all others are those of its deployment."""

OF_ENGINE = tuple(field.name for field in dataclasses.fields(MemoryLimits) if field.name != "max_batched_tokens")
"""The engine's rule for its memory: both models run on one."""

SHARED = (*DEGREES, *OF_ENGINE)
"""Settings of the deployment that are as the first model's."""


def neighbour_entry(settings: Mapping[str, Any]) -> workloads.ModelEntry:
    """The neighbour's model; ValueError in one line where none is named."""
    if not settings.get("model"):
        raise ValueError("neighbour.model is missing: the model that shares the devices")
    return workloads.model(settings["model"], weights=settings.get("weights"))


def neighbour_requests(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of the neighbour's requests by name, as a user writes them."""
    return {name: settings[name] for name in REQUESTS if name in settings}


def neighbour_notes(entry: workloads.ModelEntry) -> tuple[str, ...]:
    """Notes on the neighbour for a reader."""
    return (f"neighbour {entry.name}, weights {entry.precision} (from {entry.precision_source})", *entry.notes)


def neighbour_tenant(
    settings: Mapping[str, Any],
    entry: workloads.ModelEntry,
    deployment: Deployment,
    requests: Requests,
    scenario: Scenario,
) -> Tenant:
    """The neighbour; its degrees are those of the first model, but where `settings` say otherwise.

    Args:
      deployment: of its model, at its precisions.
      scenario: of the first model.

    Raises:
      ValueError: one line that names the setting, its value and what is allowed.
    """
    first = scenario.deployment
    same = {name: getattr(first, name) for name in SHARED}
    spread = {name: value for name, value in settings.items() if name not in (*NAMES, *REQUESTS)}
    try:
        made = with_settings(dataclasses.replace(deployment, **same), spread)
    except ValueError as error:
        raise ValueError(str(error).replace("deployment.", "neighbour.")) from None
    return Tenant(model=entry.model, deployment=made, requests=requests, efficiency=scenario.efficiency)
