"""Fusion policies: which primitives run as one kernel, from one each to what a compiler of today makes of them."""

import itertools
from collections.abc import Callable

from workloads.traced.attention import attentions
from workloads.traced.elementwise import REDUCTIONS
from workloads.traced.graph import Node, Region, Value, base, made_of
from workloads.traced.groups import Group, Groups
from workloads.traced.memory import read_bytes
from workloads.traced.rules import kind_of
from workloads.traced.sizes import Sizes

POLICIES = {
    "eager": "every primitive is a kernel; views are free",
    "operators": "every call of a jitted function without matrix products is a kernel, and every primitive outside of "
    "one: modules that a framework runs one by one",
    "loops": "element-wise work is fused into the one kernel that reads it; reductions end a kernel, attention is not "
    "fused: as XLA does on CPUs",
    "framework": "kernels that libraries have: fused attention, norms and softmax of rows, chains of element-wise work",
    "compiler": "as framework, with light work after matrix products in their kernels, and kernels that read the same "
    "array together",
}
"""Policy -> its rule in words."""

ALIKE = 4.0
"""Factor up to which element-wise work over more and over fewer elements runs in one kernel: halves of a rotation."""

LONGEST_ROW = 65536.0
"""Elements of a row that one block of threads reduces and then works on: 128 KiB of 16-bit numbers; ours, of the
order of a core's scratchpad."""

SMALL = 1.0 / 64.0
"""Of the largest operand: an operand with fewer bytes than that share costs a kernel next to nothing to read."""

FURTHER_OPERANDS, RESULTS = 1, 2
"""Large operands beside its product, and results, up to which element-wise work runs at the end of its kernel."""

RESULTS_TOGETHER = 4
"""Results up to which kernels that read the same array are one."""

INSTANT = 1024.0
"""Elements of a result that every kernel which reads it computes for itself."""


def grouped(region: Region, policy: str, at: Sizes, notes: set[str]) -> Groups:
    """The kernels of a region under a policy, loops inside as groups of their own.

    Args:
      region: nodes in order.
      policy: one of `POLICIES`.
      at: sizes to decide by: which arrays are large, and which are alike.
      notes: what a reader should know is added.
    """
    if policy == "eager":
        return Groups(region, [], at)
    if policy == "operators":
        groups = Groups(region, [], at)
        _join_maps(groups, _of_one_operator)
        _drop_instant(groups)
        _join_siblings(groups, _of_one_operator)
        _repeat_cheap(groups, _of_one_operator)
        return groups
    if policy == "loops":
        groups = Groups(region, [], at)
        _join_chains(groups)
        _drop_instant(groups)
        return groups
    # Attention is recognised before anything else, as later merges would hide its pattern.
    groups = Groups(region, attentions(region, at, notes), at)
    groups = groups if groups.can_run else Groups(region, [], at)  # two of them may need each other's results
    # int8 products first: their 32-bit sums never leave the kernel.
    _join_narrowed(groups)
    _join_maps(groups)
    _drop_instant(groups)
    _join_products(groups, policy)
    if policy == "compiler":
        _join_siblings(groups)
    # Recomputing is decided last, when kernels and their traffic are known.
    _repeat_cheap(groups)
    _convert_again(groups)
    return groups


def _join_chains(groups: Groups) -> None:
    """Every map or reduction with the maps whose results nothing else reads."""
    # XLA on CPUs fuses a producer into its one consumer.
    for group in groups.where("map"):
        for producer in groups.producers(group):
            here, there = groups.of(group.nodes[0]), groups.of(producer.nodes[0])
            if here is there or there.kind != "map" or any(node.name in REDUCTIONS for node in there.nodes):
                continue
            written = groups.writes(there)
            alone = all(id(value) not in groups.kept and groups.consumers(value) == [here] for value in written)
            if alone and groups.can_merge(there, here):
                groups.merge(there, here)


def _of_one_operator(one: Node, other: Node) -> bool:
    return one.operator is not None and one.operator is other.operator


def _any(one: Node, other: Node) -> bool:
    return True


def _join_maps(groups: Groups, together: Callable[[Node, Node], bool] = _any) -> None:
    """Chains of element-wise work and reductions of rows, each node with what made its operands; those of two nodes
    only where they may run `together`.
    """
    # Producers from the nearest backwards: chains grow from their ends.
    for group in groups.where("map"):
        for producer in sorted(groups.producers(group), key=lambda one: -one.nodes[-1].number):
            here, there = groups.of(group.nodes[0]), groups.of(producer.nodes[0])
            if (
                here is not there
                and there.kind == "map"
                and together(there.nodes[0], here.nodes[0])
                and _fit(groups, there, here)
                and groups.can_merge(there, here)
            ):
                groups.merge(there, here)


