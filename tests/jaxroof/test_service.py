"""The compiled simulator of services against the plain one: every request of random services."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.batch import STATUSES, Policy, Traffic
from jaxroof.scheduler.service.handover import ROLES, Transfer
from jaxroof.scheduler.service.outcomes import outcomes
from jaxroof.scheduler.service.routing import ROUTERS
from jaxroof.scheduler.service.service import Routing, Shape, begin
from jaxroof.scheduler.service.simulate import proceed
from tests.oracle.serving.random_services import scaled_price
from tests.oracle.serving.service import Service, serve_service

pytestmark = pytest.mark.xdist_group("services")

REQUESTS, NODES, DEPTH, SLOTS, TURNS = 64, 96, 3, 48, 2
COLUMNS = ("arrival", "admitted", "first_token", "finish")


def traffic(requests) -> Traffic:
    def padded(values, fill, depth=None):
        array = np.full((REQUESTS, depth) if depth else REQUESTS, float(fill))
        if values is not None:
            values = np.asarray(values, float)
            array[tuple(slice(0, length) for length in values.shape)] = values
        return array

    return Traffic(
        arrival=padded(requests.arrival, math.inf),
        isl=padded(requests.isl, 1.0),
        osl=padded(requests.osl, 0.0),
        shared=padded(requests.shared, 0.0),
        keep=padded(requests.keep, 0.0),
        path=padded(requests.nodes, -1.0, DEPTH),
        starts=padded(requests.starts, 0.0, DEPTH),
        after=padded(requests.after, -1.0),
        pause=padded(requests.pause, 0.0),
        priority=padded(requests.priority, 0.0),
    )


def compiled(service: Service, longest: float = 2.0**30, iterations: int = 4000):
    """What the compiled simulator makes of a service."""
    engines = service.engines
    shape = Shape(
        engines=len(engines),
        slots=SLOTS,
        iterations=iterations,
        nodes=NODES,
        turns=TURNS,
        pools=any(one.role == "decode" for one in engines),
        queues=tuple(one.policy.queue for one in engines),
    )
    fields = {
        name: np.array([getattr(one.policy, name) for one in engines])
        for name in Policy.__dataclass_fields__
        if name != "queue"
    }
    numbers = dict(
        traffic=traffic(service.requests),
        policies=Policy(**fields),
        blocks=np.array([float(one.blocks) for one in engines]),
        role=np.array([ROLES.index(one.role) for one in engines]),
        routing=Routing(
            weight=np.array([one.weight for one in engines]),
            pace=np.array([one.pace for one in engines]),
            seed=np.int32(service.seed),
            prefix=np.float64(service.weights[0]),
            load=np.float64(service.weights[1]),
            router=np.int32(list(ROUTERS).index(service.router)),
            decode_router=np.int32(list(ROUTERS).index(service.decode_router)),
        ),
        transfer=Transfer(
            rate=np.array([one.rate for one in engines]),
            latency=np.float64(service.transfer_latency),
            layers=np.float64(service.layers),
        ),
        delay=service.delay,
        longest=longest,
        slowness=np.array([one.price.keywords["slowness"] for one in engines]),
    )
    return jax.device_get(_program(shape)(numbers))


@functools.cache
def _program(shape: Shape):
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def run(numbers):
        numbers = dict(numbers)
        slowness = numbers.pop("slowness")
        start = begin(numbers.pop("traffic"), numbers.pop("policies"), numbers.pop("blocks"), shape, **numbers)

        def prices(engine):
            def price(batch, rows):
                device, host = scaled_price(batch, rows, jnp, slowness[engine])
                return jnp.asarray(device), jnp.asarray(host)

            return price

        run, records = proceed(prices, start, shape)
        return (*outcomes(run, records), run.state.left)

    return run


def compared(service: Service, label: str, **words) -> float:
    """The largest relative difference of a time; asserts that everything else is the same."""
    outcome = serve_service(service)
    found, places, left = compiled(service, **words)
    count = len(outcome.arrival)
    assert [STATUSES[s] for s in found.status[:count]] == [STATUSES[s] for s in outcome.status], label
    np.testing.assert_array_equal(places.first[:count], outcome.engine, err_msg=label)
    np.testing.assert_array_equal(places.then[:count], outcome.decode_engine, err_msg=label)
    largest = 0.0
    for name in COLUMNS:
        mine, right = getattr(found, name)[:count], np.asarray(getattr(outcome, name), float)
        np.testing.assert_allclose(mine, right, rtol=1e-9, atol=1e-12, err_msg=f"{label}: {name}")
        largest = max(largest, np.nanmax(np.abs(mine - right) / np.maximum(np.abs(right), 1e-12), initial=0.0))
    np.testing.assert_array_equal(found.preemptions[:count], outcome.preemptions, err_msg=label)
    np.testing.assert_array_equal(found.cached[:count], outcome.cached, err_msg=label)
    assert left == outcome.status.count(STATUSES.index("unfinished"))
    return largest
