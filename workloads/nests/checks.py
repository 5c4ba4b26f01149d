"""Checks of loop nests that files describe; a message is one line: file, place, value and what is allowed."""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from jaxroof.nests import Fanout, Limits, Machine, Problem
from jaxroof.nests import Mapping as NestMapping

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


def table(value: Any, where: str, known: Collection[str] = ()) -> Mapping[str, Any]:
    """A table with names of `known` only, where these are given."""
    require(isinstance(value, Mapping), where, f"{_shown(value)} must be a table")
    for name in value:
        if known and name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(known)}"
            raise ValueError(f"{where}: there is no {name}; {hint}")
    return value


def number(value: Any, where: str, zero: bool = False) -> float:
    """A positive, finite number; zero where that is a sensible value."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    fine = plain and math.isfinite(value) and (value > 0 or (zero and value == 0))
    require(fine, where, f"{_shown(value)} must be a {'number of 0 or more' if zero else 'positive number'}")
    return float(value)


def whole(value: Any, where: str) -> int:
    """A whole number of 1 or more."""
    fine = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST
    require(fine, where, f"{_shown(value)} must be a whole number from 1 to {MOST}")
    return value


def word(value: Any, where: str) -> str:
    """A name of letters, digits and underscores."""
    fine = isinstance(value, str) and NAME.fullmatch(value) is not None
    require(fine, where, f"{_shown(value)} must be a name of letters, digits and _")
    return value


def words(value: Any, where: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """A list of names, each once."""
    require(isinstance(value, list), where, f"{_shown(value)} must be a list of names")
    found = tuple(word(each, where) for each in value)
    require(len(set(found)) == len(found), where, f"{_shown(value)} has a name twice")
    for each in found:
        require(not known or each in known, where, f"{each} is none of {', '.join(known)}")
    return found


def text(value: Any, where: str) -> str:
    """A text."""
    require(isinstance(value, str), where, f"{_shown(value)} must be text")
    return value


def flag(value: Any, where: str) -> bool:
    """True or false."""
    require(isinstance(value, bool), where, f"{_shown(value)} must be true or false")
    return value


def checked_problem(problem: Problem, where: str) -> Problem:
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
            known = ", ".join(problem.sizes)
            require(dimension in problem.sizes, f"{where}: {name}", f"{dimension} is no dimension; there are {known}")
    return problem


def checked_machine(machine: Machine, where: str) -> Machine:
    """A machine that begins with a memory, with nodes of different names."""
    names = [node.name for node in machine.nodes]
    require(1 <= len(names) <= MOST_NODES, where, f"an architecture has 1 to {MOST_NODES} nodes")
    require(len(set(names)) == len(names), where, "two nodes have one name")
    require(not isinstance(machine.nodes[0], Fanout), where, f"the outermost node, {names[0]}, must be a memory")
    return machine


def built_mapping(
    problem: Problem,
    machine: Machine,
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
    reached = dict.fromkeys(problem.sizes, 1)
    for name, nest in loops.items():
        require(len({each for each, _ in nest}) == len(nest), f"{where}: {name}", "a dimension is there twice")
        for dimension, count in nest:
            known = ", ".join(problem.sizes)
            require(dimension in reached, f"{where}: {name}", f"{dimension} is no dimension; there are {known}")
            reached[dimension] *= count
    for dimension, size in problem.sizes.items():
        fits = size <= reached[dimension] <= 2 * size if padded else reached[dimension] == size
        require(fits, where, f"factors of {dimension} multiply to {reached[dimension]}; its size is {size:.0f}")
    return NestMapping(
        factors=tuple({each: float(n) for each, n in loops.get(name, []) if n > 1} for name in names),
        orders=tuple(tuple(each for each, n in loops.get(name, []) if n > 1) for name in names),
        kept=residents(problem, machine, keeps, where),
    )


def broken_limits(machine: Machine, mapping: NestMapping) -> list[str]:
    """What a mapping does that the machine's limits do not let a search do, in words: "PE_rows: Q is 4"."""
    found = []
    for place, (node, factors) in enumerate(zip(machine.nodes, mapping.factors, strict=True)):
        limits = {name: (least, most) for name, least, most in node.limits}
        for name in dict.fromkeys((*factors, *limits)):
            allowed = node.dimensions is None or name in node.dimensions or place == 0
            least, most = limits.get(name, (1.0, math.inf if allowed else 1.0))
            count = factors.get(name, 1.0)
            if count > most or (count < least < math.inf):
                found.append(f"{node.name}: {name} is {count:.0f}")
        if isinstance(node, Fanout) and (used := math.prod(factors.values())) < node.least * node.size:
            found.append(f"{node.name}: {used:.0f} of {node.size:.0f} are used")
    return found


def residents(
    problem: Problem, machine: Machine, keeps: Mapping[str, Collection[str]], where: str
) -> tuple[tuple[str, ...], ...]:
    """Tensors that reside in each node; see `built_mapping`."""
    kept: list[tuple[str, ...]] = []
    for node in machine.nodes:
        if isinstance(node, Fanout):
            kept.append(())
            continue
        able = [name for name in node.keeps or problem.tensors if name not in node.passes]
        wanted: Iterable[str] = keeps.get(node.name, able)
        for name in wanted if node.name in keeps else ():
            known = ", ".join(problem.tensors)
            require(name in problem.tensors, f"{where}: {node.name}", f"{name} is no tensor; there are {known}")
            require(name in able, f"{where}: {node.name}", f"{name} cannot reside there; it keeps {', '.join(able)}")
        kept.append(tuple(name for name in problem.tensors if name in set(wanted)))
    missing = [name for name in problem.tensors if name not in kept[0]]
    outermost = machine.nodes[0].name
    require(not missing, where, f"{', '.join(missing)} must reside in the outermost memory, {outermost}")
    return tuple(kept)


def parsed_loops(value: Any, where: str) -> Loops:
    """Loops of a text such as "P8 Q2", from the outermost."""
    found = []
    for part in text(value, where).split():
        match = re.fullmatch(r"([A-Za-z_]+)=?([0-9]{1,16})", part)
        require(match is not None, where, f"{_shown(part)} must be a dimension and a count, such as P8")
        found.append((match[1], whole(int(match[2]), where)))
    return found


def parsed_limits(value: Any, where: str) -> Limits:
    """Limits of loops from a text such as "P=1 M<=4 S>=3 C=all"; the last one has what other nodes leave."""
    found = []
    for part in text(value, where).split():
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*?)(<=|>=|=|)([0-9]{1,16}|all)", part)
        require(match is not None, where, f"{_shown(part)} must be a dimension and a count, such as P=8 or P<=8")
        count = math.inf if match[3] == "all" else float(whole(int(match[3]), where))
        found.append((match[1], 1.0 if match[2] == "<=" else count, math.inf if match[2] == ">=" else count))
    return tuple(found)


def _shown(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:57]}..."
