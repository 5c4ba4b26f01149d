"""Simulation of a serving engine: `lax.scan` over iterations of fixed shape, then every request's times."""

import dataclasses
from typing import NamedTuple

from jaxroof.batch import STATUSES, Batch, Decode, Policy, Prefill, Served, Timeline, Traffic, waiting_steps
from jaxroof.deployment import Deployment, request_groups
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_capacity_tokens
from jaxroof.model import Model
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.prices.prices import Price, step_prices
from jaxroof.prices.tables import Limits
from jaxroof.scheduler.engine import Engine, engine
from jaxroof.scheduler.iteration import iterated
from jaxroof.scheduler.state import (
    FLOATS,
    NEVER,
    Clock,
    PrefixGroups,
    Record,
    Slots,
    State,
    Step,
    Waiting,
    since,
    total_of,
    whole,
)

ROUNDS = 12
"""Rounds of the fixed point of an open loop's batch, which begins at one sequence and only rises."""


def front_delay(price: Price | None, traffic: Traffic, policy: Policy, blocks: Scalar, request_time: Scalar) -> Scalar:
    """s between a request and its place in the queue, and between its answer and its client, shape ().

    delay = request_time + front_time + (wait_steps + ahead_steps + (poll_steps - 1) / 2) t

    t is the time of a decode step at the batch that usually runs. Of a closed loop that is every client. Of an open
    one it is n = rate * osl * t(n), by Little's law. Neither is more than the policy's sequences or those that the
    cache has room for. A request comes at any time between two looks for new ones, hence the half.

    Args:
      price: of a step without prompts; None where no steps are waited for.
      blocks: of the KV cache of all attention groups.
      request_time: s of the host per request.
    """
    delay = request_time + policy.front_time
    if price is None:
        return delay
    there = (traffic.osl > 0.0).astype(float)
    count = jnp.maximum(jnp.sum(there), 1.0)
    isl, osl = jnp.sum(traffic.isl * there) / count, jnp.sum(traffic.osl * there) / count
    # Sequences that fit the cache at their full length: a bound on the batch.
    room = blocks * policy.block_size / (isl + osl)
    most = jnp.maximum(jnp.minimum(jnp.minimum(policy.max_sequences, room), count), 1.0)

    def step(sequences: Scalar) -> Array:
        batch = Batch(
            prefill=Prefill(sequences=0.0, tokens=0.0, past=0.0),
            # Mean context half-way through the output.
            decode=Decode(sequences=sequences, context=sequences * (isl + 0.5 * osl)),
            logits=sequences,
        )
        return sum(price(batch, sequences))

    # Closed loop: every client has a request under way.
    if traffic.clients is not None:
        sequences = jnp.minimum(jnp.asarray(traffic.clients, float), most)
    else:
        arrival = jnp.where(there > 0.0, traffic.arrival, 0.0)
        span = jnp.max(arrival) - jnp.min(jnp.where(there > 0.0, traffic.arrival, jnp.max(arrival)))
        some = span > 0.0
        # Observed arrival rate: n - 1 intervals in the span.
        rate = (count - 1.0) / jnp.where(some, span, 1.0)

        def nearer(_: int, sequences: Array) -> Array:
            # Little's law L = lambda W with W = osl t(L): a fixed point, as t depends on L.
            return jnp.clip(jnp.where(some, rate * osl * step(sequences), most), 1.0, most)

        # From one sequence upwards the iteration is monotone and stays at the lowest solution.
        sequences = jax.lax.fori_loop(0, ROUNDS, nearer, jnp.ones_like(most))
    return delay + waiting_steps(policy) * step(sequences)


def with_first_time(served: Served, traffic: Traffic, policy: Policy) -> Served:
    """Outcomes as the clients of a closed loop see them: their first requests were sent `first_time` earlier.

    The engine builds and loads its kernels in that time, and begins at 0 s.
    """
    if traffic.clients is None:
        return served
    first = jnp.arange(served.arrival.shape[-1]).astype(float) < traffic.clients
    return dataclasses.replace(served, arrival=served.arrival - jnp.where(first, policy.first_time, 0.0))


