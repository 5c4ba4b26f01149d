"""Waits before the queue: steps of a closed loop by hand, Little's law of an open one, first requests of clients."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.batch import Policy, Served, Traffic, waiting_steps
from jaxroof.scheduler import front_delay
from jaxroof.scheduler.outcomes import with_first_time

ISL, OSL = 100.0, 20.0


def traffic(clients=None, rate=None, requests=101):
    """Equal requests of clients, or at a rate."""
    arrival = jnp.zeros(requests) if rate is None else jnp.arange(requests).astype(float) / rate
    lengths = jnp.full(requests, ISL), jnp.full(requests, OSL)
    return Traffic(arrival=arrival, isl=lengths[0], osl=lengths[1], clients=clients)


def price(batch, rows):
    """10 ms and 1 ms per sequence on the device, 2 ms on the host."""
    return 0.01 + 1e-3 * batch.decode.sequences, 2e-3


def delay(load, **numbers):
    policy = Policy(**numbers)
    return float(front_delay(price, load, policy, 1e6, 5e-3))


def test_steps_before_the_queue():
    # held back, launched ahead, and half of those between two looks
    assert waiting_steps(Policy(wait_steps=20.0, ahead_steps=1.0, poll_steps=11.0)) == 26.0
    assert waiting_steps(Policy()) == 0.0


def test_a_closed_loop_waits_for_steps_of_all_its_clients():
    # 8 clients: a step takes 10 + 8 + 2 = 20 ms
    assert delay(traffic(clients=8.0)) == pytest.approx(5e-3)
    assert delay(traffic(clients=8.0), front_time=0.03, ahead_steps=2.0) == pytest.approx(0.035 + 2 * 0.02)
    # no more than the policy's sequences run: 10 + 4 + 2 = 16 ms
    assert delay(traffic(clients=8.0), ahead_steps=1.0, max_sequences=4.0) == pytest.approx(5e-3 + 0.016)


def test_no_more_run_than_the_cache_has_room_for():
    # 30 blocks of 16 tokens hold 4 sequences of 120: 16 ms
    policy = Policy(ahead_steps=1.0, block_size=16.0)
    assert float(front_delay(price, traffic(clients=8.0), policy, 30.0, 0.0)) == pytest.approx(0.016)


def test_an_open_loop_has_the_batch_of_littles_law():
    # 10 requests/s of 20 tokens: n = 200 (12 ms + n ms) gives n = 2.4 / 0.8 = 3
    assert delay(traffic(rate=10.0), ahead_steps=1.0) == pytest.approx(5e-3 + 0.015, rel=1e-5)
    # beyond what can be served: as many as there are requests
    assert delay(traffic(rate=1000.0), ahead_steps=1.0) == pytest.approx(5e-3 + 0.012 + 0.101)


def test_the_wait_has_a_gradient():
    def seconds(slower):
        def slow(batch, rows):
            return slower * price(batch, rows)[0], 2e-3

        return front_delay(slow, traffic(clients=8.0), Policy(ahead_steps=2.0), 1e6, 0.0)

    assert float(jax.grad(seconds)(1.0)) == pytest.approx(2 * 0.018)


def test_first_requests_of_clients_take_longer():
    arrival = jnp.arange(4.0)
    none = jnp.zeros(4)
    found = Served(**{field.name: none for field in dataclasses.fields(Served)} | {"arrival": arrival})
    seen = with_first_time(found, traffic(clients=2.0, requests=4), Policy(first_time=1.5))
    assert np.asarray(seen.arrival).tolist() == [-1.5, -0.5, 2.0, 3.0]
    assert with_first_time(found, traffic(rate=1.0, requests=4), Policy(first_time=1.5)) is found
