"""Drafts with tables of acceptance, lengths by the batch and look-ups, against the plain simulators."""

import pytest

from sweeps.run.precision import precision
from tests.jaxroof.test_drafts import MOST, agreed
from tests.jaxroof.test_service import ENGINES, difference, simulated
from tests.oracle.serving import serve_service
from tests.oracle.serving.random_engines import random_drafts, random_ways
from tests.oracle.serving.random_services import case

pytestmark = pytest.mark.xdist_group("drafts")

ENGINE_CASES = 50
CASES = 20


@pytest.mark.parametrize("pools", [False, True])
def test_every_request_of_a_service_is_served_as_by_the_plain_simulator(pools):
    """Every engine has a table, lengths and a share of look-ups of its own; with pools there are two tiers too."""
    tiers = 2 * pools
    services = [case(seed, engines=ENGINES, pools=pools, tiers=tiers, drafts=MOST, ways=True) for seed in range(CASES)]
    with precision("float64"):
        found = simulated(services, pools, tiers)
    for seed, service, one in zip(range(CASES), services, found, strict=True):
        assert difference(service, one, f"case {seed} with {service.router}, pools {pools}") < 1e-9


def test_every_request_of_an_engine_is_served_as_by_the_plain_simulator():
    agreed(ENGINE_CASES, lambda seed: random_ways(seed, random_drafts(seed, MOST)))


def test_random_ways_change_what_is_right():
    """Each in most services: the share of right drafts is another one with tables, lengths and look-ups."""
    other = 0
    for seed in range(CASES):
        plain, ways = (serve_service(case(seed, engines=ENGINES, drafts=MOST, ways=word)) for word in (False, True))
        other += plain.counts["right"] != ways.counts["right"]
    assert other > CASES // 2
