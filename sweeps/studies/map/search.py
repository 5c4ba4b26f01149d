"""The best mapping of a loop nest: enumeration, random draws or gradients, and then moves of single prime factors."""

import dataclasses
import time
from collections.abc import Iterator, Sequence

import numpy as np

from jaxroof.nests import Mapping, NestCost, NestMachine, NestProblem, nest_cost
from sweeps.data.labels import number
from sweeps.studies.map.pool import CHUNK, MOST_CHANGED, NestPool, Report
from sweeps.studies.map.space import NestRows, NestSpace, Orders, mapping_space

METHODS = ("random", "enumerate", "gradient")
"""Ways to look for a mapping."""

OBJECTIVES = ("edp", "energy", "cycles")
"""What is made small, each a figure of `NestCost`; edp: energy times cycles."""

COMPILED = 2_000_000
"""Mappings from which a search compiles a program for each loop order, after JAX is imported."""

FIRST = 200_000
"""Mappings by which compiled searches and descents choose loop orders."""

MOST_ORDERS = 9
"""Loop orders in which the factors of one draw are evaluated."""


@dataclasses.dataclass(frozen=True)
class FoundMapping:
    """The best mapping that was found."""

    mapping: Mapping
    cost: NestCost
    evaluated: int  # mappings
    seconds: float  # of drawing and evaluating them
    complete: bool  # whether all mappings of the space were evaluated
    space: float  # mappings of the space, among them those that do not fit


def tried_text(evaluated: int, complete: bool, space: float) -> str:
    """How many mappings a search has evaluated, and of how many."""
    of = "all there are" if complete else f"of {number(space, 3)} for each choice of what memories keep"
    return f"{evaluated:,} mappings evaluated, {of}"


def found_mapping(
    problem: NestProblem,
    machine: NestMachine,
    kept: tuple[tuple[str, ...], ...],
    objective: str = "edp",
    method: str = "random",
    mappings: int = 500_000,
    seed: int = 0,
    report: Report = lambda done, total: None,
    bypass: bool = False,
    pad: float = 0.0,
) -> FoundMapping:
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
    # With padding the mappings are divided between the sizes as they are and the padded ones.
    begun, pads = time.perf_counter(), (0.0, pad) if pad else (0.0,)
    total, results = max(1, mappings // len(pads)), []
    # Every search starts anew from the seed, so that it does not depend on the one before.
    for share in pads:
        random = np.random.default_rng(seed)
        space = mapping_space(problem, machine, kept, random, share)
        results.append(_found(NestPool(space, objective, total, report), method, random, bypass))
    return dataclasses.replace(
        min(results, key=lambda each: getattr(each.cost, objective)),
        evaluated=sum(each.evaluated for each in results),
        seconds=time.perf_counter() - begun,
        complete=results[0].complete and not pad,
        space=results[-1].space,
    )


def _found(pool: NestPool, method: str, random: np.random.Generator, bypass: bool) -> FoundMapping:
    """The best mapping of a pool's space; see `found_mapping`."""
    begun, space = time.perf_counter(), pool.space
    if method == "enumerate":
        complete = _enumerate(pool, random)
    else:
        complete = False
        _draw(pool, method, random)
    if not pool.best:
        raise ValueError(
            f"no mapping of {pool.tried or pool.total} fits into the memories and fan-outs of the architecture"
        )
    # Moves evaluate few mappings of each loop order, too few to compile a program for.
    pool.compiled = False
    if not complete:
        pool.improve()
    # Each change of residency has to make the best mapping better, which ends the loop.
    while bypass and (other := _without_one(pool, space.kept)) is not None:
        other.improve()
        pool, complete = other, False
    best = pool.best[0]
    mapping = pool.space.single(best.row, best.orders)
    cost = nest_cost(space.problem, space.machine, mapping)
    return FoundMapping(mapping, cost, pool.tried, time.perf_counter() - begun, complete, space.size)


def _enumerate(pool: NestPool, random: np.random.Generator) -> bool:
    """Try all factors that fit in all orders, thinned at random where these are too many; whether these are all."""
    orders = pool.space.orders
    each = pool.total // len(orders)
    pool.compiled = pool.total >= COMPILED and each >= COMPILED // MOST_ORDERS
    rows, complete = pool.space.all_rows(max(1, each), random)
    pool.try_all((part, order) for some in rows for part in pool.parts(some) for order in orders)
    return complete


def _draw(pool: NestPool, method: str, random: np.random.Generator) -> None:
    """Try random factors in all orders; then descend in the best one, or go on in the best few if there are many."""
    space = pool.space
    # Where there are many draws, the first of them choose the loop orders for the rest.
    first = pool.total if method == "random" and pool.total < COMPILED else min(pool.total, FIRST)
    pool.try_all(_draws(space, space.orders, first, random, pool.chunk))
    orders = list(dict.fromkeys([*(each.orders for each in pool.best), *space.orders]))
    if method == "gradient":
        from sweeps.studies.map.descent import descended

        rows = descended(space, orders[0], pool.objective, random)
        pool.try_all((part, orders[0]) for part in pool.parts(rows))
    elif first < pool.total:
        pool.compiled = True
        pool.try_all(_draws(space, orders[:MOST_ORDERS], pool.total - first, random, pool.chunk))


def _draws(
    space: NestSpace, orders: Sequence[Orders], mappings: int, random: np.random.Generator, chunk: int
) -> Iterator[tuple[NestRows, Orders]]:
    """Chunks of random factors, each in some of the orders, until `mappings` are drawn or nearly nothing fits."""
    drawn = attempted = 0
    many = min(len(orders), MOST_ORDERS)
    # At most 40 attempts per wanted mapping: the loop ends where nearly no draw fits.
    while drawn < mappings and attempted < 40 * mappings:
        rows = NestRows(np.concatenate([space.drawn(CHUNK, random) for _ in range(chunk // CHUNK)]))
        attempted += chunk * many
        # Different loop orders for the same rows; none where no draw fits.
        for place in random.choice(len(orders), size=many if len(rows) else 0, replace=False):
            drawn += len(rows)
            yield rows, orders[place]


def _without_one(pool: NestPool, allowed: tuple[tuple[str, ...], ...]) -> NestPool | None:
    """The best mapping with one tensor passing or staying in one memory, where that is better; of all such changes."""
    better, least, row = None, pool.best[0].score, pool.best[0].row
    current = pool.space.kept
    # One tensor of one memory at a time; the root keeps everything.
    for node, tensor in [(place, name) for place in range(1, len(allowed)) for name in allowed[place]]:
        # A tensor that stays there now passes; one that passes now stays.
        changed = tuple(name for name in allowed[node] if (name in current[node]) != (name == tensor))
        space = dataclasses.replace(pool.space, kept=(*current[:node], changed, *current[node + 1 :]))
        other = NestPool(space, pool.objective, pool.total, pool.report)
        # The tile sizes are those of the best mapping so far: only the residency and the orders change.
        other.tried = pool.tried
        other.try_all((NestRows(row[None]), orders) for orders in pool.space.orders[:MOST_CHANGED])
        pool.tried = other.tried
        if other.best and other.best[0].beats(least):
            better, least = other, other.best[0].score
    if better is not None:
        better.tried = pool.tried
    return better
