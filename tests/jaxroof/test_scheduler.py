"""The compiled simulator against the plain one: every request of random workloads under random policies."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.scheduler import Size, begin, proceed, served
from jaxroof.traffic import STATUSES, Traffic
from sweeps.api import precision
from tests.oracle.random_serving import case, tabulated_price
from tests.oracle.serving import serve

SEEDS = range(200)
REQUESTS, GROUPS, SLOTS = 64, 64, 16

COLUMNS = ("arrival", "admitted", "first_token", "finish")


@functools.cache
def cases() -> list:
    """Every case with what the plain simulator makes of it."""
    found = []
    for seed in SEEDS:
        requests, policy, blocks, clients, think = case(seed)
        found.append((case(seed), serve(tabulated_price, requests, policy, blocks, clients, think)))
    return found


def price(batch, rows):
    device, host = tabulated_price(batch, rows=rows, xp=jnp)
    return jnp.asarray(device), jnp.asarray(host)


def padded(values, fill: float) -> np.ndarray:
    array = np.full(REQUESTS, fill)
    if values is not None:
        array[: len(values)] = values
    return array


def traffic(requests, clients: int, think: float) -> Traffic:
    return Traffic(
        arrival=padded(requests.arrival, math.inf),
        isl=padded(requests.isl, 1.0),
        osl=padded(requests.osl, 0.0),
        group=padded(requests.group, -1.0),
        shared=padded(requests.shared, 0.0),
        keep=padded(requests.keep if requests.group is not None else None, 0.0),
        clients=float(clients) if clients else None,
        think=think,
    )


def simulated(longest: float, iterations: int) -> list:
    """What the compiled simulator makes of every case: those of one structure together."""
    kinds: dict = {}
    for index, ((requests, policy, blocks, clients, think), _) in enumerate(cases()):
        ranked = policy.queue == "shortest_first" or math.isfinite(policy.max_waiting)
        kinds.setdefault((clients > 0, policy.queue, ranked), []).append(
            (index, requests, policy, blocks, clients, think)
        )
    found: list = [None] * len(cases())
    for (_, _, ranked), members in kinds.items():
        size = Size(slots=SLOTS, iterations=iterations, groups=GROUPS, ranked=ranked)
        streams = [traffic(requests, clients, think) for _, requests, _, _, clients, think in members]
        together = [
            jax.tree.map(lambda *leaves: jnp.asarray(leaves, dtype=float), *trees)
            for trees in (streams, [member[2] for member in members], [float(member[3]) for member in members])
        ]

        @jax.jit
        def run(stream, policy, blocks, size=size):
            start = begin(stream, policy, blocks, size, longest=longest)
            return served(*proceed(price, start, stream, policy, size))

        outcomes, timeline = jax.device_get(jax.vmap(run)(*together))
        for place, member in enumerate(members):
            found[member[0]] = jax.tree.map(lambda leaf, place=place: leaf[place], (outcomes, timeline))
    return found


@pytest.fixture(scope="module")
def exact():
    with precision("float64"):
        return simulated(1.0, 9000)


def compared(outcome, found, tolerance: float, label: str) -> None:
    count = len(outcome.arrival)
    assert [STATUSES[s] for s in found.status[:count]] == [STATUSES[s] for s in outcome.status], label
    assert np.all(found.status[count:] == STATUSES.index("absent"))
    for name in COLUMNS:
        mine, right = getattr(found, name)[:count], np.asarray(getattr(outcome, name), float)
        if name == "arrival":  # of those that were never sent
            right = np.where(np.isfinite(right), right, np.nan)
        np.testing.assert_allclose(mine, right, rtol=tolerance, atol=1e-12, err_msg=f"{label}: {name}")
    np.testing.assert_array_equal(found.preemptions[:count], outcome.preemptions, err_msg=label)
    np.testing.assert_array_equal(found.cached[:count], outcome.cached, err_msg=label)


def test_every_request_of_random_workloads_is_served_as_by_the_plain_simulator(exact):
    """Step by step: the same decisions, and the same times but for the order of sums."""
    for seed, ((_, outcome), (found, _)) in enumerate(zip(cases(), exact, strict=True)):
        compared(outcome, found, 1e-11, f"seed {seed}")
