"""Architectures, problems and mappings of Timeloop, version 0.4: the part of the format that its exercises use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jaxroof.nests import Fanout, Machine, Memory, Problem, Tensor
from jaxroof.nests import Mapping as NestMapping
from workloads.nests import checks
from workloads.nests.checks import require
from workloads.traces.documents import yaml_object

TAGS = ("Container", "Component", "Parallel", "Hierarchical")
"""Kinds of nodes of an architecture."""

ENERGIES = {"read": "read_energy", "write": "write_energy", "update": "update_energy", "leak": "leakage"}
"""Actions of an energy table, pJ, and the fields of a memory."""

BANDWIDTHS = {"read_bandwidth": "read_bandwidth", "write_bandwidth": "write_bandwidth", "shared_bandwidth": "bandwidth"}
"""Attributes of a memory, words per cycle, and its fields."""

NODE = ("tag", "name", "class", "subclass", "attributes", "spatial", "constraints", "required_actions", "enabled")
"""Keys of a component or a container; attributes are Accelergy's, any, and some say what a memory holds and moves."""

CONSTRAINTS = ("dataspace", "temporal", "spatial", "min_parallelism")
"""Kinds of constraints of a node. `split` of a spatial one has no effect on counts: it is read and left."""


def timeloop_problem(path: str) -> Problem:
    """The problem of a YAML file: `problem` with `shape` (dimensions, data_spaces, coefficients) and `instance`.

    Raises:
      ValueError: one line: no such file, PyYAML is not installed, or what is wrong or not covered in it.
    """
    content = _section(path, "problem")
    shape = checks.table(content.get("shape"), f"{path}: problem.shape")
    instance = checks.table(content.get("instance"), f"{path}: problem.instance")
    dimensions = _names(shape.get("dimensions"), f"{path}: problem.shape.dimensions")
    sizes = {
        name: float(checks.whole(instance.get(name, 1), f"{path}: problem.instance.{name}")) for name in dimensions
    }
    where = f"{path}: problem.shape.coefficients"
    listed = _tables(shape.get("coefficients", []), where)
    defaults = {checks.word(each.get("name"), f"{where}: name"): each.get("default", 1) for each in listed}
    factors = {
        name: checks.whole(instance.get(name, value), f"{path}: problem.instance.{name}")
        for name, value in defaults.items()
    }
    tensors = {}
    for space in _tables(shape.get("data_spaces", shape.get("data-spaces")), f"{path}: problem.shape.data_spaces"):
        name = checks.word(space.get("name"), f"{path}: problem.shape.data_spaces: name")
        where, projection = f"{path}: {name}: projection", space.get("projection")
        require(isinstance(projection, list), where, "must be a list of axes")
        axes = tuple(_axis(axis, factors, where) for axis in projection)
        output = space.get("read_write", space.get("read-write", False))
        tensors[name] = Tensor(axes=axes, output=bool(output))
    return checks.checked_problem(Problem(sizes=sizes, tensors=tensors), path)


def timeloop_architecture(path: str, energies: str | None = None) -> Machine:
    """The machine of a YAML file: `architecture` with `nodes`, of which containers fan out over meshX x meshY.

    The last component is the arithmetic. Constraints limit what a search may do: `dataspace` with keep and bypass,
    `temporal` and `spatial` with factors (=, <=, >=; 0 is all that is left), factors_only, permutation and, of a
    container, no_reuse and min_parallelism; in the nodes, or as targets of `architecture_constraints` or
    `mapspace_constraints`.

    Args:
      path: the file.
      energies: a YAML file with an energy reference table (ERT or ERT_summary), pJ per action; without it every energy
        is zero, as an architecture states none.

    Raises:
      ValueError: as of `timeloop_problem`.
    """
    content = _section(path, "architecture")
    require("nodes" in content, path, "architecture.nodes are missing: version 0.4 with nodes is read")
    found: list[Memory | Fanout] = []
    mac, table = 0.0, _energy_table(energies) if energies else {}
    nodes, targets = list(_flat(content["nodes"], path)), _targets(path)
    for node in nodes:
        name = checks.word(node.get("name"), f"{path}: name")
        where = f"{path}: {name}"
        checks.table(node, where, NODE)
        rules = _rules(node, targets.pop(name, []), where)
        size = 1
        for each, count in checks.table(node.get("spatial", {}), f"{where}: spatial", ("meshX", "meshY")).items():
            size *= checks.whole(count, f"{where}: spatial.{each}")
        container = node["tag"] == "Container"
        if size > 1:
            found.append(_fanout(name if container else f"{name}_spatial", size, rules, where))
        if container:
            continue
        attributes = checks.table(node.get("attributes", {}), f"{where}: attributes")
        require(not energies or name in table, where, f"{energies} has no energies of it")
        if node is nodes[-1]:
            mac = table.get(name, {}).get("compute", 0.0)
            continue
        found.append(_memory(name, attributes, rules, table.get(name, {}), where))
    require(bool(found), path, "architecture.nodes has no memory")
    for name in targets:
        require(False, path, f"constraints are for {name}, which is no node")
    return checks.checked_machine(Machine(nodes=tuple(found), mac_energy=mac), path)


