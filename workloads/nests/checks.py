"""Checks of loop nests that files describe; a message is one line: file, place, value and what is allowed."""

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from jaxroof.nests import Limits, NestFanout, NestMachine, NestMemory, NestProblem, NestTensor
from jaxroof.nests import Mapping as NestMapping
from workloads.streams.kinds import nearest

TENSORS = ("Weights", "Inputs", "Outputs")
"""Names of the tensors of convolutions and matrix products; shipped architectures know them."""

CONVOLUTION, MATMUL = "NMCPQRSG", "MNK"
"""Dimensions of convolutions and matrix products, each a letter."""

Axes = tuple[tuple[tuple[int, str], ...], ...]
"""Axes of a tensor; each is a sum of terms, a coefficient and a dimension."""


def convolution(
    sizes: Mapping[str, int], stride: int = 1, dilation: int = 1, densities: Mapping[str, float] | None = None
) -> NestProblem:
    """A convolution: N images, M filters, C channels, P x Q outputs, R x S weights; G groups of M and C each."""
    # One group needs no dimension of its own.
    group = "G" if sizes.get("G", 1) > 1 else ""
    # Input row of output row p and weight row r: stride p + dilation r; columns likewise.
    row, column = ((stride, "P"), (dilation, "R")), ((stride, "Q"), (dilation, "S"))
    axes = (_plain(f"{group}MCRS"), (*_plain(f"N{group}C"), row, column), _plain(f"N{group}MPQ"))
    return einsum(sizes, dict(zip(TENSORS, axes, strict=True)), "Outputs", densities)


def matmul(m: int, n: int, k: int, densities: Mapping[str, float] | None = None) -> NestProblem:
    """A product of inputs [m, k] and weights [k, n]."""
    axes = {"Weights": _plain("KN"), "Inputs": _plain("MK"), "Outputs": _plain("MN")}
    return einsum({"M": m, "N": n, "K": k}, axes, "Outputs", densities)


def einsum(
    sizes: Mapping[str, int], axes: Mapping[str, Axes], output: str, densities: Mapping[str, float] | None = None
) -> NestProblem:
    """Any product of tensors, by the axes of each; densities are 1 where they are not given."""
    shares = densities or {}
    tensors = {
        name: NestTensor(axes=each, output=name == output, density=shares.get(name, 1.0)) for name, each in axes.items()
    }
    return NestProblem(sizes={name: float(size) for name, size in sizes.items()}, tensors=tensors)


def _plain(dimensions: str) -> Axes:
    """An axis for each dimension."""
    return tuple(((1, name),) for name in dimensions)


MOST = 2**53
"""Iterations of a dimension, and MACs of a problem: whole numbers that a float counts exactly."""

