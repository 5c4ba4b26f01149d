"""Bytes that a group of nodes reads and writes: each array once, and of views what they show."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxroof.hardware import OnChip
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Scalar
from jaxroof.op import Kernel, Ops, streamed
from workloads.traced.graph import Region, Value, base, viewed
from workloads.traced.groups import Group, Groups
from workloads.traced.kernels import Amount, TracedKernel
from workloads.traced.rules import read_shape, written_shape
from workloads.traced.sizes import Shape, Sizes, shape_key


def moved(groups: Groups, group: Group, counted: Callable[[Value], bool] = lambda value: True) -> Amount:
    """B that a group reads from memory and writes there, of the arrays that are counted."""
    amount = Amount()
    # Scores of fused attention never reach memory.
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
    views: dict[int, Shape] = {}
    for node, place in group.uses(value):
        # Slices and broadcasts read a part: the smallest view on the way is what is read.
        operand, own = node.inputs[place], read_shape(node, place)
        shapes = [one.shape for one in viewed(operand)] + ([] if own is None else [own])
        views[id(operand)] = min(shapes, key=groups.at.elements)
    # Different views may overlap: never more than the whole array.
    whole_elements = groups.at.elements(value.shape)
    if sum(groups.at.elements(shape) for shape in views.values()) >= whole_elements:
        return [value.shape]
    return list(views.values())


# Peak memory of a function: arrays that exist at once, kernel after kernel.


MOST = 48
"""Moments that are kept of a function with symbolic sizes: those that are the peak at some sizes."""


class Peaks:
    """Memory of a region while its groups run in order.

    Inputs exist all the time; a result from the kernel that writes it to the last that reads it, or to the end where
    the region returns it. What is updated in place takes no memory of its own, nor does an element-wise result that
    takes the place of a donated argument.

    Args:
      region: whose inputs and results they are.
      groups: its kernels.
    """

    def __init__(self, region: Region, groups: Groups):
        self._groups = groups
        self.inputs = Amount()
        parts = _parts(region)
        self._live = Amount()
        for value in {id(value): value for value in region.inputs if value.node is None}.values():
            # A donated argument may end; other inputs stay for the caller.
            ends = value.donated and id(value) not in groups.kept and id(value) not in parts
            (self._live if ends else self.inputs).add(parts.get(id(value), value).shape, value.bytes)
        self._left: dict[int, int] = {}  # groups that have not yet read a value
        self.moments: list[Amount] = [Amount()]

    def runs(self, group: Group, inner: Iterable["Peaks"] | None) -> None:
        """Account for a group that runs next; `inner` are the peaks of the bodies of a loop."""
        hidden = frozenset() if group.attention is None else group.attention.hidden
        new = [value for value in self._groups.writes(group) if id(value) not in hidden and not _in_place(value)]
        # Element-wise kernels may write into an argument that is donated and read for the last time.
        ending = self._ending(group, hidden)
        given = [value for value in ending if value.donated and group.kind == "map"]
        for value in new:
            place = next((one for one in given if _size(one) == _size(value)), None)
            if place is None:
                self._live = _with(self._live, value, 1.0)
            else:
                given.remove(place)
                ending.remove(place)
        # While the kernel runs, its operands and results exist side by side.
        self.moments.append(self._live)
        for peaks in inner or ():
            # A loop's body has its own peak on top of what lives around it.
            self.moments += [self._live.merged(peaks.inputs).merged(moment) for moment in peaks.moments]
        for value in ending:
            self._live = _with(self._live, value, -1.0)

    def _ending(self, group: Group, hidden: frozenset[int]) -> list[Value]:
        """What a group reads that nothing needs after it."""
        freed = []
        for value in group.reads():
            # Reference counting: the last reader frees the array.
            left = self._left[id(value)] = self._left.get(id(value), len(self._groups.consumers(value))) - 1
            passing = (value.node is not None and not _in_place(value)) or value.donated
            if left == 0 and passing and id(value) not in self._groups.kept | hidden:
                freed.append(value)
        return freed


def _size(value: Value) -> tuple[Any, ...]:
    return shape_key(value.shape), value.bytes


def _parts(region: Region) -> dict[int, Value]:
    """What a device holds of inputs that only `shard_map` reads, by their identity."""
    local_parts: dict[int, Value] = {}
    others: set[int] = set()
    for node in region.nodes:
        for value in node.inputs:
            if node.name == "local_part":
                local_parts[id(value)] = node.outputs[0]
            else:
                others.add(id(value))
    return {key: part for key, part in local_parts.items() if key not in others}


def _with(amount: Amount, value: Value, sign: float) -> Amount:
    one = Amount()
    one.add(value.shape, value.bytes)
    return amount.merged(one, sign)


def _in_place(value: Value) -> bool:
    return value.node is not None and value.node.name == "dynamic_update_slice"


def kept_moments(peaks: Peaks, trials: list[Sizes]) -> list[Amount]:
    """The moments that are the peak at some of the sizes of `trials`: the others need not be computed."""
    if not trials:
        return peaks.moments
    # Moments that are never the largest are dropped, so that the peak is a maximum of few terms.
    best = {max(range(len(peaks.moments)), key=lambda i: float(peaks.moments[i].at(sizes))) for sizes in trials}
    return [peaks.inputs.merged(peaks.moments[i]) for i in sorted(best)][:MOST]


def peak_bytes(moments: list[Amount], at: Sizes) -> Scalar:
    """B that exist at once at most, inputs included, shape ()."""
    peak = moments[0].at(at)
    for moment in moments[1:]:
        peak = jnp.maximum(peak, moment.at(at))
    return peak


# Bytes that stay in on-chip memory which a compiler fills: what kernels pass on, and weights from run to run.


def with_on_chip(ops: Ops, kernels: Sequence[TracedKernel], at: Sizes, on_chip: OnChip) -> Ops:
    """The ops of kernels with the bytes alone that device memory moves.

    A kernel's arrays that other kernels make or read are on the chip as far as they fit. Weights stay there in what
    the largest of these leave, all to the same share:

    bytes = all - min(passed on, capacity) - share weights,
    share = keeps_weights min(1, max(0, capacity - largest passed on) / weights of all kernels)

    Equal kernels are one op, of their mean.

    Args:
      ops: of `kernels`, in the same order.
      at: sizes of the symbols.

    Source: Coral documentation, Edge TPU Compiler, parameter data caching; Jouppi et al., ISCA 2017, unified buffer.
    """
    largest, every = jnp.asarray(0.0), jnp.asarray(0.0)
    means = []
    for kernel in kernels:
        passed = weights = runs = jnp.asarray(0.0)
        for run in kernel.runs:
            # What kernels pass on is kept first; a larger array spills in part.
            count, moved = at.elements(run.times), run.passed.at(at)
            largest = jnp.maximum(largest, moved)
            passed = passed + count * jnp.minimum(moved, on_chip.capacity)
            weights = weights + count * run.weights.at(at)
            runs = runs + count
        every = every + weights
        runs = jnp.maximum(runs, 1e-30)  # none in a loop without trips
        means.append((passed / runs, weights / runs))
    # Weights get what the largest passed-on array leaves.
    room = positive_part(on_chip.capacity - largest)
    share = on_chip.keeps_weights * jnp.minimum(1.0, room / jnp.maximum(every, 1.0))
    return {
        name: streamed(op, share, weights, passed) if isinstance(op, Kernel) else op
        for (name, op), (passed, weights) in zip(ops.items(), means, strict=True)
    }
