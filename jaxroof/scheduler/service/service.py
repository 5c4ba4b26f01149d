"""Service of several engines: what does not change while it is simulated, and its state between two iterations."""

import dataclasses
from typing import Any, NamedTuple

from jaxroof.batch import Policy, Traffic
from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.numerics.tree import mapped
from jaxroof.scheduler.advance import MANY, Steps
from jaxroof.scheduler.engine import Drafts, Engine, rules, whole
from jaxroof.scheduler.service.agenda import Agenda, Clients, Turns, agenda
from jaxroof.scheduler.service.encoding import Encoders, Encoding, begun_encoding
from jaxroof.scheduler.service.handover import DECODE, PREFILL, Transfer
from jaxroof.scheduler.service.lines import Lines, empty_lines
from jaxroof.scheduler.service.packing import Rows, rows
from jaxroof.scheduler.service.scaling import Scaling, ScalingRule, begun_scaling, scaling_rule
from jaxroof.scheduler.service.tiers import TierRules
from jaxroof.scheduler.service.tree import PrefixTree, empty_tree
from jaxroof.scheduler.state import NEVER, Clock, Slots, State, resting


@dataclasses.dataclass(frozen=True)
class Shape:
    """Fixed shapes of a service: structure, one compiled program each."""

    engines: int
    slots: int  # sequences that are in one engine at once
    iterations: int
    block: int = 16  # the largest block size, in tokens
    nodes: int = 0  # of the prefix tree; 0: no prefix cache
    turns: int = 0  # requests that wait for the same answer at most; 0: none waits
    pools: bool = False  # whether prompts and what follows them have engines of their own
    tiers: int = 0  # below the engines' caches; with nodes alone
    traced: bool = False  # whether the record has what every step is priced for
    together: int = (
        1  # decode steps with drafts that one iteration makes at most; several: without derivatives, and not `traced`
    )


class Routing(NamedTuple):
    """Numbers that routers go by."""

    weight: Array  # speed of every engine relative to the others, shape [engines]
    pace: Array  # s per prompt token of every engine, shape [engines]
    seed: Array  # int32
    prefix: Array  # weight of a prompt's share in the cache
    load: Array  # weight of an engine's load
    router: Array  # of requests, a position in `ROUTERS`
    decode_router: Array  # of prompts that go on elsewhere


class Service(NamedTuple):
    """What does not change. Fields of `engines` are of shape () where all engines have the same, else [engines]."""

    engines: Engine
    role: Array  # of every engine, a position in `ROLES`, shape [engines]
    routing: Routing
    transfer: Transfer | None
    turns: Turns | None
    scaling: ScalingRule | None = None  # None: all engines take requests all the time
    admission: Array | None = None  # s of expected TTFT above which a request is rejected, shape [requests]
    encoders: Encoders | None = None  # None: there are no workers that encode alone


class Known(NamedTuple):
    """What routers know of the engines, int32, shape [engines]."""

    requests: Array  # sent to it and not answered or handed over
    tokens: Array  # of their prompts
    queued: Array  # prompt tokens of those that have not been admitted


class Own(NamedTuple):
    """Scalars of one engine: those of its state, and the steps that it is making."""

    state: State  # without arrays
    taken: Steps  # of `number` 0: it waits


class ServiceState(NamedTuple):
    """All that the next iteration depends on."""

    own: Rows  # `Own` of every engine
    slots: Slots  # shape [engines, slots]
    phases: Array  # shape [engines, block + 1]
    until: Clock  # when each engine's next instant is, infinite: when something comes, shape [engines]
    asleep: Array  # bool: it makes no steps, shape [engines]
    ends: Clock | None  # of the steps that an engine makes, shape [engines, steps]; None: `taken` says when they end
    lines: Lines
    known: Known
    tree: PrefixTree | None
    agenda: Agenda
    clients: Clients | None
    holder: Array | None  # engine that holds the cache of a completed prompt, -1: none, shape [requests]
    spent: Array | None  # s of the step that completed a prompt, shape [requests]
    busy: Array | None  # s until which the links of every engine are taken, shape [engines]
    routed: Array  # requests that each router has sent, shape [2]
    current: Array  # engine whose instant is not over; -1: none
    opened: Array  # bool: all that ends at that instant has
    admitting: Array  # bool: and all that comes or joins at it
    changed: Array  # bool: the set of its sequences has changed at that instant
    left: Array  # requests that may still be answered
    scaling: Scaling | None = None
    encoding: Encoding | None = None


