"""One iteration of a service: a delivery that is due, then the engine whose instant is next.

An engine's instant is the time between two of its steps. It begins with the ends of sequences; then all that is due at
that time is delivered; then caches that have arrived join or leave; then room is made and prompts are admitted, and its
next steps begin. An iteration does the first thing of each kind, as in a simulation of one engine. Its work does not
grow with the number of engines: their rows are read and written one at a time.
"""

from collections.abc import Callable

from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.prices.prices import Price
from jaxroof.scheduler.advance import Steps, after, planned, step_time, step_work, swap_time
from jaxroof.scheduler.arriving import completed
from jaxroof.scheduler.blocks import evicted
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.iteration import decided
from jaxroof.scheduler.service.agenda import begun_by, followed
from jaxroof.scheduler.service.delivery import delivered
from jaxroof.scheduler.service.handover import DECODE, Acceptance, accepted, arrival, arrived, next_ready
from jaxroof.scheduler.service.lines import Line
from jaxroof.scheduler.service.packing import apart
from jaxroof.scheduler.service.record import Happening, Trace
from jaxroof.scheduler.service.scaling import Seen, emptied, evaluated
from jaxroof.scheduler.service.service import Own, Service, ServiceState, Shape, engine_at, scalars
from jaxroof.scheduler.service.tree import PrefixTree
from jaxroof.scheduler.state import PARKED, Clock, Slots, State, at_slot, next_end, pick, plus, total_of, whole
from jaxroof.scheduler.together import together


