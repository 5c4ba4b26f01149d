"""Tables of acceptance, and drafts that are looked up: hand-worked values, and closed forms that read them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import Deployment, Requests, datasheet, decode, mixed, prefill
from jaxroof.batch import Policy
from jaxroof.deployment import drafted_tokens
from jaxroof.deployment.acceptance import AcceptanceTable, between
from jaxroof.deployment.speculation import accepted, expected_tokens
from jaxroof.jobs.composition import tokens_per_step
from jaxroof.prices.prices import step_prices
from jaxroof.prices.tables import Limits
from jaxroof.scheduler.drafts import drafts_of, other_lengths
from jaxroof.step.step import step_time
from tests.hand import EXACT

TABLE = AcceptanceTable(
    sequences=(1.0, 9.0),
    contexts=(100.0, 300.0),
    right=(((0.8, 0.6), (0.6, 0.4)), ((0.4, 0.2), (0.2, 0.0))),
)


@pytest.mark.parametrize(
    ("sequences", "context", "right"),
    [
        (1.0, 100.0, (0.8, 0.6)),  # a node
        (5.0, 100.0, (0.6, 0.4)),  # half the way along the batch
        (1.0, 150.0, (0.75, 0.55)),  # a quarter along the context
        (5.0, 150.0, (0.55, 0.35)),  # both
        (0.0, 50.0, (0.8, 0.6)),  # level before the first nodes and behind the last
        (100.0, 1e6, (0.2, 0.0)),
    ],
)
def test_a_table_is_linear_between_its_nodes(sequences, context, right):
    np.testing.assert_allclose(TABLE.at(sequences, context), right, rtol=EXACT, atol=EXACT)


def test_a_table_of_columns_and_of_one_node(float64):
    found = jax.jit(lambda n: jnp.stack(TABLE.at(n[:, None], jnp.asarray([[100.0, 200.0]]))))(jnp.asarray([1.0, 5.0]))
    np.testing.assert_allclose(found[0], [[0.8, 0.7], [0.6, 0.5]], rtol=EXACT)
    one = AcceptanceTable(sequences=(4.0,), contexts=(1.0,), right=(((0.7, 0.5),),))
    np.testing.assert_allclose(one.at(64.0, 1e5), (0.7, 0.5), rtol=EXACT)
    assert between((1.0, 2.0), (3.0, 5.0), 1.5) == 4.0


def test_expected_tokens_of_a_table():
    """At 5 sequences of 150 tokens 1 + 0.55 + 0.55 x 0.35; the third draft has no position and is never right."""
    tokens = 1.0 + 0.55 + 0.55 * 0.35
    deployment = Deployment(drafts=3.0)
    assert float(expected_tokens(deployment, accepted(TABLE, 5.0, 150.0))) == pytest.approx(tokens, rel=EXACT)
    # Of a static batch, at its size and its mean context: isl + osl / 2.
    requests = Requests(batch=5.0, isl=130.0, osl=40.0, cached=0.0, acceptance=TABLE)
    assert float(tokens_per_step(deployment, requests)) == pytest.approx(tokens, rel=EXACT)


def test_the_price_of_one_token_goes_by_the_table(dense, chip, float64):
    deployment, limits = Deployment(drafts=2.0, drafter="ngram"), Limits(rows=256, sequences=8, context=256)
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), mixed(prefill(1.0, 8.0), decode(5.0, 150.0)))

    def time(right):
        _, price = step_prices(chip, dense, deployment, datasheet(), limits, right)
        return float(jax.jit(lambda: sum(price(batch, jnp.asarray(13.0))))())

    assert time(TABLE) == pytest.approx(time((0.55, 0.35)), rel=1e-9)
    assert time(TABLE) < time((0.5, 0.35))


def test_look_ups_draft_for_a_share_of_the_sequences():
    """4 drafts, found for 40 %, right with 0.5: 1 + 0.4 (0.5 + 0.25 + 0.125 + 0.0625); 1.6 tokens are verified."""
    deployment = Deployment(drafts=4.0, drafter="ngram", match=0.4)
    assert float(drafted_tokens(deployment)) == pytest.approx(1.6, rel=EXACT)
    assert float(expected_tokens(deployment, (0.5,) * 4)) == pytest.approx(1.375, rel=EXACT)
    # 1e-6: probabilities stay away from 0 and 1
    assert float(expected_tokens(deployment, 0.5)) == pytest.approx(1.375, rel=1e-5)


def test_a_look_up_costs_the_host_and_rows_alone(dense, chip):
    """No model drafts: with a free look-up and no match a step is one without drafts."""
    step, own = decode(8.0, 64.0), Deployment(drafts=3.0, drafter="ngram", match=0.0, lookup_time=0.0)
    plain = float(step_time(chip, dense, Deployment(), step, datasheet()))
    assert float(step_time(chip, dense, own, step, datasheet())) == pytest.approx(plain, rel=EXACT)
    longer = dataclasses.replace(own, lookup_time=1e-3)
    assert float(step_time(chip, dense, longer, step, datasheet())) == pytest.approx(plain + 8e-3, rel=1e-9)
    found = dataclasses.replace(own, match=1.0)
    assert float(step_time(chip, dense, found, step, datasheet())) > plain


def test_lengths_that_some_steps_have():
    deployment = Deployment(drafts=5.0)
    assert other_lengths(deployment, Policy()) == () == other_lengths(Deployment(), Policy(draft_limit=3.0))
    assert other_lengths(deployment, Policy(draft_limit=3.0)) == (0.0,)
    assert other_lengths(deployment, Policy(draft_lengths="1:5,16:3,64:0")) == (0.0, 3.0)
    looked_up = dataclasses.replace(deployment, drafter="ngram", match=0.5)
    assert other_lengths(looked_up, Policy()) == (0.0,)
    assert drafts_of(looked_up, Policy(acceptance=0.5)).match == 0.5


def test_a_tree_has_no_table():
    with pytest.raises(ValueError, match="a table of acceptance is of drafts in a chain"):
        drafts_of(Deployment(drafts=2.0, tree=(2.0, 2.0)), Policy(acceptance=TABLE))