def timeloop_mapping(path: str, problem: Problem, machine: Machine) -> NestMapping:
    """The mapping of a YAML file: a list of `mapping` with targets; permutations are from the innermost.

    A spatial target is a container's name, or inter_NAME_spatial as Timeloop writes it. Temporal loops of a fan-out
    must be of 1 iteration.

    Raises:
      ValueError: as of `timeloop_problem` and of `workloads.nests.checks.built_mapping`.
    """
    listed = _section(path, "mapping", list)
    names = {node.name: node for node in machine.nodes}
    loops: dict[str, checks.Loops] = {}
    keeps: dict[str, list[str]] = {}
    for item in _tables(listed, f"{path}: mapping"):
        target = str(item.get("target"))
        inner = target.removeprefix("inter_").removesuffix("_spatial")
        target = target if target in names else inner if inner in names else f"{inner}_spatial"
        require(target in names, path, f"there is no target {item.get('target')}; there are {', '.join(names)}")
        where, kind = f"{path}: {target}", item.get("type")
        if kind in ("datatype", "dataspace", "bypass"):
            if isinstance(names[target], Fanout):
                continue
            gone = _names(item.get("bypass", []), f"{where}: bypass")
            kept = _names(item["keep"], f"{where}: keep") if "keep" in item else list(problem.tensors)
            keeps[target] = [name for name in kept if name not in gone]
            continue
        require(kind in ("temporal", "spatial"), where, f"type {kind!r} is none of temporal, spatial, datatype, bypass")
        counts = dict(_factors(item.get("factors", ""), where))
        order = _names(item.get("permutation", list(counts)), f"{where}: permutation")
        order += [name for name in counts if name not in order]
        fits = (kind == "spatial") == isinstance(names[target], Fanout)
        if not fits:
            require(all(count == 1 for count in counts.values()), where, f"it takes no {kind} loops")
            continue
        loops[target] = [(name, counts[name]) for name in reversed(order) if name in counts]
    return checks.built_mapping(problem, machine, loops, keeps, path)


def _section(path: str, name: str, kind: type = dict) -> Any:
    content = yaml_object(path, tags=TAGS).values
    require(isinstance(content.get(name), kind), path, f"it has no {name}")
    return content[name]


def _flat(nodes: Any, where: str) -> Iterator[Mapping[str, Any]]:
    """Components and containers from the outermost; those in parallel one after the other, as Timeloop has them."""
    for node in _tables(nodes, f"{where}: nodes"):
        require(node.get("tag") in TAGS, where, "a node has none of the tags !Container, !Component, !Parallel")
        if "nodes" in node:
            yield from _flat(node["nodes"], where)
        else:
            yield node


def _targets(path: str) -> dict[str, list[Mapping[str, Any]]]:
    """Constraints that stand beside an architecture, by the node that they are for."""
    content, found = yaml_object(path, tags=TAGS).values, {}
    for section in ("architecture_constraints", "mapspace_constraints", "constraints"):
        listed = content.get(section, {})
        where = f"{path}: {section}"
        for item in _tables(checks.table(listed, where, ("version", "targets")).get("targets", []), where):
            kind = item.get("type")
            known = {"bypass": "dataspace", "datatype": "dataspace", "bypassing": "dataspace"}
            kind = known.get(str(kind), kind)
            require(kind in CONSTRAINTS, where, f"type {kind!r} is none of {', '.join(CONSTRAINTS)}")
            name = str(item.get("target")).removeprefix("inter_").removesuffix("_spatial")
            rules = {key: value for key, value in item.items() if key not in ("target", "type")}
            found.setdefault(name, []).append({kind: rules})
    return found


def _rules(node: Mapping[str, Any], others: list[Mapping[str, Any]], where: str) -> dict[str, dict[str, Any]]:
    """Constraints of a node by kind."""
    found: dict[str, dict[str, Any]] = {}
    for each in (checks.table(node.get("constraints", {}), f"{where}: constraints", CONSTRAINTS), *others):
        for kind, rules in each.items():
            if kind == "min_parallelism":
                found[kind] = {
                    "min": checks.table(rules, where, ("min",))["min"] if isinstance(rules, Mapping) else rules
                }
                continue
            known = {
                "dataspace": ("keep", "bypass"),
                "temporal": ("factors", "factors_only", "permutation"),
                "spatial": ("factors", "factors_only", "permutation", "split", "no_reuse", "no_multicast_no_reduction"),
            }[kind]
            found.setdefault(kind, {}).update(checks.table(rules, f"{where}: constraints.{kind}", known))
    return found


