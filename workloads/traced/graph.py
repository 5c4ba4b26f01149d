"""A traced function as a graph: values, the nodes that make them, and regions that run a number of times."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from workloads.traced.sizes import Shape

VIEWS = {
    "reshape",
    "transpose",
    "broadcast_in_dim",
    "squeeze",
    "broadcast_to",
    "bitcast",
    "unstack",
    "device_put",
    "add_dependency",
    "with_memory_space_constraint",
    "reduced_vary_cast_p",
    "vary_unreduced_cast_p",
    "rev",
    "slice",
    "split",
    "stop_gradient",
    "copy",
    "bitcast_convert_type",
    "pvary",
    "reshard",
    "sharding_constraint",
    "layout_constraint",
    "optimization_barrier",
    "name",
    "random_wrap",
    "random_unwrap",
    "loop_slice",
    "local_part",
}
"""Primitives that only say how the elements of an array are read; the last two are of loops and of `shard_map`."""


CARRY = "carry"
"""Name of a value that one run of a loop's body leaves to the next."""


class Value:
    """An array: made by a node, an input of its region, or a constant."""

    __slots__ = ("constant", "donated", "dtype", "name", "node", "shape", "shown")

    def __init__(self, shape: Shape, dtype: Any, node: "Node | None" = None, constant: Any = None, name: str = ""):
        self.shape, self.dtype, self.node, self.constant, self.name = tuple(shape), dtype, node, constant, name
        self.donated = False  # an argument whose memory results may take
        self.shown: Value | None = None  # the array in memory that it is a view of, where that was asked for

    @property
    def bytes(self) -> float:
        """B of one element."""
        return element_bytes(self.dtype)

    @property
    def known(self) -> bool:
        """Whether it depends on no input, so that it is computed once, before the function runs."""
        if self.node is not None:
            return self.node.known
        return self.constant is not None and (not self.shape or dtype_name(self.dtype)[:3] in ("boo", "int", "uin"))


@dataclasses.dataclass(eq=False)
class Node:
    """One primitive with its operands and results."""

    name: str
    params: dict[str, Any]
    inputs: list[Value]
    outputs: list[Value]
    scope: str = ""  # named scopes and called functions, outermost first
    bodies: list[tuple["Region", Any]] = dataclasses.field(default_factory=list)  # what it runs, and how often
    known: bool = False
    number: int = 0  # place in its region
    operator: object = None  # the outermost call without matrix products that it is in

    @property
    def is_view(self) -> bool:
        """Whether it only says how elements of its operand are read."""
        if self.name in VIEWS:
            return True
        # A reduction over axes of 1 element only drops them.
        if self.name.startswith("reduce") and "axes" in self.params:
            return all(self.inputs[0].shape[axis] == 1 for axis in self.params["axes"])
        if self.name == "gather":
            # Indexing by constants is a view, as slicing is.
            return self.inputs[1].known  # which elements are read does not depend on an input
        if self.name == "convert_element_type":
            return self.inputs[0].dtype == self.outputs[0].dtype
        return self.name == "concatenate" and len(self.inputs) == 1


@dataclasses.dataclass(eq=False)
class Region:
    """Nodes in an order in which they can run; a loop's body is a region of its own."""

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]

    def everything(self) -> Iterator[Node]:
        """Its nodes and those of the regions inside."""
        for node in self.nodes:
            yield node
            for body, _ in node.bodies:
                yield from body.everything()


def viewed(value: Value) -> Iterator[Value]:
    """A value and what it is a view of, the array in memory last."""
    yield value
    while value.node is not None and value.node.is_view:
        # These two have as many results as operands, in the same order.
        place = value.node.outputs.index(value) if value.node.name in ("optimization_barrier", "device_put") else 0
        value = value.node.inputs[place]
        yield value


def base(value: Value) -> Value:
    """The array in memory that a value is a view of."""
    if value.shown is None:
        # Found once per value: chains of views are asked for all the time.
        *_, value.shown = viewed(value)
    return value.shown


def made_of(values: Iterable[Value], inside: set[int]) -> dict[int, Node]:
    """The nodes among `inside` that values depend on through nodes among them, by identity."""
    makers: dict[int, Node] = {}
    waiting = [*values]
    while waiting:
        node = base(waiting.pop()).node
        if node is not None and id(node) in inside and id(node) not in makers:
            makers[id(node)] = node
            waiting += node.inputs
    return makers


def dtype_name(dtype: Any) -> str:
    """Name of a dtype: float32, bfloat16, ..."""
    return getattr(dtype, "name", str(dtype))


def element_bytes(dtype: Any) -> float:
    """B of one element: half of one for 4-bit numbers, 8 for the keys of random numbers."""
    name = dtype_name(dtype)
    if name.startswith(("int4", "uint4", "float4")):
        return 0.5
    return float(getattr(dtype, "itemsize", 8))


def without_dead_nodes(region: Region) -> Region:
    """The region with only the nodes that its outputs depend on, numbered; the same object."""
    # Backwards from the outputs: a node is alive if any later one needs it.
    wanted, alive = set(map(id, region.outputs)), []
    for node in reversed(region.nodes):
        if any(id(value) in wanted for value in node.outputs):
            alive.append(node)
            wanted |= set(map(id, node.inputs))
    region.nodes = alive[::-1]
    for number, node in enumerate(region.nodes):
        node.number = number
    return region
