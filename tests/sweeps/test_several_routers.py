"""One load with several routers: one dataset and one program, each router as on its own."""

import jax
import numpy as np
import pytest

import sweeps
from sweeps.show.routers import routers
from tests.sweeps.test_services import LOAD, MODEL, TALKS

pytestmark = pytest.mark.xdist_group("simulated services")

WORDS = MODEL | LOAD | TALKS | {"rate": 3, "deployment": {"dp": 3}, "requests": 60, "tiers": "host=1TB,ssd=8TB"}
NAMES = ("round_robin", "least_requests", "prefix", "session", "slo", "power_of_two")


@pytest.fixture(scope="module")
def several():
    return sweeps.serve(**WORDS, router=",".join(NAMES)).dataset


def test_every_router_does_what_it_does_alone(several):
    assert tuple(several.router.values) == NAMES and several.attrs["title"].endswith("with 6 routers")
    for name in ("round_robin", "prefix"):
        alone, one = sweeps.serve(**WORDS, router=name).dataset, several.sel(router=name)
        for column in ("ttft", "e2e", "cached", "replica", "tokens_per_second", "cached_share"):
            np.testing.assert_array_equal(one[column], alone[column], err_msg=f"{name}: {column}")


def test_no_program_is_compiled_for_another_router(several):
    compiled = []

    def counted(name, seconds, **more):
        compiled.extend([name] if "backend_compile" in name else [])

    jax.monitoring.register_event_duration_secs_listener(counted)
    try:
        sweeps.serve(**WORDS, router="session,random")
    finally:
        jax.monitoring.unregister_event_duration_listener(counted)
    assert not compiled


def test_shares_of_prompt_tokens_and_loads_of_replicas(several):
    assert several.source.values.tolist() == ["hbm", "host", "ssd", "again", "new"]
    np.testing.assert_allclose(several.prompt_share.sum("source"), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        several.prompt_share.sel(source=["hbm", "host", "ssd"]).sum("source"), several.cached_share, rtol=1e-12
    )
    # What no earlier request had is the same for all.
    assert np.ptp(several.prompt_share.sel(source="new").values) < 1e-12
    # By Little's law: latencies of all requests over the time of the run.
    here = (several.e2e.sum("request") / several.duration).values
    np.testing.assert_allclose(several.replica_load.sum("replica_number"), here, rtol=1e-9)
    assert several.load_imbalance.sel(router="round_robin") < 1.5 and float(several.load_imbalance.max()) <= 3.0


def test_pools_have_the_loads_of_replicas_for_prompts():
    words = MODEL | LOAD | {"deployment": {"dp": 1}, "prefill": {"dp": 2}}
    found = sweeps.serve(**words, router="round_robin,least_requests").dataset
    assert found.sizes["replica_number"] == 2 and found.source.values.tolist() == ["hbm", "again", "new"]


def test_no_request_that_fits_and_answers_of_one_token():
    words = MODEL | {"deployment": {"dp": 2}, "rate": 10, "requests": 5, "router": "slo,random"}
    refused = sweeps.serve(**words, isl=512_000, osl=8).dataset
    assert (refused.refused == 5).all() and (refused.prompt_share == 0.0).all() and (refused.replica_load == 0.0).all()
    with pytest.raises(ValueError, match="with one of the routers no request finished, so there is nothing to draw"):
        routers(refused)
    assert "tokens_per_second" not in sweeps.serve(**words, isl=512, osl=1).dataset


def test_a_picture_has_a_row_for_each_the_quickest_first(several):
    made = routers(several)
    left, right = made.axes
    order = several.router.values[np.argsort(several.ttft_p99.values, kind="stable")].tolist()
    assert [label.get_text() for label in left.get_yticklabels()] == order
    assert [text.get_text() for text in left.get_legend().get_texts()][:2] == ["HBM", "host memory"]
    assert len(right.collections) == 2 * len(NAMES) and right.get_xscale() == "log"
    alone = sweeps.serve(**WORDS, router="slo").dataset
    with pytest.raises(ValueError, match="a picture of routers is of a dataset that jaxroof serve --router A,B wrote"):
        routers(alone)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"router": "prefix,nearest"}, "router = .nearest. must be round_robin"),
        ({"router": "prefix,"}, "router = .. must be round_robin"),
        ({"router": "prefix,slo,prefix"}, "router = .prefix,slo,prefix.: prefix stands twice"),
        ({"router": "slo,session", "router_weights": "load=2"}, "router_weights = .load=2. has no effect without"),
        ({"router": "slo", "router_weights": "load=2"}, "router_weights = .load=2. has no effect without"),
        ({"router": "slo,session", "deployment": {}}, "before one replica all routers are alike; dp says how many"),
        ({"router": "slo,session", "decode_router": "slo"}, "decode_router has no effect without a prefill pool"),
    ],
)
def test_what_cannot_be_is_one_line(words, said):
    with pytest.raises(ValueError, match=said) as error:
        sweeps.serve(**WORDS | words)
    assert "\n" not in str(error.value)
