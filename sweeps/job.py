"""What a question at a point is made of: the scenario that it is asked of, sums over ops, and metrics."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxroof.colocation import Tenant
from jaxroof.deployment import Deployment
from jaxroof.disaggregation import Pool
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.step import Lazy, Terms
from jaxroof.struct import Scalar, struct


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


@dataclasses.dataclass(frozen=True)
class Job:
    """A question: what is known of every op, and metrics that are functions of it and of the scenario.

    Sums and tables are kept apart from metrics because their terms depend on few axes each: the engine
    evaluates every term over its own axes only. Of a sum it keeps nothing but the total; a table is kept op
    by op, and is a variable of the dataset when the breakdown is asked for.
    """

    name: str
    workload: type
    sums: Callable[[Scenario], Lazy]
    tables: Callable[[Scenario], Lazy]
    metrics: Callable[[Scenario, dict[str, Scalar], dict[str, Terms]], dict[str, Scalar]]
