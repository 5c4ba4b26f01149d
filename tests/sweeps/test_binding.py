"""What keeps requests waiting: the cache, the policy's sequences, or nothing."""

import pytest

from sweeps.run.simulated.load import load
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.binding import binding
from sweeps.serving.run import simulation

ASKED = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "concurrency": 16,
    "requests": 32,
    "isl": 900,
    "osl": 60,
}
SMALL = {
    "deployment.memory_utilization": 0.255,
    "deployment.reserve_bytes": "3GB",
    "deployment.sampled_rows": "0",
    "deployment.graph_bytes": "0B",
}
"""A cache of a few sequences beside 16 GB of weights."""


@pytest.fixture(scope="module")
def bound():
    """What binds with settings beside the common ones."""

    def found(**words):
        return binding(simulation(serve_spec(**ASKED | words)))

    return found


def test_a_cache_that_holds_few_requests_binds(bound):
    one = bound(overrides=SMALL, policy={"reserve": 1})
    assert one.resource == "kv_cache" and 1 <= one.running < 16 and one.wanted == 16
    assert one.text == f"KV cache binds: {one.running} of 16 requests run at once"


def test_running_requests_that_lose_their_cache_say_so(bound):
    one = bound(overrides=SMALL, isl=200, osl=900)
    assert one.resource == "kv_cache" and one.preemptions > 0 and one.text.endswith("lost their cache")


def test_the_policys_sequences_bind(bound):
    one = bound(policy={"max_sequences": 4})
    assert one.text == "max_sequences binds: 4 of 16 requests run at once"


def test_nothing_binds_where_all_run(bound):
    assert bound() is None


def test_sessions_are_refused_in_a_closed_loop():
    with pytest.raises(ValueError, match=r"sessions = turns=4 cannot be given with concurrency: .*; give rate, which"):
        load(serve_spec(**ASKED | {"sessions": "turns=4"}))
