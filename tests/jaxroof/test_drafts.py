"""Drafted tokens of the simulated scheduler against the plain simulator, and hand-worked numbers."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.scheduler import Size, begin, proceed, served
from jaxroof.scheduler.drafts import Drafts, drafts
from sweeps.run.precision import precision
from tests.jaxroof.test_scheduler import GROUPS, ITERATIONS, OPTIMISED, SLOTS, compared, price, traffic
from tests.jaxroof.test_service import ENGINES, difference
from tests.jaxroof.test_service import simulated as service_outcomes
from tests.oracle.serving import serve
from tests.oracle.serving.drafts import Drafts as PlainDrafts
from tests.oracle.serving.random_engines import case, random_drafts, tabulated_price
from tests.oracle.serving.random_services import case as service_case

pytestmark = pytest.mark.xdist_group("drafts")

SEEDS = range(200)
MOST = 4  # drafted tokens per sequence and step


def given(plain: PlainDrafts) -> Drafts:
    """Drafts of the compiled simulator."""
    return drafts(plain.tokens, np.asarray(plain.acceptance), plain.limit, plain.seed)


def simulated(cases: list) -> list:
    """What the compiled simulator makes of cases: requests, policy, blocks, clients, think time and drafts."""
    size = Size(slots=SLOTS, iterations=ITERATIONS, groups=GROUPS)

    @functools.partial(jax.jit, compiler_options=OPTIMISED)
    @jax.vmap
    def run(stream, policy, blocks, own):
        return served(*proceed(price, begin(stream, policy, blocks, size, drafts=own), stream, policy, size))

    trees = [
        (traffic(requests, clients, think), policy, float(blocks), given(own))
        for requests, policy, blocks, clients, think, own in cases
    ]
    found = jax.device_get(run(*jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)))
    return [jax.tree.map(lambda leaf, place=place: leaf[place], found) for place in range(len(cases))]


def test_every_request_of_an_engine_is_served_as_by_the_plain_simulator():
    chosen = []
    for seed in SEEDS:
        found = case(seed)
        if found[1].queue == "fcfs" and math.isinf(found[1].max_waiting):
            chosen.append((*found, random_drafts(seed, MOST)))
    with precision("float64"):
        found = simulated(chosen)
    right = [serve(tabulated_price, *given, drafts=own) for *given, own in chosen]
    for index, (outcome, (mine, _)) in enumerate(zip(right, found, strict=True)):
        compared(outcome, mine, 1e-9, f"case {index}")


@pytest.mark.parametrize("pools", [False, True])
def test_every_request_of_a_service_is_served_as_by_the_plain_simulator(pools):
    """Every engine drafts another number of tokens."""
    services = [service_case(seed, engines=ENGINES, pools=pools, drafts=MOST) for seed in range(pools, 100, 2)]
    with precision("float64"):
        found = service_outcomes(services, pools)
    for seed, (service, one) in enumerate(zip(services, found, strict=True)):
        difference(service, one, f"case {seed} with {service.router}, pools {pools}")
