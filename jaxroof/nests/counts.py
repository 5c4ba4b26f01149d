"""Reads, fills and updates of every tensor in every memory of a loop nest.

Counting rules, those of Timeloop's published reference outputs:

- The tile of a memory is what its own loops and all inner ones touch. It stays while outer loops move that do not
  move it. When the innermost of the outer loops slides it along one axis, what overlaps stays too, until a loop moves
  it by another step: then all of it is loaded again.
- A read of the next memory outside serves all copies that need the same tile, where the fan-out between multicasts.
- A tile of partial sums is written up each time that it leaves, and fetched again each time that it returns. Its
  first visit fetches nothing.
- Arithmetic units hold nothing: each MAC reads its operands and updates its sum in the innermost memory; of a memory
  that is gated, only where the other tensors that gate it are not zero.
- A memory that compresses a tensor holds and moves it without its zeros.
- A word passes the network of a fan-out once on its way to all copies that need it, and once for sums that are added.

Source: Parashar et al., Timeloop, ISPASS 2019, section VI, for tiles, multicast and spatial reduction; reference
outputs of Accelergy-Project/timeloop-accelergy-exercises for first visits and changes of step.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxroof.nests.structs import Mapping, NestFanout, NestMachine, NestMemory, NestProblem, NestTensor
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar

Extents = dict[str, Scalar]
"""Iterations of each dimension; 1 of one that is absent."""


class Accesses(NamedTuple):
    """Words that one instance of a memory moves for one tensor."""

    tile: Scalar  # words that it holds
    reads: Scalar
    fills: Scalar  # written from outside
    updates: Scalar  # written from inside


class _Loop(NamedTuple):
    """A temporal loop outside of a tile."""

    dimension: str
    count: Scalar
    step: Scalar  # iterations of its dimension that one of its steps advances


def accesses(problem: NestProblem, machine: NestMachine, mapping: Mapping) -> dict[tuple[str, str], Accesses]:
    """Accesses by names of memory and tensor, for tensors that reside there; words per instance.

    Args:
      problem: the einsum.
      machine: memories and fan-outs.
      mapping: loops of each of its nodes; factors may be fractions, for gradients.

    Returns:
      Scalars, or columns where factors are columns. By fan-out and tensor too, where the machine says what transfers
      cost: words that pass to the copies (reads) and back (updates), per instance of what is outside. Gradients follow
      the counts as products; which loops leave a tile in place is decided by which factors are above 1.
    """
    inner, units = inner_extents(mapping), len(machine.nodes)
    networks = machine.networks
    steps = math.prod((loop.count for loop in _temporal(machine, mapping, inner, units)), start=1.0)
    access_counts = {}
    for name, tensor in problem.tensors.items():
        # Memories that the tensor resides in, from the outermost; it bypasses the others.
        homes = [place for place, residents in enumerate(mapping.kept) if name in residents]
        held = {place: _held(tensor, machine, mapping, inner, place) for place in homes}
        held[units] = _Held(1.0, steps, 0.0)
        fills: Scalar = 0.0  # of the outermost memory
        # Between two homes each load of the inner tile is a read of the outer one.
        for place, below in zip(homes, [*homes[1:], units], strict=True):
            own, inside = held[place], held[below]
            # Multicast: copies that need the same tile are served by one read.
            sent = inside.loaded * _copies(tensor, machine, mapping, inner, range(place + 1, below))
            node = machine.nodes[place]
            acting = _acting(problem, node, name) if below == units else 1.0
            if tensor.output:
                # Partial sums: every visit but the first of an output fetches what is there already.
                moved = Accesses(own.tile, acting * jnp.maximum(sent - own.distinct, 0.0), fills, acting * sent)
                fills = jnp.maximum(inside.loaded - inside.distinct, 0.0)
            else:
                moved = Accesses(own.tile, acting * sent, fills, 0.0)
                fills = inside.loaded
            for at, network in networks.items():
                if place < at < below:
                    # Per instance of what lies outside of the fan-out: copies between the home and the fan-out share
                    # the words.
                    share = 1.0 / _copies(tensor, machine, mapping, inner, range(place + 1, at))
                    passing = share * moved.reads, share * moved.updates
                    access_counts[network.name, name] = Accesses(0.0, passing[0], 0.0, passing[1])
            if isinstance(node, NestMemory) and node.compression and name in node.compression:
                share = jnp.minimum(node.compression[name] * tensor.density, 1.0)
                moved = Accesses(*(share * count for count in moved))
            access_counts[node.name, name] = moved
    return access_counts


def _acting(problem: NestProblem, node: Any, name: str) -> Scalar:
    """Share of the MACs that access a tensor in a memory: none where another one that gates it is zero."""
    share: Scalar = 1.0
    for other in node.gated_by:
        if other != name and other in problem.tensors:
            share = share * problem.tensors[other].density
    return share


def words(tensor: NestTensor, extents: Extents) -> Scalar:
    """Elements of a tensor that a box of iterations touches."""
    return math.prod((_length(axis, extents) for axis in tensor.axes), start=1.0)


def _length(axis: tuple[tuple[int, str], ...], extents: Extents) -> Scalar:
    """Distinct indices of an axis: of two terms exactly; of more, all between the smallest and the largest."""
    terms = _terms(axis, extents)
    if len(terms) == 1:
        return terms[0][1]
    if len(terms) == 2:
        (one, rows), (other, columns) = terms
        # Pairs with the same sum lie on chains of steps (+other, -one): every pair but the first of a chain repeats.
        return rows * columns - jnp.maximum(rows - other, 0.0) * jnp.maximum(columns - one, 0.0)
    return sum(coefficient * (extent - 1.0) for coefficient, extent in terms) + 1.0


def _terms(axis: tuple[tuple[int, str], ...], extents: Extents) -> list[tuple[int, Scalar]]:
    """Coefficients without their common divisor, with extents; one extent of 1 at least."""
    present = [(coefficient, extents[name]) for coefficient, name in axis if name in extents]
    shared = math.gcd(*(coefficient for coefficient, _ in present)) if present else 1
    return [(coefficient // shared, extent) for coefficient, extent in present] or [(1, 1.0)]


def inner_extents(mapping: Mapping) -> list[Extents]:
    """Extents of all loops of each node and inner ones, and of none at last."""
    extents: list[Extents] = [{}]
    # Cumulative products of the factors, from the innermost node outwards.
    for factors in reversed(mapping.factors):
        extents.append(_times(extents[-1], factors))
    return extents[::-1]


def _times(extents: Extents, factors: Extents) -> Extents:
    return extents | {name: extents[name] * count if name in extents else count for name, count in factors.items()}


def _temporal(machine: NestMachine, mapping: Mapping, inner: list[Extents], end: int) -> Iterator[_Loop]:
    """Temporal loops of the nodes before `end`, from the innermost."""
    for place in reversed(range(end)):
        if isinstance(machine.nodes[place], NestFanout):
            continue
        for name in reversed(mapping.orders[place]):
            if name in mapping.factors[place]:
                yield _Loop(name, mapping.factors[place][name], inner[place + 1].get(name, 1.0))


class _Held(NamedTuple):
    """A tensor's tile in a memory."""

    tile: Scalar  # words
    loaded: Scalar  # words that come into it, or leave it if it is of an output
    distinct: Scalar  # of those of an output: each of these comes once for the first time


