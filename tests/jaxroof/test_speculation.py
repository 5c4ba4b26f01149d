"""Speculative decoding: tokens kept of chains and trees, what a draft model adds to a step, the scheduler's share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, Requests, datasheet, decode, mixed, prefill
from jaxroof.deployment.speculation import beta_acceptance, expected_tokens
from jaxroof.jobs.composition import decode_batch
from jaxroof.jobs.request import request_cost
from jaxroof.memory.capacity import kv_bytes_of_sequence, kv_bytes_per_token, weight_bytes
from jaxroof.memory.legality import broken_rule
from jaxroof.prices.prices import step_prices
from jaxroof.prices.tables import Limits
from jaxroof.step.forward import step_ops
from jaxroof.step.overlap import overlapped_ops
from jaxroof.step.step import memory_floors, step_time
from tests.hand import EXACT

CERTAIN = 1e-5  # relative: probabilities are taken as at most 1 - 1e-6


@pytest.fixture(scope="module")
def pair(dense, attention, feedforward):
    """`dense` with a draft model of one of its layers."""
    return dataclasses.replace(
        dense, draft=dataclasses.replace(dense, blocks=(dataclasses.replace(dense.blocks[0], count=1.0),))
    )


@pytest.mark.parametrize(
    ("deployment", "acceptance", "tokens"),
    [
        # scenario I5.1, 4 drafts: (1 - a^5) / (1 - a) = 2.7731, 3.0508, 3.3616, 3.7086
        (Deployment(drafts=4.0), 0.70, 2.7731),
        (Deployment(drafts=4.0), 0.75, 3.05078125),
        (Deployment(drafts=4.0), 0.80, 3.3616),
        (Deployment(drafts=4.0), 0.85, 3.70863125),
        # by position: 1 + 0.9 + 0.9 * 0.8 + 0.9 * 0.8 * 0.5
        (Deployment(drafts=3.0), (0.9, 0.8, 0.5), 2.98),
        # two drafts of three positions: 1 + 0.9 + 0.72
        (Deployment(drafts=2.0), (0.9, 0.8, 0.5), 2.62),
        # more drafts than positions: the rest are never right
        (Deployment(drafts=9.0), (0.9, 0.8, 0.5), 2.98),
        # a tree of 2 branches, then 3 of each: depths are right with 1 - 0.5^2 = 0.75 and 1 - 0.5^3 = 0.875
        (Deployment(drafts=2.0, tree=(2.0, 3.0)), 0.5, 1 + 0.75 + 0.75 * 0.875),
        (Deployment(drafts=1.0, tree=(2.0, 3.0)), 0.5, 1.75),
        (Deployment(drafts=2.0, tree=(2.0, 3.0)), (0.5, 0.2), 1 + 0.75 + 0.75 * (1 - 0.8**3)),
        (Deployment(drafts=None), 0.8, 1.0),
        (Deployment(drafts=0.0, tree=(2.0,)), 0.8, 1.0),
    ],
)
def test_expected_tokens(deployment, acceptance, tokens):
    assert float(expected_tokens(deployment, acceptance)) == pytest.approx(tokens, rel=CERTAIN)


def test_a_law_of_probabilities_is_the_mean_over_sequences(float64):
    """A beta distribution with parameters 3 and 2: the mean of (1 - p^5) / (1 - p) over p, by 20,000 quantile steps."""
    p = (np.arange(20_000) + 0.5) / 20_000
    weight = p**2 * (1 - p)
    mean = np.sum(weight * (1 - p**5) / (1 - p)) / np.sum(weight)
    found = expected_tokens(Deployment(drafts=4.0), beta_acceptance(0.6, 5.0, 8))
    # 1e-6: the midpoint rule's error
    assert float(found) == pytest.approx(mean, rel=1e-6)
    # the constant is its limit: 1e-6 for a distribution of width 1e-4
    narrow = expected_tokens(Deployment(drafts=4.0), beta_acceptance(0.6, 1e8, 4))
    assert float(narrow) == pytest.approx((1 - 0.6**5) / 0.4, rel=1e-6)


def test_gradients_are_finite_at_the_ends(float64):
    """Of chances 0 and 1, in chains, positions and trees."""
    tree = Deployment(drafts=2.0, tree=(2.0, 3.0))
    for deployment in (Deployment(drafts=2.0), tree):
        for value in (0.0, 1.0):
            for chances in (value, (value, value)):
                slope = jax.grad(lambda a, d: jnp.asarray(expected_tokens(d, a)))(chances, deployment)
                ways = jax.grad(lambda d, a: jnp.asarray(expected_tokens(d, a)))(deployment, chances)
                assert np.isfinite(jax.tree.leaves((slope, ways))).all()


def test_a_draft_model_runs_as_often_as_it_drafts(pair):
    """3 sequences, 2 drafts: the model verifies 9 tokens once, each of the draft's runs works on 3."""
    ops = step_ops(pair, Deployment(drafts=2.0), decode(3.0, 50.0))
    assert float(ops["up_proj"].matrix_flops) == pytest.approx(2 * 9 * 1000 * 6000, rel=EXACT)
    # gate and up of 3000 each, in 1 layer, twice
    assert float(ops["drafts.up_proj"].matrix_flops) == pytest.approx(2 * 3 * 1000 * 6000, rel=EXACT)
    assert float(ops["drafts.up_proj"].count) == 2
    assert float(ops["up_proj"].count) == 4
    assert float(ops["drafts.head"].matrix_flops) == pytest.approx(2 * 3 * 1000 * 20_000, rel=EXACT)
    assert not any(name.startswith("draft.") for name in ops)