def happened(
    service: Service, prices: Callable[[Array], Price], shape: Shape, state: ServiceState
) -> tuple[ServiceState, Happening]:
    """The service after one iteration, and what it did.

    Args:
      prices: of an engine's number, the price of its steps.
    """
    images = service.engines.encode is not None
    nobody = jnp.int32(-1)
    like = scalars(shape.pools, images, tiers=bool(shape.tiers))

    # 0. An evaluation of the rule for replicas, if one is due before all else.
    state, replicas = _scaled(service, state)

    # 1. A delivery, if one is due before the next instant of an engine.
    come = delivered(service, shape, like, state)
    state = come.state

    # 2. The engine whose instant is next, and its steps since the last one.
    engine = jnp.where(state.current >= 0, state.current, jnp.argmin(state.until.high).astype(jnp.int32))
    until = Clock(*(part[engine] for part in state.until))
    _, due = state.agenda.first()
    allowed = jnp.isfinite(until.high) & ~(due < until.high)
    allowed = allowed if state.scaling is None else allowed & (until.high < state.scaling.last.next)
    always = state.left >= 0
    own: Own = state.own.at(engine, like, always)
    constants = engine_at(service, engine)
    of = _beside_parked(constants, own.state)
    slots, phases = apart(lambda: (_row(state.slots, engine), state.phases[engine]), always)
    one = own.state._replace(
        slots=slots,
        phases=phases,
        groups=None if state.tree is None else state.tree._replace(engine=engine),
        waiting=state.lines.of(
            engine, state.agenda.due, jnp.asarray(True) if of.single is None else service.role[engine] != DECODE
        ),
    )
    one = one if state.scaling is None else state.scaling.started(engine, one, of.blocks)
    begins = allowed & (state.current < 0)
    steps = jnp.where(begins & ~state.asleep[engine], own.taken.number, 0)
    ends = one.slots.end
    one = _begun(of, one, own, until, begins, steps, state.ends is not None)
    # A sequence ends earlier by every draft that was right.
    right = None if of.drafts is None else total_of(ends - one.slots.end)

    # 3. Ends, one at a time.
    owing = _owing(of, one)
    one = evicted(one, of)
    fresh = (one.step.prompt == 0) & ~owing & allowed
    one, ended = completed(of, one, fresh)
    stays = jnp.asarray(False) if ended.stays is None else ended.stays
    over = ended.happened & ~stays
    state = _ended(service, shape.turns, state, engine, one, ended.request, over, stays)
    one = one._replace(waiting=one.waiting._replace(due=state.agenda.due))
    _, due = state.agenda.first()
    coming, opened = due <= until.high, _settled(of, one, fresh & ~ended.more)
    begun = begins | ~state.admitting
    one = one._replace(gate=one.gate | (opened & begun & (one.running == 0) & (one.progress < 0)))

    # 4. Caches that have arrived, once all that is due at this time was delivered.
    settled, soonest, entered_here = opened & ~coming, ended.next_end, nobody
    if shape.pools:
        joined = arrived(of, one, until.high, settled & begun)
        one, entered_here = joined.state, joined.joined
        settled = _settled(of, one, settled & ~joined.more)
        of, soonest = _beside_parked(constants, one), next_end(one.slots.end)
    # Where prompts have work already, the instant goes on from there.
    settled = settled | (allowed & ~owing & (one.step.prompt > 0))

    # 5. Room and admissions, of prompts and of caches that were sent for.
    admissions = one.admissions
    decision = decided(of, one, fresh, settled, soonest)
    one, admission = decision.state, decision.admission
    runs = _settled(of, one, decision.runs)
    accepted_request, ready = nobody, jnp.zeros((), float)
    if shape.pools:
        first = (one.lost == 0) & (one.progress < 0) & (decision.preempted < 0) & (service.role[engine] == DECODE)
        line: Line = one.waiting
        taken = accepted(of, one, line, one.step.need, decision.admits & first)
        state, one, ready = _sent(service, state, taken, engine, until)
        accepted_request = jnp.where(taken.happened, taken.request, nobody)
        # Where nobody waits behind it and the next tokens have room, nothing else is done at this instant.
        short = (one.free < 0) | (one.step.need > one.free + one.idle)
        runs = runs & ~(taken.happened & (short | (taken.state.waiting.count > 0)))

    # 6. The next steps.
    first_work = jnp.maximum(admission.admitted, accepted_request)
    works = runs & ((one.step.prompt > 0) | (one.running > 0))
    plan, each = _next_steps(of, prices(engine), one, decision.next_end, works, state.ends is not None, shape)
    state = _written(state, engine, of, one, own.taken, plan, runs, works, each)
    trace = None
    if shape.traced:
        loading = jnp.zeros((), float) if one.loading is None else one.loading
        work = step_work(of, one, decision.next_end)
        trace = Trace(work, swap_time(of, one), loading, fresh, entered_here)
    asked = jnp.where(first_work >= 0, entry(of.isl, jnp.maximum(first_work, 0)), 0)
    # The next part of a prompt changes nothing that routers know.
    entered = decision.state.admissions > admissions
    changed = (state.changed & ~begins) | ended.happened | entered | decision.gave_way
    if state.tree is not None:
        state = state._replace(tree=state.tree.with_picture(engine, changed & allowed))
    if state.scaling is not None:
        sent = state.agenda.at(jnp.maximum(admission.produced, 0)).high - service.engines.delay
        tokens = state.scaling.with_tokens(engine, begins, until, admission.produced, sent, admission.produced >= 0)
        state = state._replace(scaling=tokens)
    known = state.known._replace(queued=state.known.queued.at[engine].add(-asked))
    state = state._replace(
        known=known,
        current=jnp.where(runs, nobody, jnp.where(allowed, engine, state.current)),
        opened=opened,
        admitting=settled & ~runs,
        changed=changed,
    )
    return state, Happening(
        high=one.clock.high,
        low=one.clock.low,
        came=come.time,
        ready=ready,
        pace=one.pace,
        ahead=one.ahead,
        engine=jnp.where(allowed, engine, nobody),
        began=begins,
        steps=steps,
        decoding=jnp.where(steps > 0, own.taken.members, 0),
        prompt=jnp.where(steps > 0, own.state.step.prompt, 0),
        blocks=of.blocks - jnp.maximum(one.free, 0),
        running=one.running + whole(one.progress >= 0),
        ended=jnp.where(over, ended.request, nobody),
        handed=jnp.where(stays, ended.request, nobody),
        admitted=admission.admitted,
        hit=admission.hit,
        produced=admission.produced,
        preempted=decision.preempted,
        accepted=accepted_request,
        delivered=come.request,
        to=come.engine,
        refused=come.refused,
        rejected=come.rejected,
        loaded=() if admission.loaded is None else tuple(admission.loaded),
        right=right,
        replicas=replicas,
        encoded=come.encoded,
        trace=trace,
    )


