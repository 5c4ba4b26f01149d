"""The best mapping of a loop nest: enumeration, random draws or gradients, and then moves of single prime factors."""

import concurrent.futures
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.arrays import eager, jax, jnp
from jaxroof.nests import Fanout, Machine, Mapping, NestCost, Problem, nest_cost
from sweeps.run import compilers
from sweeps.studies.nests.space import Orders, Rows, Space, mapping_space

METHODS = ("random", "enumerate", "gradient")
"""Ways to look for a mapping."""

OBJECTIVES = ("edp", "energy", "cycles")
"""What is made small; edp: energy times cycles."""

CHUNK = 8192
"""Mappings that are evaluated at once: their columns stay in a core's cache."""

COMPILED = 2_000_000
"""Mappings from which a search compiles a program for each loop order, after JAX is imported."""

COMPILED_CHUNK = 65_536
"""Mappings that a compiled program evaluates at once."""

FIRST = 200_000
"""Mappings by which compiled searches and descents choose loop orders."""

LEAST_MOVED = 20_000
"""Mappings that moves of factors may evaluate, or as many as were asked for."""

MOST_ORDERS = 9
"""Loop orders in which the factors of one draw are evaluated."""

FINALISTS = 96
"""Mappings that are kept, best first."""

STARTS, ROUNDS, MOST_CHANGED = 8, 40, 81
"""Mappings whose factors are moved, rounds of that, and loop orders in which the best one is tried again, at most."""

Report = Callable[[int, int], None]
"""Told how many of how many mappings are evaluated."""


@dataclasses.dataclass(frozen=True)
class Found:
    """The best mapping that was found."""

    mapping: Mapping
    cost: NestCost
    evaluated: int  # mappings
    seconds: float  # of drawing and evaluating them
    complete: bool  # whether all mappings of the space were evaluated
    space: float  # mappings of the space, among them those that do not fit


