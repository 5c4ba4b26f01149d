"""Problem, machine and mapping of a loop nest."""

import math

from jaxroof.numerics.struct import Scalar, static, struct


@struct
class NestTensor:
    """One tensor of an einsum: the elements that a point of the iteration space touches.

    Each axis is a sum of terms (coefficient, dimension): a convolution's input row is ((stride, "P"), (dilation, "R")).
    A dimension stands in one term of a tensor.
    """

    axes: tuple[tuple[tuple[int, str], ...], ...] = static()
    output: bool = static(default=False)  # sums over the dimensions that it does not have
    density: Scalar = 1.0  # share of elements that are not zero

    @property
    def dimensions(self) -> frozenset[str]:
        """Dimensions that move it."""
        return frozenset(name for axis in self.axes for _, name in axis)


@struct
class NestProblem:
    """An einsum: sizes of its dimensions and its tensors, by name. Each point of the iteration space is one MAC."""

    sizes: dict[str, Scalar]
    tensors: dict[str, NestTensor]

    @property
    def macs(self) -> Scalar:
        """Multiply-accumulates."""
        return math.prod(self.sizes.values())


Limits = tuple[tuple[str, float, float], ...]
"""Dimensions with the least and the most iterations that a node may have of them."""


@struct
class NestMemory:
    """One level of memory. An access moves a block of `block` words."""

    name: str = static()
    keeps: tuple[str, ...] = static(default=())  # tensors that may reside here, others pass; none: all may
    dimensions: tuple[str, ...] | None = static(default=None)  # loops that a search places here; None: all
    passes: tuple[str, ...] = static(default=())  # tensors that may not reside here
    limits: Limits = static(default=())  # what a search may place here
    order: tuple[str, ...] = static(default=())  # a search puts these loops innermost, in this order, outermost first
    gated_by: tuple[str, ...] = static(default=())  # where elements of another one are zero, MACs do not access it
    compression: dict[str, Scalar] | None = None  # by tensor: stored words per element that is not zero; at most all
    capacity: Scalar = math.inf  # words of one instance
    word_bits: Scalar = 8.0
    block: Scalar = 1.0  # words of an access
    read_energy: Scalar = 0.0  # J per access
    write_energy: Scalar = 0.0  # J per access of a fill
    update_energy: Scalar = 0.0  # J per access of an update
    leakage: Scalar = 0.0  # J per cycle and instance in use
    read_bandwidth: Scalar = math.inf  # words per cycle of one instance
    write_bandwidth: Scalar = math.inf  # likewise, fills and updates
    bandwidth: Scalar = math.inf  # likewise, reads, fills and updates together


@struct
class NestFanout:
    """Copies of everything below, that work side by side."""

    name: str = static()
    dimensions: tuple[str, ...] | None = static(default=None)  # loops that a search places here; None: all
    multicast: bool = static(default=True)  # one read reaches all copies that need the same words
    reduces: bool = static(default=True)  # partial sums of the same words are added on their way up
    limits: Limits = static(default=())  # what a search may place here
    least: Scalar = 0.0  # share of the copies that a search uses at least
    transfer_energy: dict[str, Scalar] | None = None  # by tensor: J of a word that passes, either way
    transfer_bandwidth: dict[str, Scalar] | None = None  # by tensor: words per cycle, each way
    size: Scalar


@struct
class NestMachine:
    """Memories and fan-outs from the outermost to the innermost, and the arithmetic units below them."""

    nodes: tuple[NestMemory | NestFanout, ...]
    mac_energy: Scalar = 0.0  # J per multiply-accumulate
    clock: Scalar = 1e9  # Hz
    gating: Scalar = 0.0  # 1 where MACs with a zero operand cost no energy
    skipping: Scalar = 0.0  # 1 where they cost no time either
    gated_by: tuple[str, ...] = static(default=())  # operands whose zeros do so; none: all

    def takes(self, place: int, name: str) -> bool:
        """Whether a search may place loops of a dimension in a node; in the outermost one, of any."""
        dimensions = self.nodes[place].dimensions
        return place == 0 or dimensions is None or name in dimensions

    def bounds(self, place: int, name: str) -> tuple[float, float]:
        """Least and most iterations of a dimension that a search may place in a node."""
        limits = {limited: (least, most) for limited, least, most in self.nodes[place].limits}
        return limits.get(name, (1.0, math.inf if self.takes(place, name) else 1.0))

    @property
    def networks(self) -> dict[int, NestFanout]:
        """The fan-outs whose transfers cost something, by their places."""
        return {
            place: node
            for place, node in enumerate(self.nodes)
            if isinstance(node, NestFanout) and (node.transfer_energy or node.transfer_bandwidth)
        }

    @property
    def costs_energy(self) -> bool:
        """Whether any access, transfer, cycle or MAC does; of known numbers."""
        figures = ("read_energy", "write_energy", "update_energy", "leakage", "transfer_energy")
        return bool(self.mac_energy) or any(getattr(node, name, None) for node in self.nodes for name in figures)

    @property
    def units(self) -> Scalar:
        """Arithmetic units."""
        return math.prod(node.size for node in self.nodes if isinstance(node, NestFanout))


@struct
class Mapping:
    """Loops of every node of a machine; a dimension that a node lacks has the factor 1 there.

    The factors of a dimension multiply to its size over all nodes: loaders see to it.
    """

    factors: tuple[dict[str, Scalar], ...]
    orders: tuple[tuple[str, ...], ...] = static()  # of each node's loops, from the outermost
    kept: tuple[tuple[str, ...], ...] = static()  # tensors that reside in each node; none in a fan-out
