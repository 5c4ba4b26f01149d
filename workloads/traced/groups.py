"""Kernels of a region as groups of its nodes, merged step by step so that they can always run one after the other."""

import dataclasses
import functools
from collections.abc import Iterator

from workloads.traced.attention import Attention
from workloads.traced.elementwise import REDUCTIONS
from workloads.traced.graph import Node, Region, Value, base
from workloads.traced.rules import LIGHT, kind_of, shape_work
from workloads.traced.sizes import Sizes


@dataclasses.dataclass(eq=False)
class Group:
    """Nodes that run as one kernel."""

    nodes: list[Node]
    kind: str  # map, product, attention, message, kernel, loop, free
    repeated: list[Node] = dataclasses.field(default_factory=list)  # nodes of other groups that it computes again
    attention: Attention | None = None
    own: int = 0  # bits of its nodes
    above: int = 0  # one bit or more of each group that it depends on, where `Groups` has come to it
    space: float | None = None  # elements that it goes over, where that was asked for
    below: dict[int, list[Node]] = dataclasses.field(default_factory=dict)  # its reductions below a value, where asked

    @functools.cached_property
    def reduces(self) -> bool:
        """Whether there is a reduction in it."""
        return any(node.name in REDUCTIONS for node in self.nodes)

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
        self._live = {id(group): group for group in groups}
        self.users: dict[int, list[Group]] = {}
        self.restart()
        for group in self:
            for value in group.reads():
                self.users.setdefault(id(value), []).append(group)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._live.values())

    def restart(self) -> None:
        """Begin a pass over the groups in order. What a group depends on is found where the pass comes to it, so that a
        merge has nothing to tell the groups that follow.
        """
        self._order = _in_order(list(self), self)
        self._live = {id(group): group for group in self._order}
        self._place = {id(group): place for place, group in enumerate(self._order)}
        self._reached = 0

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

    def depends(self, group: Group, on: Group) -> bool:
        """Whether a group needs another one's results, or those of groups that do."""
        self._reach(group)
        return bool(group.above & on.own)

    def can_merge(self, one: Group, other: Group) -> bool:
        """Whether no third group depends on one of two and is needed by the other."""
        self._reach(one)
        self._reach(other)
        for first, second in ((one, other), (other, one)):
            for between in self.producers(second):
                if between is not first and between.above & first.own:
                    return False
        return True

    def merge(self, one: Group, other: Group) -> Group:
        """Both as one group, of the kind of what is no map."""
        self._reach(one)
        self._reach(other)
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
        self._place[id(merged)] = max(self._place.pop(id(gone)) for gone in (one, other))
        for gone in (one, other):
            del self._live[id(gone)]
        self._live[id(merged)] = merged
        self._pass_on(merged)
        return merged

    def _reach(self, group: Group) -> None:
        """Find what the groups up to this one depend on."""
        while self._reached <= self._place[id(group)]:
            found = self._order[self._reached]
            self._reached += 1
            if id(found) in self._live:
                found.above = 0
                for producer in self.producers(found):
                    found.above |= producer.own | producer.above

    def _pass_on(self, changed: Group) -> None:
        """Let what depends on a group, and has been reached, depend on all that it does.

        One bit of a group says that it is needed: those of all its nodes need not be passed on.
        """
        waiting = [changed]
        while waiting:
            maker = waiting.pop()
            for value in (value for node in maker.nodes for value in node.outputs):
                for user in self.consumers(value):
                    new = maker.above & ~user.above or not maker.own & user.above
                    if new and self._place[id(user)] < self._reached:
                        user.above |= maker.own | maker.above
                        waiting.append(user)

    def elements(self, value: Value) -> float:
        """Elements of an array, for decisions."""
        return float(self.at.elements(value.shape))

    def space(self, group: Group) -> float:
        """Elements that a group of maps goes over."""
        if group.space is None:
            group.space = max((float(self.at.elements(shape_work(node)[0])) for node in group.nodes), default=1.0)
        return group.space

    def where(self, kind: str) -> list[Group]:
        """Groups of a kind, in order."""
        return [group for group in self if group.kind == kind]


def _kind(node: Node) -> str:
    kind = kind_of(node)
    return "map" if kind in LIGHT else kind


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