def found_mapping(
    problem: Problem,
    machine: Machine,
    kept: tuple[tuple[str, ...], ...],
    objective: str = "edp",
    method: str = "random",
    mappings: int = 500_000,
    seed: int = 0,
    report: Report = lambda done, total: None,
    bypass: bool = False,
    pad: float = 0.0,
) -> Found:
    """The best mapping of about `mappings` evaluated ones.

    Args:
      problem, machine: what is mapped, and on what.
      kept: tensors that reside in each node.
      objective: one of `OBJECTIVES`.
      method: "random"; "enumerate": all factors that fit, in every order that differs in reuse, thinned at random where
        there are more than `mappings`; "gradient": relaxed factors, descended from many starts in the best loop order
        of some random mappings, and rounded.
      mappings: how many are evaluated; moves of single factors come on top.
      seed: of the draws.
      report: told about progress.
      pad: share by which each dimension may be larger, where that has better factors; what is added is computed for
        nothing. Half of the mappings are of the sizes as they are.
      bypass: also try tensors that pass memories that `kept` has them in, one after the other, from the best mapping.

    Raises:
      ValueError: one line, for an objective or a method that there is not, and where no mapping fits.
    """
    for what, value, known in (("objective", objective, OBJECTIVES), ("search", method, METHODS)):
        if value not in known:
            raise ValueError(f"{what} {value} is none of {', '.join(known)}")
    if pad:
        half = functools.partial(_found, problem, machine, kept, objective, method, max(1, mappings // 2), seed, report)
        plain, padded = half(bypass, 0.0), half(bypass, pad)
        best = min(plain, padded, key=lambda found: _value(found.cost, objective))
        evaluated, seconds = plain.evaluated + padded.evaluated, plain.seconds + padded.seconds
        return dataclasses.replace(best, evaluated=evaluated, seconds=seconds, complete=False, space=padded.space)
    return _found(problem, machine, kept, objective, method, mappings, seed, report, bypass, 0.0)


def _found(
    problem: Problem,
    machine: Machine,
    kept: tuple[tuple[str, ...], ...],
    objective: str,
    method: str,
    mappings: int,
    seed: int,
    report: Report,
    bypass: bool,
    pad: float,
) -> Found:
    """The best mapping of one space; see `found_mapping`."""
    begun, random = time.perf_counter(), np.random.default_rng(seed)
    space = mapping_space(problem, machine, kept, random, pad)
    pool = _Pool(space, objective, FINALISTS)
    complete = False
    if method == "enumerate":
        pool.compiled = mappings >= COMPILED and mappings // len(space.orders) >= COMPILED // MOST_ORDERS
        found, complete = space.all_rows(max(1, mappings // len(space.orders)), random)
        parts = (part for rows in found for part in _parts(rows, pool.chunk))
        pool.try_all(((part, orders) for part in parts for orders in space.orders), report, mappings)
    else:
        first = mappings if method == "random" and mappings < COMPILED else min(mappings, FIRST)
        pool.try_all(_draws(space, space.orders, first, random, pool.chunk), report, mappings)
        orders = list(dict.fromkeys([*(orders for *_, orders in pool.best), *space.orders]))
        if method == "gradient":
            from sweeps.studies.nests.descent import descended

            rows = descended(space, orders[0], objective, random)
            pool.try_all([(part, orders[0]) for part in _parts(rows)], report, mappings)
        elif first < mappings:
            pool.compiled = True
            draws = _draws(space, orders[:MOST_ORDERS], mappings - first, random, pool.chunk)
            pool.try_all(draws, report, mappings)
    if not pool.best:
        raise ValueError(
            f"no mapping of {pool.tried or mappings} fits into the memories and fan-outs of the architecture"
        )
    pool.compiled = False
    if not complete:
        pool.improve(report, mappings)
    while bypass and (other := _without_one(pool, kept)) is not None:
        other.improve(report, mappings)
        pool, complete = other, False
    _, row, orders = pool.best[0]
    mapping = pool.space.single(row, orders)
    seconds = time.perf_counter() - begun
    return Found(mapping, nest_cost(problem, machine, mapping), pool.tried, seconds, complete, space.size)


def _without_one(pool: "_Pool", kept: tuple[tuple[str, ...], ...]) -> "_Pool | None":
    """The best mapping with one tensor passing or staying in one memory, where that is better; of all such changes."""
    found = None
    score, row, _ = pool.best[0]
    for place, name in [(node, name) for node in range(1, len(kept)) for name in kept[node]]:
        own = pool.space.kept[place]
        changed = tuple(each for each in kept[place] if (each in own) != (each == name))
        residency = (*pool.space.kept[:place], changed, *pool.space.kept[place + 1 :])
        other = _Pool(dataclasses.replace(pool.space, kept=residency), pool.objective, pool.most)
        other.try_all(
            [(Rows(row[None]), orders) for orders in pool.space.orders[:MOST_CHANGED]], lambda done, total: None, 0
        )
        pool.tried += other.tried
        if other.best and other.best[0][0] < score * (1.0 - 1e-6):
            found, score = other, other.best[0][0]
    if found is not None:
        found.tried = pool.tried
    return found


def _near(orders: Orders, others: Sequence[Orders]) -> list[Orders]:
    """Loop orders that differ from one in a single node."""
    return [each for each in others if sum(one != two for one, two in zip(orders, each, strict=True)) == 1]


def _draws(
    space: Space, orders: Sequence[Orders], mappings: int, random: np.random.Generator, chunk: int
) -> Iterator[tuple[Rows, Orders]]:
    """Chunks of random factors, each in some of the orders, until `mappings` are drawn or nearly nothing fits."""
    drawn = asked = 0
    many = min(len(orders), MOST_ORDERS)
    while drawn < mappings and asked < 40 * mappings:
        rows = Rows(np.concatenate([space.drawn(CHUNK, random) for _ in range(chunk // CHUNK)]))
        asked += chunk * many
        for number in random.choice(len(orders), size=many if len(rows) else 0, replace=False):
            drawn += len(rows)
            yield rows, orders[number]


def _parts(rows: np.ndarray, chunk: int = CHUNK) -> list[Rows]:
    return [Rows(rows[start : start + chunk]) for start in range(0, len(rows), chunk)]


def scores(space: Space, columns: np.ndarray, orders: Orders, objective: str) -> np.ndarray:
    """The objective of mappings [mappings, dimensions, nodes] in one loop order; infinite where one does not fit."""
    with eager():
        return np.broadcast_to(_score(space, space.mapping(columns, orders), objective), len(columns))


def _score(space: Space, mapping: Mapping, objective: str) -> Any:
    cost = nest_cost(space.problem, space.machine, mapping)
    return jnp.where(cost.fits, _value(cost, objective), np.inf)


def _value(cost: NestCost, objective: str) -> Any:
    return {"energy": cost.energy, "cycles": cost.cycles, "edp": cost.energy * cost.cycles}[objective]


def compiled_scores(space: Space, orders: Orders, objective: str) -> Callable[[np.ndarray], np.ndarray]:
    """`scores` as a compiled program: of LLVM's loops where there are any, else of XLA; in float32."""
    leaves, structure = jax.tree.flatten(space.mapping(space.ones(), orders))

    def score(point: list) -> Any:
        return _score(space, jax.tree.unflatten(structure, point), objective)

    if compilers.loops_known():
        from sweeps.run.native.columns import mapped

        program: Any = mapped(score, leaves)
    else:
        program = jax.jit(jax.vmap(score))

    def scored(columns: np.ndarray) -> np.ndarray:
        return np.asarray(program(jax.tree.leaves(space.mapping(columns, orders))))

    return scored


class _Pool:
    """The best mappings so far, best first: score, factors, orders."""

    def __init__(self, space: Space, objective: str, most: int):
        self.space, self.objective, self.most, self.tried = space, objective, most, 0
        self.compiled = False
        self.best: list[tuple[float, np.ndarray, Orders]] = []
        self._program = functools.cache(lambda orders: compiled_scores(space, orders, objective))

    @property
    def chunk(self) -> int:
        """Mappings that are evaluated at once."""
        return COMPILED_CHUNK if self.compiled else CHUNK

    def try_all(self, chunks: Iterator | list, report: Report, total: int) -> None:
        """Evaluate chunks of factors with their orders, on all cores."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            waiting: list[tuple[concurrent.futures.Future, Rows, Orders]] = []
            for chunk, orders in chunks:
                waiting.append((threads.submit(self._scores, chunk, orders), chunk, orders))
                if len(waiting) > 2 * (os.cpu_count() or 1):
                    self._take(*waiting.pop(0))
                    report(self.tried, total)
            for each in waiting:
                self._take(*each)
            report(self.tried, total)

    def _scores(self, chunk: Rows, orders: Orders) -> np.ndarray:
        if self.compiled:
            return self._program(orders)(chunk.columns)
        return scores(self.space, chunk.columns, orders, self.objective)

    def _take(self, future: concurrent.futures.Future, chunk: Rows, orders: Orders) -> None:
        values, rows = future.result(), chunk.rows
        self.tried += len(rows)
        first = min(self.most, len(rows))
        for place in np.argpartition(values, first - 1)[:first] if first else ():
            if values[place] < np.inf and (len(self.best) < self.most or values[place] < self.best[-1][0]):
                self.best.append((float(values[place]), rows[place].copy(), orders))
                self.best.sort(key=lambda each: each[0])
                del self.best[self.most :]

    def improve(self, report: Report, total: int) -> None:
        """Climb from each of the best, and then from the best of all with two factors moved at once."""
        most = self.tried + max(total, LEAST_MOVED)
        for start in self._starts():
            self._climb(start, 1, report, total, most)
        for _ in range(ROUNDS):
            before = self.best[0][0]
            self._climb(self.best[0], 2, report, total, most)
            if self.tried > most or self.best[0][0] >= before * (1.0 - 1e-6):
                return

    def _starts(self) -> list[tuple[float, np.ndarray, Orders]]:
        """The best ones, and the best ones of others that differ in what works side by side: single moves hardly do."""
        places = [place for place, node in enumerate(self.space.machine.nodes) if isinstance(node, Fanout)]
        apart = {each[1][:, places].tobytes(): each for each in reversed(self.best)}
        alike = {each[1].tobytes(): each for each in reversed(self.best)}
        first = [sorted(found.values(), key=lambda each: each[0])[:STARTS] for found in (apart, alike)]
        return list({id(each): each for found in first for each in found}.values())

    def _climb(self, start: tuple, moves: int, report: Report, total: int, most: int) -> None:
        """Move factors of one mapping, or else factors and loops of one node, as long as that makes it better."""
        score, row, orders = start
        for _ in range(ROUNDS):
            rows = self.space.neighbours(row, moves)
            better = self._best_of([(part, orders) for part in _parts(rows)], report, total)
            if better is None or better[0] >= score * (1.0 - 1e-6):
                near = _near(orders, self.space.orders)[:MOST_CHANGED]
                better = self._best_of([(part, each) for each in near for part in _parts(rows)], report, total)
            if better is None or better[0] >= score * (1.0 - 1e-6) or self.tried > most:
                return
            (score, row, orders), moves = better, 1

    def _best_of(self, chunks: list, report: Report, total: int) -> tuple[float, np.ndarray, Orders] | None:
        """The best of some mappings, which are also tried for the pool."""
        kept, self.best = self.best, []
        self.try_all(chunks, report, total)
        best = self.best[0] if self.best else None
        merged = {(row.tobytes(), orders): (score, row, orders) for score, row, orders in (*self.best, *kept)}
        self.best = sorted(merged.values(), key=lambda each: each[0])[: self.most]
        return best
