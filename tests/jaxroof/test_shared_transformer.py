"""Transformer layers whose weights several places share: sizes, work, shares of tp, rules and gradients by hand."""

import dataclasses

import jax
import pytest

from jaxroof import Block, Deployment, Model, Training, datasheet, decode, kv_bytes_per_token, prefill, step_time
from jaxroof.layers.attention import Attention
from jaxroof.layers.composite import SharedTransformer
from jaxroof.memory.capacity import parameter_count, weight_bytes
from jaxroof.memory.legality import broken_rule
from jaxroof.model import FeedForward
from jaxroof.step.forward import step_ops
from jaxroof.training import iteration_cost
from jaxroof.training.state import held
from tests.hand import EXACT, check

HIDDEN, PLACES, COPIES = 1024.0, 6.0, 2.0

SHARED = 2048 * 3 * 2048 + 2048 * 1024 + 1024 * 2 * 4096 + 4096 * 1024
"""Queries, keys and values of hidden state and embedding, output, gated feed-forward."""

OWN = (2048 * 3 * 16 + 16 * 3 * 2048) + (1024 * 32 + 32 * 2 * 4096) + 1024 * 1024
"""Two products of low rank, and the square projection."""

OUTER = 1000 * 1024
"""The embedding, which is the head."""


@pytest.fixture(scope="module")
def model(bf16) -> Model:
    """Six places of two shared layers."""
    sizes = {"heads": 8.0, "kv_heads": 8.0, "head_dim": 256.0, "value_dim": 256.0}
    mixer = SharedTransformer(
        attention=Attention(**sizes, window=None, inputs=2.0, qkv=bf16, output=bf16),
        feedforward=FeedForward(intermediate=4096.0, up_projections=2.0, up=bf16, down=bf16),
        uses=PLACES / COPIES,
        attention_rank=16.0,
        feedforward_rank=32.0,
        own=bf16,
    )
    return Model(
        hidden=HIDDEN,
        vocabulary=1000.0,
        blocks=(Block(count=PLACES, attention=mixer, feedforward=None, norms=3.0, other_parameters=0.0),),
        embedding=bf16,
        head=bf16,
        untied=0.0,
        other_parameters=0.0,
    )


def changed(model, **fields) -> Model:
    """The model with other numbers of its mixer."""
    (block,) = model.blocks
    mixer = dataclasses.replace(block.attention, **fields)
    return dataclasses.replace(model, blocks=(dataclasses.replace(block, attention=mixer),))


def test_shared_weights_are_there_once(model):
    assert parameter_count(model) == pytest.approx(COPIES * SHARED + PLACES * OWN + OUTER, rel=EXACT)
    assert weight_bytes(model, Deployment()) == 2 * parameter_count(model)
    assert held(model, Deployment(), Training(global_batch=1.0, seq=8.0)).plain == parameter_count(model)
    # Every place has a copy of its own, or all have one, and products of low rank are left out.
    assert parameter_count(changed(model, uses=1.0)) == PLACES * (SHARED + OWN) + OUTER
    assert parameter_count(changed(model, uses=PLACES)) == SHARED + PLACES * OWN + OUTER
    plain = changed(model, attention_rank=None, feedforward_rank=None)
    assert parameter_count(plain) == pytest.approx(COPIES * SHARED + PLACES * 1024 * 1024 + OUTER, rel=EXACT)
    # With tp shared weights are split; first halves of low rank and the square projection are on both devices.
    own = (2048 * 48 + 16 * 3 * 1024) + (1024 * 32 + 32 * 4096) + 1024 * 1024
    split = COPIES * SHARED / 2 + PLACES * own + OUTER / 2
    assert weight_bytes(model, Deployment(tp=2.0)) == pytest.approx(2 * split, rel=EXACT)
    assert kv_bytes_per_token(model, Deployment()) == PLACES * 2 * 8 * 256 * 2


def test_every_place_does_the_work_of_a_layer(model):
    ops = step_ops(model, Deployment(), prefill(2.0, 50.0))
    moved = 2 * (2048 * 6144 + 100 * (2048 + 6144))
    check(ops["qkv_proj"], count=6, matrix_flops=2 * 100 * 2048 * 6144, bytes=moved)
    check(ops["qkv_low_down"], count=6, matrix_flops=2 * 100 * 2048 * 48)
    check(ops["qkv_low_up"], matrix_flops=2 * 100 * 16 * 6144)
    check(ops["o_proj"], matrix_flops=2 * 100 * 2048 * 1024)
    check(ops["up_proj"], matrix_flops=2 * 100 * 1024 * 8192)
    check(ops["up_low_up"], matrix_flops=2 * 100 * 32 * 8192)
    check(ops["place_proj"], matrix_flops=2 * 100 * 1024 * 1024)
    check(ops["concatenation"], count=6, kernels=1, bytes=100 * 2 * 2048 * 2)
    # The norm of both is two of the hidden size, and that of the feed-forward is the third.
    check(ops["attention_norm"], count=18, bytes=100 * 4 * 1024 * 2)
    alone, shared = (step_ops(changed(model, uses=uses), Deployment(), decode(3.0, 70.0)) for uses in (1.0, 6.0))
    names = ("qkv_proj", "up_proj", "down_proj", "place_proj")
    assert [float(alone[name].bytes) for name in names] == [float(shared[name].bytes) for name in names]
    ops = step_ops(model, Deployment(tp=2.0), prefill(2.0, 50.0))
    check(ops["qkv_low_down"], matrix_flops=2 * 100 * 2048 * 48)
    check(ops["qkv_low_up"], matrix_flops=2 * 100 * 16 * 3072)
    check(ops["shared_attention_all_reduce"], message_bytes=100 * 1024 * 2, participants=2)
    check(ops["attention_all_reduce"], message_bytes=100 * 1024 * 2, participants=2)


def test_stages_do_not_share_weights(model, chip):
    assert broken_rule(chip, model, Deployment(tp=2.0)) is None
    said = "pp = 2 splits layers into stages, but layers in several of them share weights"
    assert broken_rule(chip, model, Deployment(pp=2.0)) == said
    assert broken_rule(chip, model, Deployment(tp=16.0)) == "tp = 16 does not divide the 8 attention heads"


def test_time_training_and_gradients(model, chip, float64):
    def time(rank):
        return step_time(chip, changed(model, feedforward_rank=rank), Deployment(), prefill(1.0, 512.0), datasheet())

    # Bytes and operations are linear in the rank, and no maximum changes sides in a step of 1e-3.
    slope, step = float(jax.grad(time)(32.0)), 0.032
    assert slope == pytest.approx(float(time(32.0 + step) - time(32.0 - step)) / (2.0 * step), rel=1e-3) and slope > 0
    training = Training(global_batch=8.0, seq=128.0)
    assert float(iteration_cost(chip, model, Deployment(), training, datasheet()).time) > 0.0