def test_a_draft_model_reads_the_prompt_once(pair):
    ops = step_ops(pair, Deployment(drafts=2.0), prefill(2.0, 70.0))
    assert float(ops["draft.up_proj"].matrix_flops) == pytest.approx(2 * 140 * 1000 * 6000, rel=EXACT)
    assert float(ops["draft.head"].kernels) == 0  # nothing is sampled of it
    assert not any(name.startswith("drafts.") for name in ops)
    both = step_ops(pair, Deployment(drafts=2.0), mixed(prefill(2.0, 70.0), decode(3.0, 50.0)))
    assert float(both["draft.up_proj"].matrix_flops) == pytest.approx(2 * 140 * 1000 * 6000, rel=EXACT)
    assert float(both["drafts.up_proj"].matrix_flops) == pytest.approx(2 * 3 * 1000 * 6000, rel=EXACT)


def test_a_tree_is_verified_whole_and_drafted_depth_by_depth(pair):
    """Branches 2, then 3: 2 + 6 = 8 nodes are verified with the newest; runs work on 1 and 2 tokens, 1.5 on average."""
    ops = step_ops(pair, Deployment(drafts=2.0, tree=(2.0, 3.0)), decode(4.0, 50.0))
    assert float(ops["up_proj"].matrix_flops) == pytest.approx(2 * 4 * 9 * 1000 * 6000, rel=EXACT)
    assert float(ops["drafts.up_proj"].matrix_flops) == pytest.approx(2 * 4 * 1.5 * 1000 * 6000, rel=EXACT)


def test_a_draft_model_takes_memory(dense, pair):
    """Weights, cache per token and per sequence are those of both; without drafts it is not loaded."""
    drafting, plain = Deployment(drafts=2.0), Deployment()
    for held in (weight_bytes, kv_bytes_per_token, lambda m, d: kv_bytes_of_sequence(m, d, 100.0)):
        both = float(held(dense, plain)) + float(held(pair.draft, plain))
        assert float(held(pair, drafting)) == pytest.approx(both, rel=EXACT)
        assert float(held(pair, plain)) == pytest.approx(float(held(dense, plain)), rel=EXACT)


def test_without_drafts_a_step_is_the_model_s(dense, pair, chip):
    step = decode(3.0, 50.0)
    alone = float(step_time(chip, dense, Deployment(), step, datasheet()))
    assert float(step_time(chip, pair, Deployment(), step, datasheet())) == pytest.approx(alone, rel=EXACT)
    assert float(step_time(chip, pair, Deployment(drafts=0.0), step, datasheet())) == pytest.approx(alone, rel=EXACT)


def test_what_cannot_be_drafted(dense, pair, chip):
    assert broken_rule(chip, dense, Deployment(drafts=2.0)) == (
        "drafts = 2, but the model has no multi-token-prediction head and no draft model: "
        "name a draft model, or let drafter be ngram"
    )
    assert broken_rule(chip, pair, Deployment(drafts=3.0, tree=(2.0, 2.0))) == (
        "drafts = 3 exceeds the 2 depths of the tree"
    )
    assert broken_rule(chip, dense, Deployment(tree=(2.0, 2.0))) == (
        "a tree needs a draft model, and drafts: how many depths of it are drafted"
    )
    assert broken_rule(chip, pair, Deployment(drafts=2.0, pp=2.0)) == "pp = 2 exceeds the 1 layers of the draft model"


