"""Simulation of a whole service: all replicas of all kinds and pools, with a router before them, to its end."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.batch import QUEUES, Batch, Decode, Policy, Prefill, Served, Timeline, Traffic
from jaxroof.deployment import with_degrees_of_one
from jaxroof.jobs import Scenario
from jaxroof.jobs.scenario import Pool
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.struct import given
from jaxroof.numerics.xla_options import LASTING
from jaxroof.prices.prices import step_prices
from jaxroof.scheduler import Size, cache_blocks
from jaxroof.scheduler.drafts import drafts_of
from jaxroof.scheduler.engine import Drafts
from jaxroof.scheduler.outcomes import with_first_time
from jaxroof.scheduler.service.encoding import Encoders
from jaxroof.scheduler.service.handover import DECODE, PREFILL, WHOLE, Transfer
from jaxroof.scheduler.service.outcomes import Places, outcomes
from jaxroof.scheduler.service.record import Happening
from jaxroof.scheduler.service.routing import ROUTERS
from jaxroof.scheduler.service.service import Routing, ServiceRun, Shape, begin
from jaxroof.scheduler.service.simulate import proceed
from sweeps.run.simulated.between import link_between, request_delay, waits_for_steps
from sweeps.run.simulated.engine_timelines import timelines
from sweeps.run.simulated.lanes import compiled, looped
from sweeps.run.simulated.pieces import limits, priced_step, prices_of
from sweeps.run.simulated.routes import Routes
from sweeps.run.simulated.service_room import LONGEST_PIECE, PIECE, Room, room_of
from sweeps.run.simulated.simulation import PIECES, drafting_tables, require_finite
from sweeps.run.simulated.straight import Straight
from workloads.streams.stream import padded

KEPT_TIMES = 256
"""Times of steps that are kept."""


@dataclasses.dataclass(frozen=True, eq=False)
class EngineKind:
    """Replicas that are alike."""

    scenario: Scenario  # whose workload is a `Service` with the requests of all replicas, and their own policy
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
    trace: "Trace | None"  # what derivatives of its times need; None: it was not asked for


class Trace(NamedTuple):
    """A service at its end, and how it came there."""

    run: ServiceRun
    records: Happening
    size: Size
    kinds: np.ndarray  # of every engine, a position among the kinds of replicas
    policies: list[Policy]  # of every kind


def kinds(scenario: Scenario, also: Sequence[Pool] = (), prefill_policy: Policy | None = None) -> list[EngineKind]:
    """The replicas of a scenario: those of its prefill pool first, where it has one.

    Args:
      also: replicas of other kinds, after those of the scenario.
      prefill_policy: of the prefill pool; None: the scenario's.
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
    prompts = of_pool(scenario.prefill, PREFILL)
    if prefill_policy is not None:
        work = dataclasses.replace(scenario.workload, policy=prefill_policy)
        prompts = dataclasses.replace(prompts, scenario=dataclasses.replace(prompts.scenario, workload=work))
    return [prompts, EngineKind(own, int(scenario.deployment.dp), DECODE)]


