"""Tiers of the KV cache in the compiled simulator of services, against the plain one, and gradients through loads."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.scheduler.service.outcomes import outcomes
from jaxroof.scheduler.service.service import Shape, begin
from jaxroof.scheduler.service.simulate import proceed
from jaxroof.scheduler.service.tiers import EVICTIONS
from sweeps.run.precision import precision
from tests.jaxroof.test_service import ENGINES, difference, numbers, simulated
from tests.jaxroof.test_tracing import equations
from tests.oracle.serving import Service, serve_service
from tests.oracle.serving import tiers as plain
from tests.oracle.serving.random_services import case
from tests.oracle.serving.test_service import server
from tests.oracle.serving.test_tiers import A_B_A, asked

pytestmark = pytest.mark.xdist_group("services")

CASES = 40


@pytest.mark.parametrize(("pools", "tiers"), [(False, 3), (True, 2)])
def test_every_request_is_served_as_by_the_plain_simulator(pools, tiers):
    """Tiers of engines and shared ones, written through or not, of every order of eviction, often too small."""
    services = [case(seed, engines=ENGINES, pools=pools, tiers=tiers) for seed in range(CASES)]
    with precision("float64"):
        found = simulated(services, pools, tiers)
    for seed, (service, one) in enumerate(zip(services, found, strict=True)):
        difference(service, one, f"case {seed} with {service.router}, pools {pools}, tiers {tiers}")


def test_random_services_reach_the_rules_of_tiers():
    reached = {"loaded": 0, "tier_evicted": 0, "below_the_first": 0}
    for seed in range(CASES):
        outcome = serve_service(case(seed, engines=ENGINES, tiers=3))
        for name in ("loaded", "tier_evicted"):
            reached[name] += outcome.counts[name] > 0
        reached["below_the_first"] += any(any(row[1:]) for row in outcome.loaded)
    assert min(reached.values()) >= CASES // 5, reached


def test_both_simulators_have_the_same_rules():
    assert tuple(EVICTIONS) == plain.EVICTIONS


def small_run(shape, latency, bandwidth):
    """Time of the third prompt's first token, where the second has evicted what it shares with the first."""
    level = plain.Level(100, bandwidth=6.0, latency=0.5)
    engine = dataclasses.replace(server(blocks=8, prefix_caching=1.0), tiers=(level,))
    priced = dataclasses.replace(engine, price=functools.partial(engine.price, slowness=1.0))
    given = numbers(Service(asked(*A_B_A), [priced]))
    tiers = given["tiers"]._replace(latency=jnp.full((1, 1), latency), bandwidth=jnp.full((1, 1), bandwidth))
    words = {name: given[name] for name in ("role", "queue", "routing", "transfer", "delay")}
    start = begin(given["traffic"], given["policies"], given["blocks"], shape, **words, tiers=tiers)

    def prices(_):
        return lambda batch, rows: (batch.prefill.tokens + 10.0 * batch.decode.sequences, jnp.zeros(()))

    served, places = outcomes(*proceed(prices, start, shape))
    return served.first_token[2], places.loaded[2]


SMALL = Shape(1, 8, 40, nodes=2, tiers=1)


def test_gradients_flow_through_load_times():
    # 20 s + latency + 3 tokens / bandwidth + 1 s: 1 by the latency, -3 / 36 by the bandwidth.
    with precision("float64"):
        both = jax.value_and_grad(functools.partial(small_run, SMALL), argnums=(0, 1), has_aux=True)
        (time, loaded), slopes = jax.jit(both)(0.5, 6.0)
    np.testing.assert_allclose(time, 22.0, rtol=1e-12)
    np.testing.assert_array_equal(loaded, [3])
    np.testing.assert_allclose(slopes, [1.0, -3.0 / 36.0], rtol=1e-9)


def begun(tiers):
    """Equations of a program of one iteration, and shapes of the state after it."""
    given = numbers(case(0, engines=ENGINES, tiers=tiers))
    shape = Shape(ENGINES, 8, 1, nodes=96, turns=2, tiers=tiers)

    def run(given):
        words = {name: given[name] for name in ("role", "queue", "routing", "transfer", "delay", "tiers")}
        start = begin(given["traffic"], given["policies"], given["blocks"], shape, **words)
        return proceed(_free, start, shape)[0].state

    program, state = jax.make_jaxpr(run, return_shape=True)(given)
    return equations(program.jaxpr), state


def _free(_):
    return lambda batch, rows: (jnp.ones(()), jnp.zeros(()))


def test_without_tiers_nothing_is_kept_or_computed_for_them():
    with precision("float64"):
        (no, bare), (one, with_one), (two, _), (three, _) = map(begun, range(4))
    assert bare.tree.tiers is None and bare.own.floats.shape[1] == with_one.own.floats.shape[1] - 1
    # Every tier costs the same, and the first one what they need together.
    assert no < one and three - two <= two - one < 0.2 * no
