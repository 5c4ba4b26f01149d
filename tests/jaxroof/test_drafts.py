"""Drafted tokens of the simulated scheduler against the plain simulator, and hand-worked numbers."""

import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.batch import STATUSES, Policy, Traffic
from jaxroof.deployment import Deployment
from jaxroof.deployment.speculation import expected_tokens
from jaxroof.scheduler import Size, begin, proceed, served
from jaxroof.scheduler.drafts import drafts, drafts_of, lengths, uniform
from jaxroof.scheduler.engine import Drafts, Measured
from sweeps.run.precision import precision
from tests.jaxroof.test_scheduler import GROUPS, ITERATIONS, OPTIMISED, SLOTS, compared, price, traffic
from tests.jaxroof.test_service import ENGINES, difference
from tests.jaxroof.test_service import simulated as service_outcomes
from tests.oracle.serving import serve
from tests.oracle.serving.drafts import Drafts as PlainDrafts
from tests.oracle.serving.drafts import uniform as plain_uniform
from tests.oracle.serving.random_engines import case, random_drafts, tabulated_price
from tests.oracle.serving.random_services import case as service_case

pytestmark = pytest.mark.xdist_group("drafts")

ENGINE_CASES = 200
SERVICE_CASES = {True: range(50), False: range(50, 100)}  # with pools, and without
MOST = 4  # drafted tokens per sequence and step


def given(plain: PlainDrafts) -> Drafts:
    """Drafts of the compiled simulator."""
    own = plain.tokens, np.asarray(plain.acceptance), plain.limit, plain.seed
    if plain.table is None:
        return drafts(*own)
    measured, (starts, tokens) = Measured(*map(np.asarray, plain.table)), np.array(plain.lengths).T
    return drafts(*own, measured=measured, lengths=lengths(starts, tokens), match=plain.match)


def simulated(cases: list) -> list:
    """What the compiled simulator makes of cases: requests, policy, blocks, clients, think time and drafts."""
    size = Size(slots=SLOTS, iterations=ITERATIONS, groups=GROUPS)

    @functools.partial(jax.jit, compiler_options=OPTIMISED)
    @jax.vmap
    def run(stream, policy, blocks, own):
        return served(*proceed(price, begin(stream, policy, blocks, size, drafts=own), stream, policy, size))

    trees = [
        (traffic(requests, clients, think), policy, float(blocks), given(own))
        for requests, policy, blocks, clients, think, own in cases
    ]
    found = jax.device_get(run(*jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)))
    return [jax.tree.map(lambda leaf, place=place: leaf[place], found) for place in range(len(cases))]


def agreed(number: int, own: Callable[[int], PlainDrafts]) -> list:
    """What the plain simulator makes of so many engines with drafts, after the compiled one was found to agree.

    They are of one structure, so that they share a program.

    Args:
      own: drafts by seed.
    """
    chosen: list = []
    for seed in itertools.count():
        found = case(seed)
        if found[1].queue == "fcfs" and math.isinf(found[1].max_waiting):
            chosen.append((*found, own(seed)))
        if len(chosen) == number:
            break
    with precision("float64"):
        found = simulated(chosen)
    right = [serve(tabulated_price, *given, drafts=own) for *given, own in chosen]
    for index, (outcome, (mine, _)) in enumerate(zip(right, found, strict=True)):
        compared(outcome, mine, 1e-9, f"case {index}")
    return right


def test_every_request_of_an_engine_is_served_as_by_the_plain_simulator():
    """Among them every kind of event."""
    limits: list = []

    def own(seed: int) -> PlainDrafts:
        drawn = random_drafts(seed, MOST)
        limits.append(drawn.limit)
        return drawn

    right = agreed(ENGINE_CASES, own)
    kinds = ("right", "preempted", "preempted_partial", "evicted", "swapped_in")
    assert all(sum(one.counts[kind] > 0 for one in right) >= 3 for kind in kinds)
    assert sum(map(math.isfinite, limits)) > 50