def serviced(
    engines: Sequence[EngineKind],
    routes: Routes,
    progress: Callable[[int, int], None] = lambda done, requests: None,
    room: Room | None = None,
) -> Serviced:
    """Serve all requests. Needs JAX's 64-bit mode.

    Args:
      engines: kinds of replicas, in their order; their workloads are the same but for their policies.
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
    policies: Policy  # of every engine, leaves of shape () or [engines]
    words: dict[str, Any]  # of `jaxroof.scheduler.service.service.begin`

    def served(self, traffic: Traffic, progress: Callable[[int, int], None] = lambda done, requests: None) -> Serviced:
        """Serve requests: those of the workload, which may come at other times. As of `serviced`."""
        shape, _, most, short = self.room
        policy, priced, requests = self.engines[0].scenario.workload.policy, self.priced, len(traffic.isl)
        count = len(self.blocks)
        roles = [self.engines[int(number)].role for number in self.numbers[:count]]
        with eager():
            host = self.engines[0].scenario.efficiency.host.request_time
            price = priced[0].eager if waits_for_steps(roles[0], policy) else None
            delay = np.float64(request_delay(roles, price, traffic, policy, self.blocks[0], host))
        held = np.array(self.blocks + [0.0] * (shape.engines - count))
        run = _begun(shape)(padded(traffic, most), self.policies, held, {**self.words, "delay": delay})
        go = _program(tuple(one.price for one in priced), tuple(one.drafts for one in priced), shape, short)
        state, records, used = run.state, [], jax.device_put([one.used for one in priced])
        for _ in range(int(PIECES / PIECE) * max(requests // LONGEST_PIECE, 1)):
            state, more = go(used, self.numbers, run.service, state)
            records.append(jax.device_get(more))
            require_finite(records[-1].high)
            left = int(state.left)
            progress(requests - left, requests)
            if not left or not np.any(_worked(records[-1])):
                break
        together: Happening = jax.tree.map(lambda *parts: np.concatenate(parts), *records)
        at_end = ServiceRun(*jax.device_get((run.service, state)))
        with eager():
            found = outcomes(at_end, together)
            served, places = jax.tree.map(lambda values: values[:requests], found)
            served = with_first_time(served, traffic, policy)
        replicas = None if together.replicas is None else together.replicas[_evaluated(together)]
        own = [kind.scenario.workload.policy for kind in self.engines]
        trace = Trace(at_end, together, self.room.size, self.numbers, own) if shape.traced else None
        over_time = timelines(together, count)
        return Serviced(served, places, over_time, self.blocks, roles, len(together.engine), replicas, trace)


def prepared(engines: Sequence[EngineKind], routes: Routes, room: Room | None = None) -> Prepared:
    """A service that is to be simulated, once or more often; arguments as of `serviced`."""
    traffic, policy = engines[0].scenario.workload.traffic, engines[0].scenario.workload.policy
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
        "queue": _queues(engines, numbers),
        "routing": _routing(engines, priced, numbers, routes),
        "transfer": _transfer(engines, numbers, routes, traffic) if shape.pools else None,
        "tiers": tiers,
        "drafts": _drafts(engines, numbers),
        "scaling": routes.scaling,
        "admission": admission,
        "encoders": _encoders(routes),
    }
    policies = jax.tree.map(lambda leaf: _of_each(leaf, numbers), _policies(engines))
    return Prepared(engines, routes, room, each, numbers, priced, policies, words)


def _policies(engines: Sequence[EngineKind]) -> Policy:
    """The policy of all kinds, or what of it schedulers go by, leaves of shape [kinds]."""
    each = [kind.scenario.workload.policy for kind in engines]
    if all(one == each[0] for one in each):
        return each[0]
    alike = [dataclasses.replace(one, acceptance=0.0, draft_lengths=None, queue=QUEUES[0]) for one in each]
    return jax.tree.map(lambda *leaves: np.array(leaves, float), *alike)


def _of_each(leaf: Any, numbers: np.ndarray) -> Any:
    """A number of every kind as one of every engine; one of all kinds stays."""
    return leaf[numbers] if np.ndim(leaf) else leaf


def _queues(engines: Sequence[EngineKind], numbers: np.ndarray) -> np.ndarray | None:
    """Kinds of queues of all engines; None where requests go in their order."""
    each = np.array([QUEUES.index(kind.scenario.workload.policy.queue) for kind in engines])
    return each[numbers] if np.any(each) else None


def room_for(engines: Sequence[EngineKind], routes: Routes, traced: bool = False) -> Room:
    """The room of a service; arguments as of `serviced`.

    Args:
      traced: whether what derivatives need is recorded.
    """
    count, pools = sum(kind.replicas for kind in engines), any(kind.role == DECODE for kind in engines)
    room = room_of(engines[0].scenario.workload.traffic, _policies(engines), count, pools, routes)
    return room._replace(shape=dataclasses.replace(room.shape, traced=True, together=1)) if traced else room


def _encoders(routes: Routes) -> Encoders | None:
    """Workers that encode alone."""
    pool = routes.encoders
    return None if pool is None else Encoders(np.full(pool.workers, pool.time), np.float64(pool.transfer))


def _worked(records: Happening) -> np.ndarray:
    """Iterations in which anything happened, bool, shape [iterations]."""
    found = (records.engine >= 0) | (records.delivered >= 0) | _evaluated(records)
    return found if records.encoded is None else found | (records.encoded >= 0)


def _evaluated(records: Happening) -> np.ndarray:
    """Iterations with an evaluation of the rule for replicas, bool, shape [iterations]."""
    return np.zeros(len(records.engine), bool) if records.replicas is None else np.asarray(records.replicas) >= 0


def _drafts(engines: Sequence[EngineKind], numbers: np.ndarray) -> Drafts | None:
    """What every engine drafts; None where none does."""
    with eager():
        each = [drafts_of(kind.scenario.deployment, kind.scenario.workload.policy) for kind in engines]
        some = next((one for one in each if one is not None), None)
        if some is None:
            return None
        most = max(one.reached.shape[-1] for one in each if one is not None)
        found_all = all(one is None or one.match is None for one in each)

        def filled(one: Drafts | None) -> Drafts:
            # Engines without drafts draft for no number of sequences; of those with fewer positions the others are
            # never right.
            own = some._replace(tokens=np.int32(0), limit=np.float64(-1.0)) if one is None else one
            own = own._replace(reached=_padded(own.reached, most), match=None if found_all else own.match)
            if own.match is None and not found_all:
                own = own._replace(match=np.float64(1.0))
            if own.measured is not None:
                own = own._replace(measured=own.measured._replace(right=_padded(own.measured.right, most)))
            return own

        return jax.tree.map(lambda *parts: np.stack(parts)[numbers], *map(filled, each))


def _padded(values: np.ndarray, most: int) -> np.ndarray:
    """With zeros up to `most` positions, the last axis."""
    return np.pad(values, [(0, 0)] * (np.ndim(values) - 1) + [(0, most - np.shape(values)[-1])])


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
    alike = dataclasses.replace(scenario, deployment=with_degrees_of_one(scenario.deployment))
    price, used = prices_of(alike, tables, size)
    policy, encode = scenario.workload.policy, scenario.workload.traffic.encode
    with eager():
        beside = policy.acceptance, policy.hidden_host, tables
        _, on_numpy = step_prices(*place, limits(size), *beside, encode=encode)
    return Priced(price, used, on_numpy, scenario.deployment.drafts is not None)


def _place(scenario: Scenario) -> tuple[Any, Any, Any]:
    return scenario.hardware, scenario.model, scenario.deployment


def _routing(engines: Sequence[EngineKind], priced: Sequence[Priced], numbers: np.ndarray, routes: Routes) -> Routing:
    """Numbers that routers go by: an engine's pace is the time of a full step of prompts over its tokens."""

    def pace_of(kind: EngineKind, one: Priced) -> float:
        tokens = float(min(kind.scenario.workload.policy.token_budget, 8192.0))
        batch = Batch(
            prefill=Prefill(sequences=1.0, tokens=tokens, past=0.0),
            decode=Decode(sequences=0.0, context=0.0),
            logits=1.0,
            encode=None,
        )
        return _time_of(one, batch, tokens) / tokens

    pace = np.array([pace_of(*each) for each in zip(engines, priced, strict=True)])
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
    """Links between all engines."""
    pools = [
        Pool(hardware=kind.scenario.hardware, deployment=kind.scenario.deployment, efficiency=kind.scenario.efficiency)
        for kind in engines
    ]
    with eager():
        link = link_between(pools[0], pools[1], engines[0].scenario.model, traffic, routes.layerwise)
    return jax.tree.map(np.float64, link)._replace(rate=np.full(len(numbers), link.rate))


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
