"""Deployments that are simulated, and the result of each."""

import dataclasses
from collections.abc import Mapping

from jaxroof.batch import Policy
from jaxroof.jobs import Scenario
from sweeps.run.simulated.load import Load


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A deployment that is simulated."""

    scenario: Scenario  # without a workload
    policy: Policy
    load: float  # requests/s that it is estimated to take
    offered: Load  # what it is sent, at `rate`
    rate: float  # requests/s


@dataclasses.dataclass(frozen=True, eq=False)
class Simulated:
    """Result of the simulations of one deployment."""

    load: float  # requests/s, the largest that kept the target; 0: none did
    fails: float  # the smallest above it that did not
    metrics: Mapping[str, float]  # at `share` where a load is asked for, else at `load`, or at the smallest that failed
    missed: str  # what `fails` misses, in words
    share: float | None = None  # requests/s of one replica where a load is asked for
