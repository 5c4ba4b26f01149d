"""Bytes that a group of nodes reads and writes: each array once, and of views what they show."""

from collections.abc import Callable

from workloads.traced.graph import Value, base, viewed
from workloads.traced.groups import Group, Groups
from workloads.traced.kernels import Amount
from workloads.traced.rules import read_shape, written_shape
from workloads.traced.sizes import Shape


def moved(groups: Groups, group: Group, counted: Callable[[Value], bool] = lambda value: True) -> Amount:
    """B that a group reads from memory and writes there, of the arrays that are counted."""
    amount = Amount()
    hidden = frozenset() if group.attention is None else group.attention.hidden
    for value in group.reads():
        if id(value) not in hidden and counted(value):
            for shape in _read(groups, group, value):
                amount.add(shape, value.bytes)
    for value in groups.writes(group):
        if id(value) not in hidden and counted(value):
            amount.add(written(value), value.bytes)
    return amount


def passed_on(groups: Groups, group: Group) -> Amount:
    """B of what other groups hand to this one, and of what it makes for them alone."""
    return moved(groups, group, lambda value: value.node is not None and id(value) not in groups.kept)


def weights(groups: Groups, group: Group, right: Value) -> Amount:
    """B of the array that is the right operand of a group's product, where no group makes it."""
    value = stored(group, right)
    return moved(groups, group, lambda one: one is value and one.node is None)


def stored(group: Group, operand: Value) -> Value:
    """The array in memory that an operand of a group's product is made of inside of the group."""
    inside, value = set(map(id, group.nodes)), base(operand)
    while value.node is not None and id(value.node) in inside and value.node.inputs:
        value = base(value.node.inputs[0])
    return value


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
    for node, place in group.uses(value):
        operand, own = node.inputs[place], read_shape(node, place)
        shapes = [one.shape for one in viewed(operand)] + ([] if own is None else [own])
        found[id(operand)] = min(shapes, key=groups.at.elements)
    whole = groups.at.elements(value.shape)
    if sum(groups.at.elements(shape) for shape in found.values()) >= whole:
        return [value.shape]
    return list(found.values())
