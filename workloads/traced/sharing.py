"""Equal nodes of a graph as one, as every compiler and every author of a kernel has them."""

from typing import Any

from workloads.traced.graph import Node, Region, Value, dtype_name
from workloads.traced.rules import LIGHT, kind_of

REPEATED = ("rematted_computation", "checkpoint")
"""Scopes whose nodes are computed again on purpose."""


def with_shared_nodes(region: Region, values: dict[int, Value] | None = None) -> Region:
    """The region, in place, with one node for all that compute the same of the same operands.

    What is computed again on purpose (`jax.checkpoint`), messages, loops and random numbers stay as they are.

    Args:
      values: what stands for values of the regions around it, by identity.
    """
    values = {} if values is None else values
    seen: dict[Any, Node] = {}
    kept = []
    for node in region.nodes:
        node.inputs = [values.get(id(value), value) for value in node.inputs]
        for value in node.outputs:
            value.shown = None
        for body, _ in node.bodies:
            with_shared_nodes(body, values)
        key = _key(node)
        if key is not None and key in seen:
            for own, other in zip(node.outputs, seen[key].outputs, strict=True):
                values[id(own)] = other
            continue
        if key is not None:
            seen[key] = node
        kept.append(node)
    for number, node in enumerate(kept):
        node.number = number
    region.nodes = kept
    region.outputs = [values.get(id(value), value) for value in region.outputs]
    return region


def _key(node: Node) -> Any:
    """The same for nodes that compute the same; None for one that stays as it is."""
    plain = node.is_view or kind_of(node) in LIGHT
    if not plain or node.bodies or node.name.startswith("random") or any(word in node.scope for word in REPEATED):
        return None
    return node.name, str(node.params), tuple(map(_operand, node.inputs))


def _operand(value: Value) -> Any:
    if value.node is None and value.constant is not None and not value.shape:
        return dtype_name(value.dtype), str(value.constant)
    return id(value)
