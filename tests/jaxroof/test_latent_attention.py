"""Latent attention on DeepSeek-V3's dimensions: its cache, both ways to multiply, what a split leaves whole."""

import dataclasses

import pytest

from jaxroof import Block, Deployment, Model, decode, kv_bytes_per_token, parameter_count, prefill, weight_bytes
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.model import WeightFormat
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check


@pytest.fixture(scope="module")
def latent(bf16) -> LatentAttention:
    return LatentAttention(
        heads=128.0,
        query_rank=1536.0,
        latent=512.0,
        nope_dim=128.0,
        rope_dim=64.0,
        value_dim=128.0,
        down=bf16,
        query=bf16,
        up=bf16,
        output=bf16,
    )


def with_mixer(mixer, weights) -> Model:
    return Model(
        hidden=7168.0,
        vocabulary=129_280.0,
        blocks=(Block(count=61.0, attention=mixer, feedforward=None, other_parameters=0.0),),
        embedding=weights,
        head=weights,
        untied=1.0,
        other_parameters=0.0,
    )


@pytest.fixture(scope="module")
def model(latent, bf16) -> Model:
    return with_mixer(latent, bf16)


def test_cache_of_a_token(model):
    # 61 layers x (512 + 64) x 2 B, on every device of a split, and half of it at 8 bits
    assert float(kv_bytes_per_token(model, Deployment())) == 70_272
    assert float(kv_bytes_per_token(model, Deployment(tp=8.0))) == 70_272
    assert float(kv_bytes_per_token(model, Deployment(kv_bytes=1.0))) == 35_136


def test_parameters(model, bf16):
    # 7168 x (1536 + 576) = 15,138,816; 1536 x 128 x 192 = 37,748,736; 512 x 128 x 256 = 16,777,216;
    # 128 x 128 x 7168 = 117,440,512: 187,105,280 per layer
    layers = parameter_count(model) - 2 * 129_280 * 7168
    assert float(layers) == pytest.approx(61 * 187_105_280, rel=EXACT)
    # a split by 8 leaves the first 15,138,816 whole, and divides the other 171,966,464, and the 16,777,216 that decode
    # keeps once more, absorbed
    split = float(weight_bytes(model, Deployment(tp=8.0))) - 2 * 2 * 129_280 * 7168 / 8
    assert split == pytest.approx(2 * 61 * (15_138_816 + (171_966_464 + 16_777_216) / 8), rel=EXACT)


def test_absorbed_decode(model):
    # one sequence of 1000 tokens: 2 x 1000 x 128 x (576 + 512) FLOP; the cache of 1000 x 576 is read once for all heads
    ops = step_ops(model, Deployment(), decode(1.0, 1000.0))
    check(ops["decode_attention"], count=61, kernels=2, matrix_flops=2 * 1000 * 128 * 1088, exps=128_000)
    check(ops["decode_attention"], bytes=2 * (1000 * 576 + 128 * 1088))
    # every further token of context costs 2 x 128 x 1088 = 278,528 FLOP and 1152 B
    longer = step_ops(model, Deployment(), decode(1.0, 1001.0))["decode_attention"]
    check(longer, matrix_flops=1001 * 278_528, bytes=2 * (1000 * 576 + 128 * 1088) + 1152)
    # 128 queries of 128 to 512 and outputs of 512 to 128; 128 matrices of 128 x 512 each
    for name in ("decode_absorb_query", "decode_absorb_value"):
        check(ops[name], matrix_flops=2 * 128 * 128 * 512, bytes=2 * (128 * 128 * 512 + 128 * (128 + 512)))
    assert "kv_up_proj" not in ops and "prefill_attention" not in ops


def test_expanded_prefill(model):
    # 7 tokens on 5 cached ones: 7 x 5 + 28 = 63 pairs; keys and values of 12 tokens are made of latent vectors
    ops = step_ops(model, Deployment(), prefill(1.0, 7.0, 5.0))
    check(ops["kv_up_proj"], matrix_flops=2 * 12 * 512 * 128 * 256)
    check(ops["prefill_attention"], kernels=1, matrix_flops=2 * 63 * 128 * (192 + 128), exps=63 * 128)
    check(ops["prefill_attention"], bytes=2 * (12 + 7) * 128 * 320)
    check(ops["latent_down_proj"], matrix_flops=2 * 7 * 7168 * 2112)
    check(ops["q_proj"], matrix_flops=2 * 7 * 1536 * 128 * 192)
    assert "prefill_absorb_query" not in ops


def test_both_ways_multiply_as_much_with_the_up_projection(model):
    """Absorbed, query and output halves of the matrix are multiplied once per query: as in one expansion per token."""
    expanded = step_ops(model, Deployment(), prefill(1.0, 9.0))["kv_up_proj"]
    ops = step_ops(model, Deployment(), decode(9.0, 100.0))
    halves = [float(ops[f"decode_absorb_{half}"].matrix_flops) for half in ("query", "value")]
    assert sum(halves) == pytest.approx(float(expanded.matrix_flops), rel=EXACT)


def test_queries_without_compression(latent, bf16):
    plain = with_mixer(dataclasses.replace(latent, query_rank=None), bf16)
    ops = step_ops(plain, Deployment(), prefill(1.0, 7.0))
    check(ops["latent_down_proj"], matrix_flops=2 * 7 * 7168 * 576)
    check(ops["q_proj"], matrix_flops=2 * 7 * 7168 * 128 * 192)


def test_a_split_divides_heads_and_not_the_latent_vector(model):
    whole, split = (step_ops(model, Deployment(tp=tp), decode(1.0, 1000.0)) for tp in (1.0, 8.0))
    check(split["decode_attention"], matrix_flops=2 * 1000 * 16 * 1088, bytes=2 * (1000 * 576 + 16 * 1088))
    check(split["latent_down_proj"], matrix_flops=float(whole["latent_down_proj"].matrix_flops))
    check(split["q_proj"], matrix_flops=float(whole["q_proj"].matrix_flops) / 8)


def test_absorbed_matrices_are_kept_at_the_precision_of_attention(latent):
    """Weights at 8 bits are quantised for; the two halves of the up projection are multiplied as they are."""
    fp8 = WeightFormat(bytes=1.0, compute="fp8")
    model = with_mixer(dataclasses.replace(latent, down=fp8, query=fp8, up=fp8, output=fp8), fp8)
    ops = step_ops(model, Deployment(), decode(1.0, 1000.0))
    assert {name for name in ops if name.endswith("_quantize")} == {
        f"{name}_quantize" for name in ("latent_down_proj", "q_proj", "o_proj", "head")
    }
    check(ops["decode_absorb_query"], bytes=2 * (128 * 128 * 512 + 128 * (128 + 512)))
    assert step_ops(model, Deployment(), prefill(1.0, 7.0))["kv_up_proj"].precision == "fp8"


def test_an_output_gate_is_projected(latent, bf16):
    """A gate of one element per head: 7168 x 128 more weights in each of 61 layers."""
    gated = with_mixer(dataclasses.replace(latent, gate=1.0), bf16)
    plain = with_mixer(latent, bf16)
    more = float(weight_bytes(gated, Deployment())) - float(weight_bytes(plain, Deployment()))
    assert more == pytest.approx(2 * 61 * 7168 * 128, rel=1e-2)  # a difference of float32 numbers 100 times as large