class ServiceRun(NamedTuple):
    """A simulation of a service that can go on."""

    service: Service
    state: ServiceState


def begin(
    traffic: Traffic,
    policies: Policy,
    blocks: Array,
    shape: Shape,
    *,
    role: Array | None = None,
    queue: Array | None = None,
    routing: Routing | None = None,
    transfer: Transfer | None = None,
    delay: Scalar = 0.0,
    longest: Scalar = MANY,
    tiers: TierRules | None = None,
    drafts: Drafts | None = None,
    scaling: ScalingRule | None = None,
    admission: Array | None = None,
    encoders: Encoders | None = None,
) -> ServiceRun:
    """A simulation of a service before its first iteration.

    Args:
      traffic: requests; `path` and `starts`, or `group`, where `shape` has nodes; `after` and `pause` where it has
        turns.
      policies: of all engines, leaves of shape () or [engines].
      blocks: of KV cache of every engine, shape [engines].
      role: of every engine; None: all serve requests to their end.
      queue: of every engine, a position in `QUEUES`; None: all are "fcfs".
      routing: None: all engines are equally fast.
      transfer: None: without pools.
      delay: s between the sending of a request and its delivery.
      longest: decode steps that an iteration may take together.
      tiers: numbers of `shape.tiers` tiers below the cache, shapes [engines, tiers] and [engines].
      drafts: of every engine, leaves with a leading axis for them; None: nothing is drafted.
      scaling: rule by which engines take requests, without pools; None: all do all the time.
      admission: s of expected TTFT above which a request is rejected, shape [requests]; None: none is.
      encoders: workers that encode alone, without scaling; None: images are encoded where the prompt is computed.
    """
    role = jnp.zeros(shape.engines, jnp.int32) if role is None else jnp.asarray(role, jnp.int32)
    even = jnp.ones(shape.engines)
    first = jnp.int32(0)
    routing = Routing(even, 0.0 * even, first, jnp.ones(()), jnp.ones(()), first, first) if routing is None else routing
    routing, transfer, encoders = jax.tree.map(jnp.asarray, (routing, transfer, encoders))
    isl, osl = whole(traffic.isl), whole(traffic.osl)
    requests = isl.shape[0]
    delayed = jnp.asarray(delay, float)
    engines = _engines(traffic, policies, whole(blocks), shape, role, delayed, longest, (isl, osl), drafts)
    if tiers is not None:
        engines = engines._replace(tiers=_tier_rules(tiers))
    turns = None if not shape.turns else _turns(traffic, delayed)
    due, clients = _first(traffic, osl, delayed)
    scaling = None if scaling is None else scaling_rule(scaling)

    no = jnp.asarray(False)
    empty = jnp.zeros((shape.engines, shape.slots), jnp.int32)
    each = jnp.zeros(shape.engines, jnp.int32)
    ends = jnp.full(shape.engines, jnp.inf)
    later = jnp.zeros((shape.engines, shape.together), float)
    own = rows(scalars(shape.pools, traffic.encode is not None, engines.blocks, bool(shape.tiers)), shape.engines)
    ranks = None if queue is None else _ranks(traffic, isl)
    kind = None if queue is None else jnp.broadcast_to(jnp.asarray(queue, jnp.int32), (shape.engines,))
    state = ServiceState(
        own=own,
        slots=Slots(
            empty + NEVER,
            empty,
            empty,
            empty if shape.nodes else None,
            jnp.full((shape.engines, shape.slots), jnp.inf) if shape.pools else None,
            None if drafts is None else empty,
            None if drafts is None else empty > 0,
        ),
        phases=jnp.zeros((shape.engines, shape.block + 1 if drafts is None else 0), jnp.int32),
        until=Clock(ends, jnp.zeros(shape.engines)),
        asleep=jnp.ones(shape.engines, bool),
        # A look-up finds something or not in every step, which takes a time of its own.
        ends=None if drafts is None or drafts.match is not None or shape.together < 2 else Clock(later, later),
        lines=empty_lines(shape.engines, requests, ranks, kind),
        known=Known(each, each, each),
        tree=empty_tree(shape.nodes, shape.engines, shape.tiers) if shape.nodes else None,
        agenda=agenda(due),
        clients=clients,
        holder=jnp.full(requests, -1, jnp.int32) if shape.pools else None,
        spent=jnp.zeros(requests, float) if shape.pools else None,
        busy=jnp.zeros(shape.engines, float) if shape.pools else None,
        routed=jnp.zeros(2, jnp.int32),
        current=jnp.int32(-1),
        opened=no,
        admitting=no,
        changed=no,
        left=jnp.sum(osl > 0, dtype=jnp.int32),
        scaling=None if scaling is None else begun_scaling(scaling, shape.engines, requests),
        encoding=None if encoders is None else begun_encoding(encoders, requests),
    )
    limit = None if admission is None else jnp.asarray(admission, float)
    return ServiceRun(Service(engines, role, routing, transfer, turns, scaling, limit, encoders), state)