def _held(tensor: NestTensor, machine: NestMachine, mapping: Mapping, inner: list[Extents], place: int) -> _Held:
    extents = inner[place]
    tile, loops = words(tensor, extents), list(_temporal(machine, mapping, inner, place))
    slides = any(len(axis) > 1 for axis in tensor.axes)
    loaded = _slid(tensor, extents, tile, loops) if slides else _moved(tensor, tile, loops)
    if not tensor.output:
        return _Held(tile, loaded, 0.0)
    for loop in loops:
        extents = _times(extents, {loop.dimension: loop.count})
    return _Held(tile, loaded, words(tensor, extents))


def _moved(tensor: NestTensor, tile: Scalar, loops: list[_Loop]) -> Scalar:
    """Words loaded into a tile that overlaps none of its neighbours."""
    # Loop order matters: loops inside of the first one that moves the tile leave it in place (stationary), all outside
    # of it reload it.
    moving, loads = tensor.dimensions, tile
    for name, count, _ in loops:  # those that do not move it cost nothing, until one does
        loads = loads * count if name in moving else jnp.where(loads > tile, loads * count, loads)
    return loads


def _slid(tensor: NestTensor, extents: Extents, tile: Scalar, loops: list[_Loop]) -> Scalar:
    """Words loaded into a tile that may overlap its neighbours.

    `kept` is what stays of the tile at a step like that of the innermost loop; `shift` is that step along each axis,
    and `back` how far each axis comes in an inner loop nest, which then begins again.
    """
    loaded, kept, begun = tile, tile, False
    shift: list[Scalar] = [0.0] * len(tensor.axes)
    back: list[Scalar] = [0.0] * len(tensor.axes)
    for name, count, step in loops:
        first = jnp.logical_and(count > 1.0, jnp.logical_not(begun))
        same: Any = True
        # The halo: along a sliding axis neighbouring tiles overlap, and only new elements are loaded.
        for number, axis in enumerate(tensor.axes):
            coefficients = [coefficient for coefficient, term in axis if term == name]
            if not coefficients:
                same = jnp.logical_and(same, -back[number] == shift[number])
                continue
            forth = sum(coefficients) * step
            kept = jnp.where(first, tile * _overlap(axis, extents, forth), kept)
            shift[number] = jnp.where(first, forth, shift[number])
            same = jnp.logical_and(same, forth - back[number] == shift[number])
            back[number] = back[number] + (count - 1.0) * forth
        # `count` - 1 further visits, each less what stayed.
        loaded = loaded + (count - 1.0) * (loaded - jnp.where(same, kept, 0.0))
        begun = jnp.logical_or(begun, count > 1.0)
    return loaded


