"""Delivery of a request: a router picks its engine, whose queue it joins or which refuses it.

Between two instants of engines one delivery is made at a time. An engine that decodes alone goes on until the end of
the step in which the request comes, if it can be admitted then; one that waits begins at once.
"""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.advance import joins, steps_until, swap_time
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.service.agenda import begun_by, followed
from jaxroof.scheduler.service.encoding import encoded
from jaxroof.scheduler.service.handover import DECODE
from jaxroof.scheduler.service.routing import View, chosen, late
from jaxroof.scheduler.service.service import Known, Own, Service, ServiceState, Shape, engine_at
from jaxroof.scheduler.state import Clock, blocks_of, pick, plus, since, whole
from jaxroof.scheduler.together import begun_before


class Delivered(NamedTuple):
    """The service after one delivery; ids are -1 where there was none."""

    state: ServiceState
    request: Array
    time: Array  # s
    engine: Array
    refused: Array  # bool: it is too long
    rejected: Array  # bool: the queue is full, or its first token would come too late
    encoded: Array | None = None  # request that came to a worker which encodes alone; None: there are none


def delivered(service: Service, shape: Shape, like: Own, state: ServiceState) -> Delivered:
    """The service after the first delivery that is due, if one is; its work is done then alone."""
    nobody, no = jnp.int32(-1), jnp.asarray(False)
    return jax.lax.cond(
        _is_due(state),
        lambda state: _delivered(service, shape, like, state),
        lambda state: Delivered(
            state, nobody, jnp.zeros((), float), nobody, no, no, None if service.encoders is None else nobody
        ),
        state,
    )


def _is_due(state: ServiceState) -> Array:
    """Whether a delivery comes before the next instant of an engine."""
    _, time = state.agenda.first()
    current = jnp.maximum(state.current, 0)
    within = state.current >= 0
    instant = jnp.where(within, state.until.high[current], jnp.min(state.until.high))
    # At the time of an instant its ends come first.
    due = jnp.isfinite(time) & ((time < instant) | ((time <= instant) & within & state.opened))
    return due if state.scaling is None else due & (time < state.scaling.last.next)


def _delivered(service: Service, shape: Shape, like: Own, state: ServiceState) -> Delivered:
    """The service after the first delivery, which is due."""
    request, _ = state.agenda.first()
    clock = state.agenda.at(request)
    handed = None if state.holder is None else entry(state.holder, request) >= 0

    # 1. The engine.
    engines = service.engines
    isl, osl = entry(engines.isl, request), entry(engines.osl, request)
    total = isl + osl
    view = _view(service, state, request, handed)
    engine = chosen(service.routing.router, view)
    if handed is not None:
        fits = blocks_of(total, engines.size) <= engines.blocks
        later = view._replace(
            eligible=(service.role == DECODE) & fits, hit=jnp.zeros_like(view.hit), routed=state.routed[1]
        )
        engine = jnp.where(handed, chosen(service.routing.decode_router, later), engine)

    # 2. Whether it takes the request.
    of = engine_at(service, engine)
    own: Own = state.own.at(engine, like, state.left >= 0)
    needed = total if of.single is None else jnp.where(of.single, isl + 1, total)
    refused = blocks_of(needed, of.size) > of.blocks
    if handed is not None:
        anywhere = jnp.any((service.role == DECODE) & (blocks_of(total, engines.size) <= engines.blocks))
        refused = (refused | (of.single & (osl > 1) & ~anywhere)) & ~handed
    full = state.lines.count[engine].astype(float) >= of.most_waiting
    full = full if service.admission is None else full | late(view, engine, entry(service.admission, request))
    full = full if handed is None else full & ~handed
    rejected = ~refused & full
    # A request that comes for the first time goes to a worker that encodes, where there are some.
    agenda, encoding, encodes = state.agenda.done(request), state.encoding, jnp.asarray(False)
    if service.encoders is not None and encoding is not None:
        encoding, encodes, then = encoded(service.encoders, encoding, request, clock)
        agenda = agenda.planned(request, then, encodes)
        refused, rejected = refused & ~encodes, rejected & ~encodes
    takes = ~refused & ~rejected & ~encodes

    # 3. Its queue, and what routers know.
    number = state.routed[0] + state.routed[1]
    lines = state.lines.joined(request, engine, number, takes)
    known = Known(
        state.known.requests.at[engine].add(whole(takes)),
        state.known.tokens.at[engine].add(jnp.where(takes, isl, 0)),
        state.known.queued.at[engine].add(jnp.where(takes, isl, 0)),
    )
    kind = jnp.int32(0) if handed is None else whole(handed)
    answered = refused | rejected
    agenda = followed(agenda, service.turns, shape.turns, request, clock, answered)
    agenda, clients = begun_by(agenda, state.clients, request, clock, answered)
    state = state._replace(
        lines=lines,
        known=known,
        agenda=agenda,
        clients=clients,
        routed=state.routed.at[kind].add(whole(~encodes)),
        left=state.left - whole(answered),
        encoding=encoding,
    )

    # 4. When the engine meets it.
    state = _met(state, engine, own, of, clock, takes)
    # Where many services are simulated, this is computed also where none is due: times stay finite.
    came = jnp.where(jnp.isfinite(clock.high), clock.high + clock.low, 0.0)
    if service.encoders is None:
        return Delivered(state, request, came, engine, refused, rejected)
    to, first = jnp.where(encodes, -1, request), jnp.where(encodes, request, -1)
    return Delivered(state, to, came, jnp.where(encodes, -1, engine), refused, rejected, first)


