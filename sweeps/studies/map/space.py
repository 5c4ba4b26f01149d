"""Factors of one dimension over the nodes of a machine, within what the machine allows."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jaxroof.nests import Mapping, NestFanout, NestMachine, NestMemory, NestProblem
from jaxroof.nests.counts import inner_extents, words
from jaxroof.numerics.arrays import eager

LARGEST_DIMENSION = 10**9
"""Of a dimension whose factors are looked for."""

MOST_OPTIONS = 50_000
"""Ways to split one dimension over the nodes; of more, as many are drawn at random."""

MOST_PADDED, LARGEST_PRIME = 100_000, 7
"""Padded sizes that are looked at, and the largest prime that makes one worth it."""


def dimension_factors(
    name: str, whole: float, machine: NestMachine, pad: float, random: np.random.Generator
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
    per_size = [_options(size, own, random) for size, own in zip(sizes, bounds, strict=True)]
    rows, complete = np.concatenate([options for options, _ in per_size]), all(each for _, each in per_size)
    if not len(rows):
        raise ValueError(f"{name} = {whole:.0f} has no factors that the architecture allows")
    if len(rows) > MOST_OPTIONS:
        rows, complete = rows[random.choice(len(rows), size=MOST_OPTIONS, replace=False)], False
    # The widest bounds over all sizes of the dimension.
    return rows, np.stack([bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)]), complete


def _sizes(size: int, pad: float) -> list[int]:
    """A dimension's size, and larger ones up to a share `pad` more whose primes are small."""
    # Primes of at most LARGEST_PRIME give many ways to split; other padded sizes are not worth the work.
    more = range(size + 1, math.floor(size * (1.0 + pad)) + 1) if size * pad < MOST_PADDED else ()
    return [size, *(each for each in more if max(primes(each)) <= LARGEST_PRIME)]


def _bounds(size: int, machine: NestMachine, name: str) -> np.ndarray:
    """Least and most iterations of a dimension of some size in each node, [2, nodes].

    Where a node takes all that others leave (a limit of infinite ones), the others have what is fixed.
    """
    least, most = np.array([machine.bounds(place, name) for place in range(len(machine.nodes))]).T
    most = np.minimum(most, [node.size if isinstance(node, NestFanout) else math.inf for node in machine.nodes])
    # An infinite least count means that the node takes what is left: the others then have their least count.
    if (rest := np.isinf(least)).any():
        most = np.where(rest, most, least)
        least[rest] = size / math.prod(least[~rest])
    return np.stack([least, most])


def _options(size: int, bounds: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, bool]:
    """Factors of one dimension within bounds, float32 [options, nodes]; whether these are all."""
    least, most = bounds
    free, fixed = np.flatnonzero(least < most), np.flatnonzero(least == most)
    # What the free nodes have to multiply to, after the fixed ones.
    left = size / math.prod(least[fixed].astype(float))
    # No split exists where the fixed factors do not divide the size, or where no node takes the rest.
    if left != int(left) or (left > 1 and not len(free)):
        return np.ones((0, len(least)), np.float32), True
    splits, all_of_them = _splits(int(left), max(1, len(free)), random)
    table = np.ones((len(splits), len(least)), np.float32)
    table[:, fixed] = least[fixed]
    table[:, free] = splits[:, : len(free)]
    return table[np.all((table >= least) & (table <= most), axis=1)], all_of_them


def _splits(size: int, nodes: int, random: np.random.Generator) -> tuple[np.ndarray, bool]:
    """Factors over some nodes that multiply to `size`, [splits, nodes]; whether these are all."""
    powers_of = primes(size)
    # Ways to distribute `power` equal primes over the nodes: combinations with repetition, C(power + nodes - 1, power).
    ways = {prime: math.comb(power + nodes - 1, power) for prime, power in powers_of.items()}
    if math.prod(ways.values()) > MOST_OPTIONS:
        splits = np.ones((MOST_OPTIONS, nodes))
        for prime, power in powers_of.items():
            for _ in range(power):
                splits[np.arange(MOST_OPTIONS), random.integers(nodes, size=MOST_OPTIONS)] *= prime
        return np.unique(splits, axis=0), False
    splits = np.ones((1, nodes))
    for prime, power in powers_of.items():
        powers = np.array(list(_partitions(power, nodes)))
        splits = (splits[:, None] * float(prime) ** powers[None]).reshape(-1, nodes)
    return splits, True


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
    # Trial division; what is left above 1 after it is prime.
    powers, divisor = dict[int, int](), 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            powers[divisor] = powers.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    return powers | ({number: powers.get(number, 0) + 1} if number > 1 else {})


