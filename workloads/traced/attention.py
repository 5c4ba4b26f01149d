"""Softmax attention in a trace, forward and backward: products around a softmax over rows of scores."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workloads.traced.elementwise import REDUCTIONS
from workloads.traced.graph import Node, Region, Value, base, made_of, viewed
from workloads.traced.known import Mask, Unknown, entries, mask_of
from workloads.traced.sizes import Shape, Sizes, is_one


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
    # Scores have one size, and their rows' statistics (maximum, sum) another: both lead from one node of a softmax to
    # the next.
    size = at.elements(seed.outputs[0].shape)
    inner, waiting = {id(seed): seed}, [seed]
    makers: dict[int, Node] = {}
    readers: dict[int, Node] = {}
    rows: set[int] = set()

    def meets(node: Node, found: dict[int, Node]) -> None:
        """Keep a product in `found`, and wait to look around anything else."""
        # A product ends the search: what makes scores lies before the softmax, what reads them after it.
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
        # Backwards: what made the operands.
        for value in map(base, node.inputs):
            if value.node is not None and not value.known and (at.elements(value.shape) == size or id(value) in rows):
                meets(value.node, makers)
        # Forwards: reductions give statistics of rows, whose users belong to the softmax too.
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
    # From the softmax's sum back to the product, through views and element-wise work, with the axis followed on the
    # way.
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
        # Of several operands (scores, mask, row maximum) the one that has every score.
        nexts = [one for one in node.inputs if len(one.shape) > axis and _leads(one, makers, inner)]
        if not nexts:
            return None
        value = nexts[0]
    return None if value.node is None else (value.node, axis)


def _leads(value: Value, makers: set[int], inner: set[int]) -> bool:
    """Whether an operand is of the scores rather than of a mask or of their rows."""
    source = base(value)
    numbers = [[dim for dim in one.shape if isinstance(dim, int)] for one in (value, source)]
    same = all(a == b for a, b in zip(value.shape, source.shape, strict=False))
    full = same or math.prod(numbers[0]) == math.prod(numbers[1])
    return source.node is not None and (id(source.node) in makers or id(source.node) in inner) and full


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
    # A reshape keeps an axis where dimensions of 1 alone come or go, or where as many elements lie before it.
    wide_old, wide_new = ([i for i, dim in enumerate(shape) if not is_one(dim)] for shape in (old, new))
    if axis in wide_new and len(wide_old) == len(wide_new):
        return wide_old[wide_new.index(axis)]
    before = math.prod(new[:axis])
    return next((i for i, dim in enumerate(old) if dim == new[axis] and math.prod(old[:i]) == before), None)


# The mask of attention: what hides scores on the way from their product to the softmax.


HIDDEN_SCORE = -1e4
"""A score plus less than this does not pass a mask that is added."""


def mask_between(scores: Scores, total: Node, at: Sizes, notes: set[str]) -> Mask | None:
    """What hides scores on the way from their product to the softmax; None where nothing does, or it is an input."""
    first_mask: Mask | None = None
    ahead = made_of(total.inputs, set(map(id, scores.inner)))
    # Only nodes ahead of the softmax's sum: later selections are of dropout or of the gradient.
    for node in scores.inner:
        if id(node) not in ahead or node.name not in ("select_n", "add"):
            continue
        allowed = _allowed(node, scores, at)
        if allowed is None:
            continue
        # Entries of a mask are found by running what makes it at a few positions.
        sizes = [int(at.number(dim)) for dim in node.outputs[0].shape]
        keys = _keys_axis(node, total)
        try:
            mask = mask_of(allowed, sizes, keys)
        except Unknown:
            notes.add("attention under a mask that is an input, or no band along the diagonal: all pairs are counted")
            continue
        first_mask = mask if first_mask is None else first_mask
    return first_mask


def _keys_axis(node: Node, total: Node) -> int:
    """The axis of the softmax in a node of the scores before it, whose order is that of the softmax's operand."""
    same = node.outputs[0].shape == total.inputs[0].shape
    return int(total.params["axes"][0]) if same else len(node.outputs[0].shape) - 1


def _allowed(node: Node, scores: Scores, at: Sizes) -> Callable[[list[np.ndarray]], np.ndarray] | None:
    """Where a node lets scores pass, as a function of positions; None where it is no mask."""
    makers = set(map(id, (*scores.makers, *scores.inner)))
    from_scores = [
        any(value.node is not None and id(value.node) in makers for value in viewed(one)) for one in node.inputs
    ]
    if node.name == "select_n":
        which = next((place for place, own in enumerate(from_scores[1:]) if own), None)
        # `select_n` shows its case 0 or 1 where the predicate says so: scores pass where it names their own case.
        return None if which is None else lambda places: entries(node.inputs[0], places, at) == which
    other = next((value for value, own in zip(node.inputs, from_scores, strict=True) if not own), None)
    if other is None or not other.shape or (base(other).node is None and base(other).constant is None):
        return None
    # An added mask hides by a number so negative that its exponential is 0.
    return lambda places: entries(other, places, at) > HIDDEN_SCORE