def _scaled(service: Service, state: ServiceState) -> tuple[ServiceState, Array | None]:
    """The service after an evaluation that is due, and the replicas that are on then, -1 where none is due."""
    if service.scaling is None or state.scaling is None:
        return state, None
    coming = jnp.minimum(state.agenda.first()[1], jnp.min(state.until.high))
    happens = jnp.isfinite(coming) & (state.scaling.last.next <= coming)
    seen = Seen(state.lines.count, state.known.queued, state.known.requests, state.routed[0])
    scaling = evaluated(service.scaling, state.scaling, seen, happens)
    tree = emptied(state.tree, scaling.last.fresh & happens)
    return state._replace(scaling=scaling, tree=tree), jnp.where(happens, scaling.last.number, -1)


def _beside_parked(engine: Engine, one: State) -> Engine:
    """An engine's constants, where parked sequences take of the number that may run."""
    return engine if one.parked is None else engine._replace(sequences=engine.sequences - one.parked)


def _owing(engine: Engine, one: State) -> Array:
    """Whether blocks are missing, of the engine's cache or of a tier below it."""
    tree: PrefixTree | None = one.groups
    missing = one.free < 0
    return missing if tree is None or engine.tiers is None else missing | tree.over(engine)


def _settled(engine: Engine, one: State, allowed: Array) -> Array:
    """Whether what is `allowed` may go on: tiers below the engine's cache give way first."""
    tree: PrefixTree | None = one.groups
    return allowed if tree is None or engine.tiers is None else allowed & ~tree.over(engine)


def _row(stack: Slots, engine: Array) -> Slots:
    """The slots of one engine."""
    return Slots(*(None if part is None else part[engine] for part in stack))


def _with_row(stack: Slots, engine: Array, row: Slots) -> Slots:
    """The slots of all engines with those of one."""
    pairs = zip(stack, row, strict=True)
    return Slots(*(None if part is None else part.at[engine].set(new) for part, new in pairs))


def _scalars(state: State) -> State:
    """A state without its arrays."""
    return state._replace(slots=None, groups=None, waiting=None, phases=None)  # type: ignore[arg-type]


def _begun(engine: Engine, one: State, own: Own, until: Clock, begins: Array, steps: Array, together: bool) -> State:
    """The engine at the beginning of its instant: after its steps, or after waiting."""
    made = own.taken._replace(number=jnp.maximum(own.taken.number, 1))
    if engine.drafts is None:
        later, _ = after(engine, one, made)
    else:
        # Of drafts there is more to do: only where steps were made.
        alone = one._replace(groups=None, waiting=None)
        later = jax.lax.cond(
            begins & (steps > 0), lambda state: after(engine, state, made, together)[0], lambda state: state, alone
        )
    waited = one._replace(preempted=jnp.zeros_like(one.preempted))
    now = pick(begins, pick(steps > 0, _scalars(later), _scalars(waited)), _scalars(one))
    now = now._replace(clock=pick(begins, until, one.clock))
    slots = one.slots if engine.drafts is None else pick(begins & (steps > 0), later.slots, one.slots)
    return now._replace(slots=slots, groups=one.groups, waiting=one.waiting, phases=one.phases)


def _ended(
    service: Service,
    most: int,
    state: ServiceState,
    engine: Array,
    one: State,
    request: Array,
    over: Array,
    stays: Array,
) -> ServiceState:
    """The service after a request was answered, or its prompt completed: what follows it is planned."""
    isl = entry(service.engines.isl, request)
    gone = over | stays
    known = state.known._replace(
        requests=state.known.requests.at[engine].add(-whole(gone)),
        tokens=state.known.tokens.at[engine].add(-jnp.where(gone, isl, 0)),
    )
    agenda = followed(state.agenda, service.turns, most, request, one.clock, over)
    agenda, clients = begun_by(agenda, state.clients, request, one.clock, over)
    state = state._replace(known=known, agenda=agenda, clients=clients, left=state.left - whole(over))
    if state.holder is None or state.spent is None:
        return state
    place = jnp.where(stays, request, state.holder.shape[0])
    return state._replace(
        agenda=agenda.planned(request, one.clock, stays),
        holder=state.holder.at[place].set(engine, mode="drop"),
        spent=state.spent.at[place].set(one.pace, mode="drop"),
    )


