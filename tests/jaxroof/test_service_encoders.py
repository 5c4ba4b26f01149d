"""Workers that encode images alone, against the plain simulator of services and by hand."""

import dataclasses

import numpy as np
import pytest

from sweeps.run.precision import precision
from tests.jaxroof.test_service import ENGINES, difference, simulated
from tests.oracle.serving import serve_service
from tests.oracle.serving.random_services import case

pytestmark = pytest.mark.xdist_group("services")

CASES = 25


@pytest.mark.parametrize("pools", [False, True])
def test_every_request_is_served_as_by_the_plain_simulator(pools):
    """Two workers, as fast as each other or not, before engines of all kinds of queues and routers."""
    services = [case(seed, engines=ENGINES, pools=pools, encoders=2) for seed in range(CASES)]
    with precision("float64"):
        found = simulated(services, pools)
    for seed, service, one in zip(range(CASES), services, found, strict=True):
        assert difference(service, one, f"case {seed} with {service.router}, pools {pools}") < 1e-9


def test_images_are_encoded_one_request_after_the_other():
    """Two workers of 1 s and 3 requests at 0 s, 0 s and 0.5 s: the third begins at 1 s; vectors take 0.25 s."""
    plain = case(3, engines=1, pools=False, trees=False, turns=False)
    values = {name: getattr(plain.requests, name) for name in plain.requests.__dataclass_fields__}
    rest = {name: None if each is None else list(each[:3]) for name, each in values.items()}
    requests = type(plain.requests)(**rest | {"arrival": [0.0, 0.0, 0.5], "after": [-1] * 3})
    none = dataclasses.replace(plain, requests=requests, delay=0.0)
    some = dataclasses.replace(none, encoders=[1.0, 1.0], encoder_transfer=0.25)
    late = dataclasses.replace(none, requests=dataclasses.replace(requests, arrival=[1.25, 1.25, 2.25]))
    encoded, later = serve_service(some), serve_service(late)
    np.testing.assert_allclose(encoded.admitted, later.admitted, rtol=1e-12)
    np.testing.assert_allclose(encoded.finish, later.finish, rtol=1e-12)
    assert encoded.arrival == [0.0, 0.0, 0.5] and encoded.counts["encoded"] == 3
