"""Simulation of a service: `lax.scan` over iterations of fixed shape."""

from collections.abc import Callable
from typing import Any

from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array
from jaxroof.prices.prices import Price
from jaxroof.scheduler.service.event import happened
from jaxroof.scheduler.service.record import FLOATS, OTHERS, Happening
from jaxroof.scheduler.service.service import ServiceRun, ServiceState, Shape


def proceed(prices: Callable[[Array], Price], run: ServiceRun, shape: Shape) -> tuple[ServiceRun, Happening]:
    """The simulation after `shape.iterations` more, and the record of each of them, shapes [iterations].

    Args:
      prices: of an engine's number, the price of its steps.
    """
    structure: Any = None  # of a trace, known once an iteration was traced

    def one(state: ServiceState, _: None) -> tuple[ServiceState, tuple[Array, Array, Array | None]]:
        nonlocal structure
        state, record = happened(run.service, prices, shape, state)
        optional = [part for part in (record.right, record.replicas, record.encoded) if part is not None]
        parts: list[Any] = [*record[FLOATS:-OTHERS], *record.loaded, *optional]
        wholes = jnp.stack([jnp.asarray(part, jnp.int32) for part in parts])
        times: list[Any] = list(record[:FLOATS])
        numbers, structure = jax.tree.flatten(record.trace)
        trace = jnp.stack([number.astype(float) for number in numbers]) if numbers else None
        return state, (jnp.stack(times), wholes, trace)

    state, (times, counts, traces) = jax.lax.scan(one, run.state, None, length=shape.iterations)
    columns = [array[:, column] for array in (times, counts) for column in range(array.shape[1])]
    # Fields of every record, then tokens of every tier, then drafts, replicas and encoders, where there are some.
    first = len(Happening._fields) - OTHERS
    known, more = dict(zip(Happening._fields, columns[:first], strict=False)), columns[first:]
    encoded = None if run.service.encoders is None else more.pop()
    replicas = None if run.service.scaling is None else more.pop()
    right = None if run.service.engines.drafts is None else more.pop()
    trace = None if traces is None else jax.tree.unflatten(structure, list(traces.T))
    record = Happening(**known, loaded=tuple(more), right=right, replicas=replicas, encoded=encoded, trace=trace)
    return run._replace(state=state), record
