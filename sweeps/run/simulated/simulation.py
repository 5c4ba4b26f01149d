"""Simulations to their end: many at once, in pieces of a fixed number of iterations until nothing is left to do."""

import collections
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.batch import STATUSES, Policy, Served, Timeline, Traffic, waiting_steps
from jaxroof.deployment.speculation import drafting, matched
from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import eager, jax
from jaxroof.prices.prices import step_prices
from jaxroof.prices.tables import Limits, Parts, StepPrices, price_tables
from jaxroof.scheduler import Size, begin, cache_blocks, front_delay, remaining, served
from jaxroof.scheduler.drafts import drafts_of, other_lengths
from jaxroof.scheduler.outcomes import with_first_time
from jaxroof.scheduler.state import Record
from sweeps.run.simulated.lanes import are_short, compiled, each, power, simulations
from sweeps.run.simulated.pieces import limits, piece

COLUMN = 8
"""Places whose price tables are computed together: their columns stay in a cache."""

KEPT_BYTES = 512e6
"""B of price tables that are kept for the next simulations of the same places: each of a megabyte, and all of one call
together."""


def tables_of(place: tuple[Any, ...], limits: Limits, number: int) -> StepPrices:
    """Price tables of every simulation, on the device: leaves of shape [simulations, ...].

    Args:
      place: hardware, model, deployment, efficiency, and what every request encodes or None, leaves of shape () or
        [simulations].
      number: of simulations.
    """
    numbers = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf, np.float64), number), place)
    leaves = np.stack(jax.tree.leaves(numbers), axis=1)
    kind = jax.tree.structure(place), limits
    keys = [(kind, row.tobytes()) for row in leaves]
    asked = *keys, jax.numpy.result_type(float)  # 32 or 64 bits on the device
    with _keeping:
        if asked in _kept:
            _kept.move_to_end(asked)
            return _kept[asked]
        found = {key: _kept[key] for key in keys if key in _kept}
    missing = list({key: at for at, key in enumerate(keys) if key not in found}.values())
    found |= zip((keys[at] for at in missing), _made(numbers, limits, missing), strict=True)
    tables = jax.device_put(jax.tree.map(lambda *each: np.stack(each), *(found[key] for key in keys)))
    with _keeping:
        _kept.keep(found | {asked: tables})
    return tables


def _made(numbers: tuple[Any, ...], limits: Limits, chosen: Sequence[int]) -> Iterator[StepPrices]:
    """Price tables of the chosen places, in columns: a program that makes them is traced for seconds."""
    kinds = None
    for low in range(0, len(chosen), COLUMN):
        rows = np.asarray(chosen[low : low + COLUMN])
        hardware, model, deployment, efficiency, encode = jax.tree.map(
            lambda leaf, rows=rows: leaf[rows].reshape(-1, 1, 1), numbers
        )
        with eager():
            parts = Parts(hardware, model, deployment, efficiency, kinds)
            kinds = parts.kinds
            made = price_tables(parts, deployment, limits, encode)
        for lane in range(len(rows)):
            yield jax.tree.map(lambda leaf, lane=lane: np.array(leaf[lane]), made)


class _Kept(collections.OrderedDict[Any, Any]):
    """Price tables by what they depend on, the least recently used ones dropped beyond `KEPT_BYTES`."""

    def keep(self, found: Mapping[Any, StepPrices]) -> None:
        """Keep these too, as the most recently used."""
        for key, tables in found.items():
            self[key] = tables
            self.move_to_end(key)
        held = sum(leaf.nbytes for tables in self.values() for leaf in jax.tree.leaves(tables))
        while held > KEPT_BYTES:
            _, dropped = self.popitem(last=False)
            held -= sum(leaf.nbytes for leaf in jax.tree.leaves(dropped))


_kept, _keeping = _Kept(), threading.Lock()


PIECE = 1.25
"""Iterations per request between two looks at whether all simulations have ended."""

DRAFTING = 4
"""Times as many iterations per request where tokens are drafted."""

FEWEST_PIECES = 2
"""Pieces that the programs of their outcomes are compiled for at least."""

