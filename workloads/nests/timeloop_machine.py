"""Architectures of Timeloop, version 0.4: nodes or subtrees, constraints, energy tables."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from jaxroof.nests import NestFanout, NestMachine, NestMemory
from workloads.nests import checks
from workloads.nests.checks import require, tables
from workloads.nests.timeloop_yaml import BELOW, TAGS, names, sections, sparse_fields, target_of, targets
from workloads.traces.documents import yaml_object

ENERGIES = {"read": "read_energy", "write": "write_energy", "update": "update_energy", "leak": "leakage"}
"""Actions of an energy table, pJ, and the fields of a memory."""

BANDWIDTHS = {"read_bandwidth": "read_bandwidth", "write_bandwidth": "write_bandwidth", "shared_bandwidth": "bandwidth"}
"""Attributes of a memory, words per cycle, and its fields."""

NODE = ("tag", "name", "class", "subclass", "attributes", "spatial", "constraints", "required_actions", "enabled")
"""Keys of a component or a container; attributes are Accelergy's, any, and some say what a memory holds and moves."""

KINDS = dict.fromkeys(("bypass", "datatype", "bypassing"), "dataspace") | dict.fromkeys(
    ("utilization", "parallelism"), "min_parallelism"
)
"""Other names of kinds of constraints."""

CONSTRAINTS = {
    "dataspace": ("keep", "bypass"),
    "temporal": ("factors", "factors_only", "permutation"),
    "spatial": ("factors", "factors_only", "permutation", "split", "no_reuse", "no_multicast_no_reduction"),
    "min_parallelism": ("min",),
}
"""Kinds of constraints of a node and their keys. `split` has no effect on counts: it is read and left."""


def timeloop_architecture(path: str, energies: str | None = None) -> NestMachine:
    """The machine of a YAML file: `architecture` with `nodes`, of which containers fan out over meshX x meshY.

    Or with `subtree`, as earlier files and those that Timeloop's front end writes: memories of which there are more
    than of the one outside of them have a fan-out between, named after a `dummy_storage` there. The last component is
    the arithmetic. Constraints limit what a search may do: `dataspace` with keep and bypass, `temporal` and `spatial`
    with factors (=, <=, >=; 0 is all that is left), factors_only, permutation and, of a fan-out, no_reuse and
    min_parallelism; in the nodes, or as targets of `architecture_constraints` or `mapspace_constraints`. Of
    `sparse_optimizations` compressed formats (without their metadata), gating and skipping are read.

    Args:
      path: the file.
      energies: a YAML file with an energy reference table (ERT or ERT_summary), pJ per action; without it every energy
        is zero, as an architecture states none.

    Raises:
      ValueError: as of `timeloop_problem`.
    """
    file_sections = sections(path)
    content = checks.table(file_sections.get("architecture"), f"{path}: architecture")
    subtrees = "nodes" not in content and "subtree" in content
    require(subtrees or "nodes" in content, path, "architecture.nodes are missing: version 0.4 with nodes is read")
    # Both forms become one list of nodes, from the outermost.
    nodes = list(_unfolded(content["subtree"], path) if subtrees else _flat(content["nodes"], path))
    named = [checks.word(node.get("name"), f"{path}: name") for node in nodes]
    # What may stand beside the nodes: constraints, sparse optimisations, a table of energies.
    beside = _beside(file_sections, named, path)
    sparse, zeros = sparse_fields(file_sections, path)
    table = _energy_table(energies) if energies else {}
    machine_nodes: list[NestMemory | NestFanout] = []
    for name, node in zip(named, nodes, strict=True):
        where = f"{path}: {name}"
        checks.table(node, where, NODE)
        rules = _rules(node, beside.pop(name, []), where)
        container = node["tag"] == "Container"
        # Subtrees have their fan-outs as containers (`_unfolded`), so components there have no mesh.
        mesh = {} if subtrees and not container else node.get("spatial", {})
        counts = checks.table(mesh, f"{where}: spatial", ("meshX", "meshY")).items()
        size = math.prod(checks.whole(count, f"{where}: spatial.{each}") for each, count in counts)
        spatial = {kind: rules.pop(kind) for kind in ("spatial", "min_parallelism") if kind in rules}
        # A container of several instances is a fan-out; a component of several has one in front of it.
        if size > 1:
            machine_nodes.append(_fanout(name if container else f"{name}_spatial", size, spatial, where))
        if container:
            fine = size == 1 or _is_idle(rules, where)
            require(fine, where, "constraints.temporal and dataspace are for a memory, not for a fan-out")
            continue
        fine = size > 1 or _is_idle(spatial, where)
        require(fine, where, "constraints.spatial and min_parallelism are for a fan-out, not for a memory")
        attributes = checks.table(node.get("attributes", {}), f"{where}: attributes")
        require(not energies or name in table, where, f"{energies} has no energies of it")
        # The last component is the arithmetic, which is no memory.
        if node is not nodes[-1]:
            machine_nodes.append(_memory(name, attributes, rules, table.get(name, {}), sparse.pop(name, {}), where))
    require(bool(machine_nodes), path, "the architecture has no memory")
    # What belongs to nodes was taken out: the names that are left are of none.
    left = [
        *sparse,
        *(name for name, rules in beside.items() if not all(_is_idle(each, f"{path}: {name}") for each in rules)),
    ]
    require(not left, path, f"constraints or optimizations are for {', '.join(left)}, which is no node")
    # Arithmetic is gated by every tensor that gates some memory.
    gates = dict.fromkeys(name for node in machine_nodes if isinstance(node, NestMemory) for name in node.gated_by)
    mac = table.get(named[-1], {}).get("compute", 0.0)
    return checks.checked_machine(
        NestMachine(nodes=tuple(machine_nodes), mac_energy=mac, gated_by=tuple(gates), **zeros), path
    )


