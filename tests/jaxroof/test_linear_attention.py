"""Layers with a state: what a sequence keeps, and what a prompt and a token cost, product by product."""

import dataclasses

import pytest

from jaxroof import Block, Deployment, Model, datasheet, decode, kv_bytes_per_token, prefill, step_time
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.memory.capacity import kv_bytes_of_sequence, state_bytes_of_sequence, weight_bytes
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check


@pytest.fixture(scope="module")
def delta(bf16) -> LinearAttention:
    """Qwen3-Next's gated delta net: output gate of 128, decay and write strength per head."""
    return LinearAttention(
        heads=32.0,
        key_heads=16.0,
        key_dim=128.0,
        value_dim=128.0,
        gates=130.0,
        gate_rank=None,
        convolution=4.0,
        rule="delta",
        input=bf16,
        output=bf16,
    )


@pytest.fixture(scope="module")
def model(delta, bf16) -> Model:
    return Model(
        hidden=2048.0,
        vocabulary=1000.0,
        blocks=(Block(count=36.0, attention=delta, feedforward=None, other_parameters=0.0),),
        embedding=bf16,
        head=bf16,
        untied=0.0,
        other_parameters=0.0,
    )


def with_mixer(model, **changes):
    block = model.blocks[0]
    return dataclasses.replace(
        model, blocks=(dataclasses.replace(block, attention=dataclasses.replace(block.attention, **changes)),)
    )


def test_state_of_a_sequence(model):
    # 36 layers x (32 heads x 128 x 128 x 4 B + 3 tokens x (2 x 16 x 128 + 32 x 128) x 2 B)
    state, window = 32 * 128 * 128 * 4, 3 * (2 * 16 * 128 + 32 * 128) * 2
    assert float(state_bytes_of_sequence(model, Deployment())) == 36 * (state + window)
    assert float(kv_bytes_per_token(model, Deployment())) == 0.0
    # as long as it may be, and a quarter of it on four devices; 32 devices hold one key head each, not half a one
    for context in (1.0, 1e6):
        assert float(kv_bytes_of_sequence(model, Deployment(), context)) == 36 * (state + window)
    assert float(state_bytes_of_sequence(model, Deployment(tp=4.0))) == 36 * (state + window) / 4
    assert float(state_bytes_of_sequence(model, Deployment(tp=32.0))) == 36 * (state / 32 + 3 * (2 + 1) * 128 * 2)
    # 16-bit states
    assert float(state_bytes_of_sequence(model, Deployment(state_bytes=2.0))) == 36 * (state / 2 + window)


def test_a_layer_without_convolution(model):
    plain = with_mixer(model, convolution=None)
    assert float(state_bytes_of_sequence(plain, Deployment())) == 36 * 32 * 128 * 128 * 4
    assert not [name for name in step_ops(plain, Deployment(), decode(1.0, 9.0)) if "convolution" in name]


def test_projections(model):
    ops = step_ops(model, Deployment(), prefill(1.0, 7.0))
    # 2 x 16 x 128 + 32 x 128 + 32 x 130 = 12,352 outputs
    check(ops["in_proj"], count=36, matrix_flops=2 * 7 * 2048 * 12_352)
    check(ops["out_proj"], matrix_flops=2 * 7 * 4096 * 2048)
    # four taps of 8192 channels, a SiLU each; a window of three tokens read before and written after
    check(ops["prefill_convolution"], vector_flops=7 * 2 * 4 * 8192, exps=7 * 8192)
    check(ops["prefill_convolution"], bytes=7 * 2 * 8192 * 2 + 2 * 3 * 8192 * 2)
    layers = float(weight_bytes(model, Deployment())) - 2 * 1000 * 2048
    assert layers == pytest.approx(2 * 36 * 2048 * (12_352 + 4096), rel=EXACT)


def test_low_rank_gates(model):
    ranked = with_mixer(model, gate_rank=128.0)
    ops = step_ops(ranked, Deployment(tp=2.0), prefill(1.0, 7.0))
    # two gates: 2048 to 2 x 128 on every device, each 128 to 16 heads x 128 on one of two
    check(ops["gate_down_proj"], matrix_flops=2 * 7 * 2048 * 256)
    check(ops["gate_up_proj"], matrix_flops=2 * 2 * 7 * 128 * 2048, bytes=2 * (2 * 128 * 2048 + 14 * (128 + 2048)))


