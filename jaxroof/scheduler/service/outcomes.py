"""Every request's outcome in a service, from the records of its iterations."""

from typing import NamedTuple

from jaxroof.batch import STATUSES, Served
from jaxroof.numerics.arrays import at_hand, constant, jnp, scattered, smallest_from_here
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.outcomes import at, first, last, summed
from jaxroof.scheduler.service.record import Happening
from jaxroof.scheduler.service.service import ServiceRun
from jaxroof.scheduler.state import Clock, since


class Places(NamedTuple):
    """Engines that every request was sent to, shape [requests]; -1: to none. And the tiers that its cache came from."""

    first: Array
    then: Array  # where it decodes, if elsewhere
    loaded: Array  # tokens of its prompt that came from every tier, shape [requests, tiers]


def outcomes(run: ServiceRun, records: Happening) -> tuple[Served, Places]:
    """Every request's outcome, and its engines."""
    run, records = at_hand((run, records))
    service = run.service
    requests, iterations = service.engines.isl.shape[0], records.engine.shape[0]
    zero = Clock(jnp.zeros(()), jnp.zeros(()))
    clock = since(Clock(records.high, records.low), zero)

    # A prompt that is completed in a step has its first token at the engine's next instant; one that is decoded
    # elsewhere when its cache has arrived there.
    events = records.produced, records.ended, records.admitted, records.accepted, records.delivered
    produced, over, admitted, accepted, came = (first(each, requests) for each in events)
    following = next_instants(records)
    # What is encoded first has come to a worker before it comes to an engine.
    sent = came if records.encoded is None else first(records.encoded, requests)
    computed = at(following, produced, iterations)
    # The step of the first token gains what later ones do: a faster engine has made more of them by the end.
    complete = jnp.maximum(last(records.produced, requests), last(records.accepted, requests))
    each = constant(records.pace)
    end = jnp.minimum(over, iterations - 1)
    gained = each[end] * (records.ahead[end] - records.ahead[jnp.maximum(complete, 0)])

    finished, refused, rejected, unfinished, absent = range(len(STATUSES))
    turned = summed(records.delivered, records.rejected, requests) > 0
    too_long = summed(records.delivered, records.refused, requests) > 0
    status = jnp.where(service.engines.osl < 1, absent, jnp.where(turned, rejected, unfinished))
    status = jnp.where(too_long, refused, jnp.where(over < iterations, finished, status))
    outcome = Served(
        arrival=at(records.came, sent, jnp.nan) - service.engines.delay,
        admitted=at(clock, admitted, jnp.nan),
        first_token=jnp.where(
            accepted < iterations, at(records.ready, accepted, jnp.nan), at(clock, computed, jnp.nan)
        ),
        finish=at(clock, over, jnp.nan) - gained,
        status=status.astype(jnp.int8),
        preemptions=summed(records.preempted, 1, requests),
        cached=summed(records.admitted, records.hit, requests),
    )
    to, again = at(records.to, came, -1), last(records.delivered, requests)
    then = jnp.where(again > came, at(records.to, again, -1), -1)
    tokens = [summed(records.admitted, each, requests) for each in records.loaded]
    loaded = jnp.stack(tokens, axis=1) if tokens else jnp.zeros((requests, 0), jnp.int32)
    return outcome, Places(to, then, loaded)


def next_instants(records: Happening) -> Array:
    """For every iteration the one at which its engine's next instant begins, shape [iterations]."""
    iterations = records.engine.shape[0]
    order = jnp.argsort(records.engine, stable=True).astype(jnp.int32)
    engine, began = records.engine[order], records.began[order] > 0
    # In the order of engines, the iterations of one stand side by side: the least beginning from the next one on.
    places = jnp.arange(iterations, dtype=jnp.int32)
    starts = jnp.where(began, places, iterations)
    after = jnp.concatenate([smallest_from_here(starts)[1:], jnp.full(1, iterations, starts.dtype)])
    inside = jnp.minimum(after, iterations - 1)
    same = (after < iterations) & (engine[inside] == engine)
    found = jnp.where(same, order[inside], iterations)
    return scattered("add", jnp.zeros(iterations, jnp.int32), order, found.astype(jnp.int32))