def _overlap(axis: tuple[tuple[int, str], ...], extents: Extents, shift: Scalar) -> Scalar:
    """Share of an axis that stays after a shift; none of an axis with gaps."""
    if len(axis) == 1:
        return 0.0
    terms, length = _terms(axis, extents), _length(axis, extents)
    shared = math.gcd(*(coefficient for coefficient, name in axis if name in extents)) or 1
    gapless = length == sum(coefficient * (extent - 1.0) for coefficient, extent in terms) + 1.0
    if shared > 1:
        gapless = jnp.logical_and(gapless, shift % shared == 0.0)
    return jnp.where(gapless, jnp.maximum(length - shift / shared, 0.0) / length, 0.0)


def _copies(tensor: NestTensor, machine: NestMachine, mapping: Mapping, inner: list[Extents], between: range) -> Scalar:
    """Different tiles of a tensor in the copies of some nodes; without multicast or reduction, all copies."""
    total: Scalar = 1.0
    for place in between:
        node, factors = machine.nodes[place], mapping.factors[place]
        if isinstance(node, NestFanout):
            # Partial sums that are added in the fan-out count once, as multicast operands do.
            shared = node.reduces if tensor.output else node.multicast
            copies = math.prod(factors.values(), start=1.0)
            total = total * (_different(tensor, factors, inner[place + 1]) if shared else copies)
    return total


def _different(tensor: NestTensor, factors: Extents, steps: Extents) -> Scalar:
    """Different tiles of a tensor in one fan-out.

    Of two loops on one axis, those coincide whose sums of steps do, if one step is a multiple of the other.
    """
    total: Scalar = 1.0
    for axis in tensor.axes:
        present = [(c * steps.get(name, 1.0), factors[name]) for c, name in axis if name in factors]
        if len(present) != 2:
            total = total * math.prod((count for _, count in present), start=1.0)
            continue
        (one, rows), (other, columns) = present
        along = jnp.where(one >= other, one / other, 1.0)
        across = jnp.where(one >= other, 1.0, other / one)
        repeated = jnp.maximum(rows - across, 0.0) * jnp.maximum(columns - along, 0.0)
        ratio = jnp.maximum(along, across)
        total = total * (rows * columns - jnp.where(ratio == jnp.floor(ratio), repeated, 0.0))
    return total