def _loops(rules: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Limits and the allowed dimensions of a node's loops."""
    found: list[tuple[str, float, float]] = []
    for key in ("factors", "factors_only"):
        listed = rules.get(key, [])
        text = " ".join(map(str, listed)) if isinstance(listed, list) else str(listed)
        text = re.sub(r"=?(?<![0-9])(-1|0)(?![0-9])", "=all", text.replace(",", " "))
        found += checks.parsed_limits(text, f"{where}: {key}")
    only = {name for name, *_ in found} if "factors_only" in rules else None
    return {"limits": tuple(found)} | ({} if only is None else {"dimensions": tuple(sorted(only))})


def _fanout(name: str, size: int, rules: Mapping[str, Mapping[str, Any]], where: str) -> Fanout:
    for kind in ("temporal", "dataspace"):
        require(kind not in rules, where, f"constraints.{kind} is for a memory, not for a fan-out")
    spatial = rules.get("spatial", {})
    alone = any(spatial.get(key) not in (None, False, []) for key in ("no_reuse", "no_multicast_no_reduction"))
    for key in ("no_reuse", "no_multicast_no_reduction"):
        fine = spatial.get(key) in (None, False, [], True, "*", ["*"])
        require(fine, where, f"constraints.spatial.{key} is read for all tensors (true), not for {spatial.get(key)!r}")
    least = rules.get("min_parallelism", {}).get("min", 0.0)
    least = checks.number(least, f"{where}: constraints.min_parallelism", zero=True)
    own = _loops(spatial, f"{where}: constraints.spatial")
    return Fanout(name=name, size=float(size), multicast=not alone, reduces=not alone, least=least, **own)


def _memory(
    name: str,
    attributes: Mapping[str, Any],
    rules: Mapping[str, Mapping[str, Any]],
    actions: Mapping[str, float],
    where: str,
) -> Memory:
    word = checks.number(attributes.get("datawidth", attributes.get("word-bits", 8)), f"{where}: datawidth")
    width = checks.number(attributes.get("width", word), f"{where}: width")
    figures: dict[str, Any] = {ENERGIES[action]: energy for action, energy in actions.items() if action in ENERGIES}
    for key, field in BANDWIDTHS.items():
        if key in attributes:
            figures[field] = checks.number(attributes[key], f"{where}: {key}")
    block = checks.number(attributes.get("block_size", width / word), f"{where}: block_size")
    if "depth" in attributes:
        copies = checks.number(attributes.get("multiple_buffering", 1), f"{where}: multiple_buffering")
        figures["capacity"] = width / word * checks.number(attributes["depth"], f"{where}: depth") / copies
    require("min_parallelism" not in rules, where, "constraints.min_parallelism is for a fan-out, not for a memory")
    space, temporal = rules.get("dataspace", {}), rules.get("temporal", {})
    keeps, passes = (tuple(_names(space.get(key, []), f"{where}: {key}")) for key in ("keep", "bypass"))
    order = _names(temporal.get("permutation", []), f"{where}: constraints.temporal.permutation")
    figures |= _loops(temporal, f"{where}: constraints.temporal")
    return Memory(
        name=name, keeps=keeps, passes=passes, order=tuple(reversed(order)), word_bits=word, block=block, **figures
    )


def _energy_table(path: str) -> dict[str, dict[str, float]]:
    """J of the actions of each component by its last name; of several energies of one action the largest."""
    content = yaml_object(path).values
    listed = content.get("ERT_summary", content.get("ERT"))
    require(isinstance(listed, Mapping), path, "it has neither ERT_summary nor ERT")
    found: dict[str, dict[str, float]] = {}
    for row in _tables(listed.get("table_summary", listed.get("tables")), path):
        name = str(row.get("name")).partition("[")[0].rpartition(".")[2]
        actions = found.setdefault(name, {})
        for action in _tables(row.get("actions"), f"{path}: {name}"):
            energy = action.get("max_energy", action.get("energy", 0.0))
            energy = 1e-12 * checks.number(energy, f"{path}: {name}: {action.get('name')}", zero=True)
            key = str(action.get("name"))
            actions[key] = max(energy, actions.get(key, 0.0))
    return found


def _axis(axis: Any, factors: Mapping[str, int], where: str) -> tuple[tuple[int, str], ...]:
    """One axis: a list of terms, each a dimension and perhaps a coefficient."""
    terms = []
    require(isinstance(axis, list), where, f"{axis!r} must be a list")
    for term in axis if axis and isinstance(axis[0], list) else [axis]:
        name, *coefficient = _names(term, where)
        for each in coefficient:
            require(each in factors, where, f"{each} is no coefficient")
        terms.append((factors[coefficient[0]] if coefficient else 1, name))
    return tuple(terms)


def _factors(value: Any, where: str) -> checks.Loops:
    """Factors as "P=4 Q=2", "P4,Q2" or a list of such texts."""
    parts = value if isinstance(value, list) else [value]
    return [loop for part in parts for loop in checks.parsed_loops(str(part).replace(",", " "), f"{where}: factors")]


def _names(value: Any, where: str) -> list[str]:
    """A list of names; or a text of letters, each one."""
    if isinstance(value, str):
        value = value.replace(",", " ").split() if "," in value or " " in value else list(value)
    return list(checks.words(value, where))


def _tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    require(
        isinstance(value, list) and all(isinstance(each, Mapping) for each in value), where, "must be a list of tables"
    )
    return value
