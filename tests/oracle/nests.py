"""Loop nests walked iteration by iteration: what each memory loads, fetches and writes, counted in sets."""

import itertools
import math

from jaxroof.nests import NestFanout


def walked(problem, machine, mapping):
    """Reads, fills and updates by memory and tensor, per instance, of a small mapping."""
    nodes, found = machine.nodes, {}
    for name, tensor in problem.tensors.items():
        homes = [place for place, kept in enumerate(mapping.kept) if name in kept]
        for place, below in zip(homes, [*homes[1:], len(nodes)], strict=True):
            tiles = list(visits(tensor, machine, mapping, below))
            spread = math.prod(
                len({touched(tensor, mapping, copy, at + 1) for copy in copies(mapping, at)})
                for at in range(place + 1, below)
                if at < len(nodes) and isinstance(nodes[at], NestFanout)
            )
            if below == len(nodes):
                moved, distinct = len(tiles), None
            else:
                moved, distinct = loaded(tiles), len(set().union(*tiles))
            own = len(set().union(*visits(tensor, machine, mapping, place)))
            record = found.setdefault((nodes[place].name, name), {"reads": 0, "fills": 0, "updates": 0})
            under = (
                found.setdefault((nodes[below].name, name), {"reads": 0, "fills": 0, "updates": 0}) if distinct else {}
            )
            if tensor.output:
                record["updates"], record["reads"] = moved * spread, moved * spread - own
                under["fills"] = moved - (distinct or 0)
            else:
                record["reads"], under["fills"] = moved * spread, moved
    return found


def visits(tensor, machine, mapping, place):
    """The tile of the first copy of a node at every step of the temporal loops outside of it."""
    loops = [
        (at, name, int(mapping.factors[at][name]))
        for at in range(place)
        if not isinstance(machine.nodes[at], NestFanout)
        for name in mapping.orders[at]
    ]
    for point in itertools.product(*(range(count) for *_, count in loops)):
        start = {}
        for index, (at, name, _) in zip(point, loops, strict=True):
            start[name] = start.get(name, 0) + index * step(mapping, at, name)
        yield touched(tensor, mapping, start, place)


def copies(mapping, at):
    """First iterations of the copies of a fan-out."""
    factors = mapping.factors[at]
    for point in itertools.product(*(range(int(count)) for count in factors.values())):
        yield {name: index * step(mapping, at, name) for index, name in zip(point, factors, strict=True)}


def step(mapping, at, name):
    """Iterations that one step of a loop advances."""
    return math.prod(int(factors.get(name, 1)) for factors in mapping.factors[at + 1 :])


def touched(tensor, mapping, start, place):
    """Elements of a tensor in the box of a node that begins at `start`."""
    names = sorted({name for axis in tensor.axes for _, name in axis})
    extents = [math.prod(int(factors.get(name, 1)) for factors in mapping.factors[place:]) for name in names]
    found = set()
    for point in itertools.product(*map(range, extents)):
        at = {name: start.get(name, 0) + index for name, index in zip(names, point, strict=True)}
        found.add(tuple(sum(c * at[name] for c, name in axis) for axis in tensor.axes))
    return frozenset(found)


def loaded(tiles):
    """Elements loaded over a sequence of tiles: a step of the same length as the last one keeps the overlap."""
    total, last, usual = 0, None, None
    for tile in tiles:
        if last is None:
            total += len(tile)
        else:
            stride = tuple(b - a for a, b in zip(min(last), min(tile), strict=True))
            if usual is None or stride == usual:
                usual = stride
                kept = len(tile & last) if gapless(tile) or tile == last else 0
                total += len(tile) - kept
            else:
                usual = None
                total += len(tile)
        last = tile
    return total


def gapless(tile):
    """Whether a tile has all elements between its corners."""
    return all(
        len(indices) == max(indices) - min(indices) + 1
        or len({b - a for a, b in itertools.pairwise(sorted(indices))}) == 1
        for indices in map(set, zip(*tile, strict=True))
    )
