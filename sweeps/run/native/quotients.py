"""Quotients that loops work out as products: a division takes ten times as long as the product with a reciprocal."""

import collections
import math

from sweeps.run.native.graph import COMPARED, Graph
from sweeps.run.native.nests import Dims, Nest

ROUNDED = frozenset({"floor", "ceil", "round", "whole", "rem"})
"""Operations that a last digit may change the whole value of."""


def exact(graph: Graph) -> set[int]:
    """Nodes that a rounding, or a comparison with a number other than 0, is made of.

    Whatever is a whole number there must stay one, as the tiles of a matrix and the heads of a device. What is compared
    with 0, with infinity or with another varying value is a quantity: its last digit decides nothing.
    """
    found: set[int] = set()
    for node in range(len(graph.operations) - 1, -1, -1):
        if graph.operations[node] not in ("input", "number") and (node in found or _decides(graph, node)):
            found.update(graph.arguments[node])
    return found


def products(graph: Graph, nest: Nest, dims: list[Dims], kept: set[int]) -> frozenset[int]:
    """Divisions of a nest to replace: by what divides more than once, or is settled before the innermost loop.

    Args:
      dims: axes that each node depends on.
      kept: divisions to leave as they are.
    """
    divisors = {
        node: graph.arguments[node][1]
        for node in nest.nodes
        if graph.operations[node] == "div" and graph.kinds[node] == "f" and node not in kept
    }
    uses = collections.Counter(divisors.values())
    return frozenset(
        node for node, divisor in divisors.items() if uses[divisor] > 1 or dims[divisor][-1:] != nest.dims[-1:]
    )


def _decides(graph: Graph, node: int) -> bool:
    if graph.operations[node] in COMPARED:
        return any(value and math.isfinite(value) for value in map(graph.value, graph.arguments[node]))
    return graph.operations[node] in ROUNDED