@pytest.mark.parametrize("pools", [False, True])
def test_every_request_of_a_service_is_served_as_by_the_plain_simulator(pools):
    """Every engine drafts another number of tokens, up to another number of sequences."""
    services = [service_case(seed, engines=ENGINES, pools=pools, drafts=MOST) for seed in SERVICE_CASES[pools]]
    with precision("float64"):
        found = service_outcomes(services, pools)
    for seed, service, one in zip(SERVICE_CASES[pools], services, found, strict=True):
        difference(service, one, f"case {seed} with {service.router}, pools {pools}")


def alone(traffic, own, price, policy=None, iterations=4000, slots=32):
    """Outcome and timeline of an engine with room for everything."""
    policy = Policy(block_size=1.0, token_budget=1e6, max_sequences=float(slots)) if policy is None else policy
    size = Size(slots=slots, iterations=iterations)
    run = begin(traffic, policy, 1e6, size, drafts=own)
    return served(*proceed(price, run, traffic, policy, size))


def together(count: int, isl: float, osl: float) -> Traffic:
    return Traffic(arrival=jnp.zeros(count), isl=jnp.full(count, isl), osl=jnp.full(count, osl))


@pytest.mark.parametrize(
    ("deployment", "acceptance"),
    [
        (Deployment(drafts=3.0), 0.8),
        (Deployment(drafts=4.0), (0.9, 0.6, 0.5)),
        (Deployment(drafts=2.0, tree=(4.0, 2.0)), 0.4),
        (Deployment(drafts=4.0, drafter="ngram", match=0.4), 0.7),
    ],
)
def test_sequences_keep_the_expected_tokens_per_step(deployment, acceptance, float64):
    """32 sequences of 2,000 tokens, 1 % apart at most: some 800 steps each, of standard deviation 1.3 tokens."""
    own = drafts_of(deployment, Policy(acceptance=acceptance))

    def price(batch, rows):
        return jnp.asarray(1.0), jnp.asarray(0.0)

    @jax.jit
    def run():
        return alone(together(32, 8.0, 2000.0), own, price)

    found, timeline = run()
    assert np.all(found.status == STATUSES.index("finished"))
    steps = np.sum(timeline.decoding * timeline.steps)
    assert steps + np.sum(timeline.right) == 32 * 1999
    # 3 drafts of a last step are cut off at most, of 2,000 tokens.
    assert 32 * 1999 / steps == pytest.approx(float(expected_tokens(deployment, acceptance)), rel=0.01)


def test_times_are_hand_worked_and_have_gradients(float64):
    """8 + 9 tokens of one sequence with 3 drafts: 1, then 4 and 4, or 8 single ones; a step of t s and b s a row."""
    seconds = jnp.asarray([2.0, 0.25])

    def price(seconds, batch, rows):
        verified = batch.decode.sequences * (1.0 + batch.decode.drafted)
        return seconds[0] + seconds[1] * (batch.prefill.tokens + verified), jnp.asarray(0.0)

    @jax.jit
    @jax.value_and_grad
    def finish(seconds, chance):
        own = drafts(3, jnp.full(3, chance))
        found, _ = alone(together(1, 8.0, 9.0), own, functools.partial(price, seconds), iterations=32, slots=1)
        return found.finish[0]

    for chance, steps in ((1.0, 2.0), (0.0, 8.0)):
        found, slope = finish(seconds, jnp.asarray(chance))
        # The prompt's 8 rows, and 4 in every step.
        np.testing.assert_allclose(slope, [1.0 + steps, 8.0 + 4.0 * steps], rtol=1e-12)
        assert float(found) == pytest.approx(float(jnp.dot(slope, seconds)), rel=1e-12)


def test_random_numbers_are_those_of_the_plain_simulator(float64):
    requests, produced = np.meshgrid(np.arange(50), np.arange(1, 50))
    found = jax.jit(uniform)(jnp.int32(3), jnp.asarray(requests, jnp.int32), jnp.asarray(produced, jnp.int32))
    pairs = zip(requests.ravel(), produced.ravel(), strict=True)
    np.testing.assert_array_equal(np.ravel(found), [plain_uniform(3, int(one), int(other)) for one, other in pairs])