def _unfolded(trees: Any, where: str) -> Iterator[Mapping[str, Any]]:
    """Components of subtrees as nodes, with a container for each fan-out between two of them."""
    before, outside, dummy = 1, "", ""
    for name, instances, component in _instances(trees, 1, where):
        # There must be a whole number of instances within each instance outside.
        more, rest = divmod(instances, before)
        require(rest == 0 and more >= 1, f"{where}: {name}", f"{instances} of it, below {before} of {outside}")
        if more > 1:
            fanout = dummy or f"{BELOW}{outside}"
            yield {"tag": "Container", "name": fanout, "spatial": {"meshX": more}}
            dummy = ""
        before, outside = instances, name
        if component.get("class") == "dummy_storage":
            dummy = name
            continue
        keys = ("class", "subclass", "attributes", "constraints", "required_actions", "enabled")
        checks.table(component, f"{where}: {name}", ("name", *keys))
        yield {"tag": "Component", "name": name} | {key: component[key] for key in keys if key in component}


def _instances(trees: Any, times: int, where: str) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Names of components with how many there are; NAME[1..4] is four in all, NAME[0..3] four of each outside."""
    for tree in tables(trees, f"{where}: subtree"):
        checks.table(tree, f"{where}: subtree", ("name", "attributes", "local", "subtree"))
        _, inside = _counted(tree.get("name"), times, where)
        for component in tables(tree.get("local", []), f"{where}: local"):
            name, count = _counted(component.get("name"), inside, where)
            yield name, count, component
        yield from _instances(tree.get("subtree", []), inside, where)


def _counted(text: Any, times: int, where: str) -> tuple[str, int]:
    wanted = f"{text!r} must be a name, NAME[0..N] or NAME[1..N]"
    match = checks.matched(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[([01])\.\.([0-9]{1,9})\])?", str(text), where, wanted)
    name, first, last = match[1], match[2], match[3]
    if last is None:
        return name, times
    return name, int(last) if first == "1" else times * (int(last) + 1)


def _flat(nodes: Any, where: str) -> Iterator[Mapping[str, Any]]:
    """Components and containers from the outermost; those in parallel one after the other, as Timeloop has them."""
    for node in tables(nodes, f"{where}: nodes"):
        require(node.get("tag") in TAGS, where, "a node has none of the tags !Container, !Component, !Parallel")
        if "nodes" in node:
            yield from _flat(node["nodes"], where)
        else:
            yield node


def _beside(content: Mapping[str, Any], nodes: Collection[str], path: str) -> dict[str, list[Mapping[str, Any]]]:
    """Constraints that stand beside an architecture, by the node that they are for."""
    constraints: dict[str, list[Mapping[str, Any]]] = {}
    for key in ("architecture_constraints", "mapspace_constraints", "constraints"):
        items, where = targets(content, key, path)
        for item in items:
            kind = item.get("type")
            kind = KINDS.get(str(kind), kind)
            require(kind in CONSTRAINTS, where, f"type {kind!r} is none of {', '.join(CONSTRAINTS)}")
            rules = {key: value for key, value in item.items() if key not in ("target", "type")}
            constraints.setdefault(target_of(item, nodes), []).append({str(kind): rules})
    return constraints


def _rules(node: Mapping[str, Any], others: list[Mapping[str, Any]], where: str) -> dict[str, dict[str, Any]]:
    """Constraints of a node by kind."""
    by_kind: dict[str, dict[str, Any]] = {}
    for each in (checks.table(node.get("constraints", {}), f"{where}: constraints", CONSTRAINTS), *others):
        for kind, rules in each.items():
            plain = kind == "min_parallelism" and not isinstance(rules, Mapping)
            rules = {"min": rules} if plain else rules
            by_kind.setdefault(kind, {}).update(checks.table(rules, f"{where}: constraints.{kind}", CONSTRAINTS[kind]))
    return by_kind


def _loops(rules: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Limits and the allowed dimensions of a node's loops."""
    limits: list[tuple[str, float, float]] = []
    for key in ("factors", "factors_only"):
        listed = rules.get(key, [])
        text = " ".join(map(str, listed)) if isinstance(listed, list) else str(listed)
        # Timeloop writes 0 or -1 for all that other nodes leave.
        text = re.sub(r"=?(?<![0-9])(-1|0)(?![0-9])", "=all", text.replace(",", " "))
        limits += checks.parsed_limits(text, f"{where}: {key}")
    only = {name for name, *_ in limits} if "factors_only" in rules else None
    return {"limits": tuple(limits)} | ({} if only is None else {"dimensions": tuple(sorted(only))})


