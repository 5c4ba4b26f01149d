"""Deployments from a user's settings: degrees that are absent until they are set, choices, switches, labels."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import hwspaces
import workloads
from hwspaces.quantities.units import nearest, quantity
from jaxroof.deployment import ADAPTED, DEGREES, Adapters, Deployment
from jaxroof.deployment.acceptance import AcceptanceTable
from jaxroof.deployment.deployment import MemoryLimits
from jaxroof.jobs import Scenario
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.scenario import Pool, Tenant
from jaxroof.memory.legality import broken_rule
from jaxroof.model import Model
from jaxroof.numerics.struct import declarations, given
from sweeps.ask.leaves import leaf_number

PREFIX = "deployment."

FIELDS = tuple(field.name for field in dataclasses.fields(Deployment))

ADAPTERS = "rank=16,loaded=32,targets=q,v"
"""What low-rank adapters look like where a user writes them."""


def with_settings(deployment: Deployment, settings: Mapping[str, Any]) -> Deployment:
    """`deployment` with every setting: a number, a word, true or false, or a list.

    Args:
      settings: name -> a number, text with a unit, text, a boolean, or a list for `stages` and `tree`.

    Raises:
      ValueError: one line that names the setting, its value and what is allowed.
    """
    configured = dataclasses.replace(deployment, **{name: _value(name, value) for name, value in settings.items()})
    # One number of branches per depth: the depths of the tree are the drafts of a step, unless they were given.
    if configured.tree is not None and configured.drafts is None:
        return dataclasses.replace(configured, drafts=float(len(configured.tree)))
    return configured


def _value(name: str, value: Any) -> Any:
    where = PREFIX + name
    if name not in FIELDS:
        raise ValueError(f"there is no {where}{nearest(name, FIELDS)}")
    # Declared kinds, in turn: a word of several choices, a switch, adapters, a list, or one number.
    declared = declarations(Deployment).get(name)
    if declared is not None and declared.choices:
        if value not in declared.choices:
            raise ValueError(f"{where} = {value!r} must be {' or '.join(declared.choices)}")
        return value
    if declared is not None and declared.structure:
        if value not in (True, False, "true", "false"):
            raise ValueError(f"{where} = {value!r} must be true or false")
        return value in (True, "true")
    if name == "adapters":
        return adapters(value, where)
    # Lists are declared by their elements (`stages.*`), so their own name has no declaration.
    if declared is None:
        numbers = value.split(",") if isinstance(value, str) else value
        if isinstance(numbers, int | float):
            numbers = [numbers]
        if not isinstance(numbers, list | tuple) or not numbers:
            raise ValueError(f"{where} = {value!r} must list {declarations(Deployment)[f'{name}.*'].words}")
        return tuple(_whole(f"{where}.{i}", number) for i, number in enumerate(numbers))
    return leaf_number(where, value)


def adapters(value: Any, where: str) -> Adapters:
    """Adapters of "rank=16,loaded=32,targets=q,v", or of the same as a table.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    settings = adapter_settings(value)
    if settings is None or not set(settings) <= {"rank", "loaded", "targets"}:
        raise ValueError(f"{where} = {value!r} must be {ADAPTERS}")
    if "rank" not in settings:
        raise ValueError(f"{where} = {value!r} needs a rank: {ADAPTERS}")
    targets = tuple(settings.pop("targets", ("q", "v")))
    for target in targets:
        if target not in ADAPTED:
            raise ValueError(f"{where}: {target!r} is not a matrix with adapters; known: {', '.join(ADAPTED)}")
    return Adapters(**{name: _whole(f"{where}.{name}", number) for name, number in settings.items()}, targets=targets)


def adapter_settings(value: Any) -> dict[str, Any] | None:
    """Settings by name of "rank=16,targets=q,v" or "rank=16,target=q,v", or of a table; None of any other text."""
    if isinstance(value, Mapping):
        listed = value.get("targets")
        return dict(value) | ({"targets": listed.split(",")} if isinstance(listed, str) else {})
    settings: dict[str, Any] = {}
    key = ""
    # A comma separates settings and targets alike: a part without `=` is one more target after the first.
    for part in str(value).split(","):
        name, equals, text = (word.strip() for word in part.partition("="))
        if equals:
            key = "targets" if name == "target" else name
            if key in settings:
                return None
            settings[key] = [text] if key == "targets" else text
        elif key == "targets":
            settings[key].append(name)
        else:
            return None
    return settings


def _whole(where: str, value: Any) -> float:
    number = quantity(value, "1", where)
    if number < 1 or number != int(number):
        raise ValueError(f"{where} = {value!r} must be a whole number of at least 1")
    return number


def is_structure(path: str) -> bool:
    """Whether the deployment's leaf at `path` cannot vary along an axis, because it is structure."""
    if not path.startswith(PREFIX):
        return False
    declared = declarations(Deployment).get(path.removeprefix(PREFIX))
    # Lists have no declaration under their own name, but are structure all the same.
    return (declared is None and path.removeprefix(PREFIX) in FIELDS) or (declared is not None and declared.structure)


def label(settings: Mapping[str, Any]) -> str:
    """A deployment's settings as a short name: "tp8", "tp4 ep4 overlap=gemm"."""
    parts = []
    for name, value in settings.items():
        declared = declarations(Deployment).get(name)
        if declared is not None and declared.structure and not declared.choices:
            parts += [name] if value in (True, "true") else []
        elif name in DEGREES:
            parts.append(f"{name}{float(value):g}")
        else:
            text = ",".join(f"{float(v):g}" for v in value) if isinstance(value, list | tuple) else value
            parts.append(f"{name}={text}")
    return " ".join(parts) or "tp1"