RESTING = ("duration", "steps", "decoding", "prompt", "blocks", "running", "hit", "last", "right")
"""Fields of a record that are 0 in an iteration without anything to do."""

PIECES = 400
"""Pieces after which a simulation that has not ended is reported as it is."""


def size_for(traffic: Traffic, policy: Policy, context: float | None = None) -> Size:
    """Fixed shapes that hold these requests under this policy; rounded up so that like ones share a program.

    Args:
      traffic, policy: of numbers or of arrays with leading axes, of which the largest counts.
    """

    def most(value: Any) -> float:
        return float(np.max(np.asarray(value)))

    requests = np.shape(traffic.isl)[-1]
    longest = most(np.asarray(traffic.isl) + np.asarray(traffic.osl)) if context is None else context
    whole = most(traffic.isl) + most(traffic.osl)  # a prompt that is not split, or that is computed again
    budget = min(most(policy.token_budget), whole * requests)
    budget = max(budget, whole) if np.min(np.asarray(policy.chunked)) <= 0.0 else budget
    slots = min(most(policy.max_sequences), requests)
    if traffic.clients is not None:  # no more run at once; their batches may be padded to a graph of more
        slots = min(slots, max(most(traffic.clients), most(policy.graph_step)))
    grouped = traffic.group is not None and most(policy.prefix_caching) > 0.0
    return Size(
        slots=_rounded(int(slots), 16),
        iterations=max(int(PIECE * requests), 64),
        block=_rounded(most(policy.block_size), 16),
        rows=power(budget + slots),
        context=power(longest),
        groups=_rounded(most(traffic.group) + 1, 16) if grouped else 0,
        ranked=policy.queue != "fcfs" or math.isfinite(most(policy.max_waiting)),
    )


def simulated(
    together: Scenario,
    size: Size,
    axes: Any = 0,
    progress: Callable[[int, int], None] = lambda done, all_of_them: None,
    short: bool | None = None,
) -> tuple[Served, Timeline]:
    """Many simulations to their end.

    Args:
      together: scenarios of one structure whose workload is a `Service`, stacked along the leading axis of the leaves
        that `axes` names.
      size: of every simulation; `iterations` is how many are made between two looks at what is left.
      axes: 0, or a `Scenario` whose fields are 0, None, or trees of these.
      progress: called after every piece with the requests that are over and with all.
      short: whether all simulations that use the same programs are few; None: whether these are.

    Returns:
      By request, shape [simulations, requests], and by iteration, shape [simulations, iterations].

    Raises:
      ValueError: one line, where the clock of a simulation is not finite: a step has taken NaN or endless time.
    """
    waits = bool(np.any(waiting_steps(together.workload.policy) > 0.0))
    varied = _frozen(axes, together)
    places = simulations(together, varied)
    number = places * np.shape(together.workload.traffic.isl)[-1]
    short = are_short(places, number) if short is None else short
    place = together.hardware, together.model, together.deployment, together.efficiency
    tables = drafting_tables(place, together.workload, size, places)
    if together.deployment.drafts is not None:  # every step is an iteration
        size = dataclasses.replace(size, iterations=DRAFTING * size.iterations)
    go, read = piece(together, tables, size, varied, short)
    own = together.workload.traffic, together.workload.policy
    run = each(_starting(size, waits), short, together, tables, axes=varied)
    pieces = []
    for _ in range(PIECES):
        run, records = go(read, own, run)
        pieces.append(records)
        require_finite(np.asarray(records.high)[:, -1])
        left = int(np.asarray(_remaining()(run)).sum())
        progress(number - left, number)
        if not left:
            break
    records = _joined(pieces, size.iterations, short)
    found, timeline = jax.device_get(each(served, short, run, records))
    timeline = jax.tree.map(lambda values: values[:, : size.iterations * len(pieces)], timeline)
    with eager():
        return with_first_time(found, together.workload.traffic, together.workload.policy), timeline


