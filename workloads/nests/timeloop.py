"""Problems and mappings of Timeloop, version 0.4."""

from collections.abc import Mapping
from typing import Any

from jaxroof.nests import Mapping as NestMapping
from jaxroof.nests import NestFanout, NestMachine, NestMemory, NestProblem, NestTensor
from workloads.nests import checks
from workloads.nests.checks import require, tables
from workloads.nests.timeloop_yaml import names, section, target_of


def timeloop_problem(path: str) -> NestProblem:
    """The problem of a YAML file: `problem` with `shape` (dimensions, data_spaces, coefficients) and `instance`.

    Raises:
      ValueError: one line: no such file, PyYAML is not installed, or what is wrong or not covered in it.
    """
    content = section(path, "problem")
    shape = checks.table(content.get("shape"), f"{path}: problem.shape")
    dimensions = names(shape.get("dimensions"), f"{path}: problem.shape.dimensions")
    where = f"{path}: problem.shape.coefficients"
    listed = tables(shape.get("coefficients", []), where)
    # Coefficients, such as strides, with the values that they have where an instance states none.
    defaults = {checks.word(each.get("name"), f"{where}: name"): each.get("default", 1) for each in listed}
    where = f"{path}: problem.instance"
    instance = checks.table(content.get("instance"), where, (*dimensions, *defaults, "densities"))
    sizes = {name: float(checks.whole(instance.get(name, 1), f"{where}.{name}")) for name in dimensions}
    factors = {name: checks.whole(instance.get(name, one), f"{where}.{name}") for name, one in defaults.items()}
    tensors, densities = {}, _densities(instance.get("densities", {}), f"{path}: problem.instance.densities")
    # Keys have underscores or dashes.
    for space in tables(shape.get("data_spaces", shape.get("data-spaces")), f"{path}: problem.shape.data_spaces"):
        name = checks.word(space.get("name"), f"{path}: problem.shape.data_spaces: name")
        where = f"{path}: {name}: projection"
        projection = checks.items(space.get("projection"), where, "must be a list of axes")
        axes = tuple(_axis(axis, factors, where) for axis in projection)
        output = checks.flag(space.get("read_write", space.get("read-write", False)), f"{path}: {name}: read_write")
        tensors[name] = NestTensor(axes=axes, output=output, density=densities.pop(name, 1.0))
    # Densities were taken out for each data space: those that are left are of none.
    for name in densities:
        checks.require_known(name, tensors, f"{path}: problem.instance.densities", "data space")
    return checks.checked_problem(NestProblem(sizes=sizes, tensors=tensors), path)


def timeloop_mapping(path: str, problem: NestProblem, machine: NestMachine) -> NestMapping:
    """The mapping of a YAML file: a list of `mapping` with targets; permutations are from the innermost.

    A spatial target is a container's name, or inter_NAME_spatial as Timeloop writes it; of a memory, the fan-out below
    it. Temporal loops of a fan-out, and all of what the architecture has once, must be of 1 iteration.

    Raises:
      ValueError: as of `timeloop_problem` and of `workloads.nests.checks.built_mapping`.
    """
    listed = section(path, "mapping", list)
    nodes = {node.name: node for node in machine.nodes}
    loops: dict[str, checks.Loops] = {}
    keeps: dict[str, list[str]] = {}
    for item in tables(listed, f"{path}: mapping"):
        kind, target = item.get("type"), target_of(item, nodes)
        where = f"{path}: {target}"
        if kind in ("datatype", "dataspace", "bypass"):
            if isinstance(nodes.get(target), NestMemory):
                gone = names(item.get("bypass", []), f"{where}: bypass")
                # Without a list of what is kept, everything is that is not bypassed.
                held = names(item["keep"], f"{where}: keep") if "keep" in item else list(problem.tensors)
                keeps[target] = [name for name in held if name not in gone]
            continue
        require(kind in ("temporal", "spatial"), where, f"type {kind!r} is none of temporal, spatial, datatype, bypass")
        factors = _factors(item.get("factors", ""), where)
        counts = dict(factors)
        require(len(counts) == len(factors), f"{where}: factors", "a dimension is there twice")
        order = names(item.get("permutation", list(counts)), f"{where}: permutation")
        for name in order:
            checks.require_known(name, problem.sizes, f"{where}: permutation", "dimension")
        # Dimensions that the permutation leaves out are the outermost.
        order += [name for name in counts if name not in order]
        # Loops of a single iteration may stand anywhere.
        alone = all(count == 1 for count in counts.values())
        require(alone or target in nodes, path, f"there is no target {target}; there are {', '.join(nodes)}")
        if target not in nodes:
            continue
        fits = (kind == "spatial") == isinstance(nodes[target], NestFanout)
        require(alone or fits, where, f"it takes no {kind} loops")
        if fits:
            require(target not in loops, where, f"two directives give its {kind} loops")
            # Permutations begin with the innermost loop, `Loops` with the outermost.
            loops[target] = [(name, counts[name]) for name in reversed(order) if name in counts]
    return checks.built_mapping(problem, machine, loops, keeps, path)


def _densities(content: Any, where: str) -> dict[str, float]:
    """Shares that are not zero: a number each, or `density` of a `distribution` that is the same everywhere."""
    densities = {}
    for name, value in checks.table(content, where).items():
        if isinstance(value, Mapping):
            kind = str(value.get("distribution")).replace("-", "_")
            fine = kind in ("fixed_structured", "hypergeometric")
            require(fine, f"{where}.{name}", f"distribution {kind} is none of fixed_structured, hypergeometric")
            value = value.get("density")
        densities[name] = checks.number(value, f"{where}.{name}", most=1.0)
    return densities


def _axis(axis: Any, factors: Mapping[str, int], where: str) -> tuple[tuple[int, str], ...]:
    """One axis: a list of terms, each a dimension and perhaps a coefficient."""
    terms = []
    require(isinstance(axis, list) and axis != [], where, f"{axis!r} must be a list of terms")
    for term in axis if isinstance(axis[0], list) else [axis]:
        require(term != [], where, "a term has a dimension, and perhaps a coefficient; one is empty")
        name, *coefficient = names(term, where)
        for each in coefficient:
            require(each in factors, where, f"{each} is no coefficient")
        terms.append((factors[coefficient[0]] if coefficient else 1, name))
    return tuple(terms)


def _factors(value: Any, where: str) -> checks.Loops:
    """Factors as "P=4 Q=2", "P4,Q2" or a list of such texts."""
    parts = value if isinstance(value, list) else [value]
    return [loop for part in parts for loop in checks.parsed_loops(str(part).replace(",", " "), f"{where}: factors")]
