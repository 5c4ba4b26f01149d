"""Limit on requests at once: the cache, the policy's sequences, or nothing."""

import dataclasses

import numpy as np
import pytest

from jaxroof.memory.capacity import kv_capacity_tokens
from sweeps.run.simulated.load import load
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.report import binding
from sweeps.serving.run import simulation

MEMORY = "deployment.memory_utilization"

ASKED = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "concurrency": 16,
    "requests": 32,
    "isl": 900,
    "osl": 60,
}
FEW = 5.5
"""Requests of `ASKED` that a small cache has room for."""


def small():
    """A share of the memory that leaves a cache of a few requests: the room is linear in the share."""
    shares = np.array([0.8, 0.9])
    cases = [serve_spec(**ASKED, overrides={MEMORY: share}).case().scenario for share in shares]
    room = [float(kv_capacity_tokens(one.hardware, one.model, one.deployment)) for one in cases]
    wanted = FEW * (ASKED["isl"] + ASKED["osl"])
    return {MEMORY: float(shares[0] + (wanted - room[0]) * (shares[1] - shares[0]) / (room[1] - room[0]))}


@pytest.fixture(scope="module")
def bound():
    """What binds with settings beside the common ones."""

    def found(**words):
        return binding(simulation(serve_spec(**ASKED | words)))

    return found


def test_a_cache_that_holds_few_requests_binds(bound):
    one = bound(overrides=small(), policy={"reserve": 1})
    assert one.resource == "kv_cache" and one.running == 5 and one.wanted == 16
    assert one.text == f"KV cache binds: {one.running} of 16 requests run at once"


def test_running_requests_that_lose_their_cache_say_so(bound):
    one = bound(overrides=small(), isl=200, osl=900)
    assert one.resource == "kv_cache" and one.preemptions > 0 and one.text.endswith("lost their cache")


def test_the_policys_sequences_bind(bound):
    one = bound(policy={"max_sequences": 4})
    assert one.text == "max_sequences binds: 4 of 16 requests run at once"


def test_nothing_binds_where_all_run(bound):
    assert bound() is None


def test_clients_hold_conversations():
    """16 clients, 32 requests: eight conversations of four turns, the first turns of all of them first."""
    found = load(serve_spec(**ASKED | {"sessions": "turns=4,think=5", "think": "2s"}))
    assert found.text == "32 requests of 2,340 + 60 tokens on average from 16 clients, 2 s after each conversation"
    arrays = found.traffic
    assert arrays.clients == 16.0 and arrays.think == 2.0
    assert arrays.opens.tolist() == (arrays.after < 0).tolist() == [True] * 8 + [False] * 24
    assert arrays.closes.sum() == 8 and (arrays.isl[arrays.closes > 0] == 4 * 900 + 3 * 60).all()
    # Two replicas have four whole conversations each.
    half = dataclasses.replace(found, clients=16).replica(2)
    assert (half.stream.after < 0).sum() == 4 and len(half.stream) == 16 and half.clients == 8
    with pytest.raises(ValueError, match="wait = 0 cannot be given with concurrency"):
        load(serve_spec(**ASKED | {"sessions": "turns=4,think=5,wait=0"}))
