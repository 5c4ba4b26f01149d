"""Simulation of a whole service: all replicas of all kinds and pools, with a router before them, to its end."""

import dataclasses
import functools
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
from jaxroof.numerics.xla_options import LASTING
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
from sweeps.run.simulated.service_room import LONGEST_PIECE, PIECE, Room, room_of
from sweeps.run.simulated.simulation import PIECES, drafting_tables, require_finite
from sweeps.run.simulated.straight import Straight
from workloads.streams.stream import padded


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
    room: Room | None = None,
) -> Serviced:
    """Serve all requests. Needs JAX's 64-bit mode.

    Args:
      engines: kinds of replicas, in their order; their workloads are the same.
      progress: called now and then with the requests that are over and with all.
      room: what the program is compiled for, at least as large as that of this service; None: that.

    Raises:
      ValueError: one line, where a step takes no finite time.
    """
    return prepared(engines, routes, room).served(engines[0].scenario.workload.traffic, progress)


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A service with all that does not depend on when requests come."""

    engines: Sequence[EngineKind]
    routes: Routes
    room: Room
    blocks: list[float]  # of KV cache of every engine, without those that fill the room
    numbers: np.ndarray  # kind of every engine, shape [engines]
    priced: list["Priced"]  # of every kind
    words: dict[str, Any]  # of `jaxroof.scheduler.service.service.begin`

    def served(self, traffic: Traffic, progress: Callable[[int, int], None] = lambda done, requests: None) -> Serviced:
        """Serve requests: those of the workload, which may come at other times. As of `serviced`."""
        shape, _, most, short = self.room
        policy, priced, requests = self.engines[0].scenario.workload.policy, self.priced, len(traffic.isl)
        count = len(self.blocks)
        delay = _delay(self.engines, priced[0], traffic, policy, self.blocks[0])
        held = np.array(self.blocks + [0.0] * (shape.engines - count))
        run = _begun(shape)(padded(traffic, most), policy, held, {**self.words, "delay": delay})
        go = _program(tuple(one.price for one in priced), tuple(one.drafts for one in priced), shape, short)
        state, records = run.state, []
        for _ in range(int(PIECES / PIECE) * max(requests // LONGEST_PIECE, 1)):
            state, more = go([one.used for one in priced], self.numbers, run.service, state)
            records.append(jax.device_get(more))
            require_finite(records[-1].high)
            left = int(state.left)
            progress(requests - left, requests)
            happened = (records[-1].engine >= 0) | (records[-1].delivered >= 0) | _evaluated(records[-1])
            if not left or not np.any(happened):
                break
        together: Happening = jax.tree.map(lambda *parts: np.concatenate(parts), *records)
        with eager():
            found = outcomes(ServiceRun(*jax.device_get((run.service, state))), together)
            served, places = jax.tree.map(lambda values: values[:requests], found)
            served = with_first_time(served, traffic, policy)
        replicas = None if together.replicas is None else together.replicas[_evaluated(together)]
        roles = [self.engines[int(number)].role for number in self.numbers[:count]]
        iterations = len(together.engine)
        return Serviced(served, places, timelines(together, count), self.blocks, roles, iterations, replicas)


def prepared(engines: Sequence[EngineKind], routes: Routes, room: Room | None = None) -> Prepared:
    """A service that is to be simulated, once or more often; arguments as of `serviced`."""
    work = engines[0].scenario.workload
    traffic, policy = work.traffic, work.policy
    room = room_for(engines, routes) if room is None else room
    shape = room.shape
    with eager():
        blocks = [float(cache_blocks(*_place(kind.scenario), policy)) for kind in engines]
    numbers = np.repeat(np.arange(len(engines)), [kind.replicas for kind in engines])
    roles, each = ([of[int(number)] for number in numbers] for of in ([kind.role for kind in engines], blocks))
    # Engines without a cache, and absent requests, fill the room.
    idle = shape.engines - len(numbers)
    numbers, roles = np.append(numbers, [0] * idle).astype(int), [*roles, *[DECODE] * idle]
    admission = None if routes.admission is None else np.pad(routes.admission, (0, room.requests - len(traffic.isl)))
    priced = [_priced(kind.scenario, room.size) for kind in engines]
    tiers = routes.tiers if shape.nodes else None
    if tiers is not None:
        tiers = jax.tree.map(lambda part: np.resize(part, (len(numbers), *np.shape(part)[1:])), tiers)
    words = {
        "role": np.array(roles),
        "queue": None if policy.queue == "fcfs" else np.full(len(numbers), QUEUES.index(policy.queue)),
        "routing": _routing(engines, priced, numbers, routes, policy),
        "transfer": _transfer(engines, numbers, routes, traffic) if shape.pools else None,
        "tiers": tiers,
        "drafts": _drafts(engines, numbers),
        "scaling": routes.scaling,
        "admission": admission,
    }
    return Prepared(engines, routes, room, each, numbers, priced, words)


def room_for(engines: Sequence[EngineKind], routes: Routes) -> Room:
    """The room of a service; arguments as of `serviced`."""
    work, count = engines[0].scenario.workload, sum(kind.replicas for kind in engines)
    return room_of(work.traffic, work.policy, count, any(kind.role == DECODE for kind in engines), routes)


def _evaluated(records: Happening) -> np.ndarray:
    """Iterations with an evaluation of the rule for replicas, bool, shape [iterations]."""
    return np.zeros(len(records.engine), bool) if records.replicas is None else np.asarray(records.replicas) >= 0


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
    # Degrees of 1 in place of none change no number of a price, so that layouts share a program.
    ones: dict[str, Any] = {name: 1.0 for name in ("pp", "attention_dp") if getattr(scenario.deployment, name) is None}
    alike = dataclasses.replace(scenario, deployment=dataclasses.replace(scenario.deployment, **ones))
    price, used = prices_of(alike, tables, size)
    policy, encode = scenario.workload.policy, scenario.workload.traffic.encode
    with eager():
        beside = policy.acceptance, policy.hidden_host, tables
        _, on_numpy = step_prices(*place, limits(size), *beside, encode=encode)
    return Priced(price, used, on_numpy, scenario.deployment.drafts is not None)


def _place(scenario: Scenario) -> tuple[Any, Any, Any]:
    return scenario.hardware, scenario.model, scenario.deployment


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
    with eager():
        pace = np.array([float(sum(one.eager(batch, tokens))) / tokens for one in priced])
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
        run = begin(traffic, policy, blocks, shape, **words)
        # No type is weak, as none is after the first piece: else the program would be compiled twice.
        return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), run)

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

    return looped(go, quick=short, else_with=LASTING)