# Mappings that a machine allows: factors of each dimension over its nodes, and loop orders that differ in reuse.


MOST_ROWS = 100_000
"""Splits that an enumeration has at once."""

DESCENTS = 64
"""Random descents by which their number is estimated."""

MOST_FACTORS = 20_000_000
"""Numbers of all mappings that differ from one in two primes; of more, a part is looked at."""

MOST_LOOP_ORDERS = 1_000
"""Orders that a search knows; of more, as many are drawn at random."""

TRIES = 6
"""Draws of one dimension's factors until they fit."""

Orders = tuple[tuple[str, ...], ...]
"""Loop order of each node, from the outermost."""


class NestRows:
    """Factors of mappings, [mappings, dimensions, nodes], and the same with each column in one piece."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @functools.cached_property
    def columns(self) -> np.ndarray:
        """A view in which the first axis is the last one in memory."""
        # Contiguous along the mappings, because arithmetic on a column reads the factors of all of them.
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(self.rows, 0, -1)), -1, 0)


@dataclasses.dataclass(frozen=True)
class NestSpace:
    """All mappings of a problem on a machine whose tensors reside in given memories."""

    problem: NestProblem
    machine: NestMachine
    kept: tuple[tuple[str, ...], ...]
    dimensions: tuple[str, ...]  # of more than one iteration
    options: tuple[np.ndarray, ...]  # factors of each dimension, float32 [options, nodes]
    complete: bool  # whether these are all
    orders: tuple[Orders, ...]
    bounds: np.ndarray  # least and most factors that the machine allows, [2, dimensions, nodes]

    @property
    def size(self) -> float:
        """Mappings, among them those that do not fit."""
        return math.prod(float(len(each)) for each in self.options) * len(self.orders)

    def mapping(self, rows: np.ndarray, orders: Orders) -> Mapping:
        """The mappings of factors [mappings, dimensions, nodes] in one loop order: columns of factors."""
        return self.split(np.moveaxis(rows, 1, 0), orders)

    def split(self, factors: Iterable[Any], orders: Orders) -> Mapping:
        """A mapping in one loop order; of each dimension the factors [..., nodes], as columns or scalars."""
        dimensions = [*zip(self.dimensions, factors, self.varies, strict=True)]
        loops = tuple(
            {name: each[..., node] for name, each, varies in dimensions if varies[node]}
            for node in range(len(self.machine.nodes))
        )
        return Mapping(factors=loops, orders=orders, kept=self.kept)

    def single(self, row: np.ndarray, orders: Orders) -> Mapping:
        """One mapping, of Python numbers, without loops of one iteration."""
        factors = tuple(
            {name: float(row[number, node]) for number, name in enumerate(self.dimensions) if row[number, node] > 1}
            for node in range(len(self.machine.nodes))
        )
        loops = tuple(tuple(name for name in order if name in own) for order, own in zip(orders, factors, strict=True))
        return Mapping(factors=factors, orders=loops, kept=self.kept)

    def fits(self, rows: np.ndarray, complete: bool = False) -> np.ndarray:
        """Whether tiles and copies have room, for factors [mappings, dimensions, nodes].

        Of `complete` ones also whether they keep the machine's limits and use as much of each fan-out as it wants.
        """
        mapping, fine = self.mapping(rows, self.orders[0]), np.ones(len(rows), bool)
        with eager():
            extents = inner_extents(mapping)
            for place, node in enumerate(self.machine.nodes):
                if isinstance(node, NestFanout):
                    used = math.prod(mapping.factors[place].values(), start=np.ones(1))
                    fine &= used <= node.size
                    # Of incomplete rows any use is enough: more dimensions can still fill the fan-out.
                    fine &= used >= node.least * node.size * complete
                elif node.capacity < math.inf:
                    tiles = [words(self.problem.tensors[name], extents[place]) for name in self.kept[place]]
                    fine &= sum(tiles, np.zeros(1)) <= node.capacity
        least, most = self.bounds
        return fine & np.all((rows >= least) & (rows <= most), axis=(1, 2)) if complete else fine

    def ones(self) -> np.ndarray:
        """Factors of one mapping, all 1: an example of their shape and type."""
        return np.ones((1, len(self.dimensions), len(self.machine.nodes)), np.float32)

    def drawn(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Random factors that fit, of `count` draws; [mappings, dimensions, nodes]."""
        rows = np.repeat(self.ones(), count, axis=0)
        open_rows = np.arange(count)
        for number in random.permutation(len(self.dimensions)):
            left, options = open_rows, self.options[number]
            for _ in range(TRIES):
                # Only rows that do not fit are drawn again.
                rows[left, number] = options[random.integers(len(options), size=len(left))]
                left = left[~self.fits(rows[left])]
                if not len(left):
                    break
            else:
                # Rows that still do not fit after all tries are given up.
                open_rows = np.setdiff1d(open_rows, left, assume_unique=True)
        return self._wanted(rows[open_rows])

    def all_rows(self, most: int, random: np.random.Generator) -> tuple[Iterator[np.ndarray], bool]:
        """Chunks of all factors that fit, dimension by dimension, without those that cannot fit any more.

        Where there are about more than `most`, a random part of them, of about that size; and whether it is all.
        """
        # Dimensions with few options first, so that the table of rows stays small for as long as possible.
        left = sorted(range(len(self.dimensions)), key=lambda each: len(self.options[each]))
        rows = self.ones()
        while left and len(rows) * len(self.options[left[0]]) <= MOST_ROWS:
            rows = self._grown(rows, left.pop(0))
        total = self._total(rows, left, random) if len(rows) else 0.0
        share = min(1.0, most / max(total, 1.0))
        # `_expanded` thins once per dimension that is left and once at the end: the rates multiply to `share`.
        return self._expanded(rows, left, share ** (1.0 / (len(left) + 1)), random), self.complete and share == 1.0

    def _grown(self, rows: np.ndarray, number: int) -> np.ndarray:
        """Rows with every split of one more dimension, those that fit."""
        options = self.options[number]
        grown = np.repeat(rows, len(options), axis=0)
        grown[:, number] = np.tile(options, (len(rows), 1))
        return grown[self.fits(grown)]

    def _total(self, rows: np.ndarray, left: list[int], random: np.random.Generator) -> float:
        """Rows with all splits of the dimensions that are left, estimated by random descents (Knuth, 1975)."""
        if not left:
            return float(len(rows))
        estimate = 0.0
        # The product of the numbers of children along a random path is an unbiased estimate of the leaves.
        for start in random.integers(len(rows), size=DESCENTS):
            row, weight = rows[start : start + 1], float(len(rows))
            for number in left:
                grown = self._grown(row, number)
                weight *= len(grown)
                if not len(grown):
                    break
                row = grown[random.integers(len(grown))][None]
            estimate += weight / DESCENTS
        return estimate

    def _expanded(
        self, rows: np.ndarray, left: list[int], share: float, random: np.random.Generator
    ) -> Iterator[np.ndarray]:
        """Chunks of rows with all splits of the dimensions that are left, of which a random share goes on each time."""
        if share < 1.0:
            rows = rows[random.random(len(rows)) < share]
        if not left:
            yield self._wanted(rows)
            return
        # Chunks so small that their rows with all options of the next dimension are at most MOST_ROWS.
        size = max(1, MOST_ROWS // len(self.options[left[0]]))
        for start in range(0, len(rows), size):
            yield from self._expanded(self._grown(rows[start : start + size], left[0]), left[1:], share, random)

    def neighbours(self, row: np.ndarray, moves: int) -> np.ndarray:
        """Factors that differ in that many primes, each of which moves from one node to another; those that fit."""
        rows = row[None]
        for _ in range(moves):
            # After the first move, an even selection of the rows, so that the table stays within MOST_FACTORS.
            most = max(1, MOST_FACTORS // row.size // len(rows)) if len(rows) > 1 else 1
            rows = rows[:: max(1, len(rows) // most)]
            variants = [rows]
            for number in range(len(self.dimensions)):
                for source, target in itertools.permutations(np.flatnonzero(self.varies[number]), 2):
                    for prime in self._primes[number]:
                        # Move one prime from the source node to the target, in all rows whose source has it.
                        moved = rows[rows[:, number, source] % prime == 0].copy()
                        moved[:, number, source] /= prime
                        moved[:, number, target] *= prime
                        variants.append(moved)
            rows = np.unique(np.concatenate(variants), axis=0)
        return rows[self.fits(rows, complete=True)]

    def _wanted(self, rows: np.ndarray) -> np.ndarray:
        """Those of some complete rows that fit, which use as much of each fan-out as it wants."""
        if any(isinstance(node, NestFanout) and node.least for node in self.machine.nodes):
            return rows[self.fits(rows, complete=True)]
        return rows

    @functools.cached_property
    def _primes(self) -> list[list[int]]:
        """Primes of the sizes of each dimension, padded ones among them."""
        sizes = [np.unique(options.prod(axis=1)) for options in self.options]
        return [sorted({prime for size in each for prime in primes(int(size))}) for each in sizes]

    @functools.cached_property
    def varies(self) -> list[np.ndarray]:
        """Of each dimension, the nodes that may have more than one iteration of it."""
        return [np.any(options > 1.0, axis=0) for options in self.options]


def mapping_space(
    problem: NestProblem,
    machine: NestMachine,
    kept: tuple[tuple[str, ...], ...],
    random: np.random.Generator,
    pad: float = 0.0,
) -> NestSpace:
    """All mappings of a problem on a machine; ValueError of one line as of `dimension_factors`.

    Args:
      problem, machine, kept: what is mapped, on what, and where tensors reside.
      random: draws of what is too much.
      pad: share by which each dimension may be larger than it is, where that has small factors.
    """
    # Dimensions of one iteration have no loop to place.
    names = tuple(name for name, size in problem.sizes.items() if size > 1)
    options, complete = [], True
    bounds = np.ones((2, len(names), len(machine.nodes)), np.float32)
    for number, name in enumerate(names):
        rows, bounds[:, number], all_options = dimension_factors(name, problem.sizes[name], machine, pad, random)
        options.append(rows)
        complete &= all_options
    orders, all_of_them = _orders(problem, machine, names, random)
    return NestSpace(problem, machine, kept, names, tuple(options), complete and all_of_them, orders, bounds)


def _orders(
    problem: NestProblem, machine: NestMachine, names: tuple[str, ...], random: np.random.Generator
) -> tuple[tuple[Orders, ...], bool]:
    """Orders that hold one tensor each in place, in each memory that has others inside it; whether these are all.

    The dimensions that move the tensor are outside.
    """
    choices = []
    last = max(place for place, node in enumerate(machine.nodes) if isinstance(node, NestMemory))
    for place, node in enumerate(machine.nodes):
        own = [name for name in names if machine.takes(place, name)]
        held = problem.tensors.values() if isinstance(node, NestMemory) and place != last else ()
        inner = [name for name in node.order if name in own] if isinstance(node, NestMemory) else []
        own = [name for name in own if name not in inner]
        candidates = [
            tuple(
                [name for name in own if name in tensor.dimensions]
                # Loops that do not move the tensor are inside: they reuse the words that are in place.
                + [name for name in own if name not in tensor.dimensions]
                + inner
            )
            for tensor in held
        ]
        choices.append(tuple(dict.fromkeys(candidates)) or ((*own, *inner),))
    if math.prod(map(len, choices)) <= MOST_LOOP_ORDERS:
        return tuple(itertools.product(*choices)), True
    drawn = (tuple(each[random.integers(len(each))] for each in choices) for _ in range(MOST_LOOP_ORDERS))
    return tuple(dict.fromkeys(drawn)), False