def _is_idle(rule: Mapping[str, Any], where: str) -> bool:
    """Whether constraints say only what a node without loops and tensors does."""
    for kind, each in rule.items():
        if kind == "dataspace" and each.get("keep"):
            return False
        if kind in ("temporal", "spatial") and any(
            most > 1.0 for *_, most in _loops(each, f"{where}: {kind}")["limits"]
        ):
            return False
    return "min_parallelism" not in rule


def _fanout(name: str, size: int, rules: Mapping[str, Mapping[str, Any]], where: str) -> NestFanout:
    spatial = rules.get("spatial", {})
    alone = any(spatial.get(key) not in (None, False, []) for key in ("no_reuse", "no_multicast_no_reduction"))
    for key in ("no_reuse", "no_multicast_no_reduction"):
        fine = spatial.get(key) in (None, False, [], True, "*", ["*"])
        require(fine, where, f"constraints.spatial.{key} is read for all tensors (true), not for {spatial.get(key)!r}")
    least = rules.get("min_parallelism", {}).get("min", 0.0)
    least = checks.number(least, f"{where}: constraints.min_parallelism", zero=True, most=1.0)
    own = _loops(spatial, f"{where}: constraints.spatial")
    return NestFanout(name=name, size=float(size), multicast=not alone, reduces=not alone, least=least, **own)


def _memory(
    name: str,
    attributes: Mapping[str, Any],
    rules: Mapping[str, Mapping[str, Any]],
    actions: Mapping[str, float],
    sparse: Mapping[str, Any],
    where: str,
) -> NestMemory:
    word = checks.number(attributes.get("datawidth", attributes.get("word-bits", 8)), f"{where}: datawidth")
    # Bits of a row of the memory, which holds one or more words.
    width = checks.number(attributes.get("width", word), f"{where}: width")
    figures: dict[str, Any] = {ENERGIES[action]: energy for action, energy in actions.items() if action in ENERGIES}
    for key, field in BANDWIDTHS.items():
        if key in attributes:
            figures[field] = checks.number(attributes[key], f"{where}: {key}")
    block = checks.number(attributes.get("block_size", width / word), f"{where}: block_size")
    if "depth" in attributes:
        # With several buffers the capacity for a tile is that of one.
        copies = checks.number(attributes.get("multiple_buffering", 1), f"{where}: multiple_buffering")
        figures["capacity"] = width / word * checks.number(attributes["depth"], f"{where}: depth") / copies
    space, temporal = rules.get("dataspace", {}), rules.get("temporal", {})
    keeps, passes = (tuple(names(space.get(key, []), f"{where}: {key}")) for key in ("keep", "bypass"))
    order = names(temporal.get("permutation", []), f"{where}: constraints.temporal.permutation")
    figures |= _loops(temporal, f"{where}: constraints.temporal") | dict(sparse)
    # Permutations of Timeloop begin with the innermost loop, the order of a node with the outermost.
    return NestMemory(
        name=name, keeps=keeps, passes=passes, order=tuple(reversed(order)), word_bits=word, block=block, **figures
    )


def _energy_table(path: str) -> dict[str, dict[str, float]]:
    """J of the actions of each component by its last name; of several energies of one action the largest."""
    content = yaml_object(path).values
    listed = content.get("ERT_summary", content.get("ERT"))
    require(isinstance(listed, Mapping), path, "it has neither ERT_summary nor ERT")
    energies: dict[str, dict[str, float]] = {}
    for row in tables(listed.get("table_summary", listed.get("tables")), path):
        # The name in a table is a path with instances: of system.chip.buffer[1..16] it is buffer.
        name = str(row.get("name")).partition("[")[0].rpartition(".")[2]
        actions = energies.setdefault(name, {})
        for action in tables(row.get("actions"), f"{path}: {name}"):
            energy = action.get("max_energy", action.get("energy", 0.0))
            energy = 1e-12 * checks.number(energy, f"{path}: {name}: {action.get('name')}", zero=True)
            key = str(action.get("name"))
            actions[key] = max(energy, actions.get(key, 0.0))
    return energies