def _ranks(traffic: Traffic, isl: Array) -> Array:
    """Of every request its rank in queues of each kind in `QUEUES`, shape [queues, requests]."""
    priority = jnp.zeros_like(isl) if traffic.priority is None else whole(traffic.priority)
    return jnp.stack([jnp.zeros_like(isl), isl, priority])


def scalars(pools: bool, images: bool, free: Array | None = None, tiers: bool = False) -> Own:
    """The scalars of an engine that has nothing to do.

    Args:
      free: blocks, shape () or [engines]; None: none.
    """
    zero, no, number = jnp.int32(0), jnp.asarray(False), jnp.zeros((), float)
    state = resting(zero if free is None else free, images)._replace(
        event=jnp.int32(1),  # 0: a node of the prefix tree that was never used
        parked=zero if pools else None,
        loading=number if tiers else None,
    )
    return Own(state, Steps(no, no, zero, zero, number, number))


def engine_at(service: Service, engine: Array) -> Engine:
    """The constants of one engine."""
    engines = service.engines
    found = {name: _one(getattr(engines, name), engine) for name in SCALARS}
    if engines.tiers is not None:
        found["tiers"] = mapped(lambda values: values[engine], engines.tiers)
    found["drafts"] = mapped(lambda values: values[engine], engines.drafts)
    return engines._replace(**found)


SCALARS = (
    *("mixed", "gated", "static", "budget", "sequences", "chunked", "size", "blocks", "spare", "reserve", "swap"),
    *("swap_time", "caching", "most_waiting", "graph_step", "graph_limit", "longest", "single"),
)
"""Fields of an `Engine` that differ between engines."""


def _one(values: Any, engine: Array) -> Any:
    return values if values is None or values.ndim == 0 else values[engine]


