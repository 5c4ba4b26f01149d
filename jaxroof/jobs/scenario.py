"""One point of a question: hardware, model, deployment, workload and what shares the work or the devices."""

from typing import Any

from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.composition import Requests
from jaxroof.model import Model
from jaxroof.struct import static, struct


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