def _fit(groups: Groups, maker: Group, user: Group) -> bool:
    """Whether the user's elements are computed where the maker's are."""
    shared = [value for value in user.reads() if groups.of_value(value) is maker]
    reduced = [value for value in shared if _below_reduction(value, maker)]
    # Work of one kernel is over one iteration space: the sizes must be about alike.
    large, small = sorted((groups.space(maker), groups.space(user)), reverse=True)
    # A sum over more than a row needs a barrier between all blocks of threads; what reads it may go on in the same
    # kernel only over the reduced elements.
    if any(_is_barrier(groups, value, maker) for value in reduced):
        return groups.space(user) <= max(groups.elements(value) for value in reduced)
    if small * ALIKE >= large:
        return True
    # A statistic of rows (norm, softmax) is smaller than what it is of, and its kernel goes on with it.
    return bool(reduced) and groups.space(user) < groups.space(maker)


def _below_reduction(value: Value, group: Group) -> list[Node]:
    """The reductions of a group that a value in it depends on, in order."""
    if not group.reduces:
        return []
    # An explicit stack: graphs may be deeper than Python's recursion limit.
    waiting = [value]
    while waiting:
        current = waiting[-1]
        node = base(current).node
        if id(current) in group.below or node is None or not group.has(node):
            group.below.setdefault(id(current), [])
            waiting.pop()
            continue
        unknown = [operand for operand in node.inputs if id(operand) not in group.below]
        if unknown:
            waiting += unknown
            continue
        below = {id(one): one for operand in node.inputs for one in group.below[id(operand)]}
        if node.name in REDUCTIONS:
            below[id(node)] = node
        group.below[id(current)] = sorted(below.values(), key=lambda one: one.number)
        waiting.pop()
    return group.below[id(value)]


def _is_barrier(groups: Groups, value: Value, group: Group) -> bool:
    """Whether a value needs sums over more than a row, so that all blocks of threads have to wait for each other."""
    for node in _below_reduction(value, group):
        shape, axes = node.inputs[0].shape, sorted(map(int, node.params["axes"]))
        trailing = axes == list(range(len(shape) - len(axes), len(shape)))
        length = float(groups.at.elements(tuple(shape[axis] for axis in axes)))
        # One block of threads reduces a contiguous row; reductions over leading axes or over everything meet across
        # blocks.
        if not trailing or length > LONGEST_ROW or len(axes) == len(shape):
            return True
    return False


def _drop_instant(groups: Groups) -> None:
    """Tiny values that others read are part of these: scalars of an optimiser, constants of a norm."""
    for group in groups.where("map"):
        written = groups.writes(group)
        if all(groups.elements(value) == 1.0 and "int" in str(value.dtype) for value in written):
            group.kind = "free"  # counters of loops
        # Reading a scalar from memory costs a kernel more than computing it again.
        if groups.space(group) > INSTANT or any(id(value) in groups.kept for value in written) or not written:
            continue
        users = [user for value in written for user in groups.consumers(value)]
        if all(_is_large(groups, user, group) for user in users):
            group.kind = "free"


def _is_large(groups: Groups, user: Group, group: Group) -> bool:
    """Whether a kernel goes over so many more elements that those of a tiny one cost it nothing."""
    if user.kind not in ("map", "product", "attention"):
        return False
    return max(groups.elements(value) for value in user.reads()) * SMALL > groups.space(group)


def _join_narrowed(groups: Groups) -> None:
    """Every product of 8-bit numbers with what scales its sums back to 8 bits: no library passes the sums on."""
    for group in groups.where("product"):
        (product,), here = group.nodes, group
        value = product.outputs[0]
        while value.bytes > 1.0 and "int32" in str(product.outputs[0].dtype):
            users = groups.consumers(value)
            alone = [(user.kind, len(user.nodes)) for user in users] == [("map", 1)]
            if not (alone and groups.can_merge(here, users[0])):
                break
            value = users[0].nodes[0].outputs[0]
            # Requantisation belongs to the product's kernel: only 8-bit results are written.
            here = groups.merge(here, users[0])


def _join_products(groups: Groups, policy: str) -> None:
    """Light work at the end of a product's kernel, and conversions of its operands at the beginning."""
    groups.restart()
    for group in groups.where("product"):
        # Epilogue fusion: bias, activation or conversion while results are in registers.
        _join_end(groups, group, policy)
    groups.restart()
    for group in groups.where("map"):
        # Prologue fusion: weights of few bits are unpacked on their way into the product.
        if _is_prologue(groups, group):
            (user,) = {id(one): one for value in groups.writes(group) for one in groups.consumers(value)}.values()
            groups.merge(group, user)


def _join_end(groups: Groups, group: Group, policy: str) -> None:
    written = groups.writes(group)
    if len(written) != 1:
        return
    (result,) = written
    users = groups.consumers(result)
    if len(users) != 1 or users[0].kind != "map":
        return
    (user,) = users
    # Libraries' products convert their result at the end; other epilogues take a compiler.
    plain = all(node.name == "convert_element_type" for node in user.nodes)
    if not plain and policy != "compiler":
        return
    if any(node.name in REDUCTIONS for node in user.nodes) or groups.space(user) > ALIKE * groups.elements(result):
        return
    large = SMALL * groups.elements(result)
    # More large operands would make the epilogue bound by memory, and it would be no longer free.
    further = [value for value in user.reads() if value is not result and groups.elements(value) > large]
    if len(further) <= FURTHER_OPERANDS and len(groups.writes(user)) <= RESULTS and groups.can_merge(group, user):
        groups.merge(group, user)


