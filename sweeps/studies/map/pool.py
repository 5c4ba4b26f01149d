"""Objectives of many mappings at once: NumPy's columns, or compiled programs."""

import concurrent.futures
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxroof.nests import Mapping, NestFanout, nest_cost
from jaxroof.numerics.arrays import eager, jax, jnp
from sweeps.run import compilers
from sweeps.studies.map.space import NestRows, NestSpace, Orders


def scores(space: NestSpace, columns: np.ndarray, orders: Orders, objective: str) -> np.ndarray:
    """The objective of mappings [mappings, dimensions, nodes] in one loop order; infinite where one does not fit."""
    with eager():
        return np.broadcast_to(_score(space, space.mapping(columns, orders), objective), len(columns))


def compiled_scores(space: NestSpace, orders: Orders, objective: str) -> Callable[[np.ndarray], np.ndarray]:
    """`scores` as a compiled program: of LLVM's loops where there are any, else of XLA; in float32."""
    # A mapping of columns is a tree of arrays: the compiled function takes its leaves, one number of each.
    leaves, structure = jax.tree.flatten(space.mapping(space.ones(), orders))

    def score(point: list[Any]) -> Any:
        return _score(space, jax.tree.unflatten(structure, point), objective)

    if compilers.loops_known():
        from sweeps.run.native.loops import mapped

        program: Any = mapped(score, leaves)
    else:
        program = jax.jit(jax.vmap(score))

    def scored(columns: np.ndarray) -> np.ndarray:
        return np.asarray(program(jax.tree.leaves(space.mapping(columns, orders))))

    return scored


def _score(space: NestSpace, mapping: Mapping, objective: str) -> Any:
    cost = nest_cost(space.problem, space.machine, mapping)
    return jnp.where(cost.fits, getattr(cost, objective), np.inf)


# The best mappings of a space so far, and moves of single prime factors that make them better.


CHUNK = 8192
"""Mappings that are evaluated at once: their columns stay in a core's cache."""

COMPILED_CHUNK = 65_536
"""Mappings that a compiled program evaluates at once."""

LEAST_MOVED = 20_000
"""Mappings that moves of factors may evaluate, or as many as were asked for."""

FINALISTS = 96
"""Mappings that are kept, best first."""

STARTS, ROUNDS, MOST_CHANGED = 8, 40, 81
"""Mappings whose factors are moved, rounds of that, and loop orders in which the best one is tried again, at most."""

NOISE = 1e-6
"""Share by which a mapping must be better than another one to count as such."""

Report = Callable[[int, int], None]
"""Told how many of how many mappings are evaluated."""


class Scored(NamedTuple):
    """A mapping with its objective."""

    score: float
    row: np.ndarray  # factors [dimensions, nodes]
    orders: Orders

    def beats(self, score: float) -> bool:
        """Whether it is better than a score."""
        return self.score < score * (1.0 - NOISE)