MOST_DIMENSIONS, MOST_NODES, MOST_TENSORS = 16, 32, 8
"""Of one problem and one machine; formulas grow with their product."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
"""Of a dimension, a tensor or a node."""

Loops = list[tuple[str, int]]
"""Dimensions with counts, from the outermost."""


def require(condition: bool, where: str, message: str) -> None:
    """ValueError of one line where a condition does not hold."""
    if not condition:
        raise ValueError(f"{where}: {message}")


def matched(pattern: str, part: str, where: str, message: str) -> re.Match[str]:
    """The match of a whole text; ValueError of one line where there is none."""
    match = re.fullmatch(pattern, part)
    if match is None:
        raise ValueError(f"{where}: {message}")
    return match


def items(value: Any, where: str, message: str) -> list[Any]:
    """A list; ValueError of one line for anything else."""
    if not isinstance(value, list):
        raise ValueError(f"{where}: {message}")
    return value


def require_known(name: str, known: Collection[str], where: str, what: str) -> None:
    """ValueError of one line where a name is none of those that there are."""
    require(name in known, where, f"{name} is no {what}; there are {', '.join(known)}")


def table(value: Any, where: str, known: Collection[str] = ()) -> Mapping[str, Any]:
    """A table with names of `known` only, where these are given."""
    _require_kind(isinstance(value, Mapping), value, where, "a table")
    for name in value:
        text(name, f"{where}: a name")
        require(not known or name in known, where, f"there is no {name}{nearest(name, known)}")
    return value


def tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    """A list of tables."""
    fine = isinstance(value, list) and all(isinstance(each, Mapping) for each in value)
    _require_kind(fine, value, where, "a list of tables")
    return value


def number(value: Any, where: str, zero: bool = False, most: float = math.inf) -> float:
    """A positive, finite number; zero where that is a sensible value."""
    # bool is a subclass of int, and no number here.
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    fine = plain and math.isfinite(value) and (value > 0 or (zero and value == 0))
    _require_kind(fine, value, where, "a number of 0 or more" if zero else "a positive number")
    require(value <= most, where, f"{value:g} must be at most {most:g}")
    return float(value)


def whole(value: Any, where: str) -> int:
    """A whole number of 1 or more."""
    fine = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST
    _require_kind(fine, value, where, f"a whole number from 1 to {MOST}")
    return value


def word(value: Any, where: str) -> str:
    """A name of letters, digits and underscores."""
    fine = isinstance(value, str) and NAME.fullmatch(value) is not None
    _require_kind(fine, value, where, "a name of letters, digits and _")
    return value


def words(value: Any, where: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """A list of names, each once."""
    _require_kind(isinstance(value, list), value, where, "a list of names")
    names = tuple(word(each, where) for each in value)
    require(len(set(names)) == len(names), where, f"{_shown(value)} has a name twice")
    for each in names:
        require(not known or each in known, where, f"{each} is none of {', '.join(known)}")
    return names


def text(value: Any, where: str) -> str:
    """A text."""
    _require_kind(isinstance(value, str), value, where, "text")
    return value


def flag(value: Any, where: str) -> bool:
    """True or false."""
    _require_kind(isinstance(value, bool), value, where, "true or false")
    return value


def checked_problem(problem: NestProblem, where: str) -> NestProblem:
    """A problem whose size is bounded, that has one output, and whose tensors have its dimensions.

    Raises:
      ValueError: one line.
    """
    require(1 <= len(problem.sizes) <= MOST_DIMENSIONS, where, f"a problem has 1 to {MOST_DIMENSIONS} dimensions")
    require(1 <= len(problem.tensors) <= MOST_TENSORS, where, f"a problem has 1 to {MOST_TENSORS} tensors")
    require(problem.macs <= MOST, where, f"{problem.macs:.3g} multiply-accumulates; at most {MOST:.3g} are counted")
    outputs = [name for name, tensor in problem.tensors.items() if tensor.output]
    require(len(outputs) == 1, where, f"one tensor is the output, not {len(outputs)}")
    for name, tensor in problem.tensors.items():
        terms = [dimension for axis in tensor.axes for _, dimension in axis]
        require(len(set(terms)) == len(terms), f"{where}: {name}", "a dimension stands in two of its terms")
        for dimension in terms:
            require_known(dimension, problem.sizes, f"{where}: {name}", "dimension")
    return problem


def checked_machine(machine: NestMachine, where: str) -> NestMachine:
    """A machine that begins with a memory, with nodes of different names."""
    names = [node.name for node in machine.nodes]
    require(1 <= len(names) <= MOST_NODES, where, f"an architecture has 1 to {MOST_NODES} nodes")
    require(len(set(names)) == len(names), where, "two nodes have one name")
    require(not isinstance(machine.nodes[0], NestFanout), where, f"the outermost node, {names[0]}, must be a memory")
    return machine


def built_mapping(
    problem: NestProblem,
    machine: NestMachine,
    loops: Mapping[str, Loops],
    keeps: Mapping[str, Collection[str]],
    where: str,
    padded: bool = False,
) -> NestMapping:
    """A mapping of a problem on a machine.

    Args:
      problem, machine: what is mapped, and on what.
      loops: loops of nodes by name; a node without any has none.
      keeps: tensors that reside in a memory, by its name; those that it may keep where it is not named.
      where: the file.
      padded: factors may multiply to more than a dimension's size, at most twice as much.

    Raises:
      ValueError: one line: a node, dimension or tensor that there is not, a dimension twice in one node, factors that
        do not multiply to a dimension's size, a tensor that the outermost memory does not keep.
    """
    names = [node.name for node in machine.nodes]
    for name in (*loops, *keeps):
        require(name in names, where, f"there is no node {name}; there are {', '.join(names)}")
    # By dimension: the product of the counts of its loops over all nodes.
    reached = dict.fromkeys(problem.sizes, 1)
    for name, nest in loops.items():
        require(len({each for each, _ in nest}) == len(nest), f"{where}: {name}", "a dimension is there twice")
        for dimension, count in nest:
            require_known(dimension, problem.sizes, f"{where}: {name}", "dimension")
            reached[dimension] *= count
    for dimension, size in problem.sizes.items():
        fits = size <= reached[dimension] <= 2 * size if padded else reached[dimension] == size
        more = ", and at most twice that when it is padded" if padded else ""
        require(fits, where, f"factors of {dimension} multiply to {reached[dimension]}; its size is {size:.0f}{more}")
    # A loop of one iteration is none.
    factors = tuple({each: float(count) for each, count in loops.get(name, ()) if count > 1} for name in names)
    resident = residents(problem, machine, keeps, where)
    return NestMapping(factors=factors, orders=tuple(map(tuple, factors)), kept=resident)


def broken_limits(machine: NestMachine, mapping: NestMapping) -> list[str]:
    """What a mapping does that the machine's limits do not let a search do, in words: "PE_rows: Q is 4"."""
    broken = []
    for place, (node, factors) in enumerate(zip(machine.nodes, mapping.factors, strict=True)):
        # Dimensions with a limit are checked even where the node has no loop over them.
        for name in dict.fromkeys((*factors, *(limited for limited, *_ in node.limits))):
            (least, most), count = machine.bounds(place, name), factors.get(name, 1.0)
            # An infinite lower limit means all that other nodes leave, so no count is below it.
            if count > most or (count < least < math.inf):
                broken.append(f"{node.name}: {name} is {count:.0f}")
        # A fan-out may have to use a least share of its instances.
        if isinstance(node, NestFanout) and (used := math.prod(factors.values())) < node.least * node.size:
            broken.append(f"{node.name}: {used:.0f} of {node.size:.0f} are used")
    return broken


