"""Kernels of a region as groups of its nodes, merged step by step so that they can always run one after the other."""

import bisect
import dataclasses
import functools
from collections.abc import Iterable, Iterator

from workloads.traced.attention import TracedAttention
from workloads.traced.elementwise import REDUCTIONS
from workloads.traced.graph import Node, Region, Value, base
from workloads.traced.rules import LIGHT, kind_of, shape_work
from workloads.traced.sizes import Sizes


@dataclasses.dataclass(eq=False)
class Group:
    """Nodes that run as one kernel."""

    nodes: list[Node]  # in the order of their region
    kind: str  # map, product, attention, message, kernel, loop, free
    repeated: list[Node] = dataclasses.field(default_factory=list)  # nodes of other groups that it computes again
    attention: TracedAttention | None = None
    own: int = 0  # bits of its nodes
    above: int = 0  # one bit or more of each group that it depends on, where `Groups` has come to it
    space: float | None = None  # elements that it goes over, where that was asked for
    below: dict[int, list[Node]] = dataclasses.field(default_factory=dict)  # its reductions below a value, where asked
    leaving: dict[int, Value] = dataclasses.field(
        default_factory=dict
    )  # its results, but those it alone was seen to read
    merged: bool = False  # whether it is made of others, so that nobody else holds its nodes
    taken: "dict[int, tuple[int, int, Value]] | None" = None  # what its nodes read: place of the first node, and array
    _uses: tuple[int, dict[int, list[tuple[Node, int]]]] | None = None

    @functools.cached_property
    def reduces(self) -> bool:
        """Whether there is a reduction in it."""
        return any(node.name in REDUCTIONS for node in self.nodes)

    @property
    def product(self) -> Node | None:
        """Its matrix product, if it is of one."""
        return next((node for node in self.nodes if kind_of(node) == "product"), None)

    def has(self, node: Node) -> bool:
        """Whether a node, of any region, is among its own."""
        place = bisect.bisect_left(self.nodes, node.number, key=_number)
        return place < len(self.nodes) and self.nodes[place] is node

    def reads(self) -> list[Value]:
        """Arrays in memory that it reads, each once."""
        if self.repeated:
            nodes = (*self.nodes, *self.repeated)
            return [value for _, _, value in _taken(nodes, range(len(nodes))).values()]
        if self.taken is None:
            self.taken = _taken(self.nodes, [node.number for node in self.nodes])
        return [value for _, _, value in sorted(self.taken.values(), key=_place)]

    def uses(self, value: Value) -> list[tuple[Node, int]]:
        """Its nodes that read views of an array in memory, each with the place of the operand."""
        if self._uses is None or self._uses[0] != len(self.repeated):
            readers: dict[int, list[tuple[Node, int]]] = {}
            for node in (*self.nodes, *self.repeated):
                for place, operand in enumerate(node.inputs):
                    readers.setdefault(id(base(operand)), []).append((node, place))
            self._uses = len(self.repeated), readers
        return self._uses[1].get(id(value), [])


def _place(one: tuple[int, int, Value]) -> tuple[int, int]:
    return one[:2]


def _taken(nodes: Iterable[Node], numbers: Iterable[int]) -> dict[int, tuple[int, int, Value]]:
    """What nodes read of arrays that others make, by identity: number of the first one, place, and array."""
    nodes = list(nodes)
    inside = {id(value) for node in nodes for value in node.outputs}
    first_reads: dict[int, tuple[int, int, Value]] = {}
    for number, node in zip(numbers, nodes, strict=True):
        for place, operand in enumerate(node.inputs):
            value = base(operand)
            if id(value) not in inside and not value.known:
                first_reads.setdefault(id(value), (number, place, value))
    return first_reads


class _Holder:
    """The group of many nodes, which all know their holder: a merge tells it to the holder of most."""

    __slots__ = ("group",)

    def __init__(self, group: Group):
        self.group = group