def _engines(
    traffic: Traffic,
    policies: Policy,
    blocks: Array,
    shape: Shape,
    role: Array,
    delay: Array,
    longest: Scalar,
    lengths: tuple[Array, Array],
    drafts: Drafts | None,
) -> Engine:
    isl, osl = lengths
    fields = rules(policies, blocks, longest)
    if shape.pools:
        # What is found in a cache is of use where prompts are computed.
        fields["caching"] = fields["caching"] & (role != DECODE)
        most = whole(policies.decode_sequences)
        fields["sequences"] = jnp.where(role == DECODE, jnp.minimum(fields["sequences"], most), fields["sequences"])
    path, starts = traffic.path, traffic.starts
    if shape.nodes and path is None:
        path = jnp.asarray(traffic.group)[:, None]
        starts = jnp.zeros_like(path)
    some = bool(shape.nodes)
    return Engine(
        **fields,
        requests=jnp.int32(isl.shape[0]),
        clients=jnp.int32(isl.shape[0]),
        think=jnp.asarray(traffic.think, float),
        delay=delay,
        isl=isl,
        osl=osl,
        group=None,
        shared=whole(traffic.shared) if some else None,
        keep=whole(traffic.keep) if some else None,
        encode=mapped(lambda number: jnp.asarray(number, dtype=float), traffic.encode),
        single=role == PREFILL if shape.pools else None,
        path=jnp.asarray(path, jnp.int32) if some else None,
        starts=whole(starts) // whole(jnp.max(jnp.asarray(policies.block_size))) if some else None,
        drafts=drafts,
    )


def _tier_rules(tiers: TierRules) -> TierRules:
    """Numbers of tiers in the types of the simulator."""
    shared = jnp.asarray(tiers.shared) > 0.5
    capacity = whole(tiers.capacity)
    return TierRules(
        capacity=jnp.where(shared, capacity[:1], capacity),
        bandwidth=jnp.asarray(tiers.bandwidth, float),
        latency=jnp.asarray(tiers.latency, float),
        through=jnp.asarray(tiers.through) > 0.5,
        shared=shared,
        eviction=jnp.asarray(tiers.eviction, jnp.int32),
        overlap=jnp.asarray(tiers.overlap, float),
        known=jnp.asarray(tiers.known) > 0.5,
    )


def _turns(traffic: Traffic, delay: Array) -> Turns:
    """Followers of every request as lists: its first one, and of each the next one that waits for the same answer."""
    after = jnp.asarray(traffic.after, jnp.int32)
    requests = after.shape[0]
    places = jnp.arange(requests, dtype=jnp.int32)
    # Sorted by what they wait for: those of one answer stand side by side, in their order.
    order = jnp.argsort(jnp.where(after >= 0, after, requests), stable=True).astype(jnp.int32)
    waited = after[order]
    same = jnp.concatenate([waited[1:] == waited[:-1], jnp.zeros(1, bool)]) & (waited >= 0)
    behind = jnp.where(same, jnp.roll(order, -1), -1)
    sibling = jnp.zeros(requests, jnp.int32).at[order].set(behind)
    first = jnp.full(requests, requests, jnp.int32).at[jnp.where(after >= 0, after, requests)].min(places, mode="drop")
    return Turns(jnp.where(first < requests, first, -1), sibling, jnp.asarray(traffic.pause, float) + delay)


def _first(traffic: Traffic, osl: Array, delay: Array) -> tuple[Array, Clients | None]:
    """Times at which requests are delivered as far as they are known, and the clients of a closed loop."""
    requests = osl.shape[0]
    roots = jnp.ones(requests, bool) if traffic.after is None else jnp.asarray(traffic.after) < 0
    known = roots & (osl > 0)
    sent = jnp.asarray(traffic.arrival, float) + delay
    if traffic.clients is None:
        return jnp.where(known, sent, jnp.inf), None
    opens = known if traffic.opens is None else known & (jnp.asarray(traffic.opens) > 0.5)
    conversations = jnp.sum(opens, dtype=jnp.int32)
    order = jnp.argsort(~opens, stable=True).astype(jnp.int32)
    closes = known if traffic.closes is None else jnp.asarray(traffic.closes) > 0.5
    number = jnp.cumsum(opens.astype(jnp.int32)) - 1
    begun = jnp.minimum(whole(traffic.clients), conversations)
    due = jnp.where(opens & (number < begun), sent, jnp.inf)
    return due, Clients(order, closes, conversations, begun, jnp.asarray(traffic.think, float) + delay)
