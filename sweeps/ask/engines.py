"""Engines of a question: the release that is asked for, its constants, its policy, and what its host adds."""

import dataclasses
from typing import Any

import hwspaces
from hwspaces import EfficiencyEntry, EngineEntry
from hwspaces.engines.engine import DEFAULT
from hwspaces.quantities.units import nearest
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment, degree, request_groups
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model, has_experts

ENGINES = hwspaces.engine_names()
"""Names of the engines."""


@dataclasses.dataclass(frozen=True)
class Chosen:
    """An engine, and the constants of its kernels and its host."""

    engine: EngineEntry
    constants: EfficiencyEntry


def chosen(engine: str | None, efficiency: str | None) -> Chosen:
    """The engine that is asked for with its constants, or those that are asked for with their engine.

    Args:
      engine: "vllm", "vllm@0.24"; None: that of the constants.
      efficiency: of `hwspaces.performance.efficiency`; None: the engine's own.

    Raises:
      ValueError: one line, for a name or a version that there is not.
    """
    if engine is None:
        constants = hwspaces.efficiency(efficiency)
        return Chosen(hwspaces.engine(engine_of(constants)), constants)
    # "name@version": the name has to be known here; `hwspaces.engine` checks the version.
    if not isinstance(engine, str) or engine.partition("@")[0] not in ENGINES:
        raise ValueError(f"engine = {engine!r} is not known{nearest(str(engine), ENGINES)}")
    release = hwspaces.engine(engine)
    return Chosen(release, hwspaces.efficiency(efficiency or release.efficiency))


def engine_of(efficiency: EfficiencyEntry) -> str:
    """The engine that an efficiency's constants belong to, by its file or its name; "vllm" where neither says."""
    # TensorRT-LLM has a full name in constants and a short one among engines.
    words = f"{efficiency.engine or ''} {efficiency.name}".lower().replace("tensorrt-llm", "trtllm")
    return next((name for name in ENGINES if name in words), DEFAULT)


def unsupported(engine: EngineEntry, vendor: str | None) -> str | None:
    """Why an engine does not run on the devices of `vendor`; None where it may."""
    if engine.vendor is None or vendor in (None, engine.vendor):
        return None
    return f"{engine.title} runs on devices of {engine.vendor} alone"


def with_host(
    of: Chosen,
    efficiency: Efficiency,
    vendor: str | None,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    pools: bool = False,
) -> Efficiency:
    """Constants with what the engine's release adds to its host: longer steps, its front end, an end of its server.

    The front end is in the constants of other files, such as calibrated ones, or nowhere, as in a datasheet's.

    Args:
      efficiency: the constants, or the same with some of their numbers replaced.
      pools: whether prompts have a pool of their own, so that every request is handed over.
    """
    # All times in s; `longer` is what an older release adds to every step on these devices.
    times, host = of.engine.host, efficiency.host
    longer = of.engine.longer_step(vendor, hardware.matrix, _modes(model, deployment))
    # Constants of another file may include the front end already, so it is added to the engine's own alone.
    own = of.constants.file == hwspaces.efficiency(of.engine.efficiency).file
    more = times.request_time if own else 0.0
    more += times.handover_time if pools else 0.0
    if not (longer or more or times.token_time):
        return efficiency
    # One process handles the tokens of all groups of requests: the slower of both times per sequence counts.
    sequences = max(host.sequence_time, times.token_time * request_groups(deployment))
    slower_host = dataclasses.replace(
        host,
        step_time=host.step_time + longer,
        request_time=host.request_time + more,
        sequence_time=sequences,
    )
    return dataclasses.replace(efficiency, host=slower_host)


def _modes(model: Model, deployment: Deployment) -> frozenset[str]:
    """What a deployment does, as `hwspaces.engines.engine.Slower` names it."""
    done = {
        "drafting": deployment.drafts is not None,
        "groups": float(request_groups(deployment)) > 1.0,
        "experts": has_experts(model) and float(degree(deployment.ep)) > 1.0,
    }
    return frozenset(name for name, holds in done.items() if holds)


def policy(engine: str, **values: float | str | tuple[float, ...]) -> Policy:
    """The policy of an engine, as `hwspaces.engines.engine` takes it, with some of its numbers replaced.

    Raises:
      ValueError: one line, for an engine or a number that there is not.
    """
    release = hwspaces.engine(engine)
    names = [field.name for field in dataclasses.fields(Policy)]
    for name in values:
        if name not in names:
            raise ValueError(f"policy.{name} is not known; known: {', '.join(names)}")
    changed: dict[str, Any] = {**release.policy, **values}
    return dataclasses.replace(Policy(), **changed)