def products(rule, c, dk, dv) -> int:
    """Multiply-adds of one head and chunk, position by position."""
    flops = 0
    for row in range(c):
        seen = row + 0.5  # the diagonal counts half, so that a triangle is half a square
        flops += 2 * seen * dk + 2 * seen * dv  # scores of what came before, and their values
        flops += 2 * dk * dv  # read from the state
        flops += 2 * dk * dv  # written to the state
        if rule == "delta":
            flops += 2 * seen * dk  # keys with the keys before
            flops += 2 * sum(column + 0.5 for column in range(row))  # forward substitution of the inverse's row
            flops += 2 * seen * dk + 2 * seen * dv  # the inverse with keys and with values
            flops += 2 * dk * dv  # what the state recalls
    return flops


@pytest.mark.parametrize("rule", ["delta", "decay"])
def test_chunked_prefill_against_counting(model, rule):
    """320 tokens are five chunks of 64. 2e-3: the inverse's c^3 / 3 counts the corners of its triangle."""
    op = step_ops(with_mixer(model, rule=rule), Deployment(), prefill(1.0, 320.0))["prefill_linear_attention"]
    assert float(op.matrix_flops) == pytest.approx(5 * 32 * products(rule, 64, 128, 128), rel=2e-3)


@pytest.mark.parametrize(("rule", "flops"), [("decay", 64 * 256 + 65_536), ("delta", 64 * 640 + 64 * 64 / 3 + 98_304)])
def test_chunked_prefill_by_hand(model, rule, flops):
    # per token and head: decay 64 (128 + 128) + 4 x 128 x 128; delta 64 (3 x 128 + 2 x 128) + 64^2 / 3 + 6 x 128 x 128
    op = step_ops(with_mixer(model, rule=rule), Deployment(), prefill(2.0, 64.0))["prefill_linear_attention"]
    check(op, count=36, kernels=1, matrix_flops=128 * 32 * flops)
    # two states read and written; queries, keys and values in and outputs out: 2 x 2048 + 2 x 4096
    check(op, bytes=2 * 2 * 32 * 128 * 128 * 4 + 128 * 12_288 * 2)


@pytest.mark.parametrize(("rule", "per_element"), [("delta", 7), ("decay", 5)])
def test_decode(model, rule, per_element):
    op = step_ops(with_mixer(model, rule=rule), Deployment(), decode(3.0, 50.0))["decode_linear_attention"]
    check(op, kernels=1, vector_flops=3 * per_element * 32 * 128 * 128, exps=3 * 32)
    # three states, read and written; their windows are the convolution's
    check(op, bytes=2 * 3 * 32 * 128 * 128 * 4 + 3 * 12_288 * 2)
    assert op.matrix_flops is None


def test_verified_tokens_write_a_state_each(model):
    """Three drafts: 4 tokens of 2 sequences, whose states are read once and written 4 times, and windows likewise."""
    ops = step_ops(model, Deployment(drafts=3.0), decode(2.0, 50.0))
    state, window = 32 * 128 * 128 * 4, 3 * 8192 * 2
    check(ops["decode_linear_attention"], bytes=5 * 2 * state + 8 * 12_288 * 2)
    check(ops["decode_convolution"], bytes=8 * 2 * 8192 * 2 + 5 * 2 * window, kernels=1)


def test_decays_of_every_channel_take_an_exponential_each(model):
    op = step_ops(with_mixer(model, channelwise=True), Deployment(), decode(3.0, 50.0))["decode_linear_attention"]
    check(op, exps=3 * 32 * 128)


def test_time_does_not_depend_on_the_context(model, chip):
    short, long = (
        float(step_time(chip, model, Deployment(), decode(8.0, context), datasheet())) for context in (10.0, 1e6)
    )
    assert short == long


def test_heads_are_split(model):
    op = step_ops(model, Deployment(tp=4.0), decode(3.0, 50.0))["decode_linear_attention"]
    check(op, vector_flops=3 * 7 * 8 * 128 * 128)
