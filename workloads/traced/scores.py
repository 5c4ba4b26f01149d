"""Nodes around a softmax over rows of scores, and the way from the product that makes the scores to it."""

import math
from typing import NamedTuple

from workloads.traced.elementwise import REDUCTIONS
from workloads.traced.graph import Node, Region, Value, base
from workloads.traced.sizes import Sizes, is_one


class Scores(NamedTuple):
    """Nodes around one softmax: maps and reductions, products that make scores, and those that read them."""

    inner: list[Node]
    makers: list[Node]
    readers: list[Node]


Users = dict[int, list[Node]]


def users_of(region: Region) -> Users:
    """The nodes that read a value, views passed over, by its identity."""
    users: Users = {}
    for node in region.nodes:
        if not node.is_view:
            for read in {id(value): value for value in map(base, node.inputs)}.values():
                users.setdefault(id(read), []).append(node)
    return users


def around(seed: Node, users: Users, at: Sizes) -> Scores:
    """Everything that is connected to `seed` through arrays of the size of its result, or of the rows of these."""
    size = at.elements(seed.outputs[0].shape)
    inner, waiting = {id(seed): seed}, [seed]
    makers: dict[int, Node] = {}
    readers: dict[int, Node] = {}
    rows: set[int] = set()

    def meets(node: Node, found: dict[int, Node]) -> None:
        """Keep a product in `found`, and wait to look around anything else."""
        if node.name == "dot_general":
            if id(node) not in found:
                found[id(node)] = node
                for user in users.get(id(node.outputs[0]), ()) if found is makers else ():
                    meets(user, readers)
        elif id(node) not in inner and not node.bodies:
            inner[id(node)] = node
            waiting.append(node)

    while waiting:
        node = waiting.pop()
        for value in map(base, node.inputs):
            if value.node is not None and not value.known and (at.elements(value.shape) == size or id(value) in rows):
                meets(value.node, makers)
        for value in node.outputs:
            if node.name in REDUCTIONS:
                rows.add(id(value))
            elif at.elements(value.shape) != size:
                rows |= {id(value)} if any(id(base(operand)) in rows for operand in node.inputs) else set()
            if at.elements(value.shape) == size or id(value) in rows:
                for user in users.get(id(value), ()):
                    meets(user, readers)
    order = sorted(inner.values(), key=lambda node: node.number)
    return Scores(order, _ordered(makers), _ordered(readers))


def _ordered(nodes: dict[int, Node]) -> list[Node]:
    return sorted(nodes.values(), key=lambda node: node.number)


def maker_of(total: Node, scores: Scores) -> tuple[Node, int] | None:
    """The product that makes the scores of a softmax, and the axis of its result that the softmax goes over."""
    if len(total.params["axes"]) != 1:
        return None
    value, axis = total.inputs[0], int(total.params["axes"][0])
    makers, inner = set(map(id, scores.makers)), set(map(id, scores.inner))
    while value.node is not None and id(value.node) not in makers:
        node = value.node
        if node.is_view:
            before = axis_before(node, axis)
            if before is None:
                return None
            value, axis = node.inputs[0], before
            continue
        if id(node) not in inner:
            return None
        nexts = [one for one in node.inputs if len(one.shape) > axis and _leads(one, makers, inner)]
        if not nexts:
            return None
        value = nexts[0]
    return None if value.node is None else (value.node, axis)


def _leads(value: Value, makers: set[int], inner: set[int]) -> bool:
    """Whether an operand is of the scores rather than of a mask or of their rows."""
    made = base(value)
    numbers = [[dim for dim in one.shape if isinstance(dim, int)] for one in (value, made)]
    same = all(a == b for a, b in zip(value.shape, made.shape, strict=False))
    full = same or math.prod(numbers[0]) == math.prod(numbers[1])
    return made.node is not None and (id(made.node) in makers or id(made.node) in inner) and full


def axis_before(node: Node, axis: int) -> int | None:
    """The axis of a view's operand that an axis of its result is; None where it is of none alone."""
    old, new = node.inputs[0].shape, node.outputs[0].shape
    if node.name == "transpose":
        return int(node.params["permutation"][axis])
    if node.name == "broadcast_in_dim":
        places = list(map(int, node.params["broadcast_dimensions"]))
        return places.index(axis) if axis in places and old[places.index(axis)] == new[axis] else None
    if len(old) == len(new) and node.name not in ("reshape",):
        return axis
    wide_old, wide_new = ([i for i, dim in enumerate(shape) if not is_one(dim)] for shape in (old, new))
    if axis in wide_new and len(wide_old) == len(wide_new):
        return wide_old[wide_new.index(axis)]
    before = math.prod(new[:axis])
    return next((i for i, dim in enumerate(old) if dim == new[axis] and math.prod(old[:i]) == before), None)