# Models that draft for another one.


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
    # The draft is a plain model here: its own prediction head plays no part.
    model = dataclasses.replace(entry.model, draft=dataclasses.replace(other.model, prediction=None))
    return dataclasses.replace(entry, model=model, notes=(*entry.notes, *notes))


def _reads(draft: str, entry: workloads.ModelEntry, model: Model) -> str:
    """The note on a draft that reads hidden states of the model; ValueError where the model's are of another width."""
    features = given(model.features, "features of the draft")
    width, hidden = features.inputs, entry.model.hidden
    # An EAGLE draft takes the token's embedding too, in every run (arXiv:2401.15077); one of EAGLE-3 takes hidden
    # states of three layers in the first run (arXiv:2503.01840).
    own = model.hidden if features.every_run else 0.0
    if (width - own) % hidden:
        raise ValueError(
            f"draft = {draft!r} reads hidden states of {width - own:,.0f} numbers in all; those of {entry.name} have "
            f"{hidden:,.0f} each"
        )
    return f"the draft reads {(width - own) / hidden:.0f} of the model's hidden states and uses " + (
        "its embedding" if model.shared_embedding else "an embedding of its own"
    )


def require_drafts(draft: str | None, deployment: Deployment, right: Any = None) -> None:
    """ValueError for a draft model without a number of drafted tokens, or beside look-ups, and a table beside a tree.

    Args:
      right: acceptance of the drafts.
    """
    if draft is not None and deployment.drafts is None:
        raise ValueError(f"draft = {draft!r} needs deployment.drafts: the tokens that it drafts per step")
    if draft is not None and deployment.drafter == "ngram":
        raise ValueError(f"draft = {draft!r} drafts nothing where deployment.drafter = ngram: give one of them")
    if deployment.tree is not None and isinstance(right, AcceptanceTable):
        raise ValueError("a table of acceptance is of drafts in a chain: give no deployment.tree")


# The other model of a co-located pair from a user's settings: its name, its requests, its deployment.


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
    """Numbers of the neighbour's requests by name, as a user writes them.

    Raises:
      ValueError: one line, where their lengths are missing.
    """
    if missing := [name for name in ("isl", "osl") if name not in settings]:
        raise ValueError(f"neighbour also needs {' and '.join(missing)}, tokens of its requests")
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
    # Both models run on the same devices under one engine: degrees and the memory rule are shared unless given.
    same = {name: getattr(first, name) for name in SHARED}
    spread = {name: value for name, value in settings.items() if name not in (*NAMES, *REQUESTS)}
    try:
        tenant_deployment = with_settings(dataclasses.replace(deployment, **same), spread)
    # The error names the setting where the user wrote it, in the neighbour's table.
    except ValueError as error:
        raise ValueError(str(error).replace("deployment.", "neighbour.")) from None
    return Tenant(model=entry.model, deployment=tenant_deployment, requests=requests, efficiency=scenario.efficiency)


# Pools beside the devices of a deployment, such as for prompts, from a user's settings: accelerator, layout, constants.


OBJECTS = ("hardware", "efficiency")
"""Settings of a pool that are names; all others are those of its deployment."""


SEPARATE = (*DEGREES, "stages", "drafts", "tree")
"""Settings of the deployment that a pool has of its own: those of the first pool say nothing about it."""


@dataclasses.dataclass(frozen=True)
class PoolEntry:
    """A pool and where its parts are from."""

    hardware: hwspaces.HardwareEntry
    pool: Pool


def pool_of(
    settings: Mapping[str, Any],
    entry: workloads.ModelEntry,
    device: hwspaces.HardwareEntry,
    efficiency: hwspaces.EfficiencyEntry,
    deployment: Deployment,
    prices: str | None = None,
    name: str = "prefill",
) -> PoolEntry:
    """The pool that `settings` describe; what they do not say is as in the first one, but for degrees, which are 1.

    Args:
      settings: hardware, efficiency, and settings of the deployment by name.
      entry: the model of both pools.
      device, efficiency, deployment: of the first pool.
      prices: of `hwspaces.priced`, for both pools.
      name: of the pool, for errors.

    Raises:
      ValueError: one line that names the setting, its value and what is allowed.
    """
    names = {name: settings[name] for name in OBJECTS if settings.get(name) is not None}
    if "hardware" in names:
        device = hwspaces.priced(hwspaces.hardware(names["hardware"]), prices)
    if "efficiency" in names:
        efficiency = hwspaces.efficiency(names["efficiency"])
    spread = {name: value for name, value in settings.items() if name not in OBJECTS}
    if "kv_bytes" in spread:
        raise ValueError(f"{name}.kv_bytes: both pools store the cache at one precision; give it once, as kv")
    # Degrees of the first pool say nothing about this one: 1, or absent, until they are given.
    one: dict[str, Any] = dict.fromkeys(SEPARATE) | {"tp": 1.0, "dp": 1.0}
    try:
        spread_out = with_settings(dataclasses.replace(deployment, **one), spread)
    except ValueError as error:
        raise ValueError(str(error).replace("deployment.", f"{name}.")) from None
    pool = Pool(hardware=device.hardware, deployment=spread_out, efficiency=efficiency.efficiency)
    return PoolEntry(device, pool)


def require_legal(pool_entry: PoolEntry, entry: workloads.ModelEntry, name: str = "prefill pool") -> None:
    """ValueError in one line with the rule that a pool of this name breaks."""
    broken = broken_rule(pool_entry.pool.hardware, entry.model, pool_entry.pool.deployment)
    if broken:
        raise ValueError(f"{entry.name} on {pool_entry.hardware.name}, {name}: {broken}")