def _is_prologue(groups: Groups, group: Group) -> bool:
    """Whether a map reads fewer bytes than it writes, and all that it writes is one product's operand: weights of 8
    bits and less.
    """
    written = groups.writes(group)
    users = {id(user): user for value in written for user in groups.consumers(value)}
    if len(users) != 1 or any(id(value) in groups.kept for value in written):
        return False
    (user,) = users.values()
    if user.kind != "product" or any(kind_of(node) != "map" for node in group.nodes):
        return False
    return _bytes(groups, group.reads()) < _bytes(groups, written) and groups.can_merge(group, user)


def _bytes(groups: Groups, values: list[Value]) -> float:
    return sum(groups.elements(value) * value.bytes for value in values)


def _join_siblings(groups: Groups, together: Callable[[Node, Node], bool] = _any) -> None:
    """Kernels of maps that read the same large array, where neither needs the other's result and both may run
    `together`.
    """
    groups.restart()
    for users in list(groups.users.values()):
        readers = dict.fromkeys(groups.of(user.nodes[0]) for user in users)
        # Horizontal fusion of neighbours that read the same array: it is read once.
        for one, other in itertools.pairwise(group for group in readers if group.kind == "map"):
            here, there = groups.of(one.nodes[0]), groups.of(other.nodes[0])
            if here is there or groups.depends(here, there) or groups.depends(there, here):
                continue
            if not together(here.nodes[0], there.nodes[0]):
                continue
            large, small = sorted((groups.space(here), groups.space(there)), reverse=True)
            results = len(groups.writes(here)) + len(groups.writes(there))
            shared = _bytes(groups, [value for value in here.reads() if value in there.reads()])
            worth = shared >= SMALL * _bytes(groups, here.reads())
            if small * ALIKE >= large and results <= RESULTS_TOGETHER and worth and groups.can_merge(here, there):
                groups.merge(here, there)


def _repeat_cheap(groups: Groups, together: Callable[[Node, Node], bool] = _any) -> None:
    """Values that others read are computed by these again where that reads no more bytes than the values have, and
    both may run `together`.

    Gradients by JAX keep every intermediate value in its own type; kernels keep what these are made of.
    """
    for group in groups.in_order():
        if group.kind != "map":
            continue
        # Largest values first: they save most traffic.
        for value in sorted(groups.writes(group), key=groups.elements, reverse=True):
            users = groups.consumers(value)
            if all(user.kind != "map" for user in users):
                continue
            # The cone: all nodes of the group that the value depends on.
            cone = _cone(value, group)
            if not cone or any(node.name in REDUCTIONS for node in cone):
                continue
            needed = Group(cone, "map").reads()
            written = id(value) in groups.kept or any(user.kind != "map" for user in users)
            for user in users:
                read, size = set(map(id, user.reads())), read_bytes(groups, user, value)
                # Recomputation is worth it if further operands have fewer bytes than the value itself.
                more = _bytes(groups, [one for one in needed if id(one) not in read])
                cheap = more < size if written else more <= size
                if user.kind == "map" and cheap and together(group.nodes[0], user.nodes[0]):
                    _repeat(groups, user, cone)


def _convert_again(groups: Groups) -> None:
    """Wider copies of a value that is in memory anyway are made by the kernels that read them."""
    for group in groups.in_order():
        written = groups.writes(group)
        written_ids = set(map(id, written))
        for value in written:
            node = value.node
            if node is None or node.name != "convert_element_type" or id(base(node.inputs[0])) not in written_ids:
                continue
            if base(node.inputs[0]).bytes < value.bytes and id(value) not in groups.kept:
                for user in groups.consumers(value):
                    operands = [] if user.product is None else map(base, user.product.inputs)
                    if user.kind in ("map", "product") and all(operand is not value for operand in operands):
                        _repeat(groups, user, [node])


def _cone(value: Value, group: Group) -> list[Node]:
    """The nodes of a group that a value in it needs."""
    nodes = made_of([value], set(map(id, (*group.nodes, *group.repeated))))
    return sorted(nodes.values(), key=lambda node: node.number)


def _repeat(groups: Groups, user: Group, cone: list[Node]) -> None:
    before = {id(value) for value in user.reads()}
    own = set(map(id, (*user.nodes, *user.repeated)))
    user.repeated = [*user.repeated, *(node for node in cone if id(node) not in own)]
    after = {id(value): value for value in user.reads()}
    for gone in before - after.keys():
        # Bookkeeping: who reads what has changed with the repeated nodes.
        groups.users[gone] = [one for one in groups.users.get(gone, ()) if groups.of(one.nodes[0]) is not user]
    for new in after.keys() - before:
        groups.users.setdefault(new, []).append(user)
