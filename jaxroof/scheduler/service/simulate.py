"""Simulation of a service: `lax.scan` over iterations of fixed shape."""

from collections.abc import Callable
from typing import Any

from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array
from jaxroof.prices.prices import Price
from jaxroof.scheduler.service.event import FLOATS, Happening, happened
from jaxroof.scheduler.service.service import ServiceRun, ServiceState, Shape


def proceed(prices: Callable[[Array], Price], run: ServiceRun, shape: Shape) -> tuple[ServiceRun, Happening]:
    """The simulation after `shape.iterations` more, and the record of each of them, shapes [iterations].

    Args:
      prices: of an engine's number, the price of its steps.
    """

    def one(state: ServiceState, _: None) -> tuple[ServiceState, tuple[Array, Array]]:
        state, record = happened(run.service, prices, shape, state)
        optional = [part for part in (record.right, record.replicas, record.encoded) if part is not None]
        parts: list[Any] = [*record[FLOATS:-4], *record.loaded, *optional]
        wholes = jnp.stack([jnp.asarray(part, jnp.int32) for part in parts])
        times: list[Any] = list(record[:FLOATS])
        return state, (jnp.stack(times), wholes)

    state, (times, counts) = jax.lax.scan(one, run.state, None, length=shape.iterations)
    columns = [array[:, column] for array in (times, counts) for column in range(array.shape[1])]
    # Fields of every record, then tokens of every tier, then drafts, replicas and encoders, where there are some.
    first = len(Happening._fields) - 4
    known, more = dict(zip(Happening._fields, columns[:first], strict=False)), columns[first:]
    encoded = None if run.service.encoders is None else more.pop()
    replicas = None if run.service.scaling is None else more.pop()
    right = None if run.service.engines.drafts is None else more.pop()
    record = Happening(**known, loaded=tuple(more), right=right, replicas=replicas, encoded=encoded)
    return run._replace(state=state), record
