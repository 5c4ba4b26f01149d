"""Every loader under test, by name."""

from tests.fuzz import datasets, hardware, models, modules, specs, traces, words
from tests.fuzz.target import Target


def targets() -> dict[str, Target]:
    """All of them, the quick ones first."""
    groups = (words, specs, traces, hardware, models, modules, datasets)
    return {target.name: target for group in groups for target in group.targets()}
