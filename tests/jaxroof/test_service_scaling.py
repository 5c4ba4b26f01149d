"""Replicas that start and stop in the compiled simulator of services, against the plain one."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import quick_options
from jaxroof.scheduler.service.outcomes import outcomes
from jaxroof.scheduler.service.scaling import SIGNALS
from jaxroof.scheduler.service.service import Shape, begin
from jaxroof.scheduler.service.simulate import proceed
from sweeps.run.precision import precision
from tests.jaxroof.test_service import ENGINES, ITERATIONS, NODES, SLOTS, TURNS, difference, numbers, prices
from tests.oracle.serving import scaling as plain
from tests.oracle.serving import serve_service
from tests.oracle.serving.random_services import case

pytestmark = pytest.mark.xdist_group("services")

CASES = 30
SHAPE = Shape(ENGINES, SLOTS, ITERATIONS, nodes=NODES, turns=TURNS)


def simulated(services: list[Any]) -> list[tuple[Any, ...]]:
    """What the compiled simulator makes of services: outcomes, engines, requests left, and replicas by evaluation."""

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
    @jax.vmap
    def run(given: dict[str, Any]) -> tuple[Any, ...]:
        words = {name: given[name] for name in ("role", "queue", "routing", "delay", "scaling", "admission")}
        start = begin(given["traffic"], given["policies"], given["blocks"], SHAPE, **words)
        over, records = proceed(prices(given["slowness"]), start, SHAPE)
        return (*outcomes(over, records), over.state.left, records.replicas)

    together = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *map(numbers, services))
    found = jax.device_get(run(together))
    return [jax.tree.map(lambda leaf, lane=lane: leaf[lane], found) for lane in range(len(services))]


def largest_difference(seeds: Any, admission: bool = False) -> float:
    """The largest relative difference of a time; asserts that everything else is the same."""
    services = [case(seed, engines=ENGINES, pools=False, scaling=True, admission=admission) for seed in seeds]
    with precision("float64"):
        found = simulated(services)
    largest = 0.0
    for seed, service, (*one, replicas) in zip(seeds, services, found, strict=True):
        label = f"case {seed} with {service.router}, {service.scaling}"
        np.testing.assert_array_equal(replicas[replicas >= 0], serve_service(service).replicas, err_msg=label)
        largest = max(largest, difference(service, tuple(one), label))
    return largest


def test_every_request_is_served_as_by_the_plain_simulator():
    """All signals, with unlike replicas, turns, trees of prefixes and priorities."""
    assert largest_difference(range(CASES)) < 1e-9


def test_beside_requests_that_are_rejected():
    assert largest_difference(range(CASES, CASES + 20), admission=True) < 1e-9


def test_both_simulators_have_the_same_signals():
    assert tuple(SIGNALS) == plain.SIGNALS


def test_a_rule_that_changes_nothing_leaves_latencies_as_they_are():
    """Mean E2E latency, with all replicas on at every evaluation, and without a rule."""
    shape = Shape(ENGINES, SLOTS, 600, nodes=NODES, turns=TURNS)
    given = numbers(case(4, engines=ENGINES, pools=False, scaling=True))
    always = given["scaling"]._replace(least=ENGINES, most=ENGINES)
    words = {name: given[name] for name in ("role", "queue", "routing", "delay")}

    def latency(scaling):
        start = begin(given["traffic"], given["policies"], given["blocks"], shape, **words, scaling=scaling)
        served, _ = outcomes(*proceed(prices(jnp.asarray(given["slowness"])), start, shape))
        done = jnp.isfinite(served.finish)
        return jnp.sum(jnp.where(done, served.finish - served.arrival, 0.0)) / jnp.sum(done.astype(float))

    with precision("float64"):
        compiled = jax.jit(latency, compiler_options=dict(quick_options()))
        np.testing.assert_allclose(compiled(always), compiled(None), rtol=1e-12)
