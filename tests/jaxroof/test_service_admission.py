"""Requests that are rejected because their first token would come late, against the plain simulator of services."""

import pytest

from jaxroof.batch import STATUSES
from sweeps.run.precision import precision
from tests.jaxroof.test_service import ENGINES, difference, simulated
from tests.oracle.serving import serve_service
from tests.oracle.serving.random_services import case

pytestmark = pytest.mark.xdist_group("services")

CASES = 40


def largest_difference(seeds, pools):
    """The largest relative difference of a time; asserts that everything else is the same."""
    services = [case(seed, engines=ENGINES, pools=pools, admission=True) for seed in seeds]
    with precision("float64"):
        found = simulated(services, pools)
    labels = [
        f"case {seed} with {service.router}, pools {pools}" for seed, service in zip(seeds, services, strict=True)
    ]
    return max(map(difference, services, found, labels))


@pytest.mark.parametrize("pools", [False, True])
def test_every_request_is_served_as_by_the_plain_simulator(pools):
    """Every request has a limit of its own; turns go on after those that were rejected."""
    assert largest_difference(range(CASES), pools) < 1e-9


def test_random_services_reject_some():
    rejected = STATUSES.index("rejected")
    some = 0
    for seed in range(CASES):
        plain, out = (serve_service(case(seed, engines=ENGINES, admission=word)) for word in (False, True))
        some += 0 < out.status.count(rejected) < len(out.status) and out.status.count(rejected) > plain.status.count(
            rejected
        )
    assert some > CASES // 2
