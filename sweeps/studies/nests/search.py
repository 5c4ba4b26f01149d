"""The best mapping of a loop nest: enumeration, random draws or gradients, and then moves of single prime factors."""

import concurrent.futures
import dataclasses
import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from jaxroof.arrays import eager
from jaxroof.nests import Machine, Mapping, NestCost, Problem, nest_cost
from sweeps.studies.nests.space import Orders, Space, mapping_space

METHODS = ("random", "enumerate", "gradient")
"""Ways to look for a mapping."""

OBJECTIVES = ("edp", "energy", "cycles")
"""What is made small; edp: energy times cycles."""

CHUNK = 8192
"""Mappings that are evaluated at once: their columns stay in a core's cache."""

FINALISTS = 24
"""Mappings that moves of single factors start from."""

ROUNDS = 40
"""Rounds of such moves at most."""

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
) -> Found:
    """The best mapping of about `mappings` evaluated ones.

    Args:
      problem, machine: what is mapped, and on what.
      kept: tensors that reside in each node.
      objective: one of `OBJECTIVES`.
      method: "random"; "enumerate": all factors that fit, in every order that differs in reuse, thinned at random where
        there are more than `mappings`; "gradient": relaxed factors in the best loop order of a tenth
        of the draws, descended from many starts and rounded.
      mappings: how many are evaluated; moves of single factors come on top.
      seed: of the draws.
      report: told about progress.

    Raises:
      ValueError: one line, where no mapping fits.
    """
    begun, random = time.perf_counter(), np.random.default_rng(seed)
    space = mapping_space(problem, machine, kept, random)
    pool = _Pool(space, objective, FINALISTS)
    complete = False
    if method == "enumerate":
        rows, complete = space.all_rows(max(1, mappings // len(space.orders)), random)
        pool.try_all(((part, orders) for orders in space.orders for part in _parts(rows)), report, mappings)
    elif method == "random":
        pool.try_all(_draws(space, mappings, random), report, mappings)
    else:
        from sweeps.studies.nests.descent import descended

        pool.try_all(_draws(space, mappings // 10, random), report, mappings)
        order = pool.best[0][-1] if pool.best else space.orders[0]
        pool.try_all([(descended(space, order, objective, random), order)], report, mappings)
    if not pool.best:
        raise ValueError(
            f"no mapping of {pool.tried or mappings} fits into the memories and fan-outs of the architecture"
        )
    for _ in range(ROUNDS if not complete else 0):
        if not pool.improve(report, mappings):
            break
    _, row, orders = pool.best[0]
    mapping = space.single(row, orders)
    seconds = time.perf_counter() - begun
    return Found(mapping, nest_cost(problem, machine, mapping), pool.tried, seconds, complete, space.size)


def _draws(space: Space, mappings: int, random: np.random.Generator) -> Iterator[tuple[np.ndarray, Orders]]:
    """Chunks of random factors, each in some of the orders, until `mappings` are drawn or nearly nothing fits."""
    drawn = asked = 0
    many = min(len(space.orders), 9)
    while drawn < mappings and asked < 40 * mappings:
        rows = space.drawn(CHUNK, random)
        asked += CHUNK * many
        for number in random.choice(len(space.orders), size=many, replace=False):
            drawn += len(rows)
            yield rows, space.orders[number]


def _parts(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


def scores(space: Space, rows: np.ndarray, orders: Orders, objective: str) -> np.ndarray:
    """The objective of mappings [mappings, dimensions, nodes] in one loop order; infinite where one does not fit."""
    columns = np.moveaxis(np.ascontiguousarray(np.moveaxis(rows, 0, -1)), -1, 0)  # each column in one piece
    with eager():
        cost = nest_cost(space.problem, space.machine, space.mapping(columns, orders))
        value = {"energy": cost.energy, "cycles": cost.cycles, "edp": cost.energy * cost.cycles}[objective]
        return np.broadcast_to(np.where(cost.fits, value, np.inf), len(rows))


class _Pool:
    """The best mappings so far, best first: score, factors, orders."""

    def __init__(self, space: Space, objective: str, most: int):
        self.space, self.objective, self.most, self.tried = space, objective, most, 0
        self.best: list[tuple[float, np.ndarray, Orders]] = []

    def try_all(self, chunks: Iterator | list, report: Report, total: int) -> None:
        """Evaluate chunks of factors with their orders, on all cores."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            waiting: list[tuple[concurrent.futures.Future, np.ndarray, Orders]] = []
            for rows, orders in chunks:
                waiting.append((threads.submit(scores, self.space, rows, orders, self.objective), rows, orders))
                if len(waiting) > 2 * (os.cpu_count() or 1):
                    self._take(*waiting.pop(0))
                    report(self.tried, total)
            for each in waiting:
                self._take(*each)
            report(self.tried, total)

    def _take(self, future: concurrent.futures.Future, rows: np.ndarray, orders: Orders) -> None:
        values = future.result()
        self.tried += len(rows)
        first = min(self.most, len(rows))
        for place in np.argpartition(values, first - 1)[:first] if first else ():
            if values[place] < np.inf and (len(self.best) < self.most or values[place] < self.best[-1][0]):
                self.best.append((float(values[place]), rows[place].copy(), orders))
                self.best.sort(key=lambda each: each[0])
                del self.best[self.most :]

    def improve(self, report: Report, total: int) -> bool:
        """Move one factor of each of the best, in all orders of a few; whether the best became better."""
        before, starts = self.best[0][0], list(self.best)
        rows = np.concatenate([self.space.neighbours(row) for _, row, _ in starts[:8]] + [starts[0][1][None]])
        rows = np.unique(rows, axis=0)
        orders = list(dict.fromkeys(orders for *_, orders in starts[:8]))
        self.try_all([(part, order) for order in orders for part in _parts(rows)], report, total)
        self.try_all([(self.best[0][1][None], order) for order in self.space.orders[:200]], report, total)
        kept = {(row.tobytes(), orders): (score, row, orders) for score, row, orders in reversed(self.best)}
        self.best = sorted(kept.values(), key=lambda each: each[0])
        return self.best[0][0] < before * (1.0 - 1e-6)
