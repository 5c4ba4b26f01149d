"""Result of the simulations of one place."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, eq=False)
class Simulated:
    """Result of a place."""

    load: float  # requests/s, the largest that kept the target; 0: none did
    fails: float  # the smallest above it that did not
    metrics: Mapping[str, float]  # at `load`, or at the smallest that failed
    missed: str  # what `fails` misses, in words