FORWARD, BACKWARD, GRADIENTS = 2, 5, 3
"""Products of attention; of its gradient, the scores computed again included; and of those, results."""


class TracedAttention(NamedTuple):
    """One attention kernel: the factors of its sizes, and the nodes that it does."""

    nodes: list[Node]
    sequences: Shape
    queries: Shape  # new tokens of one sequence
    keys: Shape
    heads: Shape
    key_width: Shape  # of all products that are added to scores
    value_width: Shape
    stored_width: Shape  # of the keys in memory
    key_shape: Shape  # of the keys in memory, before heads are repeated
    key_bytes: float  # B of one of their elements
    mask: Mask | None
    products: int  # matrix products of the size of the scores
    hidden: frozenset[int]  # identities of arrays of the size of the scores, which stay inside
    dtype: Any  # of the operands
    latent: bool = False  # values are a part of the keys, one head for all queries


def attentions(region: Region, at: Sizes, notes: set[str]) -> list[TracedAttention]:
    """The attention kernels of a region.

    Args:
      at: sizes to tell arrays apart by.
      notes: what a reader should know of them is added.
    """
    users, seen = users_of(region), set()
    accepted: list[TracedAttention] = []
    output_ids = set(map(id, map(base, region.outputs)))
    needs = _needs(region)
    # A softmax has an exponential: each one that no kernel has taken yet seeds a search.
    for node in region.nodes:
        if node.name != "exp" or node.known or id(node) in seen:
            continue
        scores = around(node, users, at)
        seen |= set(map(id, scores.inner))
        kernels = _kernels(node, scores, users, output_ids, at, notes)
        # A kernel must not wait for a node that waits for the kernel.
        if all(_closed(kernel.nodes, region, needs) for kernel in kernels):
            accepted += kernels
    return accepted


def _needs(region: Region) -> dict[int, int]:
    """Bits of the nodes that each node depends on, by its identity."""
    dependencies: dict[int, int] = {}
    for node in region.nodes:
        if not node.is_view:
            makers = [value.node for value in map(base, node.inputs) if value.node is not None]
            # Sets of nodes as bits of one integer: unions are single operations.
            dependencies[id(node)] = 0
            for maker in makers:
                dependencies[id(node)] |= dependencies.get(id(maker), 0) | 1 << maker.number
    return dependencies


def _closed(nodes: list[Node], region: Region, needs: dict[int, int]) -> bool:
    """Whether nothing outside depends on some of the nodes and is needed by others, so that they can run at once."""
    own = before = 0
    for node in nodes:
        own |= 1 << node.number
        before |= needs[id(node)]
    before &= ~own
    return not any(before >> node.number & 1 and needs.get(id(node), 0) & own for node in region.nodes)


def _kernels(
    seed: Node, scores: Scores, users: Users, kept: set[int], at: Sizes, notes: set[str]
) -> list[TracedAttention]:
    """The forward kernel, the backward one, or both, of one softmax; none where it is no attention."""
    total = next((user for user in _summed(seed, users) if user.name == "reduce_sum"), None)
    if total is None or not scores.makers or not scores.readers:
        return []
    # 1 product makes and 1 reads scores: forward. With 2 makers (scores, gradient of weights) and 3 or 4 readers:
    # backward, alone or with the forward pass.
    counts = len(scores.makers), len(scores.readers)
    forward_alone = counts[1] == 1  # scores may be a sum of products: of latent keys and of rotated ones
    if not (forward_alone or counts in ((2, GRADIENTS + 1), (2, GRADIENTS))):
        return []
    traced = maker_of(total, scores)
    if traced is None:
        return []
    inside = set(map(id, (*scores.inner, *scores.readers)))
    for node in scores.inner:
        for value in node.outputs:
            # Scores that leave the kernel have to be in memory: then nothing is gained by fusing.
            if id(value) in kept or any(id(user) not in inside for user in users.get(id(value), ())):
                notes.add(
                    "attention weights are kept beyond the kernel that makes them, so attention is not fused; in a "
                    "gradient over a scan, jax.checkpoint of its body restores the fused kernel"
                )
                return []
    maker, axis = traced
    sizes = _sizes(maker, axis, scores, total, at, notes)
    if forward_alone:
        one = sizes([*scores.makers, *scores.inner, *scores.readers], scores.readers[0], FORWARD)
        return [one] if _shares_values(one, scores, at) else []
    if counts == (2, GRADIENTS):
        return [sizes([*scores.makers, *scores.inner, *scores.readers], None, BACKWARD)]
    # Forward and backward in one trace: what the output depends on is the forward kernel, and the rest recomputes
    # scores.
    output = scores.readers[0]
    ahead = made_of(output.inputs, set(map(id, scores.inner)))
    forward = [node for node in scores.inner if id(node) in ahead]
    others = [node for node in scores.inner if id(node) not in ahead]
    products = [node for node in (*scores.makers, *scores.readers) if node is not maker and node is not output]
    return [sizes([maker, *forward, output], output, FORWARD), sizes([*others, *products], output, BACKWARD)]


