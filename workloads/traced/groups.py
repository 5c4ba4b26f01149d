"""Kernels of a region as groups of its nodes, merged step by step so that they can always run one after the other."""

import dataclasses
from collections.abc import Callable, Iterator

from workloads.traced.attention import Attention
from workloads.traced.graph import Node, Region, Value, base
from workloads.traced.rules import kind_of, shape_work
from workloads.traced.sizes import Sizes


@dataclasses.dataclass(eq=False)
class Group:
    """Nodes that run as one kernel."""

    nodes: list[Node]
    kind: str  # map, product, attention, message, kernel, loop, free
    repeated: list[Node] = dataclasses.field(default_factory=list)  # nodes of other groups that it computes again
    attention: Attention | None = None
    own: int = 0  # bits of its nodes
    above: int = 0  # bits of all nodes that it depends on

    @property
    def product(self) -> Node | None:
        """Its matrix product, if it is of one."""
        return next((node for node in self.nodes if kind_of(node) == "product"), None)

    def reads(self) -> list[Value]:
        """Arrays in memory that it reads, each once."""
        inside = {id(value) for node in (*self.nodes, *self.repeated) for value in node.outputs}
        found = {}
        for node in (*self.nodes, *self.repeated):
            for operand in node.inputs:
                value = base(operand)
                if id(value) not in inside and not value.known:
                    found[id(value)] = value
        return list(found.values())


class Groups:
    """The groups of a region, which start as single nodes and recognised attention.

    Args:
      region: whose nodes they are.
      fused: attention kernels.
      at: sizes to decide by.
    """

    def __init__(self, region: Region, fused: list[Attention], at: Sizes):
        self.at, self._region = at, region
        self._of: dict[int, Group] = {}
        self.kept = set(map(id, map(base, region.outputs)))
        groups = [Group(one.nodes, "attention", attention=one) for one in fused]
        taken = {id(node) for one in fused for node in one.nodes}
        groups += [
            Group([node], "loop" if node.bodies else _kind(node))
            for node in region.nodes
            if not (id(node) in taken or node.is_view or node.known)
        ]
        for group in groups:
            for node in group.nodes:
                self._of[id(node)] = group
                group.own |= 1 << node.number
        self._live = {id(group): group for group in _in_order(groups, self)}
        self.users: dict[int, list[Group]] = {}
        for group in self:
            for producer in self.producers(group):
                group.above |= producer.own | producer.above
            for value in group.reads():
                self.users.setdefault(id(value), []).append(group)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._live.values())

    def in_order(self) -> list[Group]:
        """All groups, each after those that it depends on."""
        return _in_order(list(self), self)

    @property
    def can_run(self) -> bool:
        """Whether the groups can run one after the other."""
        place = {id(group): number for number, group in enumerate(self.in_order())}
        return all(place[id(maker)] < place[id(group)] for group in self for maker in self.producers(group))

    def of(self, node: Node) -> Group:
        """The group of a node."""
        return self._of[id(node)]

    def of_value(self, value: Value) -> Group | None:
        """The group that makes an array; None where it is an input, or known."""
        return None if value.node is None else self._of.get(id(value.node))

    def producers(self, group: Group) -> list[Group]:
        """The groups that make what a group reads."""
        found = {}
        for value in group.reads():
            maker = self.of_value(value)
            if maker is not None and maker is not group:
                found[id(maker)] = maker
        return list(found.values())

    def consumers(self, value: Value) -> list[Group]:
        """The groups that read an array."""
        found = {id(self._of[id(user.nodes[0])]): self._of[id(user.nodes[0])] for user in self.users.get(id(value), ())}
        maker = self.of_value(value)
        return [group for group in found.values() if group is not maker]

    def writes(self, group: Group) -> list[Value]:
        """Arrays that others read of a group, or that the region returns."""
        values = (value for node in group.nodes for value in node.outputs)
        return [value for value in values if id(value) in self.kept or self.consumers(value)]

    def can_merge(self, one: Group, other: Group) -> bool:
        """Whether no third group depends on one of two and is needed by the other."""
        for first, second in ((one, other), (other, one)):
            for between in self.producers(second):
                if between is not first and between.above & first.own:
                    return False
        return True

    def merge(self, one: Group, other: Group) -> Group:
        """Both as one group, of the kind of what is no map."""
        kind = one.kind if one.kind != "map" else other.kind
        merged = Group(
            sorted((*one.nodes, *other.nodes), key=lambda node: node.number),
            kind,
            attention=one.attention or other.attention,
            own=one.own | other.own,
        )
        merged.above = (one.above | other.above) & ~merged.own
        for node in merged.nodes:
            self._of[id(node)] = merged
        for gone in (one, other):
            del self._live[id(gone)]
        for group in self:
            if group.above & merged.own:
                group.above |= merged.above | merged.own
        self._live[id(merged)] = merged
        return merged

    def elements(self, value: Value) -> float:
        """Elements of an array, for decisions."""
        return float(self.at.elements(value.shape))

    def space(self, group: Group) -> float:
        """Elements that a group of maps goes over."""
        return max((float(self.at.elements(shape_work(node)[0])) for node in group.nodes), default=1.0)

    def where(self, kind: str, test: Callable[[Group], bool] = lambda group: True) -> list[Group]:
        """Groups of a kind, in order."""
        return [group for group in list(self) if group.kind == kind and test(group)]


def _kind(node: Node) -> str:
    kind = kind_of(node)
    return "map" if kind in ("map", "move", "reduction") else kind


def _in_order(groups: list[Group], where: "Groups") -> list[Group]:
    """Groups so that each comes after those that make what it reads, else by their first node."""
    found: list[Group] = []
    state: dict[int, bool] = {}
    for start in sorted(groups, key=lambda group: group.nodes[0].number):
        stack = [(start, iter(where.producers(start)))]
        if id(start) in state:
            continue
        state[id(start)] = False
        while stack:
            group, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                state[id(group)] = True
                found.append(group)
            elif id(following) not in state:
                state[id(following)] = False
                stack.append((following, iter(where.producers(following))))
    return found
