"""Simulation of a whole service: all replicas of all kinds and pools, with a router before them, to its end."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.batch import QUEUES, Batch, Decode, Policy, Prefill, Served, Timeline, Traffic, waiting_steps
from jaxroof.jobs import Scenario
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.splits import transfer_time
from jaxroof.memory.capacity import layer_count
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.struct import given
from jaxroof.prices.prices import step_prices
from jaxroof.scheduler import cache_blocks, front_delay
from jaxroof.scheduler.drafts import drafts, drafts_of
from jaxroof.scheduler.engine import Drafts
from jaxroof.scheduler.outcomes import with_first_time
from jaxroof.scheduler.service.event import Happening
from jaxroof.scheduler.service.handover import DECODE, PREFILL, WHOLE, Transfer
from jaxroof.scheduler.service.outcomes import Places, outcomes
from jaxroof.scheduler.service.routing import ROUTERS
from jaxroof.scheduler.service.service import Routing, ServiceRun, Shape, begin
from jaxroof.scheduler.service.simulate import proceed
from sweeps.run.simulated.engine_timelines import timelines
from sweeps.run.simulated.lanes import compiled, looped
from sweeps.run.simulated.pieces import limits, priced_step, prices_of
from sweeps.run.simulated.routes import Routes
from sweeps.run.simulated.simulation import PIECES, drafting_tables, require_finite, size_for
from sweeps.run.simulated.straight import Straight

FEW = 20_000
"""Requests to engines of 64 slots that end before their program would be optimised: 1 to 3 s, and 60 us for each."""

TOGETHER = 32
"""Decode steps with drafts that an iteration makes at most."""

PIECE = 0.5
"""Iterations per request between two looks at how far a service is: what is left of the last piece is idle."""

KEPT_TIMES = 256
"""Times of steps that are kept."""

LONGEST_PIECE = 200_000
"""Iterations between two looks at how far a service is, at most: of each the record takes some 100 B."""


@dataclasses.dataclass(frozen=True, eq=False)
class EngineKind:
    """Replicas that are alike."""

    scenario: Scenario  # whose workload is a `Service` with the requests of all replicas
    replicas: int
    role: int  # a position in `ROLES`


class Serviced(NamedTuple):
    """What became of a service."""

    served: Served  # by request, NumPy arrays of shape [requests]
    places: Places  # engines of every request
    timelines: list[Timeline]  # of every engine
    blocks: list[float]  # of KV cache of every engine
    roles: list[int]  # of every engine
    iterations: int  # of the simulation
    replicas: np.ndarray | None  # that are on from every evaluation on, shape [evaluations]; None: all are


def kinds(scenario: Scenario, also: Sequence[Pool] = ()) -> list[EngineKind]:
    """The replicas of a scenario: those of its prefill pool first, where it has one.

    Args:
      also: replicas of other kinds, after those of the scenario.
    """
    own = dataclasses.replace(scenario, prefill=None)

    def of_pool(pool: Pool, role: int) -> EngineKind:
        """Replicas of a pool."""
        scenario = dataclasses.replace(
            own, hardware=pool.hardware, deployment=pool.deployment, efficiency=pool.efficiency
        )
        return EngineKind(scenario, int(pool.deployment.dp), role)

    if scenario.prefill is None:
        return [EngineKind(own, int(scenario.deployment.dp), WHOLE), *(of_pool(pool, WHOLE) for pool in also)]
    return [of_pool(scenario.prefill, PREFILL), EngineKind(own, int(scenario.deployment.dp), DECODE)]


def serviced(
    engines: Sequence[EngineKind],
    routes: Routes,
    progress: Callable[[int, int], None] = lambda done, requests: None,
    short: bool | None = None,
) -> Serviced:
    """Serve all requests. Needs JAX's 64-bit mode.

    Args:
      engines: kinds of replicas, in their order; their workloads are the same.
      progress: called now and then with the requests that are over and with all.
      short: whether the program is compiled without optimisation; None: where there are few requests.

    Raises:
      ValueError: one line, where a step takes no finite time.
    """
    work = engines[0].scenario.workload
    traffic, policy = work.traffic, work.policy
    requests = len(traffic.isl)
    size = size_for(traffic, policy)
    with eager():
        blocks = [float(cache_blocks(*_place(kind.scenario), policy)) for kind in engines]
    numbers = np.repeat(np.arange(len(engines)), [kind.replicas for kind in engines])
    count, roles = len(numbers), [engines[int(number)].role for number in numbers]
    each = [blocks[int(number)] for number in numbers]
    if routes.scaling is None or count == 1:
        # Beside them stand some without a cache, which get no requests: services of like size share a program, and of
        # one engine alone XLA makes no kernel.
        idle = _alike(count) - count
        numbers, roles = np.append(numbers, [0] * idle).astype(int), [*roles, *[DECODE] * idle]
    priced = [_priced(kind.scenario, size) for kind in engines]
    shape = Shape(
        engines=len(numbers),
        slots=size.slots,
        iterations=min(max(int(PIECE * (requests + _evaluations(routes, traffic))), 256), LONGEST_PIECE),
        block=size.block,
        nodes=0 if not float(policy.prefix_caching) else _nodes(traffic),
        turns=_most_followers(traffic),
        pools=any(kind.role == DECODE for kind in engines),
        together=TOGETHER,
    )
    tiers = routes.tiers if shape.nodes else None
    if tiers is not None:
        shape = dataclasses.replace(shape, tiers=tiers.capacity.shape[1])
        tiers = jax.tree.map(lambda part: np.resize(part, (len(numbers), *np.shape(part)[1:])), tiers)
    run = _begun(shape)(
        traffic,
        policy,
        np.array(each + [0.0] * (len(numbers) - count)),
        {
            "role": np.array(roles),
            "queue": None if policy.queue == "fcfs" else np.full(len(numbers), QUEUES.index(policy.queue)),
            "routing": _routing(engines, priced, numbers, routes, policy),
            "transfer": _transfer(engines, numbers, routes, traffic) if shape.pools else None,
            "tiers": tiers,
            "drafts": _drafts(engines, numbers),
            "scaling": routes.scaling,
            "admission": routes.admission,
            "delay": _delay(engines, priced[0], traffic, policy, blocks[0]),
        },
    )
    drafting = tuple(one.drafts for one in priced)
    short = requests * max(size.slots / 64, 1.0) <= FEW if short is None else short
    go = _program(tuple(one.price for one in priced), drafting, shape, short)
    state, records, used = run.state, [], jax.device_put([one.used for one in priced])
    for _ in range(int(PIECES / PIECE) * max(requests // LONGEST_PIECE, 1)):
        state, more = go(used, numbers, run.service, state)
        records.append(jax.device_get(more))
        require_finite(records[-1].high)
        left = int(state.left)
        progress(requests - left, requests)
        if not left or not np.any((records[-1].engine >= 0) | (records[-1].delivered >= 0) | _evaluated(records[-1])):
            break
    together: Happening = jax.tree.map(lambda *parts: np.concatenate(parts), *records)
    with eager():
        served, places = outcomes(ServiceRun(*jax.device_get((run.service, state))), together)
        served = with_first_time(served, traffic, policy)
    replicas = None if together.replicas is None else together.replicas[_evaluated(together)]
    return Serviced(served, places, timelines(together, count), each, roles[:count], len(together.engine), replicas)


def _alike(engines: int) -> int:
    """The number of engines that a program is made for."""
    return max(1 << (engines - 1).bit_length(), 2) if engines <= 16 else -(-engines // 16) * 16


def _evaluated(records: Happening) -> np.ndarray:
    """Iterations with an evaluation of the rule for replicas, bool, shape [iterations]."""
    return np.zeros(len(records.engine), bool) if records.replicas is None else np.asarray(records.replicas) >= 0


def _evaluations(routes: Routes, traffic: Traffic) -> int:
    """Evaluations of the rule for replicas until the last request comes that is known; some after it."""
    if routes.scaling is None:
        return 0
    times = np.asarray(traffic.arrival)[np.isfinite(traffic.arrival)]
    return int(1.25 * np.max(times, initial=0.0) / float(routes.scaling.every))


def _drafts(engines: Sequence[EngineKind], numbers: np.ndarray) -> Drafts | None:
    """What every engine drafts; None where none does."""
    with eager():
        each = [drafts_of(kind.scenario.deployment, kind.scenario.workload.policy) for kind in engines]
        most = max((one.reached.shape[-1] for one in each if one is not None), default=0)
        if not most:
            return None
        # Engines without drafts draft none; of those with fewer positions the others are never right.
        none = drafts(0.0, np.zeros(most))
        reached = [np.zeros(most) if one is None else np.pad(one.reached, (0, most - len(one.reached))) for one in each]
        filled = [
            (none if one is None else one)._replace(reached=part) for one, part in zip(each, reached, strict=True)
        ]
    return jax.tree.map(lambda *parts: np.stack(parts)[numbers], *filled)


class Priced(NamedTuple):
    """Prices of one kind's steps."""

    price: Straight
    used: list[Any]  # numbers that it reads
    eager: Callable[[Batch, Any], tuple[Any, Any]]  # the same on NumPy
    drafts: bool  # whether tokens are drafted