LONGEST = 2.0**30
"""Decode steps that one iteration may take together: no limit."""


@dataclasses.dataclass(frozen=True)
class Size:
    """Fixed shapes of a simulation: structure, one compiled program each."""

    slots: int  # sequences that are admitted at once, at least the policy's `max_sequences`
    iterations: int  # two to three per request; what is left when they end is reported
    block: int = 16  # the largest block size, in tokens
    rows: int = 8192  # tokens of the largest step
    context: int = 2**17  # tokens of the longest sequence
    groups: int = 0  # of requests that begin alike; 0: no prefix cache
    ranked: bool = False  # whether requests may be turned away, or the shortest goes first


class Run(NamedTuple):
    """A simulation that can go on."""

    engine: Engine
    state: State
    order: Array


def begin(
    traffic: Traffic, policy: Policy, blocks: Scalar, size: Size, delay: Scalar = 0.0, longest: Scalar = LONGEST
) -> Run:
    """A simulation before its first iteration.

    Args:
      blocks: of KV cache, all attention groups together.
      delay: s between a request and its place in the queue.
      longest: decode steps that an iteration may take together; 1: each on its own.
    """
    constants, arrival, order = engine(traffic, policy, jnp.asarray(blocks), jnp.asarray(delay), jnp.asarray(longest))
    zero, no = jnp.int32(0), jnp.asarray(False)
    empty = jnp.zeros(size.slots, dtype=jnp.int32)
    requests = constants.isl.shape[0]
    some = jnp.zeros(size.groups, dtype=jnp.int32)
    number = jnp.zeros((), dtype=float)
    state = State(
        clock=Clock(number, number),
        count=zero,
        slots=Slots(empty + NEVER, empty, empty, empty if size.groups else None),
        groups=PrefixGroups(some, some, some) if size.groups else None,
        waiting=Waiting(zero, jnp.zeros(requests, dtype=bool) if size.ranked else None, arrival, zero),
        step=Step(zero, number, number, zero, zero, zero, None if traffic.encode is None else zero),
        running=zero,
        offset=zero,
        free=constants.blocks,
        idle=zero,
        phases=jnp.zeros(size.block + 1, dtype=jnp.int32),
        progress=jnp.int32(-1),
        partial=zero,
        foremost=jnp.int32(-1),
        lost=zero,
        admissions=jnp.int32(1),
        event=zero,
        moved=zero,
        preempted=no,
        gate=no,
        pace=number,
        ahead=number,
        padding=zero,
        padded=zero,
    )
    return Run(constants, state, order)


def proceed(price: Price, run: Run, traffic: Traffic, policy: Policy, size: Size) -> tuple[Run, Record]:
    """The simulation after `size.iterations` more, and the record of each of them, shapes [iterations]."""
    closed, shortest = traffic.clients is not None, policy.queue == "shortest_first"

    def one(state: State, _: None) -> tuple[State, tuple[Array, Array]]:
        state, record = iterated(run.engine, price, closed, shortest, state)
        # Floats and whole numbers are stacked apart: two arrays per iteration instead of sixteen, which scan copies
        # faster.
        return state, (jnp.stack(record[:FLOATS]), jnp.stack(record[FLOATS:]))

    state, (times, counts) = jax.lax.scan(one, run.state, None, length=size.iterations)
    columns = [array[:, column] for array in (times, counts) for column in range(array.shape[1])]
    return run._replace(state=state), Record(*columns)


def remaining(run: Run) -> Array:
    """Number of requests that have no answer yet and may get one, shape ()."""
    state = run.state
    waiting = run.engine.requests - state.waiting.next
    if state.waiting.waits is not None:
        waiting = waiting + total_of(state.waiting.waits)
    return waiting + state.running + state.lost + whole(state.progress >= 0)