def _shares_values(attention: TracedAttention, scores: Scores, at: Sizes) -> bool:
    """Whether all queries of a head read the same values, rather than each its own, as sums over experts do."""
    value_operand = _values(scores.readers[0], scores)
    if value_operand is None:
        return False
    shared = (*attention.sequences, *attention.heads, *attention.keys, *attention.value_width)
    # One value per key, head and sequence; a value per query would be another einsum.
    return at.elements(value_operand[0].shape) <= at.elements(shared)


def _summed(seed: Node, users: Users) -> list[Node]:
    """Nodes that read the exponentials, conversions passed over."""
    readers = []
    for user in users.get(id(seed.outputs[0]), ()):
        readers += _summed(user, users) if user.name == "convert_element_type" else [user]
    return readers


def _sizes(
    maker: Node, axis: int, scores: Scores, total: Node, at: Sizes, notes: set[str]
) -> Callable[[list[Node], Node | None, int], TracedAttention]:
    """A function of nodes, of the product that multiplies values, and of the number of products, to the kernel."""
    (over, _), batches = maker.params["dimension_numbers"]
    # Operands' axes are summed over, shared (batch) or free: free ones are queries on one side and keys on the other.
    free = [
        [i for i in range(len(value.shape)) if i not in {*map(int, done), *map(int, batch)}]
        for value, done, batch in zip(maker.inputs, maker.params["dimension_numbers"][0], batches, strict=True)
    ]
    after_left = len(batches[0]) + len(free[0])
    right_keys = axis >= after_left
    query, key = (maker.inputs[0], maker.inputs[1]) if right_keys else (maker.inputs[1], maker.inputs[0])
    own, batch = (free[0], batches[0]) if right_keys else (free[1], batches[1])
    batch = tuple(map(int, batch))
    keys = (maker.outputs[0].shape[axis],)
    # Grouped-query attention: one of the free axes counts the heads that share keys.
    grouped = _group_axis(own, batch, query, keys[0])
    queries = tuple(query.shape[i] for i in own if i != grouped)
    group = () if grouped is None else (query.shape[grouped],)
    outer = tuple(query.shape[i] for i in batch)
    width = tuple(maker.inputs[0].shape[int(i)] for i in over)
    mask = mask_between(scores, total, at, notes)
    # The smallest view is what is in memory: before heads are repeated for the product.
    key_shape = min((value.shape for value in viewed(key)), key=at.elements)
    computed = (value for node in (*scores.makers, *scores.inner) for value in node.outputs)
    full = at.elements(maker.outputs[0].shape)
    hidden = frozenset(id(value) for value in computed if at.elements(value.shape) == full)

    def kernel(nodes: list[Node], output: Node | None, products: int) -> TracedAttention:
        value = None if output is None else _values(output, scores)
        values = width if value is None else value[1]
        # Multi-head latent attention: values are read from the array that has the keys, with one head for all queries.
        latent = value is not None and base(value[0]) is base(key) and len(batch) < 2 and bool(group)
        batched = len(outer) > 1 or bool(group and outer)  # the first axis is that of sequences
        sequences, heads = (outer[:1], (*outer[1:], *group)) if batched else ((), (*outer, *group))
        every = _all_widths(scores, width) if products == FORWARD and len(scores.readers) == 1 else width
        return TracedAttention(
            nodes, sequences, queries, keys, heads, every, values, width, key_shape, key.bytes, mask, products, hidden,
            query.dtype, latent,
        )  # fmt: skip

    return kernel


def _all_widths(scores: Scores, width: Shape) -> Shape:
    """Elements that all products which make scores sum over; `width` where there is one product."""
    if len(scores.makers) == 1:
        return width
    summed = [(maker.inputs[0].shape, maker.params["dimension_numbers"][0][0]) for maker in scores.makers]
    return (sum(math.prod(shape[int(axis)] for axis in axes) for shape, axes in summed),)


def _group_axis(own: list[int], batch: tuple[int, ...], query: Value, keys: Any) -> int | None:
    """Of several free axes of the queries the one over the heads that share keys.

    With heads of keys it follows these. Where all heads share one key it is the axis that has not as many elements as
    there are keys, or more than one, or the last.
    """
    if len(own) < 2:
        return None
    if len(batch) > 1 and max(batch) + 1 in own:
        return max(batch) + 1
    alike = [axis for axis in own if query.shape[axis] == keys]
    alone = [axis for axis in own if isinstance(query.shape[axis], int) and query.shape[axis] == 1]
    tokens = alike[0] if len(alike) == 1 else alone[0] if len(alone) == 1 else own[0]
    return next(axis for axis in reversed(own) if axis != tokens)


def _values(output: Node, scores: Scores) -> tuple[Value, Shape] | None:
    """The operand of a product that is not made of scores, and its free axes: the elements of a value."""
    inner = set(map(id, scores.inner))
    numbers = output.params["dimension_numbers"]
    for value, over, batch in zip(output.inputs, *numbers, strict=True):
        maker = base(value).node
        if maker is None or id(maker) not in inner:
            used = {*map(int, over), *map(int, batch)}
            return value, tuple(dim for i, dim in enumerate(value.shape) if i not in used)
    return None