def _sent(
    service: Service, state: ServiceState, taken: Acceptance, engine: Array, until: Clock
) -> tuple[ServiceState, State, Array]:
    """The service and the decoding engine with a cache on its way, and the time in s at which it arrives."""
    one, request, happens = taken.state, taken.request, taken.happened
    holder, spent, busy = given(state.holder, "holders"), given(state.spent, "times"), given(state.busy, "links")
    sender = jnp.maximum(entry(holder, request), 0)
    start = jnp.maximum(until.high, jnp.maximum(busy[sender], busy[engine]))
    isl = entry(service.engines.isl, request)
    ready = arrival(given(service.transfer, "links"), isl, start, sender, engine, entry(spent, request))
    here = at_slot(one.slots, taken.slot, happens)
    one = one._replace(
        slots=one.slots._replace(ready=jnp.where(here, ready, given(one.slots.ready, "times of arrival")))
    )
    # The engine that computed the prompt keeps its blocks until then.
    row = _row(state.slots, sender)
    there = (row.end == PARKED) & (row.request == request) & happens
    ends = jnp.where(there, ready, given(row.ready, "times of arrival"))
    wakes = happens & state.asleep[sender] & (ready < state.until.high[sender])
    now = Clock(*(part[sender] for part in state.until))
    woken = pick(wakes, Clock(ready, jnp.zeros_like(ready)), now)
    taking = jnp.where(happens, ready, busy[engine])
    state = state._replace(
        slots=state.slots._replace(ready=given(state.slots.ready, "times of arrival").at[sender].set(ends)),
        until=Clock(*(part.at[sender].set(new) for part, new in zip(state.until, woken, strict=True))),
        busy=busy.at[engine].set(taking).at[sender].set(jnp.where(happens, ready, busy[sender])),
    )
    return state, one, ready


def _next_steps(
    engine: Engine, price: Price, one: State, next_end: Array, works: Array, several: bool, shape: Shape
) -> tuple[Steps, Clock | None]:
    """The engine's next steps, if it `works`; where there are `several` with drafts, the times at which each ends."""
    # Decode steps end when a cache arrives; one that is there already joins after the next step.
    ready = next_ready(one) if shape.pools else jnp.asarray(jnp.inf)
    wait = ready - one.clock.high if shape.pools else None
    matters = None if wait is None else jnp.isfinite(wait)

    def steps() -> tuple[Steps, Clock | None]:
        plan = planned(engine, price, one, next_end, wait, matters)
        return together(engine, price, one, plan, works, ready, shape.together) if several else (plan, None)

    # A branch: most of an instant's iterations begin no steps.
    return jax.lax.cond(works, steps, lambda: jax.tree.map(jnp.zeros_like, jax.eval_shape(steps)))


def _written(
    state: ServiceState,
    engine: Array,
    of: Engine,
    one: State,
    before_it: Steps,
    plan: Steps,
    runs: Array,
    works: Array,
    each: Clock | None,
) -> ServiceState:
    """The service with what an engine has become, and its next instant once it `runs`: it `works` or waits.

    Args:
      each: times at which its steps end; None: the plan says it.
    """
    if each is None or state.ends is None:
        ends = plus(one.clock, step_time(of, one, plan.duration))
    else:
        ends = Clock(*(part[jnp.maximum(plan.number - 1, 0)] for part in each))
        pairs = zip(state.ends, each, strict=True)
        rows = (part.at[engine].set(jnp.where(runs, new, part[engine])) for part, new in pairs)
        state = state._replace(ends=Clock(*rows))
    wakes = jnp.asarray(jnp.inf) if one.slots.ready is None else next_ready(one)
    waits = Clock(wakes, jnp.zeros_like(wakes))
    before = Clock(*(part[engine] for part in state.until))
    until = pick(runs, pick(works, ends, waits), before)
    line: Line = one.waiting
    tree: PrefixTree | None = one.groups
    taken = pick(runs, plan._replace(number=jnp.where(works, plan.number, 0)), before_it)
    return state._replace(
        own=state.own.with_row(engine, Own(_scalars(one), taken)),
        slots=_with_row(state.slots, engine, one.slots),
        phases=state.phases.at[engine].set(one.phases),
        until=Clock(*(part.at[engine].set(new) for part, new in zip(state.until, until, strict=True))),
        asleep=state.asleep.at[engine].set(jnp.where(runs, ~works, state.asleep[engine])),
        lines=line.put_back(),
        tree=None if tree is None else tree._replace(engine=jnp.int32(0)),
    )