class Groups:
    """The groups of a region, which start as single nodes and recognised attention.

    Args:
      region: whose nodes they are.
      fused: attention kernels.
      at: sizes to decide by.
    """

    def __init__(self, region: Region, fused: list[TracedAttention], at: Sizes):
        self.at, self._region = at, region
        self._of: dict[int, _Holder] = {}
        self.kept = set(map(id, map(base, region.outputs)))
        groups = [Group(one.nodes, "attention", attention=one) for one in fused]
        taken = {id(node) for one in fused for node in one.nodes}
        # Views and constants are no kernels.
        groups += [
            Group([node], "loop" if node.bodies else _kind(node))
            for node in region.nodes
            if not (id(node) in taken or node.is_view or node.known)
        ]
        for group in groups:
            holder = _Holder(group)
            for node in group.nodes:
                self._of[id(node)] = holder
                # Sets of nodes as bits of one integer: whether a group depends on another is one AND.
                group.own |= 1 << node.number
                group.leaving |= {id(value): value for value in node.outputs}
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
        return self._of[id(node)].group

    def of_value(self, value: Value) -> Group | None:
        """The group that makes an array; None where it is an input, or known."""
        holder = None if value.node is None else self._of.get(id(value.node))
        return None if holder is None else holder.group

    def producers(self, group: Group) -> list[Group]:
        """The groups that make what a group reads."""
        makers = {}
        for value in group.reads():
            maker = self.of_value(value)
            if maker is not None and maker is not group:
                makers[id(maker)] = maker
        return list(makers.values())

    def consumers(self, value: Value) -> list[Group]:
        """The groups that read an array."""
        users = self.users.get(id(value))
        if not users:
            return []
        # Groups may have merged since: the list is brought up to date where it is read.
        readers, maker = list(dict.fromkeys(self.of(user.nodes[0]) for user in users)), self.of_value(value)
        self.users[id(value)] = readers
        return [group for group in readers if group is not maker]

    def writes(self, group: Group) -> list[Value]:
        """Arrays that others read of a group, or that the region returns."""
        values = [value for node in group.nodes for value in node.outputs if id(value) in group.leaving]
        return [value for value in values if id(value) in self.kept or self.consumers(value)]

    def depends(self, group: Group, on: Group) -> bool:
        """Whether a group needs another one's results, or those of groups that do."""
        self._reach(group)
        return bool(group.above & on.own)

    def can_merge(self, one: Group, other: Group) -> bool:
        """Whether no third group depends on one of two and is needed by the other."""
        self._reach(one)
        self._reach(other)
        # A path from one to the other through a third group would become a cycle.
        for first, second in ((one, other), (other, one)):
            for between in self.producers(second):
                if between is not first and between.above & first.own:
                    return False
        return True

    def merge(self, one: Group, other: Group) -> Group:
        """Both as one group, of the kind of what is no map. `one` does not depend on `other`.

        What the larger one knows is taken over, and that of the smaller one added, so that a chain of merges takes time
        in proportion to its nodes.
        """
        self._reach(one)
        self._reach(other)
        # Small into large: each node changes its group a logarithmic number of times.
        large, small = (one, other) if len(one.nodes) >= len(other.nodes) else (other, one)
        merged = Group(
            large.nodes if large.merged else list(large.nodes),
            one.kind if one.kind != "map" else other.kind,
            attention=one.attention or other.attention,
            own=one.own | other.own,
            above=(one.above | other.above) & ~(one.own | other.own),
            space=None if one.space is None or other.space is None else max(one.space, other.space),
            below=one.below,
            leaving=large.leaving,
            merged=True,
        )
        merged.__dict__["reduces"] = one.reduces or other.reduces
        merged.taken = self._taken_by(large, small)
        merged.leaving.update(small.leaving)
        # All nodes of the larger group share one holder, so a merge renames them at once.
        holder = self._of[id(large.nodes[0])]
        holder.group = merged
        for node in small.nodes:
            self._of[id(node)] = holder
            bisect.insort(merged.nodes, node, key=_number)
        self._place[id(merged)] = max(self._place.pop(id(gone)) for gone in (one, other))
        for gone in (one, other):
            del self._live[id(gone)]
        self._live[id(merged)] = merged
        self._pass_on(merged)
        return merged

    def _taken_by(self, large: Group, small: Group) -> dict[int, tuple[int, int, Value]]:
        """What two groups read together; the dictionary of the larger one where it is made of others."""
        large.reads()
        small.reads()
        assert large.taken is not None and small.taken is not None, "groups that compute nodes again are not merged"
        together = large.taken if large.merged else dict(large.taken)
        for node in small.nodes:
            for value in node.outputs:
                together.pop(id(value), None)
        for key, taken in small.taken.items():
            # What one reads of the other is inside now.
            if self.of_value(taken[2]) is not large:
                together[key] = min(together.get(key, taken), taken, key=_place)
        return together

    def _reach(self, group: Group) -> None:
        """Find what the groups up to this one depend on."""
        while self._reached <= self._place[id(group)]:
            current = self._order[self._reached]
            self._reached += 1
            if id(current) in self._live:
                current.above = 0
                for producer in self.producers(current):
                    current.above |= producer.own | producer.above

    def _pass_on(self, changed: Group) -> None:
        """Let what depends on a group, and has been reached, depend on all that it does.

        One bit of a group says that it is needed: those of all its nodes need not be passed on.
        """
        waiting = [changed]
        while waiting:
            maker = waiting.pop()
            for value in list(maker.leaving.values()):
                users = self.consumers(value)
                if not users and id(value) not in self.kept:
                    del maker.leaving[id(value)]
                for user in users:
                    # Passed on where it is news: bits that the user lacks, or a maker that it does not know of yet.
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


def _number(node: Node) -> int:
    return node.number


def _kind(node: Node) -> str:
    kind = kind_of(node)
    return "map" if kind in LIGHT else kind


def _in_order(groups: list[Group], where: "Groups") -> list[Group]:
    """Groups so that each comes after those that make what it reads, else by their first node."""
    ordered: list[Group] = []
    state: dict[int, bool] = {}
    # Depth-first search with an explicit stack.
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
                ordered.append(group)
            elif id(following) not in state:
                state[id(following)] = False
                stack.append((following, iter(where.producers(following))))
    return ordered
