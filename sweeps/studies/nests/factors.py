"""Factors of one dimension over the nodes of a machine, within what the machine allows."""

import functools
import math
from collections.abc import Iterator

import numpy as np

from jaxroof.nests import Fanout, Machine

LARGEST_DIMENSION = 10**9
"""Of a dimension whose factors are looked for."""

MOST_OPTIONS = 50_000
"""Ways to split one dimension over the nodes; of more, as many are drawn at random."""

MOST_PADDED, LARGEST_PRIME = 100_000, 7
"""Padded sizes that are looked at, and the largest prime that makes one worth it."""


def dimension_factors(
    name: str, whole: float, machine: Machine, pad: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Factors of one dimension, float32 [options, nodes], their bounds, [2, nodes], and whether these are all.

    Args:
      name, whole: the dimension and its size.
      machine: its nodes, with limits.
      pad: share by which the dimension may be larger than it is, where that has small factors.
      random: draws of what is too much.

    Raises:
      ValueError: one line, where the dimension is too large, or no factors keep the limits.
    """
    if whole > LARGEST_DIMENSION:
        raise ValueError(f"{name} = {whole:.0f}: a search splits dimensions up to {LARGEST_DIMENSION}")
    sizes = _sizes(int(whole), pad)
    bounds = np.stack([_bounds(size, machine, name) for size in sizes])
    found = [_options(size, own, random) for size, own in zip(sizes, bounds, strict=True)]
    rows, complete = np.concatenate([options for options, _ in found]), all(each for _, each in found)
    if not len(rows):
        raise ValueError(f"{name} = {whole:.0f} has no factors that the architecture allows")
    if len(rows) > MOST_OPTIONS:
        rows, complete = rows[random.choice(len(rows), size=MOST_OPTIONS, replace=False)], False
    return rows, np.stack([bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)]), complete


def _sizes(size: int, pad: float) -> list[int]:
    """A dimension's size, and larger ones up to a share `pad` more whose primes are small."""
    more = range(size + 1, math.floor(size * (1.0 + pad)) + 1) if size * pad < MOST_PADDED else ()
    return [size, *(each for each in more if max(primes(each)) <= LARGEST_PRIME)]


def _bounds(size: int, machine: Machine, name: str) -> np.ndarray:
    """Least and most iterations of a dimension of some size in each node, [2, nodes].

    Where a node takes all that others leave (a limit of infinite ones), the others have what is fixed.
    """
    least, most = np.array([machine.bounds(place, name) for place in range(len(machine.nodes))]).T
    most = np.minimum(most, [node.size if isinstance(node, Fanout) else math.inf for node in machine.nodes])
    if (rest := np.isinf(least)).any():
        most = np.where(rest, most, least)
        least[rest] = size / math.prod(least[~rest])
    return np.stack([least, most])


def _options(size: int, bounds: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, bool]:
    """Factors of one dimension within bounds, float32 [options, nodes]; whether these are all."""
    least, most = bounds
    free, fixed = np.flatnonzero(least < most), np.flatnonzero(least == most)
    left = size / math.prod(least[fixed].astype(float))
    if left != int(left) or (left > 1 and not len(free)):
        return np.ones((0, len(least)), np.float32), True
    found, all_of_them = _splits(int(left), max(1, len(free)), random)
    table = np.ones((len(found), len(least)), np.float32)
    table[:, fixed] = least[fixed]
    table[:, free] = found[:, : len(free)]
    return table[np.all((table >= least) & (table <= most), axis=1)], all_of_them


def _splits(size: int, nodes: int, random: np.random.Generator) -> tuple[np.ndarray, bool]:
    """Factors over some nodes that multiply to `size`, [splits, nodes]; whether these are all."""
    powers_of = primes(size)
    ways = {prime: math.comb(power + nodes - 1, power) for prime, power in powers_of.items()}
    if math.prod(ways.values()) > MOST_OPTIONS:
        found = np.ones((MOST_OPTIONS, nodes))
        for prime, power in powers_of.items():
            for _ in range(power):
                found[np.arange(MOST_OPTIONS), random.integers(nodes, size=MOST_OPTIONS)] *= prime
        return np.unique(found, axis=0), False
    found = np.ones((1, nodes))
    for prime, power in powers_of.items():
        powers = np.array(list(_partitions(power, nodes)))
        found = (found[:, None] * float(prime) ** powers[None]).reshape(-1, nodes)
    return found, True


def _partitions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All tuples of `parts` whole numbers of 0 or more that sum to `total`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _partitions(total - first, parts - 1):
            yield first, *rest


@functools.cache
def primes(number: int) -> dict[int, int]:
    """Prime factors and their powers."""
    found, divisor = {}, 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found[divisor] = found.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    return found | ({number: found.get(number, 0) + 1} if number > 1 else {})