class NestPool:
    """The best mappings so far, best first.

    Args:
      space: whose mappings are tried.
      objective: what is made small.
      total: mappings that the search is about to evaluate.
      report: told about progress.
    """

    def __init__(self, space: NestSpace, objective: str, total: int, report: Report):
        self.space, self.objective, self.total, self.report = space, objective, total, report
        self.tried = 0
        self.compiled = False
        self.best: list[Scored] = []
        self._program = functools.cache(lambda orders: compiled_scores(space, orders, objective))

    @property
    def chunk(self) -> int:
        """Mappings that are evaluated at once."""
        return COMPILED_CHUNK if self.compiled else CHUNK

    def parts(self, rows: np.ndarray) -> list[NestRows]:
        """Factors in chunks that are evaluated at once."""
        return [NestRows(rows[start : start + self.chunk]) for start in range(0, len(rows), self.chunk)]

    def try_all(self, chunks: Iterable[tuple[NestRows, Orders]]) -> None:
        """Evaluate chunks of factors with their orders, on all cores."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            # NumPy releases the interpreter's lock in its loops, so that threads use several cores.
            waiting: list[tuple[concurrent.futures.Future[Any], NestRows, Orders]] = []
            for chunk, orders in chunks:
                waiting.append((threads.submit(self._scores, chunk, orders), chunk, orders))
                # The oldest chunk is taken once two per core are waiting: this bounds the memory that they hold.
                if len(waiting) > 2 * (os.cpu_count() or 1):
                    self._take(*waiting.pop(0))
                    self.report(self.tried, self.total)
            for each in waiting:
                self._take(*each)
            self.report(self.tried, self.total)

    def _scores(self, chunk: NestRows, orders: Orders) -> np.ndarray:
        if self.compiled:
            return self._program(orders)(chunk.columns)
        return scores(self.space, chunk.columns, orders, self.objective)

    def _take(self, future: concurrent.futures.Future[Any], chunk: NestRows, orders: Orders) -> None:
        values, rows = future.result(), chunk.rows
        self.tried += len(rows)
        first = min(FINALISTS, len(rows))
        # A partial sort: only the FINALISTS smallest of a chunk can be among the best ones.
        for place in np.argpartition(values, first - 1)[:first] if first else ():
            if values[place] < np.inf and (len(self.best) < FINALISTS or values[place] < self.best[-1].score):
                # A copy, because a view would keep the whole chunk in memory.
                self.best.append(Scored(float(values[place]), rows[place].copy(), orders))
                self.best.sort(key=lambda each: each.score)
                del self.best[FINALISTS:]

    def improve(self) -> None:
        """Climb from each of the best, and then from the best of all with two factors moved at once."""
        # Moves may evaluate as many mappings as were asked for, and at least LEAST_MOVED.
        most = self.tried + max(self.total, LEAST_MOVED)
        for start in self._starts():
            self._climb(start, 1, most)
        # Single moves end in a local optimum; two factors at once can leave it.
        for _ in range(ROUNDS):
            before = self.best[0].score
            self._climb(self.best[0], 2, most)
            if self.tried > most or not self.best[0].beats(before):
                return

    def _starts(self) -> list[Scored]:
        """The best ones, and the best ones of others that differ in what works side by side: single moves hardly do."""
        places = [place for place, node in enumerate(self.space.machine.nodes) if isinstance(node, NestFanout)]
        # In reversed order the best mapping of every key is stored last and stays.
        apart = {each.row[:, places].tobytes(): each for each in reversed(self.best)}
        alike = {each.row.tobytes(): each for each in reversed(self.best)}
        first = [sorted(group.values(), key=lambda each: each.score)[:STARTS] for group in (apart, alike)]
        return list({id(each): each for group in first for each in group}.values())

    def _climb(self, start: Scored, moves: int, most: int) -> None:
        """Move factors of one mapping, or else factors and loops of one node, as long as that makes it better."""
        for _ in range(ROUNDS):
            parts = self.parts(self.space.neighbours(start.row, moves))
            better = self._best_of((part, start.orders) for part in parts)
            if better is None or not better.beats(start.score):
                # Where none of them is better, the same moves in loop orders that differ in one node.
                near = list(_near(start.orders, self.space.orders))[:MOST_CHANGED]
                better = self._best_of((part, orders) for orders in near for part in parts)
            if better is None or not better.beats(start.score) or self.tried > most:
                return
            # From a better mapping, single moves are tried first again.
            start, moves = better, 1

    def _best_of(self, chunks: Iterable[tuple[NestRows, Orders]]) -> Scored | None:
        """The best of some mappings, which are also tried for the pool."""
        # With an empty list of best ones, the first one afterwards is the best of these mappings.
        previous, self.best = self.best, []
        self.try_all(chunks)
        best = self.best[0] if self.best else None
        merged = {(each.row.tobytes(), each.orders): each for each in (*self.best, *previous)}
        self.best = sorted(merged.values(), key=lambda each: each.score)[:FINALISTS]
        return best


def _near(orders: Orders, others: Iterable[Orders]) -> Iterator[Orders]:
    """Loop orders that differ from one in a single node."""
    return (each for each in others if sum(one != two for one, two in zip(orders, each, strict=True)) == 1)
