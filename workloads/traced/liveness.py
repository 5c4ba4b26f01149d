"""Peak memory of a function: arrays that exist at once, kernel after kernel."""

from collections.abc import Iterable

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar
from workloads.traced.graph import Region, Value
from workloads.traced.groups import Group, Groups
from workloads.traced.kernels import Amount
from workloads.traced.sizes import Sizes, shape_key

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
            ends = value.donated and id(value) not in groups.kept and id(value) not in parts
            (self._live if ends else self.inputs).add(parts.get(id(value), value).shape, value.bytes)
        self._left: dict[int, int] = {}  # groups that have not yet read a value
        self.moments: list[Amount] = [Amount()]

    def runs(self, group: Group, inner: Iterable["Peaks"] | None) -> None:
        """Account for a group that runs next; `inner` are the peaks of the bodies of a loop."""
        hidden = frozenset() if group.attention is None else group.attention.hidden
        new = [value for value in self._groups.writes(group) if id(value) not in hidden and not _in_place(value)]
        ending = self._ending(group, hidden)
        given = [value for value in ending if value.donated and group.kind == "map"]
        for value in new:
            place = next((one for one in given if _size(one) == _size(value)), None)
            if place is None:
                self._live = _with(self._live, value, 1.0)
            else:
                given.remove(place)
                ending.remove(place)
        self.moments.append(self._live)
        for peaks in inner or ():
            self.moments += [self._live.merged(peaks.inputs).merged(moment) for moment in peaks.moments]
        for value in ending:
            self._live = _with(self._live, value, -1.0)

    def _ending(self, group: Group, hidden: frozenset[int]) -> list[Value]:
        """What a group reads that nothing needs after it."""
        found = []
        for value in group.reads():
            left = self._left[id(value)] = self._left.get(id(value), len(self._groups.consumers(value))) - 1
            passing = (value.node is not None and not _in_place(value)) or value.donated
            if left == 0 and passing and id(value) not in self._groups.kept | hidden:
                found.append(value)
        return found


def _size(value: Value) -> tuple:
    return shape_key(value.shape), value.bytes


def _parts(region: Region) -> dict[int, Value]:
    """What a device holds of inputs that only `shard_map` reads, by their identity."""
    found: dict[int, Value] = {}
    others: set[int] = set()
    for node in region.nodes:
        for value in node.inputs:
            if node.name == "local_part":
                found[id(value)] = node.outputs[0]
            else:
                others.add(id(value))
    return {key: part for key, part in found.items() if key not in others}


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
    best = {max(range(len(peaks.moments)), key=lambda i: float(peaks.moments[i].at(sizes))) for sizes in trials}
    return [peaks.inputs.merged(peaks.moments[i]) for i in sorted(best)][:MOST]


def peak_bytes(moments: list[Amount], at: Sizes) -> Scalar:
    """B that exist at once at most, inputs included, shape ()."""
    found = moments[0].at(at)
    for moment in moments[1:]:
        found = jnp.maximum(found, moment.at(at))
    return found
