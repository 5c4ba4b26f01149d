"""Attention to a window and to vectors that stand for several tokens: pairs, cache and projections by hand."""

import dataclasses

import pytest

from jaxroof import Block, Deployment, Model, decode, kv_bytes_per_token, parameter_count, prefill
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.sight import Selection
from jaxroof.memory.capacity import kv_bytes_of_sequence
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check


@pytest.fixture(scope="module")
def compressed(bf16) -> CompressedAttention:
    """64 heads of 512, one vector per 128 tokens and a window of 128."""
    return CompressedAttention(
        heads=64.0,
        head_dim=512.0,
        rope_dim=64.0,
        query_rank=1024.0,
        output_groups=8.0,
        output_rank=1024.0,
        window=128.0,
        ratio=128.0,
        overlap=1.0,
        down=bf16,
        query=bf16,
        compressor=bf16,
        group=bf16,
        output=bf16,
    )


@pytest.fixture(scope="module")
def selecting(compressed, bf16) -> CompressedAttention:
    """One vector per 4 tokens, pooled from two overlapping windows, of which 512 are selected."""
    chosen = Selection(
        tokens=512.0,
        heads=64.0,
        head_dim=128.0,
        stride=4.0,
        key_outputs=512.0,
        query_rank=1024.0,
        key_bytes=1.0,
        weights=bf16,
    )
    return dataclasses.replace(compressed, ratio=4.0, overlap=2.0, selection=chosen)


def with_mixer(mixer, weights) -> Model:
    return Model(
        hidden=4096.0,
        vocabulary=1000.0,
        blocks=(Block(count=1.0, attention=mixer, feedforward=None, other_parameters=0.0),),
        embedding=weights,
        head=weights,
        untied=0.0,
        other_parameters=0.0,
    )


def test_projections(compressed, selecting, bf16):
    ops = step_ops(with_mixer(compressed, bf16), Deployment(), prefill(1.0, 7.0))
    check(ops["latent_down_proj"], matrix_flops=2 * 7 * 4096 * (1024 + 512))
    check(ops["q_proj"], matrix_flops=2 * 7 * 1024 * 64 * 512)
    check(ops["compressor"], matrix_flops=2 * 7 * 4096 * 2 * 512)  # values and gates
    # eight groups of 8 heads: 4096 to 1024 each, then 8192 to the hidden 4096
    check(ops["group_proj"], matrix_flops=2 * 7 * 8 * 4096 * 1024, bytes=2 * 8 * (4096 * 1024 + 7 * (4096 + 1024)))
    check(ops["o_proj"], matrix_flops=2 * 7 * 8192 * 4096)
    wide = step_ops(with_mixer(selecting, bf16), Deployment(), prefill(1.0, 7.0))
    check(wide["compressor"], matrix_flops=2 * 7 * 4096 * 4 * 512)
    matrices = 4096 * 1536 + 1024 * 32_768 + 4096 * 1024 + 8 * 4096 * 1024 + 8192 * 4096
    assert float(parameter_count(with_mixer(compressed, bf16))) - 4_096_000 == pytest.approx(matrices, rel=EXACT)


def test_decode(compressed, selecting, bf16):
    # 6400 tokens: the latest 128, and 6400 / 128 = 50 vectors
    op = step_ops(with_mixer(compressed, bf16), Deployment(), decode(1.0, 6400.0))["decode_attention"]
    check(op, matrix_flops=2 * 178 * 64 * 1024, bytes=2 * (178 * 512 + 64 * 1024))
    # the latest 128 and the best 512 of 1600
    ops = step_ops(with_mixer(selecting, bf16), Deployment(), decode(1.0, 6400.0))
    check(ops["decode_attention"], matrix_flops=2 * 640 * 64 * 1024)
    check(ops["decode_index_scores"], matrix_flops=2 * 1600 * 64 * 128)
    # before there are 512 of them, all
    ops = step_ops(with_mixer(selecting, bf16), Deployment(), decode(1.0, 400.0))
    check(ops["decode_attention"], matrix_flops=2 * (128 + 100) * 64 * 1024)


def test_a_window_alone(compressed, bf16):
    model = with_mixer(dataclasses.replace(compressed, ratio=None), bf16)
    ops = step_ops(model, Deployment(), decode(1.0, 6400.0))
    check(ops["decode_attention"], matrix_flops=2 * 128 * 64 * 1024)
    assert not {"compressor", "pool"} & set(ops)
    assert float(kv_bytes_per_token(model, Deployment())) == 0.0
    assert float(kv_bytes_of_sequence(model, Deployment(), 1e5)) == 128 * 512 * 2


def test_prefill(compressed, bf16):
    # 256 tokens: window 128 x 129 / 2 + 128 x 128 = 24,640 pairs; vectors: 128 queries for each of 2 steps of the
    # compressed sequence, 128 x (1 + 2) = 384
    op = step_ops(with_mixer(compressed, bf16), Deployment(), prefill(1.0, 256.0))["prefill_attention"]
    check(op, matrix_flops=2 * (24_640 + 384) * 64 * 1024, bytes=2 * ((256 + 2) * 512 + 256 * 64 * 1024))


def test_cache(compressed, selecting, bf16):
    # 512 x 2 B per 128 tokens for good, and a window of 128 x 512 x 2 B; on every device of a split
    for deployment in (Deployment(), Deployment(tp=8.0)):
        assert float(kv_bytes_per_token(with_mixer(compressed, bf16), deployment)) == 8
        held = float(kv_bytes_of_sequence(with_mixer(compressed, bf16), deployment, 12_800.0))
        assert held == 12_800 * 8 + 131_072
    # 512 x 2 B, and the indexer's 128 x 1 B, per 4 tokens
    assert float(kv_bytes_per_token(with_mixer(selecting, bf16), Deployment())) == 256 + 32
