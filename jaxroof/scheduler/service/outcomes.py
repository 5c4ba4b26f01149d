"""Every request's outcome in a service, from the records of its iterations."""

from typing import NamedTuple

from jaxroof.batch import STATUSES, Served
from jaxroof.numerics.arrays import at_hand, constant, jnp, scattered, smallest_from_here
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.service.event import Happening
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
    places = jnp.arange(iterations, dtype=jnp.int32)
    zero = Clock(jnp.zeros(()), jnp.zeros(()))
    clock = since(Clock(records.high, records.low), zero)

    def first(events: Array) -> Array:
        index = jnp.where(events >= 0, events, requests)
        return scattered("min", jnp.full(requests, iterations, jnp.int32), index, places)

    def last(events: Array) -> Array:
        index = jnp.where(events >= 0, events, requests)
        return scattered("max", jnp.full(requests, -1, jnp.int32), index, places)

    def total(events: Array, amounts: Array) -> Array:
        index = jnp.where(events >= 0, events, requests)
        return scattered("add", jnp.zeros(requests, jnp.int32), index, amounts)

    def at(values: Array, index: Array) -> Array:
        inside = jnp.clip(index, 0, iterations - 1)
        return jnp.where((index >= 0) & (index < iterations), values[inside], jnp.nan)

    # A prompt that is completed in a step has its first token at the engine's next instant; one that is decoded
    # elsewhere when its cache has arrived there.
    produced, over, admitted = first(records.produced), first(records.ended), first(records.admitted)
    following = _next_instants(records)
    inside = jnp.clip(produced, 0, iterations - 1)
    computed = jnp.where(produced < iterations, following[inside], iterations)
    accepted = first(records.accepted)
    # The step of the first token gains what later ones do: a faster engine has made more of them by the end.
    complete = jnp.maximum(last(records.produced), last(records.accepted))
    each = constant(records.pace)
    end = jnp.minimum(over, iterations - 1)
    gained = each[end] * (records.ahead[end] - records.ahead[jnp.maximum(complete, 0)])

    finished, refused, rejected, unfinished, absent = range(len(STATUSES))
    turned = total(jnp.where(records.rejected > 0, records.delivered, -1), jnp.ones_like(places)) > 0
    too_long = total(jnp.where(records.refused > 0, records.delivered, -1), jnp.ones_like(places)) > 0
    status = jnp.where(service.engines.osl < 1, absent, jnp.where(turned, rejected, unfinished))
    status = jnp.where(too_long, refused, jnp.where(over < iterations, finished, status))
    came = first(records.delivered)
    hits = jnp.where(records.admitted >= 0, records.hit, 0)
    outcome = Served(
        arrival=at(records.came, came) - service.engines.delay,
        admitted=at(clock, admitted),
        first_token=jnp.where(accepted < iterations, at(records.ready, accepted), at(clock, computed)),
        finish=at(clock, over) - gained,
        status=status.astype(jnp.int8),
        preemptions=total(records.preempted, jnp.ones_like(places)),
        cached=total(records.admitted, hits),
    )
    to = jnp.where(came < iterations, records.to[jnp.minimum(came, iterations - 1)], -1)
    again = last(records.delivered)
    then = jnp.where(again > came, records.to[jnp.maximum(again, 0)], -1)
    tokens = [total(records.admitted, jnp.where(records.admitted >= 0, each, 0)) for each in records.loaded]
    loaded = jnp.stack(tokens, axis=1) if tokens else jnp.zeros((requests, 0), jnp.int32)
    return outcome, Places(to, then, loaded)


def _next_instants(records: Happening) -> Array:
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
