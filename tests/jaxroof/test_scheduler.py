"""The compiled simulator against the plain one: every request of random workloads under random policies."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.batch import STATUSES, Encode, Traffic
from jaxroof.scheduler import Size, begin, proceed, served
from jaxroof.scheduler.advance import MANY
from sweeps.run.precision import precision
from tests.oracle.serving import serve
from tests.oracle.serving.random_engines import case, tabulated_price

pytestmark = pytest.mark.xdist_group("scheduler")

SEEDS = range(200)
REQUESTS, GROUPS, SLOTS = 64, 64, 16
ITERATIONS = 3600  # of 2,776 steps at most
OPTIMISED = {"xla_backend_optimization_level": 1}  # as many simulations are, whatever other tests compile with

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


def traffic(requests, clients: int, think: float, images: Encode | None = None) -> Traffic:
    """An open loop is a closed one with a client for every request, so that both share a program."""
    return Traffic(
        arrival=padded(requests.arrival, math.inf),
        isl=padded(requests.isl, 1.0),
        osl=padded(requests.osl, 0.0),
        group=padded(requests.group, -1.0),
        shared=padded(requests.shared, 0.0),
        keep=padded(requests.keep if requests.group is not None else None, 0.0),
        encode=images,
        clients=float(clients or REQUESTS),
        think=think,
    )


def simulated() -> dict[float, list]:
    """What the compiled simulator makes of every case, step by step (1) and with several steps at once (MANY)."""
    kinds: dict = {}
    for index, ((_, policy, *_), _) in enumerate(cases()):
        ranked = policy.queue == "shortest_first" or math.isfinite(policy.max_waiting)
        kinds.setdefault((policy.queue, ranked), []).append(index)
    found: dict[float, list] = {longest: [None] * len(cases()) for longest in (1.0, MANY)}
    for (_, ranked), members in kinds.items():
        size = Size(slots=SLOTS, iterations=ITERATIONS, groups=GROUPS, ranked=ranked)

        @functools.partial(jax.jit, compiler_options=OPTIMISED)
        @jax.vmap
        def run(stream, policy, blocks, longest, size=size):
            start = begin(stream, policy, blocks, size, longest=longest)
            return served(*proceed(price, start, stream, policy, size))

        chosen = [cases()[index][0] for index in members]
        trees = [
            (traffic(requests, clients, think), policy, float(blocks), longest)
            for longest in found
            for requests, policy, blocks, clients, think in chosen
        ]
        together = jax.tree.map(lambda *leaves: jnp.asarray(np.asarray(leaves, float)), *trees)
        outcomes = jax.device_get(run(*together))
        for place, (longest, index) in enumerate((longest, index) for longest in found for index in members):
            found[longest][index] = jax.tree.map(lambda leaf, place=place: leaf[place], outcomes)
    return found


@pytest.fixture(scope="module")
def both():
    with precision("float64"):
        return simulated()


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


def test_the_cases_have_something_of_everything():
    totals: dict[str, int] = {}
    for _, outcome in cases():
        for name, count in outcome.counts.items():
            totals[name] = totals.get(name, 0) + (count > 0)
    assert all(totals[name] >= 3 for name in ("preempted", "preempted_partial", "evicted", "swapped_in"))
    assert totals["shortened"] >= 1
    assert all(totals[name] >= 20 for name in ("refused", "rejected", "jumps"))


def test_step_by_step_every_request_is_served_as_by_the_plain_simulator(both):
    """The same decisions, and the same times but for the order of sums."""
    for seed, ((_, outcome), (found, _)) in enumerate(zip(cases(), both[1.0], strict=True)):
        compared(outcome, found, 1e-11, f"seed {seed}")


def test_several_steps_at_once_change_nothing(both):
    """Times are linear between nodes of the price tables, so that sums over steps are closed forms."""
    for seed, ((_, outcome), (found, _)) in enumerate(zip(cases(), both[MANY], strict=True)):
        compared(outcome, found, 1e-9, f"seed {seed}")


def test_images_are_encoded_in_the_step_that_begins_their_prompt():
    """200 tokens of an encoder in every request, in two inputs; prompts that lost their cache are encoded again."""
    images = Encode(sequences=2.0, tokens=200.0)
    chosen = [found for found in map(case, SEEDS) if found[1].queue == "fcfs" and math.isinf(found[1].max_waiting)][:30]
    size = Size(slots=SLOTS, iterations=ITERATIONS, groups=GROUPS)

    @jax.jit
    @jax.vmap
    def run(stream, policy, blocks):
        return served(*proceed(price, begin(stream, policy, blocks, size), stream, policy, size))

    with precision("float64"):
        trees = [
            (traffic(one, clients, think, images), own, float(blocks)) for one, own, blocks, clients, think in chosen
        ]
        found = jax.device_get(run(*jax.tree.map(lambda *leaves: jnp.asarray(np.asarray(leaves, float)), *trees)))
    preemptions = 0
    for place, (requests, policy, blocks, clients, think) in enumerate(chosen):
        right = serve(tabulated_price, requests, policy, blocks, clients, think, images)
        compared(right, jax.tree.map(lambda leaf, place=place: leaf[place], found[0]), 1e-9, f"case {place}")
        preemptions += right.counts["preempted"] + right.counts["preempted_partial"]
    assert preemptions > 20


def test_iterations_are_far_fewer_than_steps(both):
    iterations = sum(int(np.sum(timeline.steps > 0)) for _, timeline in both[MANY])
    steps = sum(len(outcome.steps) for _, outcome in cases())
    assert iterations < 0.25 * steps


def test_nothing_is_lost(both):
    """Tokens that come out are those that were asked for; time goes forward; the cache holds what there is."""
    for ((requests, policy, blocks, *_), _), (found, timeline) in zip(cases(), both[MANY], strict=True):
        count = len(requests.isl)
        done = found.status[:count] == STATUSES.index("finished")
        assert not np.any(found.status == STATUSES.index("unfinished"))
        asked = np.sum(np.asarray(requests.osl)[done])
        decoded = np.sum(timeline.decoding * timeline.steps)
        # A prompt that is completed gives one token, and one that is computed again gives at most one more.
        again = 0.0 if policy.swap else np.sum(found.preemptions[:count])
        assert asked - np.sum(done) - again <= decoded <= asked - np.sum(done)
        assert np.all(np.diff(timeline.end) >= 0.0)
        assert np.all(timeline.blocks <= blocks)
        assert np.all(found.arrival[:count][done] <= found.admitted[:count][done])
        assert np.all(found.admitted[:count][done] < found.first_token[:count][done])
        assert np.all(found.first_token[:count][done] <= found.finish[:count][done])
        working = timeline.steps > 0
        assert np.all((timeline.decoding + timeline.prompt_tokens)[working] > 0)
