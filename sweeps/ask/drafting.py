"""Drafters and their acceptance, from text: a model; one probability, several, or a law of them."""

import dataclasses
from typing import Any

import workloads
from hwspaces import quantity
from jaxroof.deployment import Deployment
from jaxroof.deployment.speculation import beta_acceptance
from jaxroof.model import Model
from sweeps.ask.quantities import quantity_or_zero

MOST_DRAFTS = 32
"""Positions that a distribution of acceptance is written out for."""

ACCEPTANCE = "a probability, several by position (0.8,0.7,0.6), or beta:MEAN,CONCENTRATION"


def with_draft(entry: workloads.ModelEntry, draft: str | None) -> workloads.ModelEntry:
    """The model with a smaller one that drafts for it, and a note on both; the model itself without one.

    Raises:
      ValueError: one line, for an unknown draft model, one that generates nothing, one that reads the hidden states
        of another model, or a model that is such a draft itself.
    """
    if entry.model.features is not None:
        raise ValueError(
            f"model = {entry.name!r} is a draft that reads another model's hidden states: give it as draft"
        )
    if draft is None:
        return entry
    other = workloads.model(draft)
    if not other.model.generates:
        raise ValueError(f"draft = {draft!r}: {other.name} is an encoder and drafts nothing")
    notes = [f"drafts by {other.name}, weights {other.precision} (from {other.precision_source})"]
    if other.model.features is not None:
        notes.append(_reads(draft, entry, other.model))
    if other.model.vocabulary != entry.model.vocabulary:
        vocabularies = f"{other.model.vocabulary:,.0f} and {entry.model.vocabulary:,.0f}"
        notes.append(f"draft and model have vocabularies of {vocabularies}: their tokens have to be translated")
    model = dataclasses.replace(entry.model, draft=dataclasses.replace(other.model, prediction=None))
    return dataclasses.replace(entry, model=model, notes=(*entry.notes, *notes))


def _reads(draft: str, entry: workloads.ModelEntry, model: Model) -> str:
    """The note on a draft that reads hidden states of the model; ValueError where the model's are of another width."""
    width, hidden = model.features.inputs, entry.model.hidden
    own = model.hidden if model.features.every_run else 0.0
    if (width - own) % hidden:
        raise ValueError(
            f"draft = {draft!r} reads hidden states of {width - own:,.0f} numbers in all; those of {entry.name} have "
            f"{hidden:,.0f} each"
        )
    return f"the draft reads {(width - own) / hidden:.0f} of the model's hidden states and uses " + (
        "its embedding" if model.shared_embedding else "an embedding of its own"
    )


def require_drafts(draft: str | None, deployment: Deployment) -> None:
    """ValueError for a draft model without a number of drafted tokens."""
    if draft is not None and deployment.drafts is None:
        raise ValueError(f"draft = {draft!r} needs deployment.drafts: the tokens that it drafts per step")


def acceptance(value: Any, path: str) -> float | tuple[float, ...]:
    """Probabilities that drafted tokens are right; ValueError names the path, the value and what is allowed."""
    if isinstance(value, str) and value.startswith("beta:"):
        parts = value.removeprefix("beta:").split(",")
        if len(parts) != 2:
            raise ValueError(f"{path} = {value!r} must be {ACCEPTANCE}")
        mean, concentration = _probability(parts[0], path), quantity(parts[1].strip(), "1", path)
        if not 0.0 < mean < 1.0:
            raise ValueError(f"{path} = {value!r}: the mean must be between 0 and 1")
        return beta_acceptance(mean, concentration, MOST_DRAFTS)
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if isinstance(value, list | tuple):
        return tuple(_probability(part, path) for part in value)
    return _probability(value, path)


def _probability(value: Any, path: str) -> float:
    return quantity_or_zero(value.strip() if isinstance(value, str) else value, "1", path)
