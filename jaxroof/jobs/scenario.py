"""One point of a question: hardware, model, deployment, workload and what shares the work or the devices."""

import dataclasses
from typing import Any

from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.composition import Requests
from jaxroof.model import Model
from jaxroof.numerics.struct import static, struct


@dataclasses.dataclass(frozen=True)
class Metric:
    """What one metric or variable is."""

    unit: str  # SI unit, as `hwspaces.quantities.units` writes it
    long_name: str
    flags: tuple[str, ...] = ()  # meanings of the integer codes 0, 1, ...
    higher_is_better: bool | None = None  # for plots and tables; None where neither


def lower(unit: str, long_name: str) -> Metric:
    """A metric of which less is better."""
    return Metric(unit, long_name, (), False)


def higher(unit: str, long_name: str) -> Metric:
    """A metric of which more is better."""
    return Metric(unit, long_name, (), True)


@struct
class Pool:
    """Devices that do one part of the work: `deployment.dp` replicas."""

    hardware: Hardware
    deployment: Deployment
    efficiency: Efficiency


@struct
class Tenant:
    """One model that runs on the devices: its deployment on them, and its requests."""

    model: Model
    deployment: Deployment
    requests: Requests
    efficiency: Efficiency


@struct
class Scenario:
    """One point: everything that its answer depends on."""

    hardware: Hardware
    model: Model
    deployment: Deployment
    workload: Any  # of the job's kind
    efficiency: Efficiency
    prefill: Pool | None = None  # where prompts are worked on, if elsewhere
    neighbour: Tenant | None = None  # what else runs on the devices
    laws: tuple[Any, ...] = static(default=())  # by which some numbers follow from others, beside the hardware's own
