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
    # Timeloop calls the fan-out of NAME inter_NAME_spatial.
    inner = target.removeprefix("inter_").removesuffix("_spatial")
    below = [BELOW + target, BELOW + inner] if item.get("type") == "spatial" else []
    return next((name for name in (*below, target, inner, f"{inner}_spatial") if name in nodes), target)


def names(value: Any, where: str) -> list[str]:
    """A list of names; or a text of letters, each one."""
    if isinstance(value, str):
        value = value.replace(",", " ").split() if "," in value or " " in value else list(value)
    return list(checks.words(value, where))


# Sparse optimisations of Timeloop: compressed tensors, gating and skipping.


PACKED, PLAIN = ("RLE", "CP", "B", "CSR", "COO"), ("UOP", "UB", "U")
"""Formats of a rank that leave zeros out, and those that do not."""


def sparse_fields(content: Mapping[str, Any], path: str) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """What `sparse_optimizations` say: fields of memories by name, and `gating` and `skipping` of the machine."""
    memories: dict[str, dict[str, Any]] = {}
    kinds: set[str] = set()
    items, place = targets(content, "sparse_optimizations", path)
    for item in items:
        where = f"{place}: {item.get('name')}"
        checks.table(item, where, ("name", "representation_format", "action_optimization"))
        own = memories.setdefault(str(item.get("name")), {})
        if packed := _packed(item.get("representation_format", {}), where):
            own["compression"] = own.get("compression", {}) | dict.fromkeys(packed, 1.0)
        actions = tables(item.get("action_optimization", []), f"{where}: action_optimization")
        for each in actions:
            kind = str(each.get("type"))
            require(kind in ("gating", "skipping"), place, f"{kind} is no gating or skipping")
            kinds.add(kind)
        if gates := _gates(actions, where):
            own["gated_by"] = gates
    return memories, {kind: float(kind in kinds) for kind in ("gating", "skipping")}


def _packed(content: Any, where: str) -> list[str]:
    """Tensors of which a memory leaves zeros out."""
    packed = []
    formats = checks.table(content, where, ("data_spaces",)).get("data_spaces", [])
    for space in tables(formats, f"{where}: data_spaces"):
        ranks = {str(rank.get("format")).upper() for rank in tables(space.get("ranks", []), f"{where}: ranks")}
        unknown = ranks - {*PACKED, *PLAIN}
        require(not unknown, where, f"format {', '.join(unknown)} is none of {', '.join((*PACKED, *PLAIN))}")
        # One rank that leaves zeros out is enough.
        if ranks & set(PACKED):
            packed.append(checks.word(space.get("name"), where))
    return packed


def _gates(actions: list[Mapping[str, Any]], where: str) -> tuple[str, ...]:
    """Tensors for whose zeros the others of a memory are not accessed."""
    leaders: dict[str, tuple[str, ...]] = {}
    for each in actions:
        for option in tables(each.get("options", []), f"{where}: options"):
            checks.table(option, f"{where}: options", ("target", "condition_on"))
            leaders[str(option.get("target"))] = tuple(names(option.get("condition_on", []), where))
    # All tensors that another one waits for.
    gates = tuple(dict.fromkeys(name for group in leaders.values() for name in group))
    for target, group in leaders.items():
        # A memory has one list of gates: each tensor waits for all of them but itself.
        complete = set(group) == {name for name in gates if name != target}
        require(complete, where, f"{target} waits for {', '.join(group)} alone; all of a memory wait for the same")
    return gates
