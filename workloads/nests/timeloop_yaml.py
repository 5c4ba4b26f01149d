"""Parts of Timeloop's YAML files, checked: sections, lists of names and of tables."""

from collections.abc import Mapping
from typing import Any

from workloads.nests import checks
from workloads.nests.checks import require
from workloads.traces.documents import yaml_object

TAGS = ("Container", "Component", "Parallel", "Hierarchical")
"""Kinds of nodes of an architecture."""

BELOW = "below_"
"""Begins the name of a fan-out that an architecture does not name: it is below the memory of that name."""


def section(path: str, name: str, kind: type = dict) -> Any:
    """A table, or another kind of value, of a file."""
    content = yaml_object(path, tags=TAGS).values
    require(isinstance(content.get(name), kind), path, f"it has no {name}")
    return content[name]


def names(value: Any, where: str) -> list[str]:
    """A list of names; or a text of letters, each one."""
    if isinstance(value, str):
        value = value.replace(",", " ").split() if "," in value or " " in value else list(value)
    return list(checks.words(value, where))


def tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    """A list of tables."""
    require(
        isinstance(value, list) and all(isinstance(each, Mapping) for each in value), where, "must be a list of tables"
    )
    return value