def test_scenario_i5_1(float64):
    """Llama-2-7B drafts 4 tokens for Llama-2-70B on 4 x A100, TP4, one request.

    Floors, weights once without the embedding at 2.039 TB/s: 7B 6.607 G * 2 B / 4 = 1.62 ms, 70B 68.71 G * 2 B / 4 =
    16.85 ms; step 4 * 1.62 + 16.85 = 23.3 ms; TPOT 23.3 / 2.77 = 8.41, / 3.36 = 6.94, / 3.71 = 6.29 ms.
    """
    hardware = hwspaces.hardware("A100-SXM-80GB").hardware
    model = dataclasses.replace(workloads.model("Llama-2-70B").model, draft=workloads.model("Llama-2-7B").model)
    deployment = Deployment(tp=4.0, drafts=4.0)

    def requests(acceptance):
        return Requests(batch=1.0, isl=1.0, osl=2.0, cached=0.0, acceptance=acceptance)

    floors = memory_floors(overlapped_ops(model, deployment, decode_batch(requests(0.8), model, deployment)), hardware)
    drafting = float(sum(time for name, time in floors.items() if name.startswith("drafts.")))
    whole = float(sum(floors.values()))
    # 1 %: activations, the context of a token or two
    assert drafting == pytest.approx(4 * 1.62e-3, rel=0.01)
    assert whole == pytest.approx(23.3e-3, rel=0.01)
    for acceptance, hand in ((0.7, 8.41e-3), (0.8, 6.94e-3), (0.85, 6.29e-3)):
        assert whole / float(expected_tokens(deployment, acceptance)) == pytest.approx(hand, rel=0.01)
    # 4 %: all-reduces between the four devices, which the hand value leaves out
    cost = jax.jit(request_cost)
    found = float(cost(hardware, model, deployment, requests(jnp.asarray(0.8)), datasheet()).tpot)
    assert found == pytest.approx(6.94e-3, rel=0.04)


def test_the_scheduler_takes_a_share_of_a_drafting_step(pair, chip, float64):
    """One token of a decoding sequence takes step / E, and prompts what they add to a step: E = 1 + 0.5 + 0.25."""
    deployment = Deployment(drafts=2.0)
    limits = Limits(rows=256, sequences=8, context=128)
    _, price = step_prices(chip, pair, deployment, datasheet(), limits, 0.5)

    @jax.jit
    def both(tokens):
        batch = mixed(prefill(1.0, tokens), decode(4.0, 64.0))
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), batch)
        return sum(price(batch, jnp.asarray(tokens + 4.0, dtype=float)))

    alone = float(step_time(chip, pair, deployment, decode(4.0, 64.0), datasheet()))
    whole = float(step_time(chip, pair, deployment, mixed(prefill(1.0, 64.0), decode(4.0, 64.0)), datasheet()))
    kept = 1.75
    # 1e-4: tables are linear between nodes; 1e-6 of a chance
    assert float(both(64.0)) == pytest.approx(whole - alone * (1 - 1 / kept), rel=1e-4)


def test_a_batch_that_says_what_it_drafts_takes_the_whole_step(pair, chip, float64):
    """Two drafts: the step that verifies three tokens per sequence, and drafts; none: that of the model alone."""
    deployment = Deployment(drafts=2.0)
    _, price = step_prices(
        chip, pair, deployment, datasheet(), Limits(rows=256, sequences=8, context=128), lengths=(0.0,)
    )

    @jax.jit
    def time(drafted):
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), mixed(prefill(1.0, 0.0), decode(4.0, 64.0)))
        own = dataclasses.replace(batch.decode, drafted=drafted)
        batch = dataclasses.replace(batch, decode=own, logits=jnp.asarray(4.0))
        return sum(price(batch, jnp.asarray(4.0)))

    alone = dataclasses.replace(pair, draft=None)
    whole = float(step_time(chip, pair, deployment, decode(4.0, 64.0), datasheet()))
    plain = float(step_time(chip, alone, Deployment(), decode(4.0, 64.0), datasheet()))
    # 1e-4: tables are linear between nodes
    assert float(time(jnp.asarray(2.0))) == pytest.approx(whole, rel=1e-4)
    assert float(time(jnp.asarray(0.0))) == pytest.approx(plain, rel=1e-4)
    assert whole > plain
