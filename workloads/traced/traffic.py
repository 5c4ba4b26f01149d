"""Bytes that a group of nodes reads and writes: each array once, and of views what they show."""

from workloads.traced.graph import Value, base, viewed
from workloads.traced.groups import Group, Groups
from workloads.traced.kernels import Amount
from workloads.traced.rules import read_shape, written_shape
from workloads.traced.sizes import Shape


def moved(groups: Groups, group: Group) -> Amount:
    """B that a group reads from memory and writes there."""
    amount = Amount()
    hidden = frozenset() if group.attention is None else group.attention.hidden
    for value in group.reads():
        if id(value) not in hidden:
            for shape in _read(groups, group, value):
                amount.add(shape, value.bytes)
    for value in groups.writes(group):
        if id(value) not in hidden:
            amount.add(written(value), value.bytes)
    return amount


def written(value: Value) -> Shape:
    """Shape of what is written of a node's result."""
    own = None if value.node is None else written_shape(value.node)
    return value.shape if own is None else own


def read_bytes(groups: Groups, group: Group, value: Value) -> float:
    """B that a group reads of one array, for decisions."""
    return value.bytes * sum(float(groups.at.elements(shape)) for shape in _read(groups, group, value))


def _read(groups: Groups, group: Group, value: Value) -> list[Shape]:
    """Shapes of what a group reads of an array: of all its different views, and never more than all of it."""
    found: dict[int, Shape] = {}
    for node in (*group.nodes, *group.repeated):
        for place, operand in enumerate(node.inputs):
            if base(operand) is not value:
                continue
            own = read_shape(node, place)
            shapes = [one.shape for one in viewed(operand)] + ([] if own is None else [own])
            found[id(operand)] = min(shapes, key=groups.at.elements)
    whole = groups.at.elements(value.shape)
    if sum(groups.at.elements(shape) for shape in found.values()) >= whole:
        return [value.shape]
    return list(found.values())
