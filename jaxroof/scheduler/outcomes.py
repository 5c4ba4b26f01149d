"""Every request's outcome and the engine's timeline, from the records of a simulation's iterations."""

import dataclasses
from typing import NamedTuple

from jaxroof.batch import STATUSES, Policy, Served, Timeline, Traffic
from jaxroof.numerics.arrays import at_hand, constant, jnp, scattered, smallest_from_here
from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import mapped
from jaxroof.scheduler.engine import Engine, Run
from jaxroof.scheduler.state import Clock, Record, since


def served(run: Run, records: Record) -> tuple[Served, Timeline]:
    """Every request's outcome, in the order that requests were given in, and the engine's timeline."""
    run, records = at_hand((run, records))
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
        first_token=time(end, at(step, events.produced, iterations)),
        finish=time(end, events.over) - _gained(records, events),
        status=_status(run.engine, events, iterations).astype(jnp.int8),
        preemptions=events.preemptions,
        cached=events.cached,
    )
    completes = (records.produced >= 0).astype(jnp.int32)
    timeline = Timeline(
        end=since(end, zero),
        duration=records.duration,
        steps=records.steps,
        decoding=records.decoding,
        prompt_tokens=records.prompt,
        blocks=records.blocks,
        joined=scattered("add", jnp.zeros(iterations, jnp.int32), step, completes),
        running=records.running,
        right=records.right,
    )
    # Requests were sorted (refused last): back into the order that they came in.
    given = jnp.argsort(run.order)
    return mapped(lambda values: values[given], outcomes), timeline


def with_first_time(served: Served, traffic: Traffic, policy: Policy) -> Served:
    """Outcomes as the clients of a closed loop see them: their first requests were sent `first_time` earlier.

    The engine builds and loads its kernels in that time, and begins at 0 s. Many simulations have a leading axis.
    """
    if traffic.clients is None:
        return served
    clients, first_time = (jnp.asarray(each, dtype=float)[..., None] for each in (traffic.clients, policy.first_time))
    first = jnp.arange(served.arrival.shape[-1]).astype(float) < clients
    return dataclasses.replace(served, arrival=served.arrival - jnp.where(first, first_time, 0.0))


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


def _step_of(records: Record) -> Array:
    """For every iteration the one that runs the engine step which it is part of, shape [iterations]."""
    iterations = records.steps.shape[0]
    steps = jnp.where(records.steps > 0, jnp.arange(iterations, dtype=jnp.int32), iterations)
    # The next iteration that runs a step.
    return smallest_from_here(steps)


def _events(records: Record, requests: int, step: Array) -> Events:
    """Iterations of every request's events."""
    iterations = records.steps.shape[0]
    # A request ends when the decode steps reach the count that was set when its prompt was complete for the last time,
    # unless it has lost its cache since; at the earliest with the step that completed the prompt.
    complete, lost = last(records.produced, requests), last(records.preempted, requests)
    target = records.last[jnp.maximum(complete, 0)]
    done = (complete > lost) & (complete >= 0)
    if records.ended is not None:
        # With drafts the count is known when it has ended: between two steps, the second of which may follow at once.
        ended = last(records.ended, requests)
        target, done = records.count[jnp.maximum(ended - 1, 0)], ended >= 0
    # Counts of decode steps grow monotonically: binary search finds when the target is reached.
    reached = jnp.searchsorted(records.count, target).astype(jnp.int32)
    over = jnp.maximum(reached, at(step, complete, iterations))
    return Events(
        admitted=first(records.admitted, requests),
        produced=first(records.produced, requests),
        complete=complete,
        over=jnp.where(done, over, iterations),
        preemptions=summed(records.preempted, 1, requests),
        rejected=summed(records.rejected, 1, requests) > 0,
        cached=summed(records.admitted, records.hit, requests),
    )


def _gained(records: Record, events: Events) -> Array:
    """Time in s of the steps that a faster engine has gained since a prompt was complete: 0, with a gradient."""
    each = constant(records.duration / jnp.maximum(records.steps, 1).astype(records.duration.dtype))
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


# Of every request what the iterations' events say of it. An event is the number of a request, or -1 for none, shape
# [iterations].


def first(events: Array, requests: int) -> Array:
    """The iteration of every request's first event, their number where it has none, shape [requests], int32."""
    iterations = events.shape[0]
    # The least of the places: the first event of each request, without a loop over requests.
    return scattered("min", jnp.full(requests, iterations, jnp.int32), _index(events, requests), _places(events))


def last(events: Array, requests: int) -> Array:
    """The iteration of every request's last event, -1 where it has none, shape [requests], int32."""
    return scattered("max", jnp.full(requests, -1, jnp.int32), _index(events, requests), _places(events))


def summed(events: Array, amounts: Array | int, requests: int) -> Array:
    """The sum of whole amounts of every request's events, shape [requests], int32."""
    each = jnp.broadcast_to(jnp.asarray(amounts, jnp.int32), events.shape)
    return scattered("add", jnp.zeros(requests, jnp.int32), _index(events, requests), each)


def _places(events: Array) -> Array:
    return jnp.arange(events.shape[0], dtype=jnp.int32)


def _index(events: Array, requests: int) -> Array:
    """Positions of the requests of events; beyond the end where there was none."""
    return jnp.where(events >= 0, events, requests)


def at(table: Array, index: Array, beyond: float) -> Array:
    """Entries of `table`; `beyond` where there is no such entry."""
    inside = jnp.clip(index, 0, table.shape[0] - 1)
    return jnp.where((index >= 0) & (index < table.shape[0]), table[inside], beyond)
