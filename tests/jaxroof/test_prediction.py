"""Drafted tokens: how many a step keeps, what verifying and drafting launch, and what the head stores."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxroof import Block, Deployment, Requests, datasheet, decode, mixed, prefill, request_cost, step_time
from jaxroof.batch import Batch, Decode
from jaxroof.jobs.composition import tokens_per_step
from jaxroof.memory.capacity import prediction_parameter_count, weight_bytes
from jaxroof.model import Prediction
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check


@pytest.fixture(scope="module")
def drafting(dense, attention, feedforward, bf16):
    """`dense` with one module: a projection of 2000 to 1000 and a layer like the others."""
    block = Block(count=1.0, attention=attention, feedforward=feedforward, other_parameters=2000.0)
    head = Prediction(count=1.0, block=block, projection=bf16, other_parameters=3000.0)
    return dataclasses.replace(dense, prediction=head)


def requests(acceptance):
    return Requests(batch=4.0, isl=100.0, osl=50.0, cached=0.0, acceptance=acceptance)


@pytest.mark.parametrize(
    ("drafts", "acceptance", "tokens"),
    [
        (1.0, 0.8, 1.8),
        (3.0, 0.5, 1 + 0.5 + 0.25 + 0.125),
        (3.0, 0.0, 1.0),
        (3.0, 1.0, 4.0),
        (0.0, 0.8, 1.0),
        (None, 0.8, 1.0),
    ],
)
def test_tokens_of_a_step(drafts, acceptance, tokens):
    # 1e-5: certainty is taken as 1 - 1e-6
    found = tokens_per_step(Deployment(drafts=drafts), requests(acceptance))
    assert float(found) == pytest.approx(tokens, rel=1e-5)


def test_gradient_in_the_acceptance(float64):
    """d (1 + a + a^2 + a^3) / da = 1 + 2 a + 3 a^2, at both ends too: 1 and 6. 1e-5: certainty is 1 - 1e-6."""
    slope = jax.grad(lambda a: tokens_per_step(Deployment(drafts=3.0), requests(a)))
    for acceptance, expected in ((0.0, 1.0), (0.5, 2.75), (1.0, 6.0)):
        assert float(slope(acceptance)) == pytest.approx(expected, rel=1e-5)


def test_gradient_is_finite_in_single_precision():
    slope = jax.vmap(jax.grad(lambda a: tokens_per_step(Deployment(drafts=3.0), requests(a))))
    found = np.asarray(slope(np.linspace(0.0, 1.0, 101, dtype=np.float32)))
    assert np.isfinite(found).all() and (np.diff(found) > -0.05).all() and found[-1] == pytest.approx(6.0, rel=0.05)


def test_verifying(drafting):
    """3 sequences of 50 tokens with 2 drafts each: 9 tokens in every layer, 9 rows of the head, one cache read."""
    ops = step_ops(drafting, Deployment(drafts=2.0), decode(3.0, 50.0))
    plain = step_ops(drafting, Deployment(), decode(3.0, 50.0))
    check(ops["qkv_proj"], matrix_flops=2 * 9 * 1000 * 1400)
    check(ops["decode_attention"], matrix_flops=3 * 150 * 4000, bytes=2 * (150 * 400 + 9 * 2000))
    check(ops["head"], matrix_flops=2 * 9 * 1000 * 20_000)
    check(plain["head"], matrix_flops=2 * 3 * 1000 * 20_000)
    # a prompt in the same step samples once
    both = step_ops(drafting, Deployment(drafts=2.0), mixed(prefill(2.0, 7.0), decode(3.0, 50.0)))
    check(both["head"], matrix_flops=2 * (2 + 9) * 1000 * 20_000)


def test_drafting(drafting):
    """The first draft runs over all 9 tokens of the step, the second over the newest of 3 sequences."""
    ops = step_ops(drafting, Deployment(drafts=2.0), decode(3.0, 50.0))
    check(ops["draft.join_proj"], count=1, matrix_flops=2 * 9 * 2000 * 1000)
    check(ops["drafts.join_proj"], count=1, matrix_flops=2 * 3 * 2000 * 1000)
    check(ops["draft.up_proj"], matrix_flops=2 * 9 * 1000 * 6000)
    check(ops["drafts.decode_attention"], matrix_flops=150 * 4000)
    for name in ("draft.head", "drafts.head"):
        check(ops[name], matrix_flops=2 * 3 * 1000 * 20_000)
    # 5 drafts: four further runs
    check(step_ops(drafting, Deployment(drafts=5.0), decode(3.0, 50.0))["drafts.head"], count=4)


def test_parameters(drafting, dense):
    # 2000 x 1000 + 2.4 M + 9 M of the layer, and 2000 + 3000 norms
    assert prediction_parameter_count(drafting) == 2_000_000 + 11_400_000 + 5000
    more = float(weight_bytes(drafting, Deployment(drafts=1.0))) - float(weight_bytes(dense, Deployment()))
    assert more == 2 * 13_405_000
    # not loaded without drafts
    assert float(weight_bytes(drafting, Deployment())) == float(weight_bytes(dense, Deployment()))


def test_tpot_falls_by_the_tokens_that_are_kept(drafting, chip):
    certain, never = (
        request_cost(chip, drafting, Deployment(drafts=1.0), requests(a), datasheet()) for a in (1.0, 0.0)
    )
    assert float(never.tpot) / float(certain.tpot) == pytest.approx(2.0, rel=1e-5)
    assert float(certain.ttft) == float(never.ttft)


def test_an_empty_step_drafts_nothing(drafting, chip):
    nothing = Batch(prefill=None, decode=Decode(sequences=0.0, context=0.0), logits=0.0)
    assert float(step_time(chip, drafting, Deployment(drafts=2.0), nothing, datasheet())) == pytest.approx(
        0.0, abs=EXACT
    )
