"""One set of efficiency constants with the source of each."""

import dataclasses

from jaxroof.efficiency import Efficiency


@dataclasses.dataclass(frozen=True, kw_only=True)
class EfficiencyEntry:
    """A set of efficiency constants as the project or a user's file gives it."""

    name: str
    efficiency: Efficiency  # leaves are Python floats, times in s
    sources: dict[str, str]  # constant, by dotted path -> what it was fitted to or which fact it is taken from
    engine: str | None = None  # serving engine whose kernels and host code the constants describe, with its version
    date: str | None = None  # when they were fitted, ISO 8601
    refit: str | None = None  # command that fits them again
    errors: str | None = None  # what was left over by the fit
    notes: tuple[str, ...]
    file: str
    devices: tuple[str, ...] = ()  # accelerators on which the constants were fitted or judged; none: it is not said