class Events(NamedTuple):
    """Iterations at which things happened to every request, shape [requests], int32; `iterations` where they never did.

    `complete` is -1 in place of that.
    """

    admitted: Array  # for the first time
    produced: Array  # its first token
    complete: Array  # its prompt, after the last preemption: from here its decode steps run to the end
    over: Array  # its last token
    preemptions: Array  # a count
    rejected: Array  # bool
    cached: Array  # tokens of its prompt that were in the prefix cache


def served(run: Run, records: Record) -> tuple[Served, Timeline]:
    """Every request's outcome, in the order that requests were given in, and the engine's timeline."""
    iterations = records.steps.shape[0]
    step = _step_of(records)
    events = _events(records, run.engine.isl.shape[0], step)

    # What happens in an iteration without a step is part of the next step: it begins with it, and is over at its end.
    zero = Clock(jnp.zeros(()), jnp.zeros(()))
    end = Clock(records.high, records.low)
    # An iteration begins where the one before ends.
    start = Clock(*(jnp.concatenate([jnp.zeros(1, each.dtype), each[:-1]]) for each in end))

    def time(clock: Clock, index: Array) -> Array:
        inside = jnp.minimum(index, iterations - 1)
        return jnp.where(index < iterations, since(Clock(clock.high[inside], clock.low[inside]), zero), jnp.nan)

    arrival = since(run.state.waiting.arrival, zero) - run.engine.delay
    outcomes = Served(
        arrival=jnp.where(jnp.isfinite(arrival), arrival, jnp.nan),
        admitted=time(start, events.admitted),
        first_token=time(end, _at(step, events.produced, iterations)),
        finish=time(end, events.over) - _gained(records, events),
        status=_status(run.engine, events, iterations).astype(jnp.int8),
        preemptions=events.preemptions,
        cached=events.cached,
    )
    joined = jnp.zeros(iterations, jnp.int32).at[step].add((records.produced >= 0).astype(jnp.int32), mode="drop")
    timeline = Timeline(
        end=since(end, zero),
        duration=records.duration,
        steps=records.steps,
        decoding=records.decoding,
        prompt_tokens=records.prompt,
        blocks=records.blocks,
        joined=joined,
        running=records.running,
    )
    # Requests were sorted (refused last): back into the order that they came in.
    given = jnp.argsort(run.order)
    return jax.tree.map(lambda values: values[given], outcomes), timeline


def _step_of(records: Record) -> Array:
    """For every iteration the one that runs the engine step which it is part of, shape [iterations]."""
    iterations = records.steps.shape[0]
    steps = jnp.where(records.steps > 0, jnp.arange(iterations, dtype=jnp.int32), iterations)
    # Reverse cumulative minimum: the next iteration that runs a step.
    return jax.lax.cummin(steps, reverse=True)


def _events(records: Record, requests: int, step: Array) -> Events:
    """Iterations of every request's events."""
    iterations = records.steps.shape[0]
    places = jnp.arange(iterations, dtype=jnp.int32)

    def first(events: Array) -> Array:
        # Scatter-min of places: the first event of each request, without a loop over requests.
        return jnp.full(requests, iterations, jnp.int32).at[_index(events, requests)].min(places, mode="drop")

    def last(events: Array) -> Array:
        return jnp.full(requests, -1, jnp.int32).at[_index(events, requests)].max(places, mode="drop")

    # A request ends when the decode steps reach the count that was set when its prompt was complete for the last time,
    # unless it has lost its cache since; at the earliest with the step that completed the prompt.
    complete, lost = last(records.produced), last(records.preempted)
    target = records.last[jnp.maximum(complete, 0)]
    # Counts of decode steps grow monotonically: binary search finds when the target is reached.
    reached = jnp.searchsorted(records.count, target).astype(jnp.int32)
    over = jnp.maximum(reached, _at(step, complete, iterations))
    hits = jnp.where(records.admitted >= 0, records.hit, 0)
    return Events(
        admitted=first(records.admitted),
        produced=first(records.produced),
        complete=complete,
        over=jnp.where((complete > lost) & (complete >= 0), over, iterations),
        preemptions=jnp.zeros(requests, jnp.int32).at[_index(records.preempted, requests)].add(1, mode="drop"),
        rejected=jnp.zeros(requests, bool).at[_index(records.rejected, requests)].set(True, mode="drop"),
        cached=jnp.zeros(requests, jnp.int32).at[_index(records.admitted, requests)].add(hits, mode="drop"),
    )