def _met(state: ServiceState, engine: Array, own: Own, of: Engine, clock: Clock, takes: Array) -> ServiceState:
    """The service in which an engine meets a request that has come: after the step under way, or at once."""
    asleep, taken, one = state.asleep[engine], own.taken, own.state
    until = Clock(*(part[engine] for part in state.until))
    # Asleep: woken by it, unless it wakes earlier.
    wakes = takes & asleep & (engine != state.current) & (clock.high < until.high)
    # Decoding alone: steps that have not begun then are planned again, if it could be admitted before them.
    wait = since(clock, one.clock)
    cuts = takes & ~asleep & taken.decodes & joins(of, one, wait, in_order=state.lines.place is None)
    swap = swap_time(of, one)
    fewer = steps_until(taken.first, taken.slope, jnp.where(cuts, wait - swap, 0.0), cuts)
    if state.ends is not None:
        fewer = jnp.where(cuts, begun_before(_row(state.ends, engine), taken.number, clock.high), taken.number)
    shorter = taken._replace(number=jnp.minimum(taken.number, fewer))
    ends = plus(one.clock, shorter.duration + swap)
    if state.ends is not None:
        ends = Clock(*(part[engine, jnp.maximum(shorter.number - 1, 0)] for part in state.ends))
    until = pick(cuts & (fewer < taken.number), ends, pick(wakes, clock, until))
    return state._replace(
        own=state.own.with_row(engine, own._replace(taken=shorter)),
        until=Clock(*(part.at[engine].set(new) for part, new in zip(state.until, until, strict=True))),
    )


def _row(ends: Clock, engine: Array) -> Clock:
    return Clock(*(part[engine] for part in ends))


def _view(service: Service, state: ServiceState, request: Array, handed: Array | None) -> View:
    """What the router of arrivals sees."""
    engines, known, routing = service.engines, state.known, service.routing
    isl = entry(engines.isl, request)
    some = service.role != DECODE
    some = some if state.scaling is None else some & state.scaling.takes(state.agenda.at(request).high)
    hit, group = jnp.zeros_like(known.requests), jnp.int32(-1)
    if state.tree is not None:
        path = state.tree.path_of(engines._replace(caching=jnp.asarray(True)), request)
        cached = jnp.minimum(state.tree.known(path, engines.tiers), entry(engines.shared, request) // engines.size)
        blocks = jnp.minimum(cached, (isl - 1) // engines.size)
        hit = jnp.where(engines.caching, blocks * engines.size, 0)
        group = _last(path.nodes)
    return View(
        eligible=some,
        requests=known.requests,
        tokens=known.tokens,
        queued=known.queued,
        hit=hit,
        weight=routing.weight,
        pace=routing.pace,
        isl=isl,
        request=request,
        group=group,
        routed=state.routed[0],
        seed=routing.seed,
        prefix_weight=routing.prefix,
        load_weight=routing.load,
    )


def _last(nodes: Array) -> Array:
    """The last node of a path; -1: none."""
    count = jnp.sum(nodes >= 0, dtype=jnp.int32)
    return jnp.where(count > 0, nodes[jnp.maximum(count - 1, 0)], -1)