def _priced(scenario: Scenario, size: Any) -> Priced:
    place = scenario.hardware, scenario.model, scenario.deployment, scenario.efficiency
    stacked = drafting_tables(place, scenario.workload, size, 1)
    tables = jax.tree.map(lambda leaf: np.asarray(leaf)[0], stacked)
    price, used = prices_of(scenario, tables, size)
    policy, encode = scenario.workload.policy, scenario.workload.traffic.encode
    with eager():
        beside = policy.acceptance, policy.hidden_host, tables
        _, on_numpy = step_prices(*place, limits(size), *beside, encode=encode)
    return Priced(price, used, on_numpy, scenario.deployment.drafts is not None)


def _place(scenario: Scenario) -> tuple[Any, Any, Any]:
    return scenario.hardware, scenario.model, scenario.deployment


def _nodes(traffic: Traffic) -> int:
    """Nodes of the requests' prefix tree, rounded up so that like ones share a program; 0: they share nothing."""
    known = traffic.group if traffic.path is None else traffic.path
    if known is None:
        return 0
    return -(-int(np.max(known) + 1) // 16) * 16


def _most_followers(traffic: Traffic) -> int:
    """Requests that wait for the same answer, at most."""
    if traffic.after is None:
        return 0
    after = np.asarray(traffic.after)
    waits = after[after >= 0].astype(np.int64)
    return int(np.max(np.bincount(waits))) if len(waits) else 0


def _routing(
    engines: Sequence[EngineKind], priced: Sequence[Priced], numbers: np.ndarray, routes: Routes, policy: Policy
) -> Routing:
    """Numbers that routers go by: an engine's pace is the time of a full step of prompts over its tokens."""
    tokens = float(min(policy.token_budget, 8192.0))
    batch = Batch(
        prefill=Prefill(sequences=1.0, tokens=tokens, past=0.0),
        decode=Decode(sequences=0.0, context=0.0),
        logits=1.0,
        encode=None,
    )
    pace = np.array([_time_of(one, batch, tokens) / tokens for one in priced])
    of = list(ROUTERS).index
    return Routing(
        weight=(np.min(pace) / pace)[numbers],
        pace=pace[numbers],
        seed=np.int32(routes.seed % 2**31),
        prefix=np.float64(routes.prefix_weight),
        load=np.float64(routes.load_weight),
        router=np.int32(of(routes.router)),
        decode_router=np.int32(of(routes.decode_router)),
    )


def _time_of(priced: Priced, batch: Batch, rows: float) -> float:
    """s of one step, kept for services that price it alike: found anew, it would take longer than 1,000 requests."""
    digest = hashlib.blake2b(b"".join(np.asarray(number).tobytes() for number in priced.used)).digest()
    key = priced.price, digest, rows
    if key not in _times:
        with eager():
            found = float(sum(priced.eager(batch, rows)))
        while len(_times) >= KEPT_TIMES:
            _times.pop(next(iter(_times)), None)
        _times[key] = found
    return _times[key]


_times: dict[tuple[Straight, bytes, float], float] = {}


def _transfer(engines: Sequence[EngineKind], numbers: np.ndarray, routes: Routes, traffic: Traffic) -> Transfer:
    """Links between the pools: the time of a cache is linear in its tokens."""
    first, then = (
        Pool(hardware=kind.scenario.hardware, deployment=kind.scenario.deployment, efficiency=kind.scenario.efficiency)
        for kind in engines
    )
    model = engines[0].scenario.model
    longest = float(max(np.max(traffic.isl), 2.0))
    with eager():
        short, long = (float(transfer_time(first, then, model, tokens)) for tokens in (0.5 * longest, longest))
        layers = float(layer_count(model)) if routes.layerwise else 0.0
    each = (long - short) / (0.5 * longest)
    return Transfer(
        rate=np.full(len(numbers), 1.0 / each),
        latency=np.float64(max(long - each * longest, 0.0)),
        layers=np.float64(layers),
    )


def _delay(
    engines: Sequence[EngineKind], priced: Priced, traffic: Traffic, policy: Policy, blocks: float
) -> np.float64:
    """s between a request and its delivery: as of one replica, with its part of the requests.

    Engines that compute prompts alone run no decode steps, which a request would wait for.
    """
    first = engines[0]
    host = first.scenario.efficiency.host.request_time
    if first.role == PREFILL or not waiting_steps(policy) > 0.0:
        return np.float64(host + policy.front_time)
    share = float(sum(kind.replicas for kind in engines if kind.role != DECODE))
    clients = None if traffic.clients is None else max(float(traffic.clients) / share, 1.0)
    part = dataclasses.replace(traffic, arrival=np.asarray(traffic.arrival) * share, clients=clients)
    with eager():
        return np.float64(front_delay(priced.eager, part, policy, blocks, host))


@functools.lru_cache(maxsize=64)
def _begun(shape: Shape) -> Callable[..., ServiceRun]:
    def start(traffic: Traffic, policy: Policy, blocks: Any, words: dict[str, Any]) -> ServiceRun:
        return begin(traffic, policy, blocks, shape, **words)

    return compiled(start)


@functools.lru_cache(maxsize=64)
def _program(prices: tuple[Straight, ...], drafting: tuple[bool, ...], shape: Shape, short: bool) -> Callable[..., Any]:
    """The program of `shape.iterations` more.

    Args:
      prices: of steps of every kind of engine.
      drafting: whether each drafts.
    """

    def go(used: Sequence[Sequence[Any]], kind: Any, service: Any, state: Any) -> Any:
        def of_engine(engine: Any) -> Callable[[Batch, Any], tuple[Any, Any]]:
            def price(batch: Batch, rows: Any) -> tuple[Any, Any]:
                def of_kind(one: Straight, own: Any, drafts: bool) -> tuple[Any, Any]:
                    own_decode = given(batch.decode, "decode part of the step")
                    decode = own_decode if drafts else dataclasses.replace(own_decode, drafted=None)
                    return priced_step(one, own, dataclasses.replace(batch, decode=decode), rows)

                choices = [functools.partial(of_kind, *each) for each in zip(prices, used, drafting, strict=True)]
                return choices[0]() if len(choices) == 1 else jax.lax.switch(kind[engine], choices)

            return price

        run, records = proceed(of_engine, ServiceRun(service, state), shape)
        return run.state, records

    return looped(go, quick=short)