def drafting_tables(place: tuple[Any, ...], work: Any, size: Size, places: int) -> StepPrices:
    """Price tables of every simulation, and those of steps in which fewer tokens are drafted where there are some."""
    hardware, model, deployment, efficiency = place
    lengths = other_lengths(deployment, work.policy)

    def of(deployment: Any) -> StepPrices:
        return tables_of((hardware, model, deployment, efficiency, work.traffic.encode), limits(size), places)

    tables = of(matched(deployment))
    if not lengths:
        return tables
    with eager():
        fewer = [drafting(deployment, each) for each in lengths]
    return dataclasses.replace(tables, others=tuple(map(of, fewer)), lengths=lengths)


def _joined(pieces: Sequence[Record], iterations: int, short: bool) -> Record:
    """The records of all pieces; where a program reads them, and of iterations in which nothing happens up to a power
    of two of pieces, since it is compiled for every length.
    """
    more = 0 if short else iterations * (power(len(pieces), FEWEST_PIECES) - len(pieces))

    def filled(name: str, *parts: Any) -> np.ndarray | None:
        if parts[0] is None:
            return None
        values = np.concatenate([np.asarray(part) for part in parts], axis=-1)
        # Clock and counts stay as they are; no time passes, no step is made, no request is met.
        last = values[:, -1:] if name in ("high", "low", "count", "ahead") else 0 if name in RESTING else -1
        return np.concatenate([values, np.broadcast_to(last, (len(values), more)).astype(values.dtype)], axis=-1)

    return Record(*(filled(name, *parts) for name, *parts in zip(Record._fields, *pieces, strict=True)))


@functools.cache
def _remaining() -> Callable[..., Any]:
    """`remaining` of many: compiled once for all simulations of one size, whatever they price."""
    return compiled(jax.vmap(remaining))


def grown(found: Callable[[Size], tuple[Any, Any]], size: Size, doublings: int) -> tuple[Any, Size, int]:
    """A simulation in one compiled piece, with iterations enough for all of its requests.

    Args:
      found: of a size: what is asked, and the requests that are left after so many iterations.
      size: iterations to begin with; they are doubled while requests are left.
      doublings: at most.

    Returns:
      What `found` returned last, its size, and the requests that are left even there.
    """
    for more in range(doublings + 1):
        tried = dataclasses.replace(size, iterations=size.iterations << more)
        result, left = found(tried)
        if not int(left):
            break
    return result, tried, int(left)


def require_finite(clocks: np.ndarray) -> None:
    """ValueError, one line, where a clock of a simulation, in s, is not finite."""
    if not np.isfinite(clocks).all():
        raise ValueError(
            f"the clock of a simulation is at {clocks[~np.isfinite(clocks)][0]} s: a step takes no finite time"
        )


@functools.cache
def _starting(size: Size, waits: bool) -> Callable[[Scenario, StepPrices], Any]:
    """What makes a simulation before its first iteration; where requests wait for steps, these are priced."""

    def start(one: Scenario, tables: StepPrices) -> Any:
        place, work, host = (one.hardware, one.model, one.deployment), one.workload, one.efficiency.host
        blocks, price = cache_blocks(*place, work.policy), None
        if waits:
            acceptance, hidden = work.policy.acceptance, work.policy.hidden_host
            _, price = step_prices(*place, one.efficiency, limits(size), acceptance, hidden, tables, prompts=False)
        delay = front_delay(price, work.traffic, work.policy, blocks, host.request_time)
        return begin(work.traffic, work.policy, blocks, size, delay, drafts=drafts_of(one.deployment, work.policy))

    return start


def _frozen(axes: Any, together: Scenario) -> tuple[Any, ...]:
    found: list[int | None] = []
    for field in dataclasses.fields(together):
        part, axis = getattr(together, field.name), axes
        if isinstance(axes, Scenario):
            axis = getattr(axes, field.name)
        leaves, structure = jax.tree.flatten(part)
        found += [axis] * len(leaves) if axis is None or isinstance(axis, int) else structure.flatten_up_to(axis)  # type: ignore[attr-defined]
    return tuple(found)


def unfinished(served: Served) -> int:
    """Requests that were left when a simulation ended."""
    return int(np.sum(np.asarray(served.status) == STATUSES.index("unfinished")))


def _rounded(value: float, multiple: int) -> int:
    return max(int(math.ceil(value / multiple)) * multiple, multiple)
