"""The compiled simulator of services against the plain one: every request of random services."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import quick_options
from jaxroof.batch import QUEUES, STATUSES, Policy, Traffic
from jaxroof.numerics.struct import given
from jaxroof.scheduler.drafts import drafts, lengths
from jaxroof.scheduler.engine import Drafts, Measured
from jaxroof.scheduler.service.encoding import Encoders
from jaxroof.scheduler.service.handover import ROLES, Transfer
from jaxroof.scheduler.service.outcomes import outcomes
from jaxroof.scheduler.service.routing import ROUTERS
from jaxroof.scheduler.service.scaling import SIGNALS, ScalingRule
from jaxroof.scheduler.service.service import Routing, ServiceRun, Shape, begin
from jaxroof.scheduler.service.simulate import proceed
from jaxroof.scheduler.service.tiers import EVICTIONS, TierRules
from sweeps.run.precision import precision
from sweeps.run.simulated.lanes import compiled, looped
from tests.oracle.serving import Service, serve_service
from tests.oracle.serving.drafts import Drafts as PlainDrafts
from tests.oracle.serving.random_services import case, scaled_price
from tests.oracle.serving.scaling import Rule

pytestmark = pytest.mark.xdist_group("services")

ENGINES, REQUESTS, NODES, DEPTH, SLOTS, TURNS = 4, 64, 96, 3, 32, 2
ITERATIONS = 6000
SEEDS = (*range(120), 169)
"""In case 169, prompts go first, and a sequence that is alone gives up shared blocks while others wait."""
COLUMNS = ("arrival", "admitted", "first_token", "finish")


def padded(values: Any, fill: float, depth: int | None = None) -> np.ndarray:
    array = np.full((REQUESTS, depth) if depth else REQUESTS, float(fill))
    if values is not None:
        values = np.asarray(values, float)
        array[tuple(slice(0, length) for length in values.shape)] = values
    return array


def traffic(requests: Any) -> Traffic:
    fills = {"arrival": math.inf, "isl": 1.0, "after": -1.0}
    names = ("arrival", "isl", "osl", "shared", "keep", "after", "pause", "priority")
    columns = {name: padded(getattr(requests, name), fills.get(name, 0.0)) for name in names}
    return Traffic(**columns, path=padded(requests.nodes, -1.0, DEPTH), starts=padded(requests.starts, 0.0, DEPTH))


def numbers(service: Service) -> dict[str, Any]:
    """What `begin` takes, and how slow every engine is."""
    engines = service.engines
    names = [name for name in Policy.__dataclass_fields__ if name not in ("queue", "draft_lengths")]

    def each(value: Any) -> np.ndarray:
        return np.array([float(value(one)) for one in engines])

    return {
        "traffic": traffic(service.requests),
        "policies": Policy(**{name: each(lambda one, name=name: getattr(one.policy, name)) for name in names}),
        "blocks": each(lambda one: one.blocks),
        "role": each(lambda one: ROLES.index(one.role)),
        "queue": each(lambda one: QUEUES.index(one.policy.queue)),
        "routing": Routing(
            weight=each(lambda one: one.weight),
            pace=each(lambda one: one.pace),
            seed=np.int32(service.seed),
            prefix=np.float64(service.weights[0]),
            load=np.float64(service.weights[1]),
            router=np.int32(list(ROUTERS).index(service.router)),
            decode_router=np.int32(list(ROUTERS).index(service.decode_router)),
        ),
        "transfer": Transfer(
            each(lambda one: one.rate), np.float64(service.transfer_latency), np.float64(service.layers)
        ),
        "delay": np.float64(service.delay),
        "slowness": each(lambda one: one.price.keywords["slowness"]),
        "drafts": None if engines[0].drafts is None else _drafts([given(one.drafts, "drafts") for one in engines]),
        "tiers": tier_rules(service),
        "scaling": _scaling(service.scaling),
        "admission": None if service.admission is None else padded(service.admission, 0.0),
        "encoders": Encoders(np.array(service.encoders), np.float64(service.encoder_transfer))
        if service.encoders
        else None,
    }


def _scaling(rule: Rule | None) -> ScalingRule | None:
    if rule is None:
        return None
    return ScalingRule(**dataclasses.asdict(rule) | {"signal": np.int32(list(SIGNALS).index(rule.signal))})


def _drafts(each: list[PlainDrafts]) -> Drafts:
    """Of all engines."""
    tokens, acceptance, limit, seed = (np.array([one[place] for one in each]) for place in range(4))
    if each[0].table is None:
        return drafts(tokens, acceptance, limit, seed)
    measured = Measured(*map(np.array, zip(*(given(one.table, "table") for one in each), strict=True)))
    steps = np.array([one.lengths for one in each])
    own = lengths(steps[..., 0], steps[..., 1])
    match = np.array([one.match for one in each])
    return drafts(tokens, acceptance, limit, seed, measured=measured, lengths=own, match=match)


def tier_rules(service: Service) -> TierRules | None:
    """Numbers of all tiers of all engines."""
    if not service.engines[0].tiers:
        return None

    def each(name: str) -> np.ndarray:
        return np.array([[float(getattr(level, name)) for level in one.tiers] for one in service.engines])

    names = ("capacity", "bandwidth", "latency", "through", "shared")
    order = [[list(EVICTIONS).index(level.eviction) for level in one.tiers] for one in service.engines]
    one = np.ones(len(service.engines))
    return TierRules(
        **{name: each(name) for name in names},
        eviction=np.array(order, np.int32),
        overlap=one * service.overlap,
        known=one * service.tiers_known,
    )


def prices(slowness: Any) -> Any:
    """The price of every engine's steps.

    Args:
      slowness: of every engine, shape [engines].
    """

    def of_engine(engine: Any) -> Any:
        def price(batch: Any, rows: Any) -> Any:
            device, host = scaled_price(batch, rows, jnp, slowness[engine])
            return jnp.asarray(device), jnp.asarray(host)

        return price

    return of_engine


def simulated(services: list[Service], pools: bool, tiers: int = 0) -> list[tuple[Any, Any, Any]]:
    """What the simulator makes of services, compiled as for users: outcomes, engines and requests that are left."""
    shape = Shape(ENGINES, SLOTS, ITERATIONS, nodes=NODES, turns=TURNS, pools=pools, tiers=tiers, together=8)
    names = ("role", "queue", "routing", "transfer", "delay", "tiers", "drafts", "scaling", "admission", "encoders")

    def start(given: dict[str, Any]) -> ServiceRun:
        return begin(
            given["traffic"], given["policies"], given["blocks"], shape, **{name: given[name] for name in names}
        )

    def go(slowness: Any, run: ServiceRun) -> tuple[Any, Any]:
        run, records = proceed(prices(slowness), run, shape)
        return run.state, records

    begun, loop, ended = compiled(start), looped(go, quick=False), compiled(outcomes)
    found = []
    for one in map(numbers, services):
        run = begun(one)
        state, records = loop(one["slowness"], run)
        found.append(jax.device_get((*ended(run._replace(state=state), records), state.left)))
    return found


def difference(service: Service, found: tuple[Any, Any, Any], label: str) -> float:
    """The largest relative difference of a time; asserts that everything else is the same."""
    outcome, (mine, places, left) = serve_service(service), found
    count = len(outcome.arrival)
    assert [STATUSES[s] for s in mine.status[:count]] == [STATUSES[s] for s in outcome.status], label
    np.testing.assert_array_equal(places.first[:count], outcome.engine, err_msg=label)
    np.testing.assert_array_equal(places.then[:count], outcome.decode_engine, err_msg=label)
    np.testing.assert_array_equal(mine.preemptions[:count], outcome.preemptions, err_msg=label)
    np.testing.assert_array_equal(mine.cached[:count], outcome.cached, err_msg=label)
    if places.loaded.shape[1]:
        loaded = [row or [0] * places.loaded.shape[1] for row in outcome.loaded]
        np.testing.assert_array_equal(places.loaded[:count], loaded, err_msg=label)
    assert left == outcome.status.count(STATUSES.index("unfinished")), label
    largest = 0.0
    for name in COLUMNS:
        one, right = getattr(mine, name)[:count], np.asarray(getattr(outcome, name), float)
        np.testing.assert_allclose(one, right, rtol=1e-9, atol=1e-12, err_msg=f"{label}: {name}")
        largest = max(largest, np.nanmax(np.abs(one - right) / np.maximum(np.abs(right), 1e-12), initial=0.0))
    return largest


def test_a_gradient_through_pools_is_the_difference():
    """Mean E2E latency in the time of steps, where no decision changes: reverse mode against 1e-7 both ways."""
    shape = Shape(ENGINES, SLOTS, 500, nodes=NODES, turns=TURNS, pools=True)
    given = numbers(case(0, engines=ENGINES, pools=True))
    words = {name: given[name] for name in ("role", "queue", "routing", "transfer", "delay")}

    def latency(log_time):
        slowness = jnp.asarray(given["slowness"]) * jnp.exp(log_time)
        start = begin(given["traffic"], given["policies"], given["blocks"], shape, **words)
        served, _ = outcomes(*proceed(prices(slowness), start, shape))
        done = jnp.isfinite(served.finish)
        return jnp.sum(jnp.where(done, served.finish - served.arrival, 0.0)) / jnp.sum(done.astype(float))

    with precision("float64"):
        value = jax.jit(latency, compiler_options=dict(quick_options()))
        slope = jax.jit(jax.grad(latency), compiler_options=dict(quick_options()))(0.0)
        step = 1e-7
        difference = (value(step) - value(-step)) / (2.0 * step)
    assert slope > 0.05
    np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.parametrize("pools", [False, True])
def test_every_request_of_a_service_is_served_as_by_the_plain_simulator(pools):
    """All routers, unlike engines, turns, trees of prefixes and priorities, with and without pools."""
    services = [case(seed, engines=ENGINES, pools=pools) for seed in SEEDS if seed % 2 == pools]
    assert {one.router for one in services} == set(ROUTERS)
    with precision("float64"):
        found = simulated(services, pools)
    for seed, (service, one) in enumerate(zip(services, found, strict=True)):
        difference(service, one, f"case {seed} with {service.router}, pools {pools}")
