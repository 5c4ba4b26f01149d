"""Simulated services: all replicas behind a router, pools, and conversations that wait for answers."""

import numpy as np
import pytest

import sweeps

MODEL = {"hardware": "H100-SXM", "model": "Llama-3.1-8B"}
LOAD = {"rate": 12, "isl": "256..1024", "osl": "16..64", "requests": 60}
TALKS = {"sessions": "turns=2..4,think=1,wait=1", "prefixes": "groups=2,tokens=512"}

pytestmark = pytest.mark.xdist_group("simulated services")


def test_a_service_of_one_replica_is_that_replica():
    alone, service = (
        sweeps.serve(**MODEL, **LOAD).dataset,
        sweeps.serve(**MODEL, **LOAD, router="least_requests").dataset,
    )
    for name in ("ttft", "tpot", "e2e", "queueing"):
        np.testing.assert_allclose(alone[name], service[name], rtol=1e-9, err_msg=name)
    for name in ("tokens_per_second", "batch_mean", "itl_p99", "utilization", "usd_per_million_tokens", "kv_use_max"):
        np.testing.assert_allclose(alone[name], service[name], rtol=2e-2, err_msg=name)
    assert set(np.unique(service.replica)) == {0}


def test_every_second_request_goes_to_each_of_two_replicas():
    """In turns, so that the first replica is what a simulation of one in two is."""
    half = sweeps.serve(**MODEL, **LOAD, deployment={"dp": 2}).dataset
    service = sweeps.serve(**MODEL, **LOAD, deployment={"dp": 2}, router="round_robin").dataset
    np.testing.assert_array_equal(service.replica, np.arange(60) % 2)
    for name in ("ttft", "e2e"):
        np.testing.assert_allclose(service[name][::2], half[name], rtol=1e-9)
    np.testing.assert_allclose(service.devices, 2.0)


def test_seeds_of_routers_are_whole_numbers_as_those_of_loads():
    """Written as 1e2 too, and beyond 32 bits."""
    words = MODEL | LOAD | {"deployment": {"dp": 2}, "router": "random"}
    found = {seed: sweeps.serve(**words, seed=seed).dataset.replica.values for seed in ("100", "1e2", 3 * 2**31)}
    np.testing.assert_array_equal(found["100"], found["1e2"])
    assert set(found[3 * 2**31]) == {0, 1}


def test_a_router_that_knows_caches_finds_more_in_them():
    words = MODEL | LOAD | TALKS | {"rate": 3, "deployment": {"dp": 3}, "requests": 150}
    share = {name: float(sweeps.serve(**words, router=name).dataset.cached_share) for name in ("round_robin", "prefix")}
    assert share["prefix"] > share["round_robin"] + 0.05


def test_turns_wait_for_answers():
    found = sweeps.serve(**MODEL, **(LOAD | TALKS | {"rate": 1}), router="session").dataset
    arrival, finish = found.arrival.values, found.arrival.values + found.e2e.values
    assert (found.status == 0).all()
    # Every turn but a first one comes after some answer of the same conversation, a think time later.
    assert sum(np.isfinite(arrival)) == 60 and np.nanmin(finish - arrival) > 0.0


def test_pools_hand_caches_over():
    words = MODEL | LOAD | {"deployment": {"dp": 2}, "prefill": {"dp": 1}}
    found, whole = sweeps.serve(**words).dataset, sweeps.serve(**words, whole=True).dataset
    np.testing.assert_array_equal(np.unique(found.replica), [0])
    assert set(np.unique(found.decode_replica)) == {1, 2}
    assert float(found.devices) == 3.0 and (found.status == 0).all()
    # The whole cache after the prompt takes longer than its last layer.
    assert float(whole.ttft_mean) > float(found.ttft_mean)


def test_tiers_give_back_what_a_small_cache_has_evicted():
    """Conversations that come back after others have taken their place in the devices' memory."""
    words = MODEL | LOAD | TALKS | {"rate": 3, "requests": 120, "overrides": {"hardware.memory.hbm.capacity": "21GB"}}
    words |= {"sessions": "turns=3..5,think=10,wait=1"}
    alone, tiered = (
        sweeps.serve(**words, router="session").dataset,
        sweeps.serve(**words, router="session", tiers="host=1TB").dataset,
    )
    assert float(tiered.cached_share) > float(alone.cached_share) + 0.05
    assert float(tiered.ttft_mean) < float(alone.ttft_mean)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"router": "nearest"}, "router = 'nearest' must be round_robin, random"),
        ({"decode_router": "random"}, "decode_router has no effect without a router or a prefill pool"),
        ({"router": "prefix", "decode_router": "random"}, "decode_router has no effect without a prefill pool"),
        ({"router": "prefix", "router_weights": "hit=2"}, "router_weights = 'hit=2': 'hit' is no weight"),
        ({"whole": True}, "whole has no effect without a router or a prefill pool"),
        ({"prefill": {"tp": 3}}, "tp"),
        ({"tiers": "hst=1TB"}, "there is no tier 'hst'; did you mean host"),
        ({"tiers": "host=1TB", "tier_rules": {"writes": "back"}}, "there is no tier_rules.writes; did you mean write"),
        ({"tier_rules": {"write": "back"}}, "tier_rules has no effect without tiers"),
        ({"tiers": "host=1TB"}, "tiers = 'host=1TB' has no effect: requests share no part of a prompt"),
    ],
)
def test_what_cannot_be_is_one_line(words, said):
    with pytest.raises(ValueError, match=said.replace("'", ".")) as error:
        sweeps.serve(**MODEL, **LOAD, **words)
    assert "\n" not in str(error.value)
