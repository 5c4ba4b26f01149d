"""Loops over axes for a graph: every operation in the loops over just the axes that it depends on."""

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from sweeps.run.native.graph import COMPARED, Graph

Dims = tuple[int, ...]
"""Numbers of the axes that a node depends on, outermost first."""

SHORT = 16
"""Positions below which an axis leaves too many lanes of vectors empty to be the innermost, if one is twice as long."""


@dataclasses.dataclass(frozen=True)
class Nest:
    """Loops over some axes, the last one innermost, and what is done inside of them."""

    dims: Dims
    nodes: tuple[int, ...]  # to compute, each after what it is made of
    reads: tuple[int, ...]  # inputs, and nodes of other nests
    writes: tuple[int, ...]  # nodes that are outputs, or that other nests read


def dependence(graph: Graph, inputs: Mapping[int, Dims]) -> list[Dims]:
    """Axes that each node of a graph depends on, from those of its inputs."""
    node_dims: list[Dims] = []
    # Nodes are numbered as they are made: arguments always come before what is made of them.
    for node, operation in enumerate(graph.operations):
        if operation in ("input", "number"):
            node_dims.append(inputs.get(node, ()))
        else:
            own = [node_dims[argument] for argument in graph.arguments[node]]
            # The common case first: arguments over the same axes, which need no sorting.
            node_dims.append(own[0] if all(dims == own[0] for dims in own) else tuple(sorted(set().union(*own))))
    return node_dims


def nests(graph: Graph, dims: list[Dims], outputs: Iterable[int]) -> list[Nest]:
    """The loops that compute `outputs`, each after those that it reads from.

    An output that is an input or a number is in no loop: whoever asks for it has it already.
    """
    outputs = list(dict.fromkeys(outputs))
    order = _order(graph, outputs)
    # Every set of axes has one nest.
    own: dict[Dims, list[int]] = {}
    for node in order:
        if graph.operations[node] != "input":
            own.setdefault(dims[node], []).append(node)
    read: dict[Dims, dict[int, None]] = {nest: {} for nest in own}
    for node in order:
        if graph.operations[node] != "input":
            # Constants are part of the code, and nodes of the same nest are in registers: only the rest is read.
            for argument in graph.arguments[node]:
                if graph.operations[argument] != "number" and (
                    graph.operations[argument] == "input" or dims[argument] != dims[node]
                ):
                    read[dims[node]][argument] = None
    written = {node for reads in read.values() for node in reads} | set(outputs)
    # Nests over fewer axes come first, because those over more axes read from them.
    return [
        Nest(nest, tuple(own[nest]), tuple(read[nest]), tuple(node for node in own[nest] if node in written))
        for nest in sorted(own, key=lambda nest: (len(nest), nest))
    ]


def _order(graph: Graph, outputs: list[int]) -> list[int]:
    """All nodes that outputs are made of, but constants: each soon after what it is made of, to be in a register."""
    order: list[int] = []
    seen = set()
    for output in outputs:
        # Depth first on an explicit stack: chains of operations may be deeper than Python's recursion.
        stack = [(output, False)]
        while stack:
            node, complete = stack.pop()
            if complete:
                order.append(node)
            elif node not in seen and graph.operations[node] != "number":
                seen.add(node)
                stack.append((node, True))
                if graph.operations[node] != "input":
                    stack += [(argument, False) for argument in graph.arguments[node]]
    return order


def loop_order(sizes: Sequence[int]) -> list[int]:
    """Axes from the outermost loop to the innermost: as they come, or with the longest one last."""
    order = list(range(len(sizes)))
    # A long innermost axis fills the lanes of vectors.
    longest = max(order, key=lambda axis: sizes[axis], default=0)
    if sizes and sizes[-1] < SHORT and sizes[longest] >= 2 * sizes[-1]:
        order.append(order.pop(longest))
    return order


# Quotients that loops work out as products: a division takes ten times as long as the product with a reciprocal.


ROUNDED = frozenset({"floor", "ceil", "round", "whole", "rem"})
"""Operations that a last digit may change the whole value of."""


def exact(graph: Graph, nodes: Sequence[int] | None = None) -> set[int]:
    """Nodes that a rounding, or a comparison with a number other than 0, is made of.

    Whatever is a whole number there must stay one, as the tiles of a matrix and the heads of a device. What is compared
    with 0, with infinity or with another varying value is a quantity: its last digit decides nothing.

    Args:
      nodes: that may decide so, each after what it is made of; None: all of the graph.
    """
    exact_nodes: set[int] = set()
    # From the last node to the first, so that what a node is used for is known before its arguments are reached.
    for node in reversed(range(len(graph.operations)) if nodes is None else nodes):
        if graph.operations[node] not in ("input", "number") and (node in exact_nodes or _decides(graph, node)):
            exact_nodes.update(graph.arguments[node])
    return exact_nodes


def products(graph: Graph, nest: Nest, dims: list[Dims], kept: set[int]) -> frozenset[int]:
    """Divisions of a nest to replace: by what divides more than once, or is settled before the innermost loop.

    Args:
      dims: axes that each node depends on.
      kept: divisions to leave as they are.
    """
    # Quotients of floats by the node that they are divided by.
    divisors = {
        node: graph.arguments[node][1]
        for node in nest.nodes
        if graph.operations[node] == "div" and graph.kinds[node] == "f" and node not in kept
    }
    uses = collections.Counter(divisors.values())
    # A reciprocal pays where it is used again, or computed outside of the innermost loop.
    return frozenset(
        node for node, divisor in divisors.items() if uses[divisor] > 1 or dims[divisor][-1:] != nest.dims[-1:]
    )


def _decides(graph: Graph, node: int) -> bool:
    if graph.operations[node] in COMPARED:
        # Zero and infinity are excluded: a value near them is not decided by its last digit.
        return any(value and math.isfinite(value) for value in map(graph.value, graph.arguments[node]))
    return graph.operations[node] in ROUNDED