def _gained(records: Record, events: Events) -> Array:
    """Time in s of the steps that a faster engine has gained since a prompt was complete: 0, with a gradient."""
    each = jax.lax.stop_gradient(records.duration / jnp.maximum(records.steps, 1).astype(records.duration.dtype))
    last = jnp.minimum(events.over, records.steps.shape[0] - 1)
    # Its value is 0: it only carries the derivative of the number of steps into time.
    return each[last] * (records.ahead[last] - records.ahead[jnp.maximum(events.complete, 0)])


def _status(engine: Engine, events: Events, iterations: int) -> Array:
    """Position in `STATUSES` of every request's outcome, shape [requests]."""
    finished, refused, rejected, unfinished, absent = range(len(STATUSES))
    too_long = jnp.arange(events.over.shape[0], dtype=jnp.int32) >= engine.requests
    of_refused = jnp.where(engine.osl < 1, absent, refused)
    of_others = jnp.where(events.rejected, rejected, unfinished)
    return jnp.where(events.over < iterations, finished, jnp.where(too_long, of_refused, of_others))


def cache_blocks(hardware: Hardware, model: Model, deployment: Deployment, policy: Policy) -> Array:
    """Blocks of KV cache of all attention groups together, shape (): a whole number, as a float."""
    tokens = kv_capacity_tokens(hardware, model, deployment) * request_groups(deployment)
    return jnp.floor(tokens / policy.block_size)


def simulate(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    traffic: Traffic,
    policy: Policy,
    size: Size,
    longest: Scalar = LONGEST,
) -> tuple[Served, Timeline]:
    """Outcome of every request of `traffic` on one replica of `deployment` under `policy`.

    Pure, of fixed shapes: vmap any leaf, differentiate any time with respect to any leaf of hardware, model, deployment
    and efficiency. The scheduler's decisions are step functions of these and have no gradient; the times of steps have
    one.

    Several decode steps in which nothing changes are one iteration: between two nodes of the price tables their times
    are linear in the context. Where nothing is left to do, iterations do nothing.

    Args:
      traffic: requests, shape [requests].
      size: fixed shapes; requests that `size.iterations` do not suffice for are reported as unfinished.
      longest: decode steps that an iteration may take together; 1: each on its own.

    Returns:
      By request, shape [requests], and by iteration, shape [iterations].
    """
    limits = Limits(rows=size.rows, sequences=size.slots, context=size.context)
    place, beside = (hardware, model, deployment, efficiency), (policy.acceptance, policy.hidden_host)
    tables, price = step_prices(*place, limits, *beside, encode=traffic.encode)
    blocks = cache_blocks(hardware, model, deployment, policy)
    # The same tables, without prompts' ops, as a waiting request meets decode steps.
    waits = step_prices(*place, limits, *beside, tables, prompts=False)[1]
    delay = front_delay(waits, traffic, policy, blocks, efficiency.host.request_time)
    run = begin(traffic, policy, blocks, size, delay, longest)
    outcomes, timeline = served(*proceed(price, run, traffic, policy, size))
    return with_first_time(outcomes, traffic, policy), timeline


def _index(events: Array, requests: int) -> Array:
    """Positions of the requests of events; beyond the end where there was none."""
    return jnp.where(events >= 0, events, requests)


def _at(table: Array, index: Array, beyond: int) -> Array:
    """Entries of `table`; `beyond` where there is no such entry."""
    inside = jnp.clip(index, 0, table.shape[0] - 1)
    return jnp.where((index >= 0) & (index < table.shape[0]), table[inside], beyond)
