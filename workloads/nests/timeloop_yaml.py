"""Parts of Timeloop's YAML files, checked: sections, targets, lists of names."""

from collections.abc import Collection, Mapping
from typing import Any

from workloads.nests import checks
from workloads.nests.checks import require, tables
from workloads.traces.documents import yaml_object

TAGS = ("Container", "Component", "Parallel", "Hierarchical")
"""Kinds of nodes of an architecture."""

BELOW = "below_"
"""Begins the name of a fan-out that an architecture does not name: it is below the memory of that name."""


def sections(path: str) -> Mapping[str, Any]:
    """All sections of a file."""
    return yaml_object(path, tags=TAGS).values


def section(path: str, name: str, kind: type = dict) -> Any:
    """A table, or another kind of value, of a file."""
    content = sections(path)
    require(isinstance(content.get(name), kind), path, f"it has no {name}")
    return content[name]


def targets(content: Mapping[str, Any], key: str, path: str) -> tuple[list[Mapping[str, Any]], str]:
    """Targets of a section, none where it is absent, and its place in the file."""
    where = f"{path}: {key}"
    return tables(checks.table(content.get(key, {}), where, ("version", "targets")).get("targets", []), where), where


def target_of(item: Mapping[str, Any], nodes: Collection[str]) -> str:
    """The node that a directive or a constraint is for, or the name in the file where there is none.

    A spatial one of a memory is for the fan-out below it, where the architecture does not name that.
    """
    target = str(item.get("target"))
    inner = target.removeprefix("inter_").removesuffix("_spatial")
    below = [BELOW + target, BELOW + inner] if item.get("type") == "spatial" else []
    return next((name for name in (*below, target, inner, f"{inner}_spatial") if name in nodes), target)


def names(value: Any, where: str) -> list[str]:
    """A list of names; or a text of letters, each one."""
    if isinstance(value, str):
        value = value.replace(",", " ").split() if "," in value or " " in value else list(value)
    return list(checks.words(value, where))