def residents(
    problem: NestProblem, machine: NestMachine, keeps: Mapping[str, Collection[str]], where: str
) -> tuple[tuple[str, ...], ...]:
    """Tensors that reside in each node; see `built_mapping`."""
    resident: list[tuple[str, ...]] = []
    for node in machine.nodes:
        able: Collection[str] = ()
        if isinstance(node, NestMemory):
            # A memory may keep what it lists, or every tensor, but not what it passes on.
            able = [name for name in node.keeps or problem.tensors if name not in node.passes]
        for name in keeps.get(node.name, ()):
            require_known(name, problem.tensors, f"{where}: {node.name}", "tensor")
            holds = f"it keeps {', '.join(able)}" if able else "it keeps none"
            require(name in able, f"{where}: {node.name}", f"{name} cannot reside there; {holds}")
        # Where the mapping does not name a memory, all that it may keep resides there.
        resident.append(tuple(name for name in problem.tensors if name in keeps.get(node.name, able)))
    missing = [name for name in problem.tensors if name not in resident[0]]
    outermost = machine.nodes[0].name
    require(not missing, where, f"{', '.join(missing)} must reside in the outermost memory, {outermost}")
    return tuple(resident)


def require_names(problem: NestProblem, machine: NestMachine, where: str) -> None:
    """ValueError of one line where a node names a tensor or a dimension that neither the problem nor other layers have.

    A machine may name what some layers lack: the weights of a layer without any, the windows of a product.
    """
    tensors = dict.fromkeys((*problem.tensors, *TENSORS))
    dimensions = dict.fromkeys((*problem.sizes, *CONVOLUTION, *MATMUL))
    for node in machine.nodes:
        named: list[str] = []
        if isinstance(node, NestMemory):
            named += [*node.keeps, *node.passes, *node.gated_by, *(node.compression or ())]
            loops = [*(node.dimensions or ()), *node.order]
        else:
            named += [*(node.transfer_energy or ()), *(node.transfer_bandwidth or ())]
            loops = [*(node.dimensions or ())]
        for name in named:
            require_known(name, tensors, f"{where}: {node.name}", "tensor")
        for name in (*loops, *(limited for limited, *_ in node.limits)):
            require_known(name, dimensions, f"{where}: {node.name}", "dimension")
    for name in machine.gated_by:
        require_known(name, tensors, f"{where}: gated_by", "tensor")


def parsed_loops(value: Any, where: str) -> Loops:
    """Loops of a text such as "P8 Q2", from the outermost."""
    loops = []
    for part in text(value, where).split():
        wanted = f"{_shown(part)} must be a dimension and a count, such as P8"
        # The sign is optional: P8 or P=8.
        match = matched(r"([A-Za-z_]+)=?([0-9]{1,16})", part, where, wanted)
        loops.append((match[1], whole(int(match[2]), where)))
    return loops


def parsed_limits(value: Any, where: str) -> Limits:
    """Limits of loops from a text such as "P=1 M<=4 S>=3 C=all"; the last one has what other nodes leave."""
    limits: list[tuple[str, float, float]] = []
    for part in text(value, where).split():
        wanted = f"{_shown(part)} must be a dimension and a count, such as P=8 or P<=8"
        match = matched(r"([A-Za-z_][A-Za-z0-9_]*?)(<=|>=|=|)([0-9]{1,16}|all)", part, where, wanted)
        # P=8 bounds from both sides, P<=8 from above with 1 below, P>=8 from below; infinity stands for `all`.
        count = math.inf if match[3] == "all" else float(whole(int(match[3]), where))
        require(match[1] not in (name for name, *_ in limits), where, f"{match[1]} is there twice")
        limits.append((match[1], 1.0 if match[2] == "<=" else count, math.inf if match[2] == ">=" else count))
    return tuple(limits)


def _require_kind(fine: bool, value: Any, where: str, kind: str) -> None:
    require(fine, where, f"it is missing; it must be {kind}" if value is None else f"{_shown(value)} must be {kind}")


def _shown(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:57]}..."
